"""A worker's share of the training data: binned rows with their labels, ready for any ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pvtree.binning import Thresholds, bin_rows, choose_own_bins, choose_shared_bins, sample_rows
from pvtree.coarsening import coarsen
from pvtree.dtypes import BinnedRows
from pvtree.errors import InvalidDataError
from pvtree.partition import column_bounds, query_bounds, row_bounds
from pvtree.team import Team

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.params import Params


@dataclass(frozen=True)
class Part:
    """What one worker is given: a block of the rows with all columns, or all rows of a block of the columns."""

    X: np.ndarray  # (n_rows, n_all_features), encoded: categorical columns hold bin numbers, 0 or NaN for missing
    y: np.ndarray
    weight: np.ndarray | None = None
    group: np.ndarray | None = None
    first_row: int = 0  # the place of its first row in the whole data
    n_all_rows: int = -1  # over all workers; -1: there are no other rows
    # Where columns are spread: (first, stop) of those that this worker looks at and keeps. None where rows are.
    features: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.n_all_rows < 0:
            object.__setattr__(self, "n_all_rows", len(self.y))


@dataclass(frozen=True)
class Shard:
    """What one worker trains on. Random choices hash ``first_row + row``, the row's place in the whole data."""

    data: BinnedRows  # of the worker's own features
    thresholds: Thresholds  # of all features
    y: np.ndarray  # float64 (n_rows,)
    weight: np.ndarray | None  # float64 (n_rows,)
    group: np.ndarray | None  # int64: rows of each query, in order
    first_row: int
    n_all_rows: int
    first_feature: int  # of the worker's own features; 0 unless columns are spread

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @property
    def n_all_features(self) -> int:
        return len(self.thresholds.n_bins)

    @cached_property
    def counted(self) -> np.ndarray | None:
        """Which rows have a weight above 0; None if all have."""
        return None if self.weight is None or self.weight.all() else self.weight > 0


def make_shard(
    part: Part, categorical: Mapping[int, int], params: Params, team: Team, comm: Communicator | None = None
) -> Shard:
    """Bin a worker's part by thresholds that all workers agree on, the same as one worker would choose alone."""
    n_rows, n_features = part.X.shape
    first, stop = (0, n_features) if part.features is None else part.features
    if part.features is not None and comm is not None:
        check_columns(part.features, n_features, comm)
    sample = sample_rows(n_rows, part.first_row, part.n_all_rows)
    if comm is None or comm.size == 1:
        thresholds = choose_own_bins(part.X, sample, (0, n_features), categorical, params.max_bin, team)
    elif part.features is None:
        thresholds = choose_shared_bins(part.X, sample, categorical, params.max_bin, team, comm)
    else:
        thresholds = choose_own_bins(part.X, sample, (first, stop), categorical, params.max_bin, team, comm)
    data = bin_rows(part.X, thresholds, first, stop, team)
    if params.tree_learner == "quantized":
        data, thresholds = coarsen(data, thresholds, sample, params, team, comm)
    y = np.ascontiguousarray(part.y, np.float64)
    weight = None if part.weight is None else np.ascontiguousarray(part.weight, np.float64)
    return Shard(data, thresholds, y, weight, part.group, part.first_row, part.n_all_rows, first)


def check_columns(features: tuple[int, int], n_features: int, comm: Communicator) -> None:
    """Workers find the owner of a column by ``column_bounds``; other blocks would give a wrong model."""
    first, stop = column_bounds(n_features, comm.size)[comm.rank : comm.rank + 2].tolist()
    if features != (first, stop):
        raise InvalidDataError(
            f"Worker {comm.rank} of {comm.size} has columns {features[0]} to {features[1]} of {n_features}; "
            f"give it columns {first} to {stop}, as split_by_columns does."
        )


def split_by_rows(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray | None, group: np.ndarray | None, n_workers: int
) -> list[Part]:
    """Contiguous blocks of rows, whole queries where there are queries; views, not copies."""
    n_rows = len(y)
    groups: Sequence[np.ndarray | None] = [None] * n_workers
    rows = row_bounds(n_rows, n_workers)
    if group is not None:
        rows, queries = query_bounds(group, n_workers)
        groups = [group[start:stop] for start, stop in pairwise(queries)]
    return [
        Part(
            X[start:stop], y[start:stop], None if weight is None else weight[start:stop], its_group, int(start), n_rows
        )
        for (start, stop), its_group in zip(pairwise(rows), groups, strict=True)
    ]


def split_by_columns(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray | None, group: np.ndarray | None, n_workers: int
) -> list[Part]:
    """All rows for every worker, each to keep a contiguous block of the columns."""
    bounds = column_bounds(X.shape[1], n_workers)
    return [Part(X, y, weight, group, features=(int(first), int(stop))) for first, stop in pairwise(bounds)]
