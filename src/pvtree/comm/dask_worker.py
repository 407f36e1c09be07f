"""A Dask worker's part in a training: its task and its communicator, in the thread that Dask gives the task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.comm import dask_mailbox
from pvtree.comm.base import Call, kind_of
from pvtree.comm.outcome import Outcome, able_to_travel
from pvtree.comm.pairwise import END, PairwiseCommunicator, text_of
from pvtree.errors import CommunicationError, PeerFailedError

if TYPE_CHECKING:
    import distributed

START = Call("the start", "")  # the first collective, which all workers must join
START_SECONDS = 10.0  # the least time limit of the start: a busy worker begins a task when it can


def work(
    function: Callable[..., Any], name: str, rank: int, addresses: list[str], timeout: float, *arguments: Any
) -> Outcome:
    """The task of one worker."""
    from distributed import get_worker, secede

    worker = get_worker()
    key = worker.get_current_task()
    secede()  # otherwise two runs could each hold a worker's only thread while the other run needs it
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
    """One Dask worker's connection to the others of its run."""

    straight_bytes = 4096  # a second exchange costs more than sending this many bytes

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
        self._mailbox: dask_mailbox.Mailbox | None = None
        self._broken: CommunicationError | None = None  # why nothing more can be sent

    def join(self) -> None:
        """Open the lines to the others and wait until they have opened theirs."""

        async def begin() -> dask_mailbox.Mailbox | None:
            mailbox = dask_mailbox.mailboxes_of(self._worker).get(self._name)
            if mailbox is not None:
                mailbox.begin(self.rank, self.addresses, self._key)
            return mailbox

        self._mailbox = self._on_loop(begin())
        if self._mailbox is None:
            raise PeerFailedError(
                f"Worker {self.rank} of {self.size} does not know the training that it should join"
                f"{self._where([self.rank])}: another worker has failed, or this one was restarted; train again."
            )
        self._with_all(START, [np.empty(0, np.uint8)] * self.size)

    def fail(self, error: BaseException) -> None:
        """Tell all others, whose current or next collective then raises PeerFailedError. Does not wait for them."""
        self._mark(error)
        self._close(kind_of(error))

    def close(self) -> None:
        self._close(None)

    def _close(self, failure: str | None) -> None:
        mailbox, self._mailbox = self._mailbox, None
        self._broken = self._broken or CommunicationError(
            "This communicator is closed; use a communicator only during its run."
        )
        if mailbox is not None:
            with suppress(CommunicationError):
                self._on_loop(mailbox.close(failure))

    def _exchange(
        self, call: Call, outgoing: Mapping[int, np.ndarray], awaited: Sequence[int]
    ) -> dict[int, np.ndarray]:
        if self._broken is not None:
            raise type(self._broken)(str(self._broken))
        assert self._mailbox is not None
        try:
            limit = max(self.timeout, START_SECONDS) if call == START else self.timeout
            exchange = self._mailbox.exchange(
                text_of(call), outgoing, awaited, limit, confirm=call == END, asks_again=self._passes_on
            )
            return self._on_loop(exchange)
        except dask_mailbox.Interruption as interruption:
            self._broken = self._explain(call, interruption)
            raise self._broken from None
        except BaseException as error:
            self._broken = self._left_early(call, error)
            raise

    def _explain(self, call: Call, interruption: dask_mailbox.Interruption) -> CommunicationError:
        match interruption:
            case dask_mailbox.PeerFailed(peer=peer, kind=kind):
                return self._peer_failed(peer, kind)
            case dask_mailbox.PeerDiverged(peer=peer, text=text):
                return self._diverged(call, peer, text.decode())
            case dask_mailbox.PeersLost(peers=peers, reason=reason):
                return self._lost(peers, call, reason)
            case dask_mailbox.PeersLate(peers=peers):
                return self._overdue(peers, call, max(self.timeout, START_SECONDS) if call == START else None)
        return CommunicationError(
            f"Worker {self.rank} of {self.size} stops the training at {call} because {interruption}; train again."
        )

    def _lost(self, lost: list[int], call: object, reason: object) -> PeerFailedError:
        error = super()._lost(lost, call, reason)
        error.lost = lost  # type: ignore[attr-defined]  # the client prefers this error to its consequences
        return error

    def _where(self, ranks: Sequence[int]) -> str:
        return f" ({', '.join(f'worker {rank} is {self.addresses[rank]}' for rank in ranks)})" if ranks else ""

    def _on_loop(self, coroutine: Any) -> Any:
        """Run a coroutine on the worker's event loop, which may end in the meantime, and return its result."""
        future: Future[Any] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        while True:
            try:
                return future.result(dask_mailbox.LOOK_SECONDS)
            except TimeoutError:
                if future.done():  # the TimeoutError may be the coroutine's own
                    return future.result()
                if self._loop.is_running():
                    continue
            except CancelledError:
                pass
            raise CommunicationError(
                f"Worker {self.rank} of {self.size} stops because its Dask worker is closing"
                f"{self._where([self.rank])}; train again, with workers that stay alive."
            )


def failed(error: BaseException) -> Outcome:
    """An outcome that reaches the client even if the exception cannot be pickled."""
    import tblib
    from distributed.protocol.pickle import dumps

    # Dask's own method (tblib.pickling_support) cannot restore exceptions that have two base classes in C.
    where = tblib.Traceback(error.__traceback__).to_dict()
    return Outcome(None, able_to_travel(error, dumps), where)


def with_traceback(outcome: Outcome) -> BaseException | None:
    import tblib

    if outcome.error is None or outcome.where is None:
        return outcome.error
    return outcome.error.with_traceback(tblib.Traceback.from_dict(outcome.where).as_traceback())
