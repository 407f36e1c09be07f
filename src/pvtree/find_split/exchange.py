"""Collectives of a strategy. Each message carries a seal of all decisions so far: workers that differ find out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from pvtree.comm import Communicator
from pvtree.errors import DivergedError

SEAL_BYTES = 8


class Exchange:
    """A communicator, and a seal of what this worker has decided with the others."""

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self._seal = np.zeros(SEAL_BYTES, np.uint8)

    def decide(self, *arrays: np.ndarray) -> None:
        """Add a decision that must be the same on every worker."""
        if self.comm.size == 1:
            return
        digest = hashlib.blake2b(self._seal.tobytes(), digest_size=SEAL_BYTES)
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        self._seal = np.frombuffer(digest.digest(), np.uint8)

    def allgather(self, buffer: np.ndarray, phase: str) -> list[np.ndarray]:
        """The buffers of all workers, with this buffer's dtype and trailing shape."""
        sealed = np.concatenate((self._seal, np.ascontiguousarray(buffer).reshape(-1).view(np.uint8)))
        parts = self._opened(self.comm.allgather(sealed, phase))
        return [part.view(buffer.dtype).reshape(-1, *buffer.shape[1:]) for part in parts]

    def alltoall(self, messages: Sequence[np.ndarray], phase: str, about: int | None = None) -> list[np.ndarray]:
        """Bytes to each worker and from each worker; ``about`` as a communicator takes it."""
        sealed = [np.concatenate((self._seal, each)) for each in messages]
        return self._opened(self.comm.alltoall(sealed, phase, about))

    def choose(
        self, records: np.ndarray, phase: str, better: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """The best of all workers' records at each place, by ``better(a, b)``.

        Bytes that are chosen from cannot carry every worker's seal. They carry the least and the greatest of all, with
        workers that have them: if these are equal, all are.
        """
        n_bytes = records.nbytes
        own = int.from_bytes(self._seal.tobytes())
        seals = np.array([own, self.comm.rank, own, self.comm.rank], np.uint64)

        def better_sealed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            seals = min_and_max(a[n_bytes:].view(np.uint64), b[n_bytes:].view(np.uint64))
            chosen = better(a[:n_bytes].view(records.dtype), b[:n_bytes].view(records.dtype))
            return np.concatenate((chosen.view(np.uint8), seals.view(np.uint8)))

        given = np.concatenate((records.view(np.uint8), seals.view(np.uint8)))
        chosen = self.comm.choose(given, phase, better_sealed)
        least, its_rank, greatest, other_rank = chosen[n_bytes:].copy().view(np.uint64).tolist()
        others = {rank for seal, rank in ((least, its_rank), (greatest, other_rank)) if seal != own}
        if others:
            raise self._diverged(sorted(others))
        return chosen[:n_bytes].copy().view(records.dtype)

    def check(self) -> None:
        """Compare decisions when there is nothing else to send."""
        if self.comm.size > 1:
            self.allgather(np.empty(0, np.uint8), "splits")

    def _opened(self, sealed: list[np.ndarray]) -> list[np.ndarray]:
        own = self._seal.tobytes()
        others = [rank for rank, part in enumerate(sealed) if part[:SEAL_BYTES].tobytes() != own]
        if others:
            raise self._diverged(others)
        return [part[SEAL_BYTES:] for part in sealed]

    def _diverged(self, others: Sequence[int]) -> DivergedError:
        return DivergedError(
            f"Worker {self.comm.rank} of {self.comm.size} has decided on other splits than worker(s) "
            f"{', '.join(map(str, others))}; use the same version of pvtree and the same parameters on all."
        )


def min_and_max(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of two (least, its rank, greatest, its rank): those of both together; of equals, the lowest rank's."""
    (low_a, rank_a, high_a, top_a), (low_b, rank_b, high_b, top_b) = a.tolist(), b.tolist()
    low, low_rank = min((low_a, rank_a), (low_b, rank_b))
    high, high_rank = max((high_a, -top_a), (high_b, -top_b))
    return np.array([low, low_rank, high, -high_rank], np.uint64)
