"""The interface of every engine: a few collectives on numpy buffers, whose calls are checked and counted here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple

import numpy as np

from pvtree.comm.steps import n_choice_messages, n_hops, swap_radix
from pvtree.comm.traffic import PHASES, Traffic
from pvtree.errors import InvalidParameterError, InvalidTypeError
from pvtree.kernels.team import Team

REDUCTIONS = {"sum": np.add, "max": np.maximum, "min": np.minimum}


class Call(NamedTuple):
    """What must be equal on all workers in a collective. Engines compare it where that is cheap."""

    verb: str
    phase: str
    dtype: np.dtype | None = None
    shape: tuple[int, ...] = ()  # of one item (gathers) or of the whole buffer (reductions)
    detail: str = ""  # the operation or the root

    def __str__(self) -> str:
        kind = "" if self.dtype is None else f" of {self.dtype.name}{list(self.shape) if self.shape else ''}"
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.verb}{detail}{kind} in phase {self.phase!r}" if self.phase else self.verb


class Communicator(ABC):
    """One worker's connection to the others. All workers make the same calls in the same order.

    Returned arrays belong to the caller. The ledger counts the bytes that leave this worker, by the usual algorithms
    for M workers: (M-1) b for a gather of b bytes, 2 B (M-1)/M for a reduction of B bytes (ring), and what is addressed
    to others for an all-to-all. A broadcast of B bytes counts as (M-1) B for the root and 0 for the others. Where many
    workers pass messages of an all-to-all on, each hop counts, for the worker that wrote the message. A choice among
    records of B bytes counts as B times the messages that each worker sends, about 2 log M.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self.traffic = Traffic()
        self.n_on_host = size  # how many workers share this machine's memory
        self.shares_threads = True  # whether they also share the threads of n_jobs; otherwise each may use all of them

    def allgather(self, buffer: np.ndarray, phase: str) -> list[np.ndarray]:
        """Return every worker's buffer, by rank. Only the first dimension may differ between workers."""
        check_phase(phase)
        check_buffer(buffer)
        item = buffer.shape[1:]
        start = self.now()
        parts = self._allgather(buffer.reshape(-1), Call("allgather", phase, buffer.dtype, item))
        self.traffic.record(phase, (self.size - 1) * buffer.nbytes, self.now() - start)
        return restore_items(parts, item)

    def alltoall(self, buffers: Sequence[np.ndarray], phase: str, about: int | None = None) -> list[np.ndarray]:
        """Send ``buffers[m]`` to worker m; ``result[m]`` came from worker m. Shapes may differ as in allgather.

        ``about``, the same on all workers, is roughly how many bytes each of them sends: if they are few, many workers
        pass messages on. None sends all straight to their receivers.
        """
        check_phase(phase)
        if len(buffers) != self.size:
            raise InvalidParameterError(
                f"alltoall got {len(buffers)} buffers for {self.size} workers; pass one buffer per worker."
            )
        for buffer in buffers:
            check_buffer(buffer)
            if buffer.dtype != buffers[0].dtype or buffer.shape[1:] != buffers[0].shape[1:]:
                raise InvalidTypeError(
                    "The buffers of one alltoall differ in dtype or in a dimension after the first; make these equal."
                )
        item = buffers[0].shape[1:]
        start = self.now()
        flat = [buffer.reshape(-1) for buffer in buffers]
        radix = self._radix(about)
        detail = f"by {radix}" if radix < self.size else ""
        parts = self._alltoall(flat, Call("alltoall", phase, buffers[0].dtype, item, detail), radix)
        n_sent = sum(buffers[to].nbytes * n_hops((to - self.rank) % self.size, radix) for to in range(self.size))
        self.traffic.record(phase, n_sent, self.now() - start)
        return restore_items(parts, item)

    def allreduce(self, buffer: np.ndarray, phase: str, op: str = "sum") -> np.ndarray:
        """Return the sum, max or min of all workers' buffers, with the same bits everywhere. Shapes must be equal."""
        check_phase(phase)
        check_buffer(buffer)
        if op not in REDUCTIONS:
            raise InvalidParameterError(f"allreduce does not know op={op!r}; use one of {', '.join(REDUCTIONS)}.")
        start = self.now()
        result = self._allreduce(buffer, op, Call("allreduce", phase, buffer.dtype, buffer.shape, op))
        # A ring cuts the buffer into M shares. A worker sends all but one of them twice: to sum up, then to spread.
        share = (self.rank + 1) * buffer.nbytes // self.size - self.rank * buffer.nbytes // self.size
        self.traffic.record(phase, 2 * (buffer.nbytes - share), self.now() - start)
        return result

    def choose(
        self, records: np.ndarray, phase: str, better: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Return the best of all workers' records, place by place: as many records, the same on every worker.

        ``better(a, b)`` takes the better record at each place. Neither order nor repetition may change the outcome.
        """
        check_phase(phase)
        check_buffer(records)
        start = self.now()
        chosen = self._choose(records, better, Call("choose", phase, records.dtype, records.shape))
        self.traffic.record(phase, n_choice_messages(self.size) * records.nbytes, self.now() - start)
        return chosen

    def broadcast(self, buffer: np.ndarray | None, phase: str, root: int = 0) -> np.ndarray:
        """Return the root's buffer with its shape and dtype. The others' buffers are ignored."""
        check_phase(phase)
        if not 0 <= root < self.size:
            raise InvalidParameterError(f"broadcast got root={root}; use a rank from 0 to {self.size - 1}.")
        given = None
        if self.rank == root:
            check_buffer(buffer)
            given = buffer
        start = self.now()
        result = self._broadcast(given, root, Call("broadcast", phase, detail=f"root {root}"))
        n_sent = 0 if given is None else (self.size - 1) * given.nbytes
        self.traffic.record(phase, n_sent, self.now() - start)
        return result

    def now(self) -> float:
        """Seconds since an arbitrary moment. Virtual machines have clocks of their own."""
        return perf_counter()

    def make_team(self, n_threads: int) -> Team:
        """This worker's threads: all ``n_threads``, or its share if the workers of this machine share them."""
        return Team(max(1, n_threads // self.n_on_host if self.shares_threads else n_threads))

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Keep calls out of the ledger: reports about the training are not part of it."""
        kept, self.traffic = self.traffic, Traffic()
        try:
            yield
        finally:
            self.traffic = kept

    @contextmanager
    def telling_failures(self) -> Iterator[None]:
        """Tell the others of an exception in a fit, where whoever made the communicator does not do so."""
        yield

    def _radix(self, about: int | None) -> int:
        """Of an all-to-all: see steps.py. Sizes are rounded, because few plans are enough."""
        return swap_radix(self.size, None if about is None else 1 << about.bit_length())

    def close(self) -> None:  # noqa: B027  (not abstract: most engines hold nothing)
        """Release what the engine holds, such as sockets."""

    # Engines implement these. Buffers are checked, contiguous and, in gathers, flat. Results must be new arrays.

    @abstractmethod
    def _allgather(self, buffer: np.ndarray, call: Call) -> list[np.ndarray]: ...

    @abstractmethod
    def _alltoall(self, buffers: list[np.ndarray], call: Call, radix: int) -> list[np.ndarray]: ...

    @abstractmethod
    def _allreduce(self, buffer: np.ndarray, op: str, call: Call) -> np.ndarray: ...

    @abstractmethod
    def _choose(
        self, records: np.ndarray, better: Callable[[np.ndarray, np.ndarray], np.ndarray], call: Call
    ) -> np.ndarray: ...

    @abstractmethod
    def _broadcast(self, buffer: np.ndarray | None, root: int, call: Call) -> np.ndarray: ...


class Solo(Communicator):
    """The communicator of a single worker, which sends nothing."""

    def __init__(self) -> None:
        super().__init__(rank=0, size=1)

    def _allgather(self, buffer: np.ndarray, call: Call) -> list[np.ndarray]:
        return [buffer.copy()]

    def _alltoall(self, buffers: list[np.ndarray], call: Call, radix: int) -> list[np.ndarray]:
        return [buffers[0].copy()]

    def _allreduce(self, buffer: np.ndarray, op: str, call: Call) -> np.ndarray:
        return buffer.copy()

    def _choose(
        self, records: np.ndarray, better: Callable[[np.ndarray, np.ndarray], np.ndarray], call: Call
    ) -> np.ndarray:
        return records.copy()

    def _broadcast(self, buffer: np.ndarray | None, root: int, call: Call) -> np.ndarray:
        assert buffer is not None  # the only worker is the root
        return buffer.copy()


def reduce_by_rank(buffers: Sequence[np.ndarray], op: str) -> np.ndarray:
    """Reduce into a new array, in the order of ranks, because sums of floats depend on the order."""
    result = buffers[0].copy()
    for buffer in buffers[1:]:
        REDUCTIONS[op](result, buffer, out=result)
    return result


def restore_items(parts: list[np.ndarray], item: tuple[int, ...]) -> list[np.ndarray]:
    """Give flat arrays the shape ``(n, *item)`` again; only n is the sender's choice."""
    if not item:
        return parts
    n_values = int(np.prod(item))
    return [part.reshape(len(part) // n_values if n_values else 0, *item) for part in parts]


def check_phase(phase: str) -> None:
    if phase not in PHASES:
        raise InvalidParameterError(f"The ledger has no phase {phase!r}; use one of {', '.join(PHASES)}.")


def check_buffer(buffer: object) -> None:
    """Refuse what would have to be pickled or copied before it can be sent."""
    if not isinstance(buffer, np.ndarray):
        raise InvalidTypeError(f"Workers exchange numpy arrays, not {type(buffer).__name__}; convert it first.")
    if buffer.dtype.hasobject:
        raise InvalidTypeError(f"Workers exchange plain numbers, not dtype {buffer.dtype}; convert the array first.")
    if not buffer.flags.c_contiguous:
        raise InvalidTypeError(
            f"The buffer of shape {buffer.shape} is not contiguous; pass np.ascontiguousarray(buffer)."
        )


def kind_of(error: BaseException) -> str:
    """The name of an error as the others hear it, with the workers that are late or lost."""
    about = getattr(error, "about", "")
    return type(error).__name__ + (f" about {about}" if about else "")


def name_workers(ranks: list[int]) -> str:
    return f"worker{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}" if ranks else "the others"
