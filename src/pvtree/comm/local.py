"""A virtual cluster: the workers are threads of this process, which run in parallel because kernels release the GIL."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import reduce
from time import monotonic, perf_counter
from typing import Any, TypeVar

import numpy as np

from pvtree.comm.base import Call, Communicator, kind_of, name_workers, reduce_by_rank
from pvtree.errors import (
    CommunicationError,
    DivergedError,
    InvalidParameterError,
    PeerFailedError,
    WorkerTimeoutError,
)

Result = TypeVar("Result")

RETURN = Call("its end", "")  # the last collective, which all workers must join
JOIN_SECONDS = 0.5  # enough for threads that have only a few lines left to run


def run(
    function: Callable[[Any], Result],
    size: int,
    *,
    timeout: float = 600.0,
    n_running: int | None = None,
    communicator: Callable[[Meeting, int], LocalCommunicator] | None = None,
) -> list[Result]:
    """Run ``function(comm)`` on ``size`` workers and return their results by rank.

    Worker 0 runs on the caller's thread, so its warnings, callbacks and interrupts behave as without workers.
    The first exception of a worker ends all of them and is raised here, with the worker's number as ``rank``.

    Parameters
    ----------
    function : callable
        Called with the communicator of each worker.
    size : int
        The number of workers. At least 1.
    timeout : float, default=600.0
        How many seconds may pass without any worker reaching a collective. Greater than 0.
    n_running : int or None, default=None
        How many workers compute at once. At least 1. None for the number of cores of this process: more workers would
        only push each other's histograms out of the caches. With 1 the workers take turns, so that the time of each
        can be measured.
    communicator : callable or None, default=None
        Creates a worker's communicator, ``communicator(meeting, rank)``. None for ``LocalCommunicator``.
    """
    n_running = min(size, usable_cores() if n_running is None else n_running)
    for name, value in (("size", size), ("n_running", n_running), ("timeout", timeout)):
        if not value > 0:
            raise InvalidParameterError(f"{name} is {value}; a virtual cluster needs a positive number.")
    meeting = Meeting(size, n_running, timeout)
    make = LocalCommunicator if communicator is None else communicator
    threads = [
        # A worker sees the caller's context, such as numpy's errstate, and cannot change it.
        threading.Thread(
            target=copy_context().run, args=(work, function, make, meeting, rank), name=f"pvtree-worker-{rank}"
        )
        for rank in range(1, size)
    ]
    try:
        for thread in threads:
            thread.daemon = True  # a worker stuck in the function must not keep the process alive
            thread.start()
        work(function, make, meeting, 0)
        join_all(threads)
    except BaseException as error:  # an interrupt outside of ``work``, or no thread can be started
        meeting.fail(0, error)
        raise
    if meeting.failure is not None:
        rank, first = meeting.failure
        with suppress(AttributeError):  # an exception class with slots
            first.rank = rank  # type: ignore[attr-defined]
        first.add_note(f"raised on worker {rank} of {size} (counted from 0)")
        raise first
    return meeting.results()


def work(
    function: Callable[[Any], Any], make: Callable[[Meeting, int], LocalCommunicator], meeting: Meeting, rank: int
) -> None:
    """Run one worker. Raises nothing: the meeting keeps the first error."""
    try:
        comm = make(meeting, rank)
        meeting.leave(rank, function(comm))
    except BaseException as error:
        meeting.fail(rank, error)


def join_all(threads: list[threading.Thread]) -> None:
    deadline = monotonic() + JOIN_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - monotonic()))


def usable_cores() -> int:
    import joblib  # not at the top, to keep ``import pvtree`` quick

    return joblib.cpu_count()


class LocalCommunicator(Communicator):
    """One worker's communicator on the virtual cluster."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        super().__init__(rank, meeting.size)
        self._meeting = meeting
        meeting.begin(rank)

    @property
    def compute_seconds(self) -> float:
        """How long this worker has run, without waiting for the others or for a core."""
        return self._meeting.seconds_running(self.rank)

    def _allgather(self, buffer: np.ndarray, call: Call) -> list[np.ndarray]:
        # Copied twice: the sender may change its buffer afterwards, and each receiver may change what it received.
        return [part.copy() for part in self._meet(call, buffer.copy())]

    def _alltoall(self, buffers: list[np.ndarray], call: Call, radix: int) -> list[np.ndarray]:
        given = self._meet(call, [buffer.copy() for buffer in buffers])
        received = [from_worker[self.rank] for from_worker in given]  # each copy has one receiver, which may keep it
        for from_worker in given:
            from_worker[self.rank] = None  # the messages are large: only the receiver decides how long they live
        return received

    def _allreduce(self, buffer: np.ndarray, op: str, call: Call) -> np.ndarray:
        # Summed up once, by the last to arrive. The others wait meanwhile, so no buffer can change.
        return self._meet(call, buffer, lambda given: reduce_by_rank(given, op)).copy()

    def _choose(
        self, records: np.ndarray, better: Callable[[np.ndarray, np.ndarray], np.ndarray], call: Call
    ) -> np.ndarray:
        return self._meet(call, records, lambda given: reduce(better, given)).copy()

    def _broadcast(self, buffer: np.ndarray | None, root: int, call: Call) -> np.ndarray:
        return self._meet(call, None if buffer is None else buffer.copy())[root].copy()

    def _meet(self, call: Call, gift: Any, combine: Callable[[list[Any]], Any] | None = None) -> Any:
        """The core of all collectives: return every worker's gift by rank, or what ``combine`` made of them."""
        return self._meeting.meet(self.rank, call, gift, combine)


class Meeting:
    """Where workers meet, and which of them may run.

    A worker is running, waiting (for the others to arrive) or ready (all have arrived, but no core is free). At most
    ``n_running`` run. A worker that stops running lets the next ready one run, so each worker is woken once per
    collective, when it may continue.
    """

    def __init__(self, size: int, n_running: int, timeout: float) -> None:
        self.size = size
        self.n_running = n_running
        self.timeout = min(timeout, threading.TIMEOUT_MAX)
        self.failure: tuple[int, BaseException] | None = None  # the first: rank, error
        self._mutex = threading.Lock()
        self._running = set(range(n_running))
        self._ready = deque(range(n_running, size))
        self._waiting: list[int] = []
        self._wake = [threading.Lock() for _ in range(size)]  # all held; releasing one wakes that worker
        for lock in self._wake:
            lock.acquire()
        # The current collective. There are two sets of gifts, used in turn: some may still read those of the last one.
        self._call, self._first = RETURN, 0
        self._n_here = 0
        self._given: list[list[Any]] = [[None] * size, [None] * size]
        self._turn = 0
        self._outcome: list[Any] = [None, None]
        self._ended = False
        self._last_progress = monotonic()
        self._since = [perf_counter()] * size
        self._seconds = [0.0] * size

    def begin(self, rank: int) -> None:
        """Wait until this worker may run for the first time."""
        if rank >= self.n_running:  # not ``rank not in self._running``: it may have been woken before it got here
            self._sleep(rank)
        self._since[rank] = perf_counter()

    def meet(self, rank: int, call: Call, gift: Any, combine: Callable[[list[Any]], Any] | None = None) -> Any:
        """Wait until all workers have made the same call; return their gifts, or what ``combine`` makes of them.

        The last worker to arrive calls ``combine``, before anybody continues.
        """
        with self._mutex:
            turn = self._turn
            is_last = self._come(rank, call, gift)
            if not is_last:
                self._waiting.append(rank)
                self._stop_running(rank)
        if is_last:
            self._complete(combine)
        else:
            self._sleep(rank)
            self._since[rank] = perf_counter()
        return self._outcome[turn]

    def leave(self, rank: int, result: Any) -> None:
        """Hand in the worker's result. Only worker 0, which runs on the caller's thread, waits for the others."""
        with self._mutex:
            is_last = self._come(rank, RETURN, result)
            waits = rank == 0 and not is_last
            if waits:
                self._waiting.append(rank)
            if not is_last:
                self._stop_running(rank)
        if is_last:
            self._complete(None)
            with self._mutex:
                self._stop_running(rank)
        elif waits:
            self._sleep(rank)

    def fail(self, rank: int, error: BaseException) -> None:
        """End the meeting, unless it has ended: every worker is woken, and none can meet again."""
        with self._mutex:
            self._fail(rank, error)

    def results(self) -> list[Any]:
        """What the workers handed in when they left."""
        return list(self._outcome[1 - self._turn])

    def seconds_running(self, rank: int) -> float:
        return self._seconds[rank] + (perf_counter() - self._since[rank] if rank in self._running else 0.0)

    # Called with the mutex held.

    def _come(self, rank: int, call: Call, gift: Any) -> bool:
        """Add this worker to the current collective; return whether it is the last to arrive."""
        self._raise_if_over(rank)
        if self._n_here == 0:
            self._call, self._first = call, rank
        elif call != self._call:
            error = DivergedError(
                f"Worker {rank} reached {call} while worker {self._first} reached {self._call}; "
                "all workers must make the same decisions, so find out what differs between these two."
            )
            self._fail(rank, error)
            raise error
        self._given[self._turn][rank] = gift
        self._n_here += 1
        self._last_progress = monotonic()
        return self._n_here == self.size

    def _stop_running(self, rank: int) -> None:
        self._seconds[rank] += perf_counter() - self._since[rank]
        self._running.remove(rank)
        if self._ready:
            self._let_run(self._ready.popleft())

    def _let_run(self, rank: int) -> None:
        self._running.add(rank)
        self._wake[rank].release()

    def _fail(self, rank: int, error: BaseException) -> None:
        if self.failure is None:
            self.failure = (rank, error)
            for lock in self._wake:
                if lock.locked():
                    lock.release()

    def _raise_if_over(self, rank: int) -> None:
        if self.failure is not None:
            failed, error = self.failure
            raise PeerFailedError(
                f"Worker {rank} of {self.size} stops because worker {failed} raised the {kind_of(error)} "
                "that caused this error; fix that error first."
            ) from error
        if self._ended:
            raise CommunicationError("All workers have returned; use a communicator only during its run.")

    # Called without the mutex.

    def _complete(self, combine: Callable[[list[Any]], Any] | None) -> None:
        """Called by the last to arrive: let the others continue, and keep running."""
        given = self._given[self._turn]
        outcome = given if combine is None else combine(given)
        with self._mutex:
            self._ended = self._call == RETURN
            self._outcome[self._turn] = outcome
            self._turn = 1 - self._turn
            self._n_here = 0
            self._ready.extend(self._waiting)
            self._waiting.clear()
            while self._ready and len(self._running) < self.n_running:
                self._let_run(self._ready.popleft())

    def _sleep(self, rank: int) -> None:
        """Sleep until this worker may run. Raise if another one has failed, or if none makes progress."""
        remaining = self.timeout
        try:
            while not self._wake[rank].acquire(timeout=remaining):
                with self._mutex:
                    remaining = self._last_progress + self.timeout - monotonic()
                    if remaining <= 0 and rank not in self._running:
                        raise self._overdue(rank)
                    remaining = max(0.0, remaining)
            if self.failure is not None:
                self._raise_if_over(rank)
        except BaseException as error:  # also KeyboardInterrupt: a worker that stops waiting ends the meeting
            self.fail(rank, error)
            raise

    def _overdue(self, rank: int) -> WorkerTimeoutError:
        missing = sorted(self._running)
        names = name_workers(missing)
        what = f"at {self._call}" if self._n_here else "to free a core"
        error = WorkerTimeoutError(
            f"Worker {rank} waited {self.timeout:g} s for {names} of {self.size} {what}; "
            "raise the time limit (timeout) if they only need longer, otherwise find out what they are stuck in."
        )
        error.about = names  # type: ignore[attr-defined]
        return error
