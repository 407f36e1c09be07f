"""Collectives of a strategy. Each message carries a seal of all decisions so far: workers that differ find out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

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

    def alltoall(self, messages: Sequence[np.ndarray], phase: str) -> list[np.ndarray]:
        """Bytes to each worker and from each worker."""
        return self._opened(self.comm.alltoall([np.concatenate((self._seal, each)) for each in messages], phase))

    def check(self) -> None:
        """Compare decisions when there is nothing else to send."""
        if self.comm.size > 1:
            self.allgather(np.empty(0, np.uint8), "splits")

    def _opened(self, sealed: list[np.ndarray]) -> list[np.ndarray]:
        own = self._seal.tobytes()
        others = [rank for rank, part in enumerate(sealed) if part[:SEAL_BYTES].tobytes() != own]
        if others:
            raise DivergedError(
                f"Worker {self.comm.rank} of {self.comm.size} has decided on other splits than worker(s) "
                f"{', '.join(map(str, others))}; use the same version of pvtree and the same parameters on all."
            )
        return [part[SEAL_BYTES:] for part in sealed]
