"""Which rows or columns each of M workers gets: contiguous blocks, so that a row's place in the whole data is known."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import BLOCK


def row_bounds(n_rows: int, n_workers: int) -> np.ndarray:
    """Worker m has rows ``bounds[m]:bounds[m + 1]``, as numpy.array_split would cut them; may be none."""
    share, extra = divmod(n_rows, n_workers)
    workers = np.arange(n_workers + 1)
    return workers * share + np.minimum(workers, extra)


def column_bounds(n_features: int, n_workers: int) -> np.ndarray:
    """Worker m has columns ``bounds[m]:bounds[m + 1]``; may be none."""
    return row_bounds(n_features, n_workers)


def query_bounds(group: np.ndarray, n_workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole queries, cut nearest to where rows would be: the bounds of rows, and those of queries.

    Of two ends of a query that are equally near, the first is taken. A worker gets no query where a long one
    reaches over its whole block.
    """
    ends = np.concatenate(([0], np.cumsum(group, dtype=np.int64)))  # (n_queries + 1,)
    wanted = row_bounds(int(ends[-1]), n_workers)
    after = np.searchsorted(ends, wanted)  # the first end that is not before the wanted row
    before = np.maximum(after - 1, 0)
    queries = np.where(wanted - ends[before] <= ends[after] - wanted, before, after)
    return ends[queries], queries


def block_starts(n_features: int, n_threads: int) -> np.ndarray:
    """Full blocks of 16 features, which add up fastest; few features are spread evenly over the threads instead."""
    n_blocks = -(-n_features // int(BLOCK))
    if n_blocks >= 2 * n_threads or n_blocks == 0:
        return np.minimum(np.arange(n_blocks + 1) * BLOCK, n_features)
    n_quads = -(-n_features // 4)  # lanes are added up in groups of four
    n_blocks = max(n_blocks, min(n_threads, n_quads))
    return np.minimum(np.arange(n_blocks + 1) * n_quads // n_blocks * 4, n_features)
