"""Training on Dask workers: one task on each of them; the tasks talk over Dask's own connections.

The client calls ``run``. It opens a mailbox on every worker (dask_mailbox), sends each its task (dask_worker), and
waits until all have answered or one is lost. Nothing is left behind on the cluster.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib.metadata import version
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from pvtree.comm import dask_mailbox
from pvtree.comm.dask_worker import START_SECONDS, with_traceback, work
from pvtree.comm.outcome import Outcome
from pvtree.errors import (
    CommunicationError,
    InvalidParameterError,
    InvalidTypeError,
    MissingDependencyError,
    PeerFailedError,
    WorkerTimeoutError,
)

if TYPE_CHECKING:
    import distributed

Result = TypeVar("Result")

LOOK_SECONDS = 1.0  # how often the client checks that all workers are still there
GRACE_SECONDS = 3.0  # how long the other workers have to end and report, after the first one has failed


def run(
    client: distributed.Client,
    function: Callable[..., Result],
    arguments: Mapping[str, Sequence[Any]],
    *,
    timeout: float = 600.0,
) -> list[Result]:
    """Run ``function(comm, *arguments[address])`` on all given Dask workers at once.

    The first exception of a worker ends all of them and is raised here, with the worker's number as ``rank``.

    Parameters
    ----------
    client : distributed.Client
        A synchronous client.
    function : callable
        Called on every worker.
    arguments : mapping
        The function's arguments by worker address. Ranks follow its order. Arguments may hold Dask futures, also
        inside lists and dictionaries.
    timeout : float, default=600.0
        How many seconds a collective waits without a sign of the other workers. Greater than 0.

    Returns
    -------
    list
        The results by rank.
    """
    addresses = list(arguments)
    check(client, addresses, timeout)
    name = uuid4().hex
    futures: list[distributed.Future] = []
    with outside_the_pool():
        try:
            open_mailboxes(client, name, addresses, timeout)
            for rank, address in enumerate(addresses):
                futures.append(
                    client.submit(
                        work,
                        function,
                        name,
                        rank,
                        addresses,
                        timeout,
                        *arguments[address],
                        key=f"pvtree-{name}-{rank}",  # Dask's dashboard shows the part before the run's name
                        workers=[address],
                        allow_other_workers=False,
                        retries=0,
                        pure=False,
                    )
                )
            return RunMonitor(client, addresses, futures, timeout).results()
        except BaseException:
            abandon(client, name, addresses, futures)
            raise


def abandon(client: distributed.Client, name: str, addresses: list[str], futures: list[distributed.Future]) -> None:
    """Cancel the run without waiting for anybody: pending tasks do not start, and running ones notice and stop.

    Otherwise Dask would rerun the task of a lost worker, or wait for that worker to come back.
    """

    async def drop() -> None:
        with suppress(Exception):
            await client.run(dask_mailbox.drop_mailbox, name, workers=addresses, on_error="ignore")

    with suppress(Exception):  # the client may be closed
        client.cancel(futures, force=True)
        client.loop.add_callback(drop)  # type: ignore[union-attr]


def check(client: distributed.Client, addresses: list[str], timeout: float) -> None:
    if not timeout > 0:
        raise InvalidParameterError(f"timeout is {timeout}; give a positive number of seconds.")
    if not addresses:
        raise InvalidParameterError(
            "There is no Dask worker to run on; start one, or call client.wait_for_workers first."
        )
    if client.asynchronous:
        raise InvalidTypeError(
            "The Dask client is asynchronous, but training blocks until it has finished; "
            "pass a client created without asynchronous=True, outside its event loop."
        )


@contextmanager
def outside_the_pool() -> Iterator[None]:
    """Leave the worker's thread pool if this is a task: a worker may have one thread, which the training needs."""
    from distributed import rejoin, secede
    from distributed.threadpoolexecutor import thread_state

    is_task = getattr(thread_state, "proceed", False)  # true in a thread of the pool that has not left it yet
    if is_task:
        secede()
    try:
        yield
    finally:
        if is_task:
            rejoin()


def open_mailboxes(client: distributed.Client, name: str, addresses: list[str], timeout: float) -> None:
    """Prepare every worker for messages; raise an error that names the worker that cannot take part."""
    limit = max(timeout, START_SECONDS)

    async def open_all() -> tuple[dict[int, Any], list[int]]:
        deadline = monotonic() + limit
        asked = {
            asyncio.ensure_future(
                client.run(dask_mailbox.open_mailbox, name, limit, workers=[address], on_error="return")
            ): rank
            for rank, address in enumerate(addresses)
        }
        answers: dict[int, Any] = {}
        waiting = set(asked)
        while waiting and monotonic() < deadline:
            done, waiting = await asyncio.wait(waiting, timeout=LOOK_SECONDS)
            answers |= {asked[task]: task.exception() or next(iter(task.result().values()), None) for task in done}
            if not waiting:
                break
            # The scheduler would try to reach a lost worker for half a minute.
            known = await client.scheduler.ncores(workers=[addresses[asked[task]] for task in waiting])
            gone = {task for task in waiting if addresses[asked[task]] not in known}
            answers |= {asked[task]: OSError("the scheduler does not know it") for task in gone}
            waiting -= gone
        for task in asked:
            task.cancel()
        return answers, sorted(asked[task] for task in waiting)

    answers, late = client.sync(open_all)
    for rank, answer in sorted(answers.items()):
        check_answer(answer, f"Worker {rank} of {len(addresses)} ({addresses[rank]})")
    if late:
        raise WorkerTimeoutError(
            f"The client waited {limit:g} s for {name_with_addresses(late, addresses)} to accept the training; "
            "raise the time limit (timeout) if they only need longer, otherwise find out what they are stuck in."
        )


def check_answer(answer: Any, who: str) -> None:
    """Raise unless a worker has opened its mailbox and runs the client's version of pvtree."""
    if isinstance(answer, ImportError):
        raise MissingDependencyError(
            f"{who} cannot import pvtree ({answer}); install it on all workers: pip install 'pvtree[dask]'."
        ) from answer
    if isinstance(answer, OSError):
        raise PeerFailedError(
            f"{who} cannot be reached ({' '.join(str(answer).split())}); find out why its process ended, "
            "or what is wrong with the network."
        ) from answer
    if isinstance(answer, BaseException):
        raise answer
    if answer != version("pvtree"):
        raise CommunicationError(
            f"{who} has pvtree {answer}, but the client has {version('pvtree')}; install the same version everywhere."
        )


class RunMonitor:
    """Waits for the tasks of one run, but not for those that can never end."""

    def __init__(
        self, client: distributed.Client, addresses: list[str], futures: list[distributed.Future], timeout: float
    ) -> None:
        self._client = client
        self._addresses = addresses
        self._futures = futures
        self._timeout = timeout
        self._outcomes: dict[int, Outcome] = {}  # by rank, in the order of arrival
        self._gone: set[int] = set()
        self._news = threading.Event()
        for future in futures:
            future.add_done_callback(lambda future: self._news.set())

    def results(self) -> list[Any]:
        deadline = float("inf")
        while len(self._outcomes) < len(self._futures):
            self._news.wait(LOOK_SECONDS)
            self._news.clear()
            self._collect()
            self._gone = self._look_around()
            if self._gone or any(outcome.error for outcome in self._outcomes.values()):
                deadline = min(deadline, monotonic() + GRACE_SECONDS)
                if monotonic() > deadline or len(self._outcomes) + len(self._gone) == len(self._futures):
                    break
        error = self._first_error()
        if error is not None:
            raise error
        return [self._outcomes[rank].result for rank in range(len(self._futures))]

    def _collect(self) -> None:
        """Fetch the outcomes of the tasks that have ended since the last call."""
        ended = [
            rank
            for rank, future in enumerate(self._futures)
            if rank not in self._outcomes and rank not in self._gone and future.status != "pending"
        ]
        for rank in ended:
            status = self._futures[rank].status
            if status == "error":  # outside the function, whose errors are returned
                error = self._futures[rank].exception()
                self._outcomes[rank] = Outcome(None, error)
            elif status != "finished":
                error = CommunicationError(
                    f"Worker {rank} of {len(self._futures)} ({self._addresses[rank]}) gave no result because "
                    f"its task was {status}; train again, and do not restart the cluster during the training."
                )
                self._outcomes[rank] = Outcome(None, error)
        finished = [rank for rank in ended if rank not in self._outcomes]
        if finished:
            fetching = asyncio.run_coroutine_threadsafe(
                self._client.gather([self._futures[rank] for rank in finished], asynchronous=True),
                self._client.loop.asyncio_loop,  # type: ignore[union-attr]
            )
            self._outcomes |= zip(finished, self._wait_for(fetching, finished), strict=True)

    def _wait_for(self, fetching: Future[list[Outcome]], ranks: list[int]) -> list[Outcome]:
        """The outcomes that these workers are sending; a worker may die while it sends."""
        try:
            while True:
                try:
                    return fetching.result(LOOK_SECONDS)
                except TimeoutError:
                    gone = self._look_around() & set(ranks)
                    if gone:
                        self._gone |= gone
                        lost = self._lost(sorted(gone))
                        return [Outcome(None, lost) for _ in ranks]
        finally:
            fetching.cancel()

    def _look_around(self) -> set[int]:
        """Ranks that have no outcome yet and that the scheduler no longer knows."""
        waiting = {rank: self._addresses[rank] for rank in range(len(self._futures)) if rank not in self._outcomes}
        if not waiting:
            return set()
        try:
            known = self._client.sync(
                self._client.scheduler.ncores, workers=list(waiting.values()), callback_timeout=self._timeout
            )
        except (OSError, TimeoutError) as error:
            raise CommunicationError(
                f"The client lost its connection to Dask's scheduler ({error}); find out why it ended, and train again."
            ) from error
        return {rank for rank, address in waiting.items() if address not in known}

    def _first_error(self) -> BaseException | None:
        """The cause: preferably an error that does not merely report another worker's failure."""
        errors = [with_traceback(outcome) for outcome in self._outcomes.values() if outcome.error is not None]
        causes = [error for error in errors if not isinstance(error, PeerFailedError)]
        if causes:
            return causes[0]
        for error in errors:
            if hasattr(error, "lost"):
                return error
        return self._lost(sorted(self._gone)) if self._gone else next(iter(errors), None)

    def _lost(self, ranks: list[int]) -> PeerFailedError:
        return PeerFailedError(
            f"The cluster lost {name_with_addresses(ranks, self._addresses)} of {len(self._addresses)} during the "
            "training; find out why that process ended, such as too little memory, and train again."
        )


def name_with_addresses(ranks: list[int], addresses: list[str]) -> str:
    return ", ".join(f"worker {rank} ({addresses[rank]})" for rank in ranks)
