"""Collectives for engines that carry messages between pairs of workers: each is a few exchanges with some of them.

Engines (mpi, dask) differ in how an exchange travels. What is exchanged, and the errors when it fails, are the same.
"""

from __future__ import annotations

from abc import abstractmethod
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.lib.format import descr_to_dtype, dtype_to_descr

from pvtree.comm.base import Call, Communicator, name_workers, reduce_by_rank
from pvtree.comm.steps import gather_steps, swap_steps
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
    """Engines implement ``_exchange``. Of few workers each sends to all others; many pass messages on (steps.py)."""

    straight_bytes = 1024  # smaller all-reduces are gathered, which costs M/2 times the ring's bytes

    def __init__(self, rank: int, size: int, timeout: float) -> None:
        if not timeout > 0:
            raise InvalidParameterError(f"timeout is {timeout}; give a positive number of seconds.")
        super().__init__(rank, size)
        self.timeout = timeout  # how many seconds a collective waits without a sign of the others
        self._others = [other for other in range(size) if other != rank]
        # Where messages are passed on, a worker may wait for one that waits itself and is not to blame.
        self._passes_on = len(gather_steps(size)) > 1

    @abstractmethod
    def _exchange(
        self, call: Call, outgoing: Mapping[int, np.ndarray], awaited: Sequence[int]
    ) -> dict[int, np.ndarray]:
        """Send ``outgoing[m]``, flat bytes, to worker m; return what the awaited workers sent in this exchange.

        All workers make the same exchanges in the same order. Results are new memory, aligned for any dtype.
        """

    def leave(self) -> None:
        """Wait until all workers have reached their end; raise if one of them makes another call or has failed."""
        self._with_all(END, [np.empty(0, np.uint8)] * self.size)

    def fail(self, error: BaseException) -> None:
        """Tell all others, whose current or next collective then raises PeerFailedError. Does not wait for them."""
        raise NotImplementedError

    def _end_alike(self, error: BaseException | None) -> None:
        """The end of a ``with`` block: if one raises an exception, or ends while others still wait, all raise."""
        try:
            if error is None:
                self.leave()
            else:
                self.fail(error)
        except BaseException as late:  # also KeyboardInterrupt
            self.fail(late)
            raise
        finally:
            self.close()

    def _with_all(self, call: Call, outgoing: Sequence[np.ndarray]) -> list[np.ndarray]:
        """One exchange with every other worker."""
        arrived = self._exchange(call, {other: outgoing[other] for other in self._others}, self._others)
        return [arrived[m] if m != self.rank else outgoing[m].copy() for m in range(self.size)]

    # The collectives.

    def _allgather(self, buffer: np.ndarray, call: Call) -> list[np.ndarray]:
        gathered = self._gather_bytes(buffer.view(np.uint8), call)
        return [part.view(buffer.dtype) for part in gathered]

    def _gather_bytes(self, own: np.ndarray, call: Call) -> list[np.ndarray]:
        steps = gather_steps(self.size)
        if len(steps) <= 1:
            return self._with_all(call, [own] * self.size)
        blocks = [own.copy()]  # block i came from the worker i places before this one
        for step in steps:
            sent = {self._after(each.away): bundle([blocks[i] for i in each.blocks]) for each in step}
            arrived = self._exchange(call, sent, [self._after(-each.away) for each in step])
            for each in step:
                blocks += unbundle(arrived[self._after(-each.away)], len(each.blocks))
        return [blocks[(self.rank - m) % self.size] for m in range(self.size)]

    def _alltoall(self, buffers: list[np.ndarray], call: Call, radix: int) -> list[np.ndarray]:
        flat = [buffer.view(np.uint8) for buffer in buffers]
        arrived = self._with_all(call, flat) if radix >= self.size else self._pass_on(flat, call, radix)
        return [part.view(buffers[0].dtype) for part in arrived]

    def _pass_on(self, buffers: list[np.ndarray], call: Call, radix: int) -> list[np.ndarray]:
        """An all-to-all in steps. Which sender a message in a block is from follows from its place there."""
        # moving[x] = messages that have to go x places in all, by how far they have come: the digits of x up to now.
        moving = {x: buffers[self._after(x)].copy() for x in range(self.size)}
        for step in swap_steps(self.size, radix):
            sent = {self._after(each.away): bundle([moving[x] for x in each.blocks]) for each in step}
            arrived = self._exchange(call, sent, [self._after(-each.away) for each in step])
            for each in step:
                moving.update(
                    zip(each.blocks, unbundle(arrived[self._after(-each.away)], len(each.blocks)), strict=True)
                )
        return [moving[(self.rank - m) % self.size] for m in range(self.size)]

    def _allreduce(self, buffer: np.ndarray, op: str, call: Call) -> np.ndarray:
        flat = buffer.reshape(-1)
        if self.size == 1:
            return buffer.copy()
        if buffer.nbytes <= self.straight_bytes:
            return reduce_by_rank(self._allgather(flat, call), op).reshape(buffer.shape)
        # Each worker sums up its share of the buffer and sends it to all others: a ring's bytes, in two exchanges.
        shares = self._alltoall(np.array_split(flat, self.size), call, self._radix(buffer.nbytes))
        return np.concatenate(self._allgather(reduce_by_rank(shares, op), call)).reshape(buffer.shape)

    def _choose(
        self, records: np.ndarray, better: Callable[[np.ndarray, np.ndarray], np.ndarray], call: Call
    ) -> np.ndarray:
        chosen = records.copy()
        for step in gather_steps(self.size):
            own = chosen.view(np.uint8)
            arrived = self._exchange(
                call,
                {self._after(each.away): own for each in step},
                [self._after(-each.away) for each in step],
            )
            for theirs in arrived.values():
                chosen = better(chosen, theirs.view(records.dtype))
        return chosen

    def _broadcast(self, buffer: np.ndarray | None, root: int, call: Call) -> np.ndarray:
        data = np.empty(0, np.uint8)
        if buffer is not None:
            form = repr((dtype_to_descr(buffer.dtype), buffer.shape)).encode()
            head = np.array([len(form)], np.int64).view(np.uint8)
            data = np.concatenate((head, np.frombuffer(form, np.uint8), buffer.reshape(-1).view(np.uint8)))
        arrived = self._gather_bytes(data, call)[root]  # the others gather nothing, and learn that all are there
        end = 8 + int(arrived[:8].view(np.int64)[0])
        descr, shape = literal_eval(arrived[8:end].tobytes().decode())
        return arrived[end:].copy().view(descr_to_dtype(descr)).reshape(shape)

    def _after(self, places: int) -> int:
        return (self.rank + places) % self.size

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
        error = WorkerTimeoutError(
            f"Worker {self.rank} waited {limit:g} s for {name_workers(late)} of {self.size} at "
            f"{call}{self._where(late)}; "
            "raise the time limit (timeout) if they only need longer, otherwise find out what they are stuck in."
        )
        error.about = name_workers(late)  # type: ignore[attr-defined]
        return error

    def _lost(self, lost: list[int], call: object, reason: object) -> PeerFailedError:
        error = PeerFailedError(
            f"Worker {self.rank} lost its connection to {name_workers(lost)} of {self.size} at {call} ({reason})"
            f"{self._where(lost)}; find out why that process ended, or what is wrong with the network."
        )
        error.about = name_workers(lost)  # type: ignore[attr-defined]
        return error

    def _left_early(self, call: object, error: BaseException) -> CommunicationError:
        return CommunicationError(
            f"Worker {self.rank} of {self.size} did not complete {call} because of a {type(error).__name__}; "
            "create a new communicator on all workers."
        )


@lru_cache(1024)
def text_of(call: Call) -> bytes:
    """The call as text, to compare and to show. A long text is cut and ends with a checksum of the whole."""
    text = str(call).encode()
    if len(text) > LONGEST_TEXT:
        checksum = blake2b(text, digest_size=8).hexdigest().encode()
        text = text[: LONGEST_TEXT - len(checksum) - 3] + b"..." + checksum
    return text


def bundle(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Several messages of bytes in one, after their lengths."""
    lengths = np.array([len(block) for block in blocks], np.int64).view(np.uint8)
    return np.concatenate((lengths, *blocks))


def unbundle(message: np.ndarray, n_blocks: int) -> list[np.ndarray]:
    """The messages of a bundle, each in memory of its own."""
    stops = 8 * n_blocks + np.cumsum(message[: 8 * n_blocks].view(np.int64))
    return [message[start:stop].copy() for start, stop in pairwise((8 * n_blocks, *stops.tolist()))]
