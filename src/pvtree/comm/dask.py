"""Dask workers as workers of a training: a task on each of them, which talk over Dask's own connections.

``run`` is called where the client is. It prepares a box for messages on every worker (dask_post), sends each its task
(dask_worker), and waits until all have answered or one of them is lost: nothing is left behind on the cluster.
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

from pvtree.comm import dask_post
from pvtree.comm.dask_worker import START_SECONDS, Outcome, with_traceback, work
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

LOOK_SECONDS = 1.0  # how often the client asks whether all workers are still there
GRACE_SECONDS = 3.0  # for the other workers to end, and to say why, after the first one has failed


def run(
    client: distributed.Client,
    function: Callable[..., Result],
    arguments: Mapping[str, Sequence[Any]],
    *,
    timeout: float = 600.0,
) -> list[Result]:
    """Run ``function(comm, *arguments[address])`` on these Dask workers at once; their results by rank.

    Ranks follow the order of ``arguments``, which may hold Dask futures, also inside of lists and dictionaries.
    The first exception of a worker ends all of them and is raised here, with the worker's number as ``rank``.
    ``timeout`` is how many seconds may pass without a sign of the others in a collective.
    """
    addresses = list(arguments)
    check(client, addresses, timeout)
    name = uuid4().hex
    futures: list[distributed.Future] = []
    with outside_the_pool():
        try:
            open_boxes(client, name, addresses, timeout)
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
                        key=f"pvtree-{name}-{rank}",  # Dask's dashboard shows the part before the name of the run
                        workers=[address],
                        allow_other_workers=False,
                        retries=0,
                        pure=False,
                    )
                )
            return Watch(client, addresses, futures, timeout).results()
        except BaseException:
            abandon(client, name, addresses, futures)
            raise


def abandon(client: distributed.Client, name: str, addresses: list[str], futures: list[distributed.Future]) -> None:
    """Without waiting for anybody: what is not begun will not be, and who works sees that it is not wanted any more.

    Dask would run the task of a lost worker again, or wait for that worker to come back.
    """

    async def drop() -> None:
        with suppress(Exception):
            await client.run(dask_post.drop_box, name, workers=addresses, on_error="ignore")

    with suppress(Exception):  # the client may be closed
        client.cancel(futures, force=True)
        client.loop.add_callback(drop)  # type: ignore[union-attr]


def check(client: distributed.Client, addresses: list[str], timeout: float) -> None:
    if not timeout > 0:
        raise InvalidParameterError(f"timeout is {timeout}; give a positive number of seconds.")
    if not addresses:
        raise InvalidParameterError(
            "There is no Dask worker to run on; start one, or wait with client.wait_for_workers."
        )
    if client.asynchronous:
        raise InvalidTypeError(
            "The Dask client is asynchronous, but training waits for its end; "
            "give a client made without asynchronous=True, from outside of its event loop."
        )


@contextmanager
def outside_the_pool() -> Iterator[None]:
    """A task that trains must not keep its thread from the tasks that it waits for, as a worker may have only one."""
    from distributed import rejoin, secede
    from distributed.threadpoolexecutor import thread_state

    is_task = getattr(thread_state, "proceed", False)  # a thread of a pool that has not left it before
    if is_task:
        secede()
    try:
        yield
    finally:
        if is_task:
            rejoin()


def open_boxes(client: distributed.Client, name: str, addresses: list[str], timeout: float) -> None:
    """Prepare every worker for messages; an error that names the one which cannot take part."""
    limit = max(timeout, START_SECONDS)

    async def open_all() -> tuple[dict[int, Any], list[int]]:
        deadline = monotonic() + limit
        asked = {
            asyncio.ensure_future(
                client.run(dask_post.open_box, name, limit, workers=[address], on_error="return")
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
            # The scheduler would try for half a minute to reach a worker that is gone.
            known = await client.scheduler.ncores(workers=[addresses[asked[task]] for task in waiting])
            gone = {task for task in waiting if addresses[asked[task]] not in known}
            answers |= {asked[task]: OSError("the scheduler does not know it") for task in gone}
            waiting -= gone
        for task in asked:
            task.cancel()
        return answers, sorted(asked[task] for task in waiting)

    answers, late = client.sync(open_all)
    for rank, answer in sorted(answers.items()):
        if answer == version("pvtree"):
            continue
        who = f"Worker {rank} of {len(addresses)} ({addresses[rank]})"
        if isinstance(answer, ImportError):
            raise MissingDependencyError(
                f"{who} cannot import pvtree ({answer}); install it on all workers: pip install 'pvtree[dask]'."
            ) from answer
        if isinstance(answer, OSError):
            raise PeerFailedError(
                f"{who} cannot be reached ({' '.join(str(answer).split())}); look for why its process ended, "
                "or what is wrong with the network."
            ) from answer
        if isinstance(answer, BaseException):
            raise answer
        raise CommunicationError(
            f"{who} has pvtree {answer} and the client {version('pvtree')}; install the same version everywhere."
        )
    if late:
        raise WorkerTimeoutError(
            f"The client waited {limit:g} s for {name_with_addresses(late, addresses)} to take the training on; "
            "raise the time limit if they only need longer, otherwise look for what they are stuck in."
        )


class Watch:
    """Waits for the tasks of one run, and for none that will never end."""

    def __init__(
        self, client: distributed.Client, addresses: list[str], futures: list[distributed.Future], timeout: float
    ) -> None:
        self._client = client
        self._addresses = addresses
        self._futures = futures
        self._timeout = timeout
        self._outcomes: dict[int, Outcome] = {}  # by rank, in the order in which they came
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
        """Fetch the outcomes of the tasks that have ended since."""
        ended = [
            rank
            for rank, future in enumerate(self._futures)
            if rank not in self._outcomes and rank not in self._gone and future.status != "pending"
        ]
        for rank in ended:
            status = self._futures[rank].status
            if status == "error":  # not in the function, whose errors are returned
                error = self._futures[rank].exception()
                self._outcomes[rank] = Outcome(None, error)
            elif status != "finished":
                reason = f"its task was {status}"
                self._outcomes[rank] = Outcome(
                    None,
                    CommunicationError(
                        f"Worker {rank} of {len(self._futures)} ({self._addresses[rank]}) gave no result because "
                        f"{reason}; train again, and do not restart the cluster meanwhile."
                    ),
                )
        finished = [rank for rank in ended if rank not in self._outcomes]
        if finished:
            fetching = asyncio.run_coroutine_threadsafe(
                self._client.gather([self._futures[rank] for rank in finished], asynchronous=True),
                self._client.loop.asyncio_loop,  # type: ignore[union-attr]
            )
            self._outcomes |= zip(finished, self._wait_for(fetching, finished), strict=True)

    def _wait_for(self, fetching: Future[list[Outcome]], ranks: list[int]) -> list[Outcome]:
        """Results on their way from workers; one of which may die now."""
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
        """Workers without an outcome that the scheduler knows no more."""
        waiting = {rank: self._addresses[rank] for rank in range(len(self._futures)) if rank not in self._outcomes}
        if not waiting:
            return set()
        try:
            known = self._client.sync(
                self._client.scheduler.ncores, workers=list(waiting.values()), callback_timeout=self._timeout
            )
        except (OSError, TimeoutError) as error:
            raise CommunicationError(
                f"The client lost its line to Dask's scheduler ({error}); look for why it ended, and train again."
            ) from error
        return {rank for rank, address in waiting.items() if address not in known}

    def _first_error(self) -> BaseException | None:
        """The cause: what is not about another worker's failure, if there is such an error."""
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
            "training; look for why that process ended, such as too little memory, and train again."
        )


def name_with_addresses(ranks: list[int], addresses: list[str]) -> str:
    return ", ".join(f"worker {rank} ({addresses[rank]})" for rank in ranks)
