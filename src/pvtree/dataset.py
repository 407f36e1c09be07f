"""A worker's share of the training data: binned rows with their labels, ready for any ensemble."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pvtree.binning import Thresholds, bin_rows
from pvtree.dtypes import BinnedRows
from pvtree.team import Team


@dataclass(frozen=True)
class Shard:
    """What one worker trains on. Random choices hash ``first_row + row``, the row's place in the whole data."""

    data: BinnedRows
    thresholds: Thresholds
    y: np.ndarray  # float64 (n_rows,)
    weight: np.ndarray | None  # float64 (n_rows,)
    group: np.ndarray | None  # int64: rows of each query, in order
    first_row: int = 0

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @cached_property
    def counted(self) -> np.ndarray | None:
        """Which rows have a weight above 0; None if all have."""
        return None if self.weight is None or self.weight.all() else self.weight > 0


def make_shard(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    group: np.ndarray | None,
    categorical: Mapping[int, int],
    max_bin: int,
    team: Team,
) -> Shard:
    data, thresholds = bin_rows(X, categorical, max_bin, team)
    y = np.ascontiguousarray(y, np.float64)
    weight = None if weight is None else np.ascontiguousarray(weight, np.float64)
    return Shard(data, thresholds, y, weight, group)
