"""Which rows or columns each worker gets: contiguous blocks, so that a row's place in the whole data is known."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import BLOCK


def row_bounds(n_rows: int, n_workers: int) -> np.ndarray:
    """Worker m has rows ``bounds[m]:bounds[m + 1]``, cut as by numpy.array_split. A block may be empty."""
    share, extra = divmod(n_rows, n_workers)
    workers = np.arange(n_workers + 1)
    return workers * share + np.minimum(workers, extra)


def column_bounds(n_features: int, n_workers: int) -> np.ndarray:
    """Worker m has columns ``bounds[m]:bounds[m + 1]``. A block may be empty."""
    return row_bounds(n_features, n_workers)


def query_bounds(group: np.ndarray, n_workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of rows and bounds of queries: whole queries, cut as near as possible to ``row_bounds``.

    Of two cuts that are equally near, the first is taken. A worker whose block lies inside one long query gets none.
    """
    ends = np.concatenate(([0], np.cumsum(group, dtype=np.int64)))  # (n_queries + 1,)
    wanted = row_bounds(int(ends[-1]), n_workers)
    after = np.searchsorted(ends, wanted)  # the first end at or after the wanted row
    before = np.maximum(after - 1, 0)
    queries = np.where(wanted - ends[before] <= ends[after] - wanted, before, after)
    return ends[queries], queries


def block_starts(n_features: int, n_threads: int) -> np.ndarray:
    """Starts of blocks of 16 features, which sum up fastest; a few features are spread evenly over the threads."""
    n_blocks = -(-n_features // int(BLOCK))
    if n_blocks >= 2 * n_threads or n_blocks == 0:
        return np.minimum(np.arange(n_blocks + 1) * BLOCK, n_features)
    n_quads = -(-n_features // 4)  # lanes are summed up in groups of four
    n_blocks = max(n_blocks, min(n_threads, n_quads))
    return np.minimum(np.arange(n_blocks + 1) * n_quads // n_blocks * 4, n_features)
