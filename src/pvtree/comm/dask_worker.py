"""What a Dask worker does in a training: its task, and its communicator, in the thread that Dask gives to the task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pvtree.comm import dask_post
from pvtree.comm.base import Call
from pvtree.comm.pairwise import END, PairwiseCommunicator, text_of
from pvtree.errors import CommunicationError, PeerFailedError

if TYPE_CHECKING:
    import distributed

START = Call("the start", "")  # the first thing that all workers must come to together
START_SECONDS = 10.0  # at least so long, whatever the time limit is: a busy worker begins a task when it can


class Outcome(NamedTuple):
    """What a task returns. Errors are returned too: Dask would log them on every worker, and end for an interrupt."""

    result: Any
    error: BaseException | None
    where: dict[str, Any] | None = None  # the error's traceback, which pickle would leave behind


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
