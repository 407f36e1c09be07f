"""Thresholds that any partition of the rows agrees on, and the binned blocks that training reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pvtree.binning.bin_rules import BinRules
from pvtree.binning.binned_rows import BinnedRows
from pvtree.binning.bundling import bin_sparse, blocks_of_columns, saves_by_bundles
from pvtree.binning.mapped_bins import make_bins
from pvtree.binning.sparse_thresholds import StoredSample, choose_from_stored
from pvtree.comm.partition import block_starts, column_bounds
from pvtree.errors import InvalidDataError
from pvtree.kernels.binning.dense import bin_columns, drop_missing
from pvtree.kernels.constants import BLOCK, N_BINS
from pvtree.kernels.team import LITTLE_WORK, Team
from pvtree.reading.sources import Matrices, Source, as_plain, as_source, is_plain
from pvtree.reading.sparse_rows import SparseRows
from pvtree.reading.zeros import zeros_as_missing

if TYPE_CHECKING:
    from pvtree.comm import Communicator

ROWS_AT_ONCE = 2**20  # of a block that is binned before Python looks for Ctrl-C
ROWS_CONVERTED = 2**14  # of a block that is converted before it is binned
SAMPLE_BYTES = 2**26  # of the sample that a worker holds at a time where it has all rows
IN_FLIGHT = 2**24  # bytes of the sample that a worker sends, and that it receives, in one exchange


@dataclass(frozen=True)
class Thresholds:
    """Where each feature's bins end: bin b holds values up to upper[feature, b - 1]."""

    upper: np.ndarray  # float64 (n_features, N_BINS), padded with +inf
    n_bins: np.ndarray  # int64 (n_features,): ordered bins or categories, without the missing bin
    is_categorical: np.ndarray  # uint8 (n_features,)

    def of(self, feature: np.ndarray, bin_idx: np.ndarray) -> np.ndarray:
        """The number that a split after ``bin_idx`` compares with; the last bin has no end."""
        return np.where(bin_idx < self.n_bins[feature], self.upper[feature, np.maximum(bin_idx, 1) - 1], np.inf)


def choose_own_bins(
    X: np.ndarray | Source,
    sample: np.ndarray,
    own: tuple[int, int],
    categorical: Mapping[int, int],
    rules: BinRules | int,
    team: Team,
    comm: Communicator | None = None,
) -> Thresholds:
    """Thresholds where this worker has all rows of its ``own`` columns (first, stop); it is told the others'.

    ``rules`` may be a number, the most bins of a column.
    """
    rules = BinRules(rules) if isinstance(rules, int) else rules
    thresholds = _undecided(X.shape[1], categorical)
    features = np.arange(*own)[thresholds.is_categorical[slice(*own)] == 0]
    source = as_source(X)
    if isinstance(source, SparseRows):
        choose_from_stored(thresholds, features, [StoredSample.of(source, sample, features)], rules, team)
    else:
        _choose_by_columns(thresholds, features, source, sample, rules, team)
    if comm is not None:
        _exchange(thresholds, features, comm)
    return thresholds


def _choose_by_columns(
    thresholds: Thresholds, features: np.ndarray, source: Source, sample: np.ndarray, rules: BinRules, team: Team
) -> None:
    little = len(sample) * len(features) < LITTLE_WORK
    # Few columns at a time, to bound the memory, but enough for all threads: each time all rows are gone through.
    most = max(int(BLOCK) * team.n_threads, SAMPLE_BYTES // max(1, 8 * len(sample)))
    n_rounds = max(1, -(-len(features) // most))
    at_once = max(1, -(-len(features) // n_rounds))
    columns = np.empty((at_once, len(sample)), source.dtype)
    for first in range(0, len(features), at_once):
        together = features[first : first + at_once]
        source.sample_columns(sample, together, columns[: len(together)], team)
        _choose_all(thresholds, together, columns, rules, team, min_block=len(together) if little else 1)


def choose_shared_bins(
    X: np.ndarray | Source,
    sample: np.ndarray,
    categorical: Mapping[int, int],
    rules: BinRules | int,
    team: Team,
    comm: Communicator,
) -> Thresholds:
    """Thresholds where rows are spread: each column's sample is gathered on one worker, who tells the others."""
    rules = BinRules(rules) if isinstance(rules, int) else rules
    source = as_source(X)
    dtype, most, all_sparse = _agree(source, len(sample), comm)
    thresholds = _undecided(X.shape[1], categorical)
    ordered = np.flatnonzero(thresholds.is_categorical == 0)
    bounds = column_bounds(len(ordered), comm.size)
    stored = StoredSample.of(source, sample, ordered) if all_sparse and isinstance(source, SparseRows) else None
    # Memory is bounded by taking few columns at a time, equally many of every owner so that all workers stay busy.
    at_once = max(1, IN_FLIGHT // max(1, dtype.itemsize * most * comm.size))
    for start in range(0, int(np.diff(bounds).max()), at_once):
        wanted = [ordered[first:stop][start : start + at_once] for first, stop in pairwise(bounds)]
        own = wanted[comm.rank]
        if stored is not None:
            cuts = [(first + start, first + start + len(its)) for first, its in zip(bounds, wanted, strict=False)]
            messages = comm.alltoall([stored.message(*cut) for cut in cuts], "bins")
            samples = [StoredSample.from_message(message, len(own)) for message in messages]
            choose_from_stored(thresholds, own, samples, rules, team)
            continue
        gathered = comm.alltoall(_columns(source, sample, wanted, dtype, team), "bins")
        _choose_gathered(thresholds, own, gathered, rules, team)
    _exchange(thresholds, ordered[bounds[comm.rank] : bounds[comm.rank + 1]], comm)
    return thresholds


def bin_rows(
    X: np.ndarray | Source, thresholds: Thresholds, first: int, stop: int, team: Team, folder: str | None = None,
    zero_as_missing: bool = False,
) -> BinnedRows:  # fmt: skip
    """Bin all rows of the columns ``first`` to ``stop``, part by part; in each part every block is one thread's.

    Bins are kept in a file of ``folder``, if given. Those of sparse rows, which are few, always stay in memory.
    """
    source = as_source(X)
    if zero_as_missing and isinstance(source, SparseRows):
        source = zeros_as_missing(source, np.flatnonzero(thresholds.is_categorical).tolist())
    n_rows, n_features = source.shape[0], stop - first
    upper, n_bins = thresholds.upper[first:stop], thresholds.n_bins[first:stop]
    is_categorical = thresholds.is_categorical[first:stop]
    if isinstance(source, SparseRows):
        return bin_sparse(source, upper, n_bins, is_categorical, first, team)
    if isinstance(source, Matrices) and saves_by_bundles(source, upper, n_bins, is_categorical, first, team):
        rows = SparseRows.of_dense(blocks_of_columns(source, first, stop))
        if zero_as_missing:
            rows = zeros_as_missing(rows, np.flatnonzero(is_categorical).tolist())
        return bin_sparse(rows, upper, n_bins, is_categorical, 0, team)
    starts = block_starts(n_features, team.n_threads if n_rows * n_features >= LITTLE_WORK else 1)
    n_blocks = len(starts) - 1
    bins = make_bins((n_blocks, n_rows * int(BLOCK)), folder)
    written = np.asarray(bins)  # kernels know plain arrays only

    def bin_blocks(first_block: int, last_block: int, part: int, rows: slice) -> None:
        with source.reading(part) as read:
            for block in range(first_block, last_block):
                own = slice(int(starts[block]), int(starts[block + 1]))
                matrix, columns = read(np.arange(first + own.start, first + own.stop))
                if zero_as_missing:
                    matrix = zeros_as_missing(matrix[:, columns], np.flatnonzero(is_categorical[own]).tolist())
                    columns = np.arange(len(columns))
                described = is_categorical[own], n_bins[own], upper[own]
                for values, its_first, at in _plain_parts(matrix, columns):
                    team.check()
                    bin_columns(values, its_first, *described, written[block, rows][at * int(BLOCK) :])

    for part, (begin, end) in enumerate(pairwise((source.bounds * BLOCK).tolist())):
        team.for_blocks(bin_blocks, n_blocks, part, slice(begin, end), min_block=1)
    return BinnedRows(bins, starts, n_bins, is_categorical)


def _plain_parts(matrix: np.ndarray, columns: np.ndarray) -> Iterator[tuple[np.ndarray, int, int]]:
    """Rows as kernels take them, with the place of the first of these columns, and the number of the first row."""
    first, stop = int(columns[0]), int(columns[-1]) + 1
    if is_plain(matrix):
        for at in range(0, len(matrix), ROWS_AT_ONCE):
            yield matrix[at : at + ROWS_AT_ONCE], first, at
    else:
        for at in range(0, len(matrix), ROWS_CONVERTED):
            yield as_plain(matrix[at : at + ROWS_CONVERTED, first:stop]), 0, at


def _undecided(n_features: int, categorical: Mapping[int, int]) -> Thresholds:
    """Thresholds whose ordered features have a single bin yet."""
    n_bins = np.ones(n_features, np.int64)
    is_categorical = np.zeros(n_features, np.uint8)
    for feature, n_categories in categorical.items():
        n_bins[feature] = n_categories
        is_categorical[feature] = 1
    try:
        upper = np.full((n_features, N_BINS), np.inf)
    except MemoryError:
        raise InvalidDataError(
            f"X has {n_features} columns, whose thresholds take {n_features * int(N_BINS) * 8 / 1e9:.1f} GB of memory, "
            "more than there is; use fewer columns, or fix the largest column number in the data."
        ) from None
    return Thresholds(upper, n_bins, is_categorical)


def _choose(thresholds: Thresholds, feature: int, values: np.ndarray, rules: BinRules) -> None:
    """Choose one feature's thresholds from its sample, which is overwritten."""
    values.sort()  # before they are made longer, which takes a third less time; missing values go to the end
    known = values.astype(np.float64, copy=False)
    known = known[: drop_missing(known)]
    thresholds.n_bins[feature] = rules.choose(feature, known, len(values) - len(known), thresholds.upper[feature])


def _choose_all(
    thresholds: Thresholds, features: np.ndarray, columns: np.ndarray, rules: BinRules, team: Team, min_block: int
) -> None:
    """Choose the thresholds of ``features`` from their samples, which are overwritten."""

    def choose(first: int, stop: int) -> None:
        for c in range(first, stop):
            _choose(thresholds, int(features[c]), columns[c], rules)

    team.for_blocks(choose, len(features), min_block=min_block)


def _choose_gathered(
    thresholds: Thresholds, features: np.ndarray, gathered: list[np.ndarray], rules: BinRules, team: Team
) -> None:
    """Choose the thresholds of ``features`` from all workers' samples, each worker's column after column."""
    if not len(features):
        return
    samples = [values.reshape(len(features), -1) for values in gathered]

    def choose(first: int, stop: int) -> None:
        values = np.empty(sum(sample.shape[1] for sample in samples), samples[0].dtype)
        for c in range(first, stop):
            np.concatenate([sample[c] for sample in samples], out=values)
            _choose(thresholds, int(features[c]), values, rules)

    team.for_blocks(choose, len(features), min_block=1)


def _agree(X: Source, n_sampled: int, comm: Communicator) -> tuple[np.dtype, int, bool]:
    """The dtype that values travel as, the most sampled rows of any worker, and whether all workers' rows are sparse.

    All must have the same columns.
    """
    is_wide = n_sampled > 0 and X.dtype != np.float32  # whoever has no rows has no say
    is_dense = not isinstance(X, SparseRows)
    own = np.array([is_wide, n_sampled, X.shape[1], -X.shape[1], is_dense], np.int64)
    most = comm.allreduce(own, "bins", "max")
    if most[2] != -most[3]:
        raise InvalidDataError(
            f"The workers' X have from {-most[3]} to {most[2]} columns: give every worker all columns, in one order."
        )
    return np.dtype(np.float64 if most[0] else np.float32), int(most[1]), not most[4]


def _columns(
    source: Source, sample: np.ndarray, wanted: list[np.ndarray], dtype: np.dtype, team: Team
) -> list[np.ndarray]:
    """For each owner the sample of the columns wanted, one after the other; all are read in one pass over the rows."""
    columns = np.empty((sum(map(len, wanted)), len(sample)), dtype)
    source.sample_columns(sample, np.concatenate(wanted), columns, team)
    cuts = np.cumsum([0, *map(len, wanted)])
    return [columns[start:stop].ravel() for start, stop in pairwise(cuts)]


def _exchange(thresholds: Thresholds, features: np.ndarray, comm: Communicator) -> None:
    """Tell everyone the thresholds of ``features``, only those in use, and write down those of the others."""
    n_own = thresholds.n_bins[features] - 1
    used = [thresholds.upper[feature, :n] for feature, n in zip(features, n_own, strict=True)]
    message = np.concatenate([[len(features)], features, n_own, *used]).astype(np.float64)
    for rank, received in enumerate(comm.allgather(message, "bins")):
        if rank != comm.rank:
            for feature, values in _features_of(received):
                thresholds.upper[feature, : len(values)] = values
                thresholds.n_bins[feature] = 1 + len(values)


def _features_of(message: np.ndarray) -> Iterable[tuple[int, np.ndarray]]:
    """Each feature of a message with its thresholds."""
    n_features = int(message[0])
    features, counts = message[1 : 1 + 2 * n_features].reshape(2, n_features).astype(np.int64)
    ends = 1 + 2 * n_features + np.cumsum(counts)
    for feature, n, end in zip(features, counts, ends, strict=True):
        yield int(feature), message[end - n : end]
