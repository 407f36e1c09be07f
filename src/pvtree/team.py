"""The threads of one worker: a pool of the process's own that runs nogil kernels on blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

LITTLE_WORK = 2**16  # additions: waking a thread and seeing it off takes about as long


class Team:
    """``n_threads`` threads, the caller being the first of them.

    Each training has a team of its own, so two fits at the same time never wait for each other's threads.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = max(1, int(n_threads))
        self._pool = ThreadPoolExecutor(self.n_threads - 1, "pvtree") if self.n_threads > 1 else None

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def start_others(self, function: Callable[[int], Any], work: int) -> None:
        """Run ``function(thread)`` on every thread but the caller's; the caller goes on at once, and never waits.

        Nobody is started for ``work`` (additions, say) that is done before a thread has woken up.
        """
        if self._pool is not None and work >= LITTLE_WORK:
            for thread in range(1, self.n_threads):
                self._pool.submit(function, thread)

    def for_blocks(self, kernel: Callable[..., Any], n: int, *args: Any, min_block: int = 4096, first: int = 0) -> None:
        """Call ``kernel(start, stop, *args)`` for disjoint blocks that cover ``n`` places from ``first`` on."""
        self._run([(kernel, first + start, first + stop, *args) for start, stop in self._blocks(n, min_block)])

    def for_blocks_with(
        self, scratch: Sequence[Any], kernel: Callable[..., Any], n: int, *args: Any, min_block: int = 1
    ) -> None:
        """The same for kernels that need a scratch of their own, as the last argument."""
        blocks = self._blocks(n, min_block)
        self._run([(kernel, *block, *args, own) for block, own in zip(blocks, scratch, strict=False)])

    def _blocks(self, n: int, min_block: int) -> list[tuple[int, int]]:
        n_blocks = max(1, min(self.n_threads, n // min_block))
        return list(pairwise(n * block // n_blocks for block in range(n_blocks + 1)))

    def _run(self, calls: list[tuple[Any, ...]]) -> None:
        """The first call on this thread, the others on threads of their own."""
        others = [self._pool.submit(*call) for call in calls[1:]] if self._pool is not None else []
        kernel, *args = calls[0]
        kernel(*args)
        for other in others:
            other.result()
