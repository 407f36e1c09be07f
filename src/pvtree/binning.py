"""Thresholds that any partition of the rows agrees on, and the binned blocks that training reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pvtree.dtypes import BLOCK, N_BINS, BinnedRows
from pvtree.errors import InvalidDataError
from pvtree.kernels.binning import bin_columns, choose_thresholds, copy_columns, drop_missing
from pvtree.kernels.hashing import keep_rows
from pvtree.partition import column_bounds
from pvtree.team import LITTLE_WORK, Team

if TYPE_CHECKING:
    from pvtree.comm import Communicator

SAMPLE_ROWS = 200_000  # enough that a quantile of 1/255 is known to a few per cent
IN_FLIGHT = 2**24  # bytes of the sample that a worker sends, and that it receives, in one exchange
_SAMPLE_KEY = 0x5EED_B125


@dataclass(frozen=True)
class Thresholds:
    """Where each feature's bins end: bin b holds values up to upper[feature, b - 1]."""

    upper: np.ndarray  # float64 (n_features, N_BINS), padded with +inf
    n_bins: np.ndarray  # int64 (n_features,): ordered bins or categories, without the missing bin
    is_categorical: np.ndarray  # uint8 (n_features,)

    def of(self, feature: np.ndarray, bin_idx: np.ndarray) -> np.ndarray:
        """The number that a split after ``bin_idx`` compares with; the last bin has no end."""
        return np.where(bin_idx < self.n_bins[feature], self.upper[feature, np.maximum(bin_idx, 1) - 1], np.inf)


def block_starts(n_features: int, n_threads: int) -> np.ndarray:
    """Full blocks of 16 features, which add up fastest; few features are spread evenly over the threads instead."""
    n_blocks = -(-n_features // int(BLOCK))
    if n_blocks >= 2 * n_threads or n_blocks == 0:
        return np.minimum(np.arange(n_blocks + 1) * BLOCK, n_features)
    n_quads = -(-n_features // 4)  # lanes are added up in groups of four
    n_blocks = max(n_blocks, min(n_threads, n_quads))
    return np.minimum(np.arange(n_blocks + 1) * n_quads // n_blocks * 4, n_features)


def hashed_rows(n_rows: int, first_row: int, n_all_rows: int, about: int) -> np.ndarray:
    """Of the rows from ``first_row`` on those whose hashed global id falls under a limit that ``about`` so many of
    all rows meet: together the workers take the same set however rows are spread."""
    if n_all_rows <= about:
        return np.arange(n_rows)
    kept = np.empty(n_rows, np.bool_)
    limit = np.uint64(int(about / n_all_rows * 2.0**64))
    keep_rows(0, n_rows, np.uint64(_SAMPLE_KEY), limit, first_row, kept)
    return np.flatnonzero(kept)


def sample_rows(n_rows: int, first_row: int = 0, n_all_rows: int | None = None) -> np.ndarray:
    """The rows that decide the thresholds."""
    return hashed_rows(n_rows, first_row, n_rows if n_all_rows is None else n_all_rows, SAMPLE_ROWS)


def choose_own_bins(
    X: np.ndarray,
    sample: np.ndarray,
    own: tuple[int, int],
    categorical: Mapping[int, int],
    max_bin: int,
    team: Team,
    comm: Communicator | None = None,
) -> Thresholds:
    """Thresholds where this worker has all rows of its ``own`` columns (first, stop); it is told the others'."""
    thresholds = _undecided(X.shape[1], categorical)
    features = np.arange(*own)[thresholds.is_categorical[slice(*own)] == 0]

    def choose(start: int, stop: int) -> None:
        columns = np.empty((BLOCK, len(sample)))
        for first in range(start, stop, int(BLOCK)):
            together = features[first : min(first + int(BLOCK), stop)]
            copy_columns(X, sample, together, columns)
            for feature, values in zip(together, columns, strict=False):
                _choose(thresholds, feature, values, max_bin)

    little = len(sample) * len(features) < LITTLE_WORK
    team.for_blocks(choose, len(features), min_block=max(1, len(features) if little else 1))
    if comm is not None:
        _exchange(thresholds, features, comm)
    return thresholds


def choose_shared_bins(
    X: np.ndarray, sample: np.ndarray, categorical: Mapping[int, int], max_bin: int, team: Team, comm: Communicator
) -> Thresholds:
    """Thresholds where rows are spread: each column's sample is gathered on one worker, who tells the others."""
    dtype, most = _agree(X, len(sample), comm)
    thresholds = _undecided(X.shape[1], categorical)
    ordered = np.flatnonzero(thresholds.is_categorical == 0)
    bounds = column_bounds(len(ordered), comm.size)
    # Memory is bounded by taking few columns at a time, equally many of every owner so that all workers stay busy.
    at_once = max(1, IN_FLIGHT // max(1, dtype.itemsize * most * comm.size))
    for start in range(0, int(np.diff(bounds).max()), at_once):
        wanted = [ordered[first:stop][start : start + at_once] for first, stop in pairwise(bounds)]
        gathered = comm.alltoall([_columns(X, sample, features, dtype, team) for features in wanted], "bins")
        _choose_gathered(thresholds, wanted[comm.rank], gathered, max_bin, team)
    _exchange(thresholds, ordered[bounds[comm.rank] : bounds[comm.rank + 1]], comm)
    return thresholds


def bin_rows(X: np.ndarray, thresholds: Thresholds, first: int, stop: int, team: Team) -> BinnedRows:
    """Bin all rows of the columns ``first`` to ``stop``, block by block, each on one thread."""
    n_rows, n_features = X.shape[0], stop - first
    upper, n_bins = thresholds.upper[first:stop], thresholds.n_bins[first:stop]
    is_categorical = thresholds.is_categorical[first:stop]
    starts = block_starts(n_features, team.n_threads if n_rows * n_features >= LITTLE_WORK else 1)
    n_blocks = len(starts) - 1
    bins = np.zeros((n_blocks, n_rows * BLOCK), np.uint8)

    def bin_blocks(first_block: int, last_block: int) -> None:
        for block in range(first_block, last_block):
            own = slice(int(starts[block]), int(starts[block + 1]))
            bin_columns(X, first + own.start, is_categorical[own], n_bins[own], upper[own], bins[block])

    team.for_blocks(bin_blocks, n_blocks, min_block=1)
    return BinnedRows(bins, starts, n_bins, is_categorical)


def _undecided(n_features: int, categorical: Mapping[int, int]) -> Thresholds:
    """Thresholds whose ordered features have a single bin yet."""
    n_bins = np.ones(n_features, np.int64)
    is_categorical = np.zeros(n_features, np.uint8)
    for feature, n_categories in categorical.items():
        n_bins[feature] = n_categories
        is_categorical[feature] = 1
    return Thresholds(np.full((n_features, N_BINS), np.inf), n_bins, is_categorical)


def _choose(thresholds: Thresholds, feature: int, values: np.ndarray, max_bin: int) -> None:
    """Choose one feature's thresholds from its sample, which is overwritten."""
    known = values[: drop_missing(values)]
    known.sort()
    thresholds.n_bins[feature] = 1 + choose_thresholds(known, max_bin, thresholds.upper[feature])


def _choose_gathered(
    thresholds: Thresholds, features: np.ndarray, gathered: list[np.ndarray], max_bin: int, team: Team
) -> None:
    """Choose the thresholds of ``features`` from all workers' samples, each worker's column after column."""
    if not len(features):
        return
    samples = [values.reshape(len(features), -1) for values in gathered]

    def choose(first: int, stop: int) -> None:
        values = np.empty(sum(sample.shape[1] for sample in samples))
        for c in range(first, stop):
            np.concatenate([sample[c] for sample in samples], out=values)
            _choose(thresholds, features[c], values, max_bin)

    team.for_blocks(choose, len(features), min_block=1)


def _agree(X: np.ndarray, n_sampled: int, comm: Communicator) -> tuple[np.dtype, int]:
    """The dtype that values travel as and the most sampled rows of any worker; all must have the same columns."""
    is_wide = n_sampled > 0 and X.dtype != np.float32  # whoever has no rows has no say
    most = comm.allreduce(np.array([is_wide, n_sampled, X.shape[1], -X.shape[1]], np.int64), "bins", "max")
    if most[2] != -most[3]:
        raise InvalidDataError(
            f"The workers' X have from {-most[3]} to {most[2]} columns: give every worker all columns, in one order."
        )
    return np.dtype(np.float64 if most[0] else np.float32), int(most[1])


def _columns(X: np.ndarray, sample: np.ndarray, features: np.ndarray, dtype: np.dtype, team: Team) -> np.ndarray:
    """The sample of some columns one after the other, as it travels."""
    columns = np.empty((len(features), len(sample)), dtype)

    def copy(start: int, stop: int) -> None:
        for first in range(start, stop, int(BLOCK)):  # one row of 16 columns is a cache line or two
            last = min(first + int(BLOCK), stop)
            copy_columns(X, sample, features[first:last], columns[first:last])

    team.for_blocks(copy, len(features), min_block=int(BLOCK))
    return columns.ravel()


def _exchange(thresholds: Thresholds, features: np.ndarray, comm: Communicator) -> None:
    """Tell everyone the thresholds of ``features``, only those in use, and write down those of the others."""
    n_own = thresholds.n_bins[features] - 1
    used = [thresholds.upper[feature, :n] for feature, n in zip(features, n_own, strict=True)]
    message = np.concatenate([[len(features)], features, n_own, *used]).astype(np.float64)
    for rank, told in enumerate(comm.allgather(message, "bins")):
        if rank != comm.rank:
            for feature, values in _told(told):
                thresholds.upper[feature, : len(values)] = values
                thresholds.n_bins[feature] = 1 + len(values)


def _told(message: np.ndarray) -> Iterable[tuple[int, np.ndarray]]:
    """Each feature of a message with its thresholds."""
    n_features = int(message[0])
    features, counts = message[1 : 1 + 2 * n_features].reshape(2, n_features).astype(np.int64)
    ends = 1 + 2 * n_features + np.cumsum(counts)
    for feature, n, end in zip(features, counts, ends, strict=True):
        yield int(feature), message[end - n : end]
