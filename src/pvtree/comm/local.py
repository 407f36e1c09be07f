"""A virtual cluster: M workers as threads of this process, which compute at once as kernels release the GIL."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from time import monotonic, perf_counter
from typing import Any, TypeVar

import numpy as np

from pvtree.comm.base import Call, Communicator, reduce_by_rank
from pvtree.errors import (
    CommunicationError,
    DivergedError,
    InvalidParameterError,
    PeerFailedError,
    WorkerTimeoutError,
)

Result = TypeVar("Result")

RETURN = Call("its end", "")  # the last thing that all workers must come to together
JOIN_SECONDS = 0.5  # for threads that have only their last lines to run; longer than that they are stuck


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
    ``n_running`` workers compute at once, by default as many as there are cores for this process: more would only
    push each other's histograms out of the caches. With 1 the workers take turns, which shows what each computes.
    ``communicator(meeting, rank)`` makes the communicators, if they shall be of another kind than usual.
    ``timeout`` is how many seconds may pass without any worker coming to a collective.
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
            thread.daemon = True  # a worker that is stuck in the function must not keep the process alive
            thread.start()
        work(function, make, meeting, 0)
        join_all(threads)
    except BaseException as error:  # interrupted between two workers' business, or no more threads to be had
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
    """The life of one worker. Nothing is raised from here: the meeting keeps the first error."""
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
    import joblib  # here, because importing pvtree should stay quick

    return joblib.cpu_count()


class LocalCommunicator(Communicator):
    """One worker's place in the meeting."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        super().__init__(rank, meeting.size)
        self._meeting = meeting
        meeting.begin(rank)

    @property
    def compute_seconds(self) -> float:
        """How long this worker has been running: not waiting for others, nor for its turn on a core."""
        return self._meeting.seconds_running(self.rank)

    def _allgather(self, buffer: np.ndarray, call: Call) -> list[np.ndarray]:
        # Copied twice: the sender may go on and change its buffer, and a receiver may change what it received.
        return [part.copy() for part in self._meet(call, buffer.copy())]

    def _alltoall(self, buffers: list[np.ndarray], call: Call) -> list[np.ndarray]:
        given = self._meet(call, [buffer.copy() for buffer in buffers])
        received = [from_worker[self.rank] for from_worker in given]  # each copy has one receiver, who may keep it
        for from_worker in given:
            from_worker[self.rank] = None  # these are the large messages: let go of them as soon as the receiver does
        return received

    def _allreduce(self, buffer: np.ndarray, op: str, call: Call) -> np.ndarray:
        # Added up once, by the last to come, while the others wait: so nobody's buffer can change meanwhile.
        return self._meet(call, buffer, lambda given: reduce_by_rank(given, op)).copy()

    def _broadcast(self, buffer: np.ndarray | None, root: int, call: Call) -> np.ndarray:
        return self._meet(call, None if buffer is None else buffer.copy())[root].copy()

    def _meet(self, call: Call, gift: Any, combine: Callable[[list[Any]], Any] | None = None) -> Any:
        """What all verbs come to: everybody's gifts by rank, or what was made of them."""
        return self._meeting.meet(self.rank, call, gift, combine)


class Meeting:
    """Where workers meet, and who may run.

    A worker is running, or waiting (for the others to come), or ready (all have come, but there is no core for it).
    Whoever stops running lets the next ready worker run, so each worker is woken once per collective, when it may
    go on. At most ``n_running`` run.
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
        self._wake = [threading.Lock() for _ in range(size)]  # taken; whoever releases it wakes that worker
        for lock in self._wake:
            lock.acquire()
        # Of the present collective. Two sets of gifts in turn: of the last one some may still be reading.
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
        """Wait for the first turn to run."""
        if rank >= self.n_running:  # not "is not running": it may have been let run, and woken, before it came here
            self._sleep(rank)
        self._since[rank] = perf_counter()

    def meet(self, rank: int, call: Call, gift: Any, combine: Callable[[list[Any]], Any] | None = None) -> Any:
        """Wait until all workers have come with the same call; returns what they gave, or what was made of it.

        ``combine`` is called by the last to come, before anybody goes on.
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
        """Hand in the worker's result. Only worker 0 waits for the others: it has the caller behind it."""
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
        """End the meeting, unless it has ended already: everybody is woken, and nobody can meet again."""
        with self._mutex:
            self._fail(rank, error)

    def results(self) -> list[Any]:
        """What the workers handed in when they left."""
        return list(self._outcome[1 - self._turn])

    def seconds_running(self, rank: int) -> float:
        return self._seconds[rank] + (perf_counter() - self._since[rank] if rank in self._running else 0.0)

    # With the mutex held:

    def _come(self, rank: int, call: Call, gift: Any) -> bool:
        """Add this worker to the present collective; says whether it is the last to come."""
        self._raise_if_over(rank)
        if self._n_here == 0:
            self._call, self._first = call, rank
        elif call != self._call:
            error = DivergedError(
                f"Worker {rank} came to {call} while worker {self._first} came to {self._call}; "
                "all workers must take the same decisions, so look for what differs between these two."
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
                f"Worker {rank} of {self.size} stops because worker {failed} raised the {type(error).__name__} "
                "that caused this error; mend that one."
            ) from error
        if self._ended:
            raise CommunicationError("The workers have all returned; use a communicator only inside its run.")

    # Without the mutex:

    def _complete(self, combine: Callable[[list[Any]], Any] | None) -> None:
        """The last to come lets the others go on; it keeps running itself."""
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
        """Until this worker may run. Raises if another one failed, or if nobody moves any more."""
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
        except BaseException as error:  # the interrupt key too: whoever stops waiting ends the meeting
            self.fail(rank, error)
            raise

    def _overdue(self, rank: int) -> WorkerTimeoutError:
        missing = sorted(self._running)
        names = f"worker {missing[0]}" if len(missing) == 1 else f"workers {', '.join(map(str, missing))}"
        what = f"at {self._call}" if self._n_here else "to let it have a core"
        return WorkerTimeoutError(
            f"Worker {rank} waited {self.timeout:g} s for {names} of {self.size} {what}; "
            "raise the time limit if they only need longer, otherwise look for what they are stuck in."
        )
