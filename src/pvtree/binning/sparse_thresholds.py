"""Thresholds of sparse columns: from the values that are stored and the number of those that are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pvtree.kernels.binning.dense import drop_missing
from pvtree.kernels.team import LITTLE_WORK, Team
from pvtree.reading.sparse_rows import SparseRows

if TYPE_CHECKING:
    from pvtree.binning.bin_rules import BinRules
    from pvtree.binning.thresholds import Thresholds


@dataclass(frozen=True)
class StoredSample:
    """What one worker's sampled rows have stored in some columns: values[start[c]:start[c + 1]] in the c-th."""

    n_rows: int
    start: np.ndarray  # int64 (n_columns + 1,)
    values: np.ndarray  # float32 or float64

    @classmethod
    def of(cls, source: SparseRows, sample: np.ndarray, features: np.ndarray) -> StoredSample:
        rows = source if len(sample) == len(source) else source.take(sample)
        columns = rows.by_columns(0, source.shape[1]) if len(features) else rows.by_columns(0, 0)
        if len(features) < columns.shape[1]:
            columns = columns[:, features]
        return cls(len(sample), columns.indptr.astype(np.int64), columns.data)

    def message(self, first: int, stop: int) -> np.ndarray:
        """Some of the columns, for another worker."""
        start = self.start[first : stop + 1]
        return np.concatenate([[self.n_rows], np.diff(start), self.values[start[0] : start[-1]]]).astype(np.float64)

    @classmethod
    def from_message(cls, message: np.ndarray, n_columns: int) -> StoredSample:
        """Another worker's sample of this worker's columns."""
        counts = message[1 : 1 + n_columns].astype(np.int64)
        start = np.concatenate(([0], np.cumsum(counts)))
        return cls(int(message[0]), start, message[1 + n_columns :])


def choose_from_stored(
    thresholds: Thresholds, features: np.ndarray, samples: Sequence[StoredSample], rules: BinRules, team: Team
) -> None:
    """Choose the thresholds of ``features`` from all workers' samples of them: those of the dense columns."""
    n_rows = sum(sample.n_rows for sample in samples)

    def choose(first: int, stop: int) -> None:
        for c in range(first, stop):
            values = np.concatenate(
                [each.values[each.start[c] : each.start[c + 1]] for each in samples], dtype=np.float64
            )
            known = values[: drop_missing(values)]
            known.sort()
            feature = int(features[c])
            thresholds.n_bins[feature] = rules.choose_sparse(
                feature, known, len(values) - len(known), n_rows - len(values), thresholds.upper[feature]
            )

    work = sum(len(sample.values) for sample in samples) + len(features)
    team.for_blocks(choose, len(features), min_block=max(1, len(features) * LITTLE_WORK // max(1, 8 * work)))
