"""A worker's share of the training data: its rows are spread, binned and ready for any ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pvtree.binning.bin_rules import BinRules
from pvtree.binning.binned_rows import BinnedRows
from pvtree.binning.coarsening import coarsen, missing_as_zero
from pvtree.binning.raw_rows import RawRows
from pvtree.binning.thresholds import Thresholds, bin_rows, choose_own_bins, choose_shared_bins
from pvtree.comm.partition import column_bounds, query_bounds, row_bounds
from pvtree.errors import InvalidDataError
from pvtree.kernels.team import Team
from pvtree.reading.row_ids import RowIds
from pvtree.reading.sources import as_source
from pvtree.reading.sparse_rows import SparseRows
from pvtree.reading.training_rows import TrainingRows

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.parameters.params import Params


@dataclass(frozen=True)
class Shard:
    """One worker's binned rows with their labels: all that training reads of the data."""

    data: BinnedRows  # of the worker's own features
    thresholds: Thresholds  # of all features
    y: np.ndarray  # float64 (n_rows,)
    weight: np.ndarray | None  # float64 (n_rows,)
    group: np.ndarray | None  # int64: rows of each query, in order
    ids: RowIds
    first_feature: int  # of the worker's own features; 0 unless columns are spread over the workers
    init_score: np.ndarray | None = None  # float64 (n_rows, n_outputs): where the rows' scores start
    raw: RawRows | None = None  # the rows as numbers, for linear trees

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @property
    def n_all_features(self) -> int:
        return len(self.thresholds.n_bins)

    @cached_property
    def counted(self) -> np.ndarray | None:
        """Mask of the rows with a weight above 0; None if all have one."""
        return None if self.weight is None or self.weight.all() else self.weight > 0


def make_shard(
    rows: TrainingRows, categorical: Mapping[int, int], params: Params, team: Team, comm: Communicator | None = None
) -> Shard:
    """Bin a worker's rows by thresholds that all workers agree on, the same as one worker would choose alone."""
    n_features = rows.X.shape[1]
    first, stop = (0, n_features) if rows.features is None else rows.features
    if rows.features is not None and comm is not None:
        check_columns(rows.features, n_features, comm)
    ids = rows.row_ids
    sample, rules = ids.sample(params.subsample_for_bin, params.data_random_seed), BinRules.of(params)
    if comm is None or comm.size == 1:
        thresholds = choose_own_bins(rows.X, sample, (0, n_features), categorical, rules, team)
    elif rows.features is None:
        thresholds = choose_shared_bins(rows.X, sample, categorical, rules, team, comm)
    else:
        thresholds = choose_own_bins(rows.X, sample, (first, stop), categorical, rules, team, comm)
    data = bin_rows(rows.X, thresholds, first, stop, team, params.bins_folder, params.zero_as_missing)
    if not params.use_missing:
        data = missing_as_zero(data, thresholds, first, team)
    if params.tree_learner == "quantized":
        data, thresholds = coarsen(data, thresholds, sample, params, team, comm)
    return Shard(
        data=data,
        thresholds=thresholds,
        y=np.ascontiguousarray(rows.y, np.float64),
        weight=None if rows.weight is None else np.ascontiguousarray(rows.weight, np.float64),
        group=rows.group,
        ids=ids,
        first_feature=first,
        init_score=rows.init_score,
        raw=RawRows.of(rows, comm) if params.linear_tree else None,
    )


def check_columns(features: tuple[int, int], n_features: int, comm: Communicator) -> None:
    """Every worker computes a column's owner by ``column_bounds``, so other blocks would give a wrong model."""
    first, stop = column_bounds(n_features, comm.size)[comm.rank : comm.rank + 2].tolist()
    if features != (first, stop):
        raise InvalidDataError(
            f"Worker {comm.rank} of {comm.size} has columns {features[0]} to {features[1]} of {n_features}; "
            f"give it columns {first} to {stop}, as split_by_columns does."
        )


def split_by_rows(rows: TrainingRows, n_workers: int) -> list[TrainingRows]:
    """Contiguous blocks of rows, without cutting a query; views, not copies."""
    n_rows = len(rows.y)
    groups: Sequence[np.ndarray | None] = [None] * n_workers
    bounds = row_bounds(n_rows, n_workers)
    if rows.group is not None:
        bounds, queries = query_bounds(rows.group, n_workers)
        groups = [rows.group[start:stop] for start, stop in pairwise(queries)]
    return [
        TrainingRows(
            X=rows.X[start:stop],
            y=rows.y[start:stop],
            weight=None if rows.weight is None else rows.weight[start:stop],
            group=its_group,
            ids=RowIds.consecutive(stop - start, start, n_rows),
            init_score=None if rows.init_score is None else rows.init_score[start:stop],
        )
        for (start, stop), its_group in zip(pairwise(bounds.tolist()), groups, strict=True)
    ]


def split_by_columns(rows: TrainingRows, n_workers: int) -> list[TrainingRows]:
    """All rows for every worker, of which each keeps a contiguous block of the columns."""
    bounds = column_bounds(rows.X.shape[1], n_workers).tolist()
    return [replace(rows, ids=None, features=(first, stop)) for first, stop in pairwise(bounds)]


def spread_columns(rows: TrainingRows, comm: Communicator) -> TrainingRows:
    """Exchange blocks of rows for blocks of columns: each worker gets its own columns of all workers' rows."""
    source = as_source(rows.X)
    n_features = source.shape[1]
    bounds = column_bounds(n_features, comm.size).tolist()
    first, stop = bounds[comm.rank : comm.rank + 2]
    numbers = all_numbers(rows, comm)
    n_all = rows.row_ids.n_all
    own = [len(source) > 0 and source.dtype != np.float32, not isinstance(source, SparseRows)]
    is_wide, any_dense = comm.allreduce(np.array(own), "rows", "max")
    X: np.ndarray | SparseRows
    if isinstance(source, SparseRows) and not any_dense:
        triples = comm.alltoall([source.triples(*its, numbers[comm.rank]) for its in pairwise(bounds)], "rows")
        X = SparseRows.of_triples(triples, n_all, source.fill)
    else:
        matrix = source.matrix().astype(np.float64 if is_wide else np.float32, copy=False)
        to_each = [matrix[:, first:stop].ravel() for first, stop in pairwise(bounds)]
        # In column order the other workers' columns, which are never touched, take no physical memory.
        X = np.empty((n_all, n_features), matrix.dtype, order="F")
        for its_numbers, its_rows in zip(numbers, comm.alltoall(to_each, "rows"), strict=True):
            X[its_numbers, first:stop] = its_rows.reshape(len(its_numbers), stop - first)
    return TrainingRows(
        X=X,
        y=in_order(rows.y, numbers, comm),
        weight=None if rows.weight is None else in_order(rows.weight, numbers, comm),
        group=_all_queries(rows, comm),
        features=(first, stop),
        before_spread=rows,
        init_score=None if rows.init_score is None else in_order(rows.init_score, numbers, comm),
    )


def all_numbers(rows: TrainingRows, comm: Communicator) -> list[np.ndarray]:
    """For each worker, the positions of its rows in the whole data."""
    return comm.allgather(rows.row_ids.numbers(), "rows")


def in_order(values: np.ndarray, numbers: list[np.ndarray], comm: Communicator) -> np.ndarray:
    """The values of all workers' rows, in the order of the whole data."""
    gathered = np.concatenate(comm.allgather(np.ascontiguousarray(values, np.float64), "rows"))
    ordered = np.empty_like(gathered)
    ordered[np.concatenate(numbers)] = gathered
    return ordered


def _all_queries(rows: TrainingRows, comm: Communicator) -> np.ndarray | None:
    """The sizes of all workers' queries, in the order of the whole data."""
    if rows.group is None:
        return None
    numbers = rows.row_ids.numbers()
    begins = numbers[np.concatenate(([0], np.cumsum(rows.group)[:-1])).astype(np.int64)] if len(numbers) else numbers
    queries = np.concatenate(comm.allgather(np.column_stack([begins, rows.group]).astype(np.int64), "rows"))
    return np.ascontiguousarray(queries[np.argsort(queries[:, 0]), 1])
