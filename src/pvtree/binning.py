"""Thresholds that any partition of the rows agrees on, and the binned blocks that training reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pvtree.dtypes import BLOCK, N_BINS, BinnedRows
from pvtree.kernels.binning import bin_columns, choose_thresholds, gather_columns
from pvtree.kernels.hashing import keep_rows
from pvtree.team import LITTLE_WORK, Team

SAMPLE_ROWS = 200_000  # enough that a quantile of 1/255 is known to a few per cent
_SAMPLE_KEY = 0x5EED_B125


@dataclass(frozen=True)
class Thresholds:
    """Where each feature's bins end: bin b holds values up to upper[feature, b - 1]."""

    upper: np.ndarray  # float64 (n_features, N_BINS), padded with +inf
    n_bins: np.ndarray  # int64 (n_features,): ordered bins or categories, without the missing bin

    def of(self, feature: np.ndarray, bin_idx: np.ndarray) -> np.ndarray:
        """The number that a split after ``bin_idx`` compares with; the last bin has no end."""
        return np.where(bin_idx < self.n_bins[feature], self.upper[feature, np.maximum(bin_idx, 1) - 1], np.inf)


def block_starts(n_features: int, n_threads: int) -> np.ndarray:
    """Full blocks of 16 features, which add up fastest; few features are spread evenly over the threads instead."""
    n_blocks = -(-n_features // int(BLOCK))
    if n_blocks >= 2 * n_threads:
        return np.minimum(np.arange(n_blocks + 1) * BLOCK, n_features)
    n_quads = -(-n_features // 4)  # lanes are added up in groups of four
    n_blocks = max(n_blocks, min(n_threads, n_quads))
    return np.minimum(np.arange(n_blocks + 1) * n_quads // n_blocks * 4, n_features)


def sample_rows(n_rows: int, first_row: int = 0) -> np.ndarray:
    """Rows whose hashed global id falls under a limit: the same set however rows are spread."""
    if n_rows <= SAMPLE_ROWS:
        return np.arange(n_rows)
    kept = np.empty(n_rows, np.bool_)
    limit = np.uint64(int(SAMPLE_ROWS / n_rows * 2.0**64))
    keep_rows(0, n_rows, np.uint64(_SAMPLE_KEY), limit, first_row, kept)
    return np.flatnonzero(kept)


def bin_rows(X: np.ndarray, categorical: Mapping[int, int], max_bin: int, team: Team) -> tuple[BinnedRows, Thresholds]:
    """Choose thresholds from a sample and bin all rows, block by block, each on one thread."""
    n_rows, n_features = X.shape
    starts = block_starts(n_features, team.n_threads if n_rows * n_features >= LITTLE_WORK else 1)
    n_blocks = len(starts) - 1
    bins = np.zeros((n_blocks, n_rows * BLOCK), np.uint8)
    upper = np.full((n_features, N_BINS), np.inf)
    n_bins = np.ones(n_features, np.int64)
    is_categorical = np.zeros(n_features, np.uint8)
    for feature, n_categories in categorical.items():
        n_bins[feature] = n_categories
        is_categorical[feature] = 1
    sample = sample_rows(n_rows)

    def bin_blocks(first_block: int, last_block: int) -> None:
        columns = np.empty((BLOCK, len(sample)))
        n_values = np.empty(BLOCK, np.int64)
        for block in range(first_block, last_block):
            first, stop = int(starts[block]), int(starts[block + 1])
            gather_columns(X, sample, first, stop - first, columns, n_values)
            for feature in range(first, stop):
                if not is_categorical[feature]:
                    values = columns[feature - first, : n_values[feature - first]]
                    values.sort()
                    n_bins[feature] = 1 + choose_thresholds(values, max_bin, upper[feature])
            bin_columns(X, first, is_categorical[first:stop], n_bins[first:stop], upper[first:stop], bins[block])

    team.for_blocks(bin_blocks, n_blocks, min_block=1)
    return BinnedRows(bins, starts, n_bins, is_categorical), Thresholds(upper, n_bins)
