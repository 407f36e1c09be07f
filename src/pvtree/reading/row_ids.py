"""Where a worker's rows stand in the whole data: random choices hash that number, whoever has the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pvtree.kernels.hashing import hash_pair, keep_rows
from pvtree.kernels.team import Team

SAMPLE_ROWS = 200_000  # enough that a quantile of 1/255 is known to a few per cent
_SAMPLE_KEY = 0x5EED_B125


@dataclass(frozen=True)
class RowIds:
    """Runs of consecutive rows: one on most engines, one for each partition that a Dask worker holds."""

    start: np.ndarray  # int64 (n_runs + 1,): run r are the worker's rows start[r]:start[r + 1]
    shift: np.ndarray  # int64 (n_runs,): a row's number in the whole data is its place here plus its run's shift
    n_all: int  # rows of all workers

    @classmethod
    def consecutive(cls, n_rows: int, first: int = 0, n_all: int | None = None) -> RowIds:
        return cls.of_runs([n_rows], [first], n_rows if n_all is None else n_all)

    @classmethod
    def of_runs(cls, lengths: Sequence[int], firsts: Sequence[int], n_all: int) -> RowIds:
        """Runs of these lengths, whose first rows have these numbers."""
        start = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64)
        return cls(start, np.asarray(firsts, np.int64) - start[:-1], n_all)

    @property
    def n_rows(self) -> int:
        return int(self.start[-1])

    def numbers(self) -> np.ndarray:
        """The number of every row in the whole data."""
        return np.arange(self.n_rows) + np.repeat(self.shift, np.diff(self.start))

    def for_blocks(self, team: Team, kernel: Callable[[int, int, int], None], rows: np.ndarray | None = None) -> None:
        """Call ``kernel(start, stop, shift)`` for disjoint blocks of all rows, or of the places of ``rows``, ascending.

        No block lies in two runs, so that one shift serves all of its rows.
        """
        if rows is None:
            places = self.start
        elif len(self.shift) == 1:
            places = np.array([0, len(rows)])
        else:
            places = np.searchsorted(rows, self.start)
        for run, shift in enumerate(self.shift.tolist()):
            start, stop = places[run : run + 2].tolist()
            if stop > start:
                team.for_blocks(kernel, stop - start, shift, first=start)

    def sample(self, about: int | None = None, seed: int | None = None) -> np.ndarray:
        """Those rows whose hashed number falls under a limit that ``about`` so many of all rows meet.

        Together the workers take the same set however rows are spread; it decides the bins' thresholds.
        ``seed`` draws another set.
        """
        about = SAMPLE_ROWS if about is None else about
        if self.n_all <= about:
            return np.arange(self.n_rows)
        kept = np.empty(self.n_rows, np.bool_)
        limit = np.uint64(int(about / self.n_all * 2.0**64))
        key = np.uint64(_SAMPLE_KEY if seed is None else hash_pair(np.uint64(_SAMPLE_KEY), np.int64(seed)))
        with Team(1) as alone:
            self.for_blocks(alone, lambda *block: keep_rows(*block[:2], key, limit, block[2], kept))
        return np.flatnonzero(kept)
