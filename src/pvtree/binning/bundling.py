"""Sparse columns to bins, with columns that are never unusual in the same row sharing bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pvtree.binning.binned_rows import BinnedRows, Bundles
from pvtree.comm.partition import block_starts
from pvtree.kernels.binning.sparse import bin_entries, choose_bundles, write_bins, write_codes
from pvtree.kernels.constants import BLOCK, N_BINS
from pvtree.kernels.team import LITTLE_WORK, Team
from pvtree.reading.sources import Matrices
from pvtree.reading.sparse_rows import DENSE_BYTES, SparseRows

# With fewer columns than this in a bundle on average, each column has a byte of its own: a bundle's histogram has to be
# taken apart again.
_LEAST_BUNDLED = 2
# Dense columns are only bundled where it pays for looking for their zeros: many cells, mostly zero, many to a bundle.
_LEAST_CELLS = 2**22
_TRIED_ROWS = 1024
ENTRIES_AT_ONCE = 2**21  # whose columns are bundled before Python looks for Ctrl-C
_MOSTLY = 0.8
_LEAST_OF_DENSE = 8


def saves_by_bundles(
    source: Matrices, upper: np.ndarray, n_bins: np.ndarray, is_categorical: np.ndarray, first: int, team: Team
) -> bool:
    """Whether dense columns from ``first`` on, one-hot ones for example, are better bundled: tried on some rows."""
    n_features = len(n_bins)
    if len(source) * n_features < _LEAST_CELLS:
        return False
    step = -(-len(source) // _TRIED_ROWS)
    some = [matrix[::step, first : first + n_features] for matrix in source.matrices]
    if sum(map(np.count_nonzero, some)) > (1.0 - _MOSTLY) * sum(block.size for block in some):
        return False
    bundles = bin_sparse(SparseRows.of_dense(some), upper, n_bins, is_categorical, 0, team).bundles
    return bundles is not None and len(bundles.last_code) * _LEAST_OF_DENSE <= n_features


def blocks_of_columns(source: Matrices, first: int, stop: int) -> Iterator[np.ndarray]:
    """Some columns of all rows, as much as becomes sparse at a time."""
    at_once = max(1, DENSE_BYTES // (8 * max(1, stop - first)))
    for matrix in source.matrices:
        for start in range(0, max(1, len(matrix)), at_once):
            yield matrix[start : start + at_once, first:stop]


def bin_sparse(
    source: SparseRows, upper: np.ndarray, n_bins: np.ndarray, is_categorical: np.ndarray, first: int, team: Team
) -> BinnedRows:
    """Bin all rows of the columns from ``first`` on, as many as there are ``n_bins``."""
    n_rows, n_features = len(source), len(n_bins)
    columns = source.by_columns(first, first + n_features)
    start, rows, values = columns.indptr.astype(np.int64), columns.indices.astype(np.int32, copy=False), columns.data
    entry_bin = np.empty(len(values), np.uint8)
    usual_bin, n_codes, n_unusual, bundle_of, first_code = (np.empty(n_features, np.int64) for _ in range(5))
    team.for_blocks(
        bin_entries, n_features, start, values, source.fill[first:], is_categorical, n_bins, upper, entry_bin,
        usual_bin, n_codes, n_unusual, min_block=max(1, LITTLE_WORK * n_features // max(1, len(values))),
    )  # fmt: skip
    order = np.argsort(-n_unusual, kind="stable")
    chosen = 0, np.zeros((1, n_rows), np.uint64), np.full(64, N_BINS - 1)
    cuts = 1 + np.flatnonzero(np.diff(np.cumsum(n_unusual[order]) // ENTRIES_AT_ONCE))
    for some in np.split(order, cuts):
        chosen = choose_bundles(some, start, rows, entry_bin, usual_bin, n_codes, bundle_of, first_code, *chosen)
    n_bundles = max(1, chosen[0])
    is_bundled = n_bundles * _LEAST_BUNDLED <= n_features
    n_columns = n_bundles if is_bundled else n_features
    block_start = block_starts(n_columns, team.n_threads if n_rows * n_columns >= LITTLE_WORK else 1)
    bins = np.zeros((len(block_start) - 1, n_rows * BLOCK), np.uint8)
    if not is_bundled:
        team.for_blocks(
            write_bins, len(bins), start, rows, entry_bin, usual_bin, block_start, bins, min_block=1
        )  # fmt: skip
        return BinnedRows(bins, block_start, n_bins, is_categorical)
    code_bin = np.zeros((n_bundles, N_BINS), np.uint8)
    team.for_blocks(
        write_codes, n_features, np.argsort(bundle_of, kind="stable"), start, rows, entry_bin, usual_bin, bundle_of,
        first_code, block_start, bins, code_bin, min_block=1,
    )  # fmt: skip
    last_code = np.bincount(bundle_of, n_codes, n_bundles).astype(np.int64)
    bundles = Bundles(bundle_of, first_code, n_codes, usual_bin, code_bin, n_unusual, last_code)
    return BinnedRows(bins, block_start, n_bins, is_categorical, bundles)
