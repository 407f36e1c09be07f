"""The threads of one worker: a pool of the process's own that runs nogil kernels on blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from time import perf_counter
from typing import Any

LITTLE_WORK = 2**16  # additions: waking a thread and seeing it off takes about as long
ROWS_AT_ONCE = 2**14  # that any kernel is done with in a moment
SHORT, LONG = 0.01, 0.1  # seconds of one call of a kernel: Python sees Ctrl-C between calls only


class StoppedError(Exception):
    """Raised on a thread whose result nobody waits for any more."""


class Team:
    """``n_threads`` threads, the caller being the first of them.

    Each training has a team of its own, so two fits at the same time never wait for each other's threads.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = max(1, int(n_threads))
        self._pool = ThreadPoolExecutor(self.n_threads - 1, "pvtree") if self.n_threads > 1 else None
        self._is_stopped = False

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def stop(self) -> None:
        """Have all threads end their work at the next ``check``."""
        self._is_stopped = True

    def check(self) -> None:
        """To be called about every tenth of a second by whatever runs for longer."""
        if self._is_stopped:
            raise StoppedError

    def start_others(self, function: Callable[[int], Any], work: int) -> None:
        """Run ``function(thread)`` on every thread but the caller's; the caller goes on at once, and never waits.

        Nobody is started for ``work`` (additions, say) that is done before a thread has woken up.
        """
        if self._pool is not None and work >= LITTLE_WORK:
            for thread in range(1, self.n_threads):
                self._pool.submit(function, thread)

    def for_blocks(self, kernel: Callable[..., Any], n: int, *args: Any, min_block: int = 4096, first: int = 0) -> None:
        """Call ``kernel(start, stop, *args)`` for disjoint blocks that cover ``n`` places from ``first`` on.

        What takes long is done in several calls, so ``min_block`` places must be done in a moment.
        """
        blocks = self._blocks(n, min_block)
        self._run([(self._call, kernel, first + start, first + stop, 4 * min_block, args) for start, stop in blocks])

    def results(self, function: Callable[[int, int], Any], n: int, min_block: int = 4096) -> list[Any]:
        """``function(start, stop)`` of disjoint blocks that cover ``n`` places, in any order."""
        if n < 2 * min_block:
            return [function(0, n)]
        made: list[Any] = []
        self.for_blocks(lambda start, stop: made.append(function(start, stop)), n, min_block=min_block)
        return made

    def for_blocks_with(
        self, scratch: Sequence[Any], kernel: Callable[..., Any], n: int, *args: Any, at_once: int = 4
    ) -> None:
        """The same for few, large places, and kernels that need a scratch of their own, as the last argument."""
        blocks = zip(self._blocks(n, 1), scratch, strict=False)
        self._run([(self._call, kernel, *block, at_once, (*args, own)) for block, own in blocks])

    def _blocks(self, n: int, min_block: int) -> list[tuple[int, int]]:
        n_blocks = min(self.n_threads, n // min_block)
        if n_blocks <= 1:
            return [(0, n)]
        return list(pairwise(n * block // n_blocks for block in range(n_blocks + 1)))

    def _call(self, kernel: Callable[..., Any], start: int, stop: int, n: int, args: tuple[Any, ...]) -> None:
        """One thread's block, in pieces of first ``n`` places and then as many as take a moment."""
        while start < stop:
            self.check()
            begun, end = perf_counter(), min(start + n, stop)
            kernel(start, end, *args)
            seconds, start = perf_counter() - begun, end
            n = 4 * n if seconds < SHORT else max(1, n // 2) if seconds > LONG else n

    def _run(self, calls: list[tuple[Any, ...]]) -> None:
        """The first call on this thread, the others on threads of their own. If one fails, all end soon."""
        others = [self._pool.submit(*call) for call in calls[1:]] if self._pool is not None else []
        function, *args = calls[0]
        try:
            function(*args)
            for other in others:
                other.result()
        except BaseException:
            was_stopped, self._is_stopped = self._is_stopped, True
            wait(others)
            self._is_stopped = was_stopped
            raise


def in_pieces(kernel: Callable[..., Any], n: int, *args: Any) -> None:
    """``kernel(start, stop, *args)`` for ``n`` places on this thread alone, in several calls if it takes long."""
    Team(1)._call(kernel, 0, n, ROWS_AT_ONCE, args)
