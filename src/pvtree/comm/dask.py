"""Dask workers as workers of a training: a task on each of them, which talk over Dask's own connections.

``run`` is called where the client is. It prepares a box for messages on every worker (dask_post), sends each its task,
and waits until all have answered or one of them is lost: nothing is left running or waiting on the cluster.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np

import pvtree
from pvtree.comm import dask_post
from pvtree.comm.base import Call
from pvtree.comm.pairwise import END, PairwiseCommunicator, text_of
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

START = Call("the start", "")  # the first thing that all workers must come to together
START_SECONDS = 10.0  # at least so long, whatever the time limit is: a busy worker begins a task when it can
LOOK_SECONDS = 1.0  # how often the client asks whether all workers are still there
GRACE_SECONDS = 3.0  # for the other workers to end, and to say why, after the first one has failed


class Outcome(NamedTuple):
    """What a task returns. Errors are returned too: Dask would log them on every worker, and end for an interrupt."""

    result: Any
    error: BaseException | None
    where: dict[str, Any] | None = None  # the error's traceback, which pickle would leave behind


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
    with outside_the_pool():
        open_boxes(client, name, addresses, timeout)
        futures = [
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
            for rank, address in enumerate(addresses)
        ]
        try:
            return Watch(client, addresses, futures, timeout).results()
        finally:  # Dask would run the task of a lost worker again; the others see that they are not wanted any more
            with suppress(Exception):
                client.cancel(futures, force=True)


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
    from distributed import get_worker, rejoin, secede
    from distributed.worker import thread_state

    try:
        get_worker()
        is_task = hasattr(thread_state, "key")
    except ValueError:
        is_task = False
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
            answers |= {asked[task]: task.exception() or task.result()[addresses[asked[task]]] for task in done}
            # The scheduler would try for half a minute to reach a worker that is gone.
            known = await client.scheduler.ncores(workers=[addresses[asked[task]] for task in waiting])
            gone = {task for task in waiting if addresses[asked[task]] not in known}
            answers |= {asked[task]: OSError("the scheduler does not know it") for task in gone}
            waiting -= gone
        for task in asked:
            task.cancel()
        ready = [addresses[rank] for rank, answer in answers.items() if isinstance(answer, str)]
        if ready and len(ready) < len(addresses):
            with suppress(Exception):
                await asyncio.wait_for(client.run(dask_post.drop_box, name, workers=ready), dask_post.FAREWELL_SECONDS)
        return answers, sorted(asked[task] for task in waiting)

    answers, late = client.sync(open_all)
    for rank, answer in sorted(answers.items()):
        if answer == pvtree.__version__:
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
            f"{who} has pvtree {answer} and the client {pvtree.__version__}; install the same version everywhere."
        )
    if late:
        raise WorkerTimeoutError(
            f"The client waited {limit:g} s for {name_with_addresses(late, addresses)} to take the training on; "
            "raise the time limit if they only need longer, otherwise look for what they are stuck in."
        )


# On a worker, in the thread of a task.


def work(
    function: Callable[..., Any], name: str, rank: int, addresses: list[str], timeout: float, *arguments: Any
) -> Outcome:
    """The task of one worker."""
    from distributed import get_worker, secede

    worker = get_worker()
    key = worker.get_current_task()
    secede()  # so that two runs cannot each hold the only thread of a worker that the other one needs
    comm = DaskCommunicator(worker, key, name, rank, addresses, timeout)
    try:
        comm.join()
        result = function(comm, *arguments)
        comm.leave()
    except BaseException as error:
        comm.fail(error)
        return failed(error)
    comm.close()
    return Outcome(result, None)


class DaskCommunicator(PairwiseCommunicator):
    """One Dask worker's line to the others of its run."""

    straight_bytes = 4096  # a second exchange costs more than these bytes

    def __init__(
        self, worker: distributed.Worker, key: Any, name: str, rank: int, addresses: list[str], timeout: float
    ) -> None:
        from distributed.comm import get_address_host

        super().__init__(rank, len(addresses), timeout)
        self.addresses = addresses
        hosts = list(map(get_address_host, addresses))
        self.n_on_host = hosts.count(hosts[rank])
        self._worker = worker
        self._key = key
        self._loop = worker.loop.asyncio_loop  # type: ignore[attr-defined]
        self._name = name
        self._box: dask_post.Box | None = None
        self._broken: CommunicationError | None = None  # why nothing can be sent any more

    def join(self) -> None:
        """Open the lines to the others, and wait until they have opened theirs."""

        async def begin() -> dask_post.Box | None:
            box = dask_post.boxes_of(self._worker).get(self._name)
            if box is not None:
                box.begin(self.rank, self.addresses, self._key)
            return box

        self._box = self._on_loop(begin())
        if self._box is None:
            raise PeerFailedError(
                f"Worker {self.rank} of {self.size} knows nothing of the training that it is to join"
                f"{self._where([self.rank])}; another worker has failed before, or this one was started anew."
            )
        self._exchange(START, [np.empty(0, np.uint8)] * self.size)

    def fail(self, error: BaseException) -> None:
        """Tell all others: their present or next collective raises PeerFailedError. Does not wait for them."""
        self._mark(error)
        self._close(type(error).__name__)

    def close(self) -> None:
        self._close(None)

    def _close(self, failure: str | None) -> None:
        box, self._box = self._box, None
        self._broken = self._broken or CommunicationError(
            "This communicator is closed; use a communicator only inside its run."
        )
        if box is not None:
            with suppress(CommunicationError):
                self._on_loop(box.close(failure))

    def _exchange(self, call: Call, outgoing: Sequence[np.ndarray]) -> list[np.ndarray]:
        if self._broken is not None:
            raise type(self._broken)(str(self._broken))
        assert self._box is not None
        try:
            limit = max(self.timeout, START_SECONDS) if call == START else self.timeout
            return self._on_loop(self._box.exchange(text_of(call), outgoing, limit, confirm=call == END))
        except dask_post.Interruption as interruption:
            self._broken = self._explain(call, interruption)
            raise self._broken from None
        except BaseException as error:
            self._broken = self._left_early(call, error)
            raise

    def _explain(self, call: Call, interruption: dask_post.Interruption) -> CommunicationError:
        match interruption:
            case dask_post.PeerFailed(peer=peer, kind=kind):
                return self._peer_failed(peer, kind)
            case dask_post.PeerDiverged(peer=peer, text=text):
                return self._diverged(call, peer, text.decode())
            case dask_post.PeersLost(peers=peers, reason=reason):
                return self._lost(peers, call, reason)
            case dask_post.PeersLate(peers=peers):
                return self._overdue(peers, call, max(self.timeout, START_SECONDS) if call == START else None)
        return CommunicationError(
            f"Worker {self.rank} of {self.size} stops the training at {call} because {interruption}; train again."
        )

    def _lost(self, lost: list[int], call: object, reason: object) -> PeerFailedError:
        error = super()._lost(lost, call, reason)
        error.lost = lost  # type: ignore[attr-defined]  # the client prefers it to errors that only follow from it
        return error

    def _where(self, ranks: Sequence[int]) -> str:
        return f" ({', '.join(f'worker {rank} is {self.addresses[rank]}' for rank in ranks)})" if ranks else ""

    def _on_loop(self, coroutine: Any) -> Any:
        """The result of a coroutine on the worker's event loop, which may end while we wait."""
        future: Future[Any] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        while True:
            try:
                return future.result(dask_post.LOOK_SECONDS)
            except TimeoutError:
                if future.done():  # or else the error is the coroutine's own
                    return future.result()
                if self._loop.is_running():
                    continue
            except CancelledError:
                pass
            raise CommunicationError(
                f"Worker {self.rank} of {self.size} stops because its Dask worker is closing"
                f"{self._where([self.rank])}; train again with workers that stay."
            )


def failed(error: BaseException) -> Outcome:
    """An outcome that reaches the client, even if the exception itself cannot travel."""
    import tblib
    from distributed.protocol.pickle import dumps, loads

    # Dask's own way with exceptions (tblib.pickling_support) cannot restore those that have two bases in C.
    where = tblib.Traceback(error.__traceback__).to_dict()
    try:
        loads(dumps(error))
    except Exception:
        stand_in = CommunicationError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            stand_in.add_note(note)
        stand_in.rank = getattr(error, "rank", None)  # type: ignore[attr-defined]
        error = stand_in
    return Outcome(None, error, where)


def with_traceback(outcome: Outcome) -> BaseException | None:
    import tblib

    if outcome.error is None or outcome.where is None:
        return outcome.error
    return outcome.error.with_traceback(tblib.Traceback.from_dict(outcome.where).as_traceback())


# At the client.


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
