"""Collectives for engines that carry messages between pairs of workers: each is one exchange with every peer.

Engines (mpi, dask) differ in how an exchange travels. What is exchanged, and the errors when it fails, are the same.
"""

from __future__ import annotations

from abc import abstractmethod
from ast import literal_eval
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.lib.format import descr_to_dtype, dtype_to_descr

from pvtree.comm.base import Call, Communicator, reduce_by_rank
from pvtree.errors import (
    CommunicationError,
    DivergedError,
    InvalidParameterError,
    PeerFailedError,
    WorkerTimeoutError,
)

END = Call("its end", "")  # the last collective, which all workers must join
LONGEST_TEXT = 200  # bytes in the text of a note


class PairwiseCommunicator(Communicator):
    """Engines implement ``_exchange``. Every collective takes one exchange, except large all-reduces: two."""

    straight_bytes = 1024  # smaller all-reduces take one exchange, which costs M/2 times the ring's bytes

    def __init__(self, rank: int, size: int, timeout: float) -> None:
        if not timeout > 0:
            raise InvalidParameterError(f"timeout is {timeout}; give a positive number of seconds.")
        super().__init__(rank, size)
        self.timeout = timeout  # how many seconds a collective waits without a sign of the others
        self._others = [other for other in range(size) if other != rank]

    @abstractmethod
    def _exchange(self, call: Call, outgoing: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Send ``outgoing[m]``, flat bytes, to worker m; return what each worker sent, once all have made this call.

        Results are new memory, aligned for any dtype; so is the copy of this worker's own data.
        """

    def leave(self) -> None:
        """Wait until all workers have reached their end; raise if one of them makes another call or has failed."""
        self._exchange(END, [np.empty(0, np.uint8)] * self.size)

    # The collectives.

    def _allgather(self, buffer: np.ndarray, call: Call) -> list[np.ndarray]:
        return self._alltoall([buffer] * self.size, call)

    def _alltoall(self, buffers: list[np.ndarray], call: Call) -> list[np.ndarray]:
        arrived = self._exchange(call, [buffer.view(np.uint8) for buffer in buffers])
        return [part.view(buffers[0].dtype) for part in arrived]

    def _allreduce(self, buffer: np.ndarray, op: str, call: Call) -> np.ndarray:
        flat = buffer.reshape(-1)
        if self.size == 1:
            return buffer.copy()
        if buffer.nbytes <= self.straight_bytes:
            return reduce_by_rank(self._allgather(flat, call), op).reshape(buffer.shape)
        # Each worker sums up its share of the buffer and sends it to all others: a ring's bytes, in two exchanges.
        shares = self._alltoall(np.array_split(flat, self.size), call)
        return np.concatenate(self._allgather(reduce_by_rank(shares, op), call)).reshape(buffer.shape)

    def _broadcast(self, buffer: np.ndarray | None, root: int, call: Call) -> np.ndarray:
        nothing = np.empty(0, np.uint8)
        if buffer is not None:
            form = repr((dtype_to_descr(buffer.dtype), buffer.shape)).encode()
            head = np.array([len(form)], np.int64).view(np.uint8)
            data = np.concatenate((head, np.frombuffer(form, np.uint8), buffer.reshape(-1).view(np.uint8)))
        arrived = self._exchange(call, [nothing if buffer is None else data] * self.size)[root]
        end = 8 + int(arrived[:8].view(np.int64)[0])
        descr, shape = literal_eval(arrived[8:end].tobytes().decode())
        return arrived[end:].copy().view(descr_to_dtype(descr)).reshape(shape)

    # Errors.

    def _mark(self, error: BaseException) -> None:
        """Note on the error which worker raised it."""
        error.add_note(f"raised on worker {self.rank} of {self.size} (counted from 0){self._where([self.rank])}")
        if hasattr(error, "__dict__"):  # an exception class may have slots
            error.rank = self.rank  # type: ignore[attr-defined]

    def _where(self, ranks: Sequence[int]) -> str:
        """Where these workers run, in brackets, if the engine knows it."""
        return ""

    def _peer_failed(self, peer: int, kind: str) -> PeerFailedError:
        return PeerFailedError(
            f"Worker {self.rank} of {self.size} stops because worker {peer} raised the {kind} "
            f"that caused this error{self._where([peer])}; fix that error first."
        )

    def _diverged(self, call: object, peer: int, its_call: str) -> DivergedError:
        return DivergedError(
            f"Worker {self.rank} reached {call} while worker {peer} reached {its_call}; "
            "all workers must make the same decisions, so find out what differs between these two."
        )

    def _overdue(self, late: list[int], call: object, seconds: float | None = None) -> WorkerTimeoutError:
        limit = self.timeout if seconds is None else seconds
        return WorkerTimeoutError(
            f"Worker {self.rank} waited {limit:g} s for {name_workers(late)} of {self.size} at "
            f"{call}{self._where(late)}; "
            "raise the time limit if they only need longer, otherwise find out what they are stuck in."
        )

    def _lost(self, lost: list[int], call: object, reason: object) -> PeerFailedError:
        return PeerFailedError(
            f"Worker {self.rank} lost its connection to {name_workers(lost)} of {self.size} at {call} ({reason})"
            f"{self._where(lost)}; find out why that process ended, or what is wrong with the network."
        )

    def _left_early(self, call: object, error: BaseException) -> CommunicationError:
        return CommunicationError(
            f"Worker {self.rank} of {self.size} did not complete {call} because of a {type(error).__name__}; "
            "create a new communicator on all workers."
        )


def name_workers(ranks: list[int]) -> str:
    return f"worker{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}" if ranks else "the others"


@lru_cache(1024)
def text_of(call: Call) -> bytes:
    """The call as text, to compare and to show. A long text is cut and ends with a checksum of the whole."""
    text = str(call).encode()
    if len(text) > LONGEST_TEXT:
        checksum = blake2b(text, digest_size=8).hexdigest().encode()
        text = text[: LONGEST_TEXT - len(checksum) - 3] + b"..." + checksum
    return text
