"""A worker's share of the training data: binned rows with their labels, ready for any ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pvtree.binning.binned_rows import BinnedRows
from pvtree.binning.coarsening import coarsen
from pvtree.binning.thresholds import Thresholds, bin_rows, choose_own_bins, choose_shared_bins
from pvtree.comm.partition import column_bounds, query_bounds, row_bounds
from pvtree.errors import InvalidDataError
from pvtree.kernels.team import Team
from pvtree.reading.row_ids import RowIds
from pvtree.reading.sources import Source, as_source
from pvtree.reading.sparse_rows import SparseRows

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.parameters.params import Params


@dataclass(frozen=True)
class Part:
    """What one worker is given: a block of the rows with all columns, or all rows of a block of the columns."""

    # (n_rows, n_all_features), encoded: categorical columns hold bin numbers, 0 or NaN for missing
    X: np.ndarray | Source
    y: np.ndarray
    weight: np.ndarray | None = None
    group: np.ndarray | None = None
    ids: RowIds | None = None  # where its rows stand in the whole data; None: there are no other rows
    # Where columns are spread: (first, stop) of those that this worker looks at and keeps. None where rows are.
    features: tuple[int, int] | None = None
    before_spread: Part | None = None  # the rows that this worker had before columns were spread


@dataclass(frozen=True)
class Shard:
    """What one worker trains on."""

    data: BinnedRows  # of the worker's own features
    thresholds: Thresholds  # of all features
    y: np.ndarray  # float64 (n_rows,)
    weight: np.ndarray | None  # float64 (n_rows,)
    group: np.ndarray | None  # int64: rows of each query, in order
    ids: RowIds
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
    n_features = part.X.shape[1]
    first, stop = (0, n_features) if part.features is None else part.features
    if part.features is not None and comm is not None:
        check_columns(part.features, n_features, comm)
    ids = _ids(part)
    sample = ids.sample()
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
    return Shard(data, thresholds, y, weight, part.group, ids, first)


def check_columns(features: tuple[int, int], n_features: int, comm: Communicator) -> None:
    """Workers find the owner of a column by ``column_bounds``; other blocks would give a wrong model."""
    first, stop = column_bounds(n_features, comm.size)[comm.rank : comm.rank + 2].tolist()
    if features != (first, stop):
        raise InvalidDataError(
            f"Worker {comm.rank} of {comm.size} has columns {features[0]} to {features[1]} of {n_features}; "
            f"give it columns {first} to {stop}, as split_by_columns does."
        )


def split_by_rows(
    X: np.ndarray | Source, y: np.ndarray, weight: np.ndarray | None, group: np.ndarray | None, n_workers: int
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
            X[start:stop],
            y[start:stop],
            None if weight is None else weight[start:stop],
            its_group,
            RowIds.consecutive(stop - start, start, n_rows),
        )
        for (start, stop), its_group in zip(pairwise(rows.tolist()), groups, strict=True)
    ]


def split_by_columns(
    X: np.ndarray | Source, y: np.ndarray, weight: np.ndarray | None, group: np.ndarray | None, n_workers: int
) -> list[Part]:
    """All rows for every worker, each to keep a contiguous block of the columns."""
    bounds = column_bounds(X.shape[1], n_workers)
    return [Part(X, y, weight, group, features=(int(first), int(stop))) for first, stop in pairwise(bounds)]


def spread_columns(part: Part, comm: Communicator) -> Part:
    """Workers that have some rows each get all rows instead, each of its own block of the columns."""
    source = as_source(part.X)
    n_features = source.shape[1]
    bounds = column_bounds(n_features, comm.size).tolist()
    first, stop = bounds[comm.rank : comm.rank + 2]
    numbers = all_numbers(part, comm)
    own = [len(source) > 0 and source.dtype != np.float32, not isinstance(source, SparseRows)]
    is_wide, any_dense = comm.allreduce(np.array(own), "rows", "max")
    X: np.ndarray | SparseRows
    if isinstance(source, SparseRows) and not any_dense:
        told = comm.alltoall([source.triples(*its, numbers[comm.rank]) for its in pairwise(bounds)], "rows")
        X = SparseRows.of_triples(told, _ids(part).n_all, source.fill)
    else:
        matrix = source.matrix().astype(np.float64 if is_wide else np.float32, copy=False)
        to_each = [matrix[:, first:stop].ravel() for first, stop in pairwise(bounds)]
        # Column after column, as memory that is never touched, that of the other workers' columns, is never taken.
        X = np.empty((_ids(part).n_all, n_features), matrix.dtype, order="F")
        for its_numbers, rows in zip(numbers, comm.alltoall(to_each, "rows"), strict=True):
            X[its_numbers, first:stop] = rows.reshape(len(its_numbers), stop - first)
    y = in_order(part.y, numbers, comm)
    weight = None if part.weight is None else in_order(part.weight, numbers, comm)
    return Part(X, y, weight, _all_queries(part, comm), features=(first, stop), before_spread=part)


def all_numbers(part: Part, comm: Communicator) -> list[np.ndarray]:
    """Of each worker: where its rows stand in the whole data."""
    return comm.allgather(_ids(part).numbers(), "rows")


def in_order(values: np.ndarray, numbers: list[np.ndarray], comm: Communicator) -> np.ndarray:
    """The values of all workers' rows, in the order of the whole data."""
    gathered = np.concatenate(comm.allgather(np.ascontiguousarray(values, np.float64), "rows"))
    ordered = np.empty_like(gathered)
    ordered[np.concatenate(numbers)] = gathered
    return ordered


def _all_queries(part: Part, comm: Communicator) -> np.ndarray | None:
    if part.group is None:
        return None
    numbers = _ids(part).numbers()
    begins = numbers[np.concatenate(([0], np.cumsum(part.group)[:-1])).astype(np.int64)] if len(numbers) else numbers
    queries = np.concatenate(comm.allgather(np.column_stack([begins, part.group]).astype(np.int64), "rows"))
    return np.ascontiguousarray(queries[np.argsort(queries[:, 0]), 1])


def _ids(part: Part) -> RowIds:
    return RowIds.consecutive(len(part.y)) if part.ids is None else part.ids
