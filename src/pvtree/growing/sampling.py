"""Which rows and features a tree sees: hashes of (seed, tree, row or feature), however the rows are spread."""

from __future__ import annotations

import math

import numpy as np

from pvtree.comm import Communicator
from pvtree.growing.layouts import MAX_COPIES
from pvtree.kernels.hashing import bootstrap_multiplicities, hash_pair, keep_rows, sample_features
from pvtree.kernels.team import Team
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds

# Streams of random numbers that must not meet: each purpose hashes its own number into the seed.
_ROWS, _FEATURES, _TREE = 1, 2, 3


def _key(seed: int, purpose: int, number: int) -> np.uint64:
    stream = np.uint64(hash_pair(np.uint64(seed), np.int64(purpose)))
    return np.uint64(hash_pair(stream, np.int64(number)))


def tree_key(params: Params, tree: int) -> int:
    """Names the tree's own stream: rounding of gradients, features drawn at its nodes."""
    return int(_key(params.seed, _TREE, tree))


def subsample_rows(params: Params, iteration: int, ids: RowIds, team: Team) -> np.ndarray | None:
    """Ids of the rows that this iteration's trees grow on, drawn anew every subsample_freq; None for all."""
    if not draws_rows(params):
        return None
    kept = np.empty(ids.n_rows, np.bool_)
    limit = np.uint64(min(int(params.subsample * 2.0**64), 2**64 - 1))
    key = _key(params.seed, _ROWS, iteration // params.subsample_freq)
    ids.for_blocks(team, lambda start, stop, shift: keep_rows(start, stop, key, limit, shift, kept))
    return np.flatnonzero(kept).astype(np.uint32)


def counted_rows(rows: np.ndarray | None, counted: np.ndarray | None) -> np.ndarray | None:
    """Those of ``rows`` (None: of all rows) that count; rows of weight 0 grow no tree."""
    if counted is None:
        return rows
    return np.flatnonzero(counted).astype(np.uint32) if rows is None else rows[counted[rows]]


def draws_rows(params: Params) -> bool:
    """Whether each iteration of boosting draws its rows."""
    return params.subsample < 1.0 and params.subsample_freq > 0


def is_empty(rows: np.ndarray, comm: Communicator) -> bool:
    """Whether a sample of rows has none on any worker, as may happen when there are very few."""
    n_rows = np.array([len(rows)])
    return int(comm.allreduce(n_rows, "scores")[0]) == 0 if comm.size > 1 else len(rows) == 0


def bootstrap_copies(params: Params, tree: int, ids: RowIds, team: Team) -> np.ndarray:
    """How often each row is in the tree's bootstrap sample: Poisson(1), cut at MAX_COPIES."""
    cumulative = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(MAX_COPIES)])
    copies = np.empty(ids.n_rows, np.uint8)
    key = _key(params.seed, _ROWS, tree)

    def draw(start: int, stop: int, shift: int) -> None:
        bootstrap_multiplicities(start, stop, key, shift, cumulative, copies)

    ids.for_blocks(team, draw)
    return copies


def tree_features(params: Params, tree: int, n_features: int) -> np.ndarray:
    """The features a tree may use, in rising order."""
    features = np.arange(n_features)
    n_chosen = _share(params.colsample_bytree, n_features)
    if n_chosen == n_features:
        return features
    chosen = np.empty(n_chosen, np.int64)
    sample_features(_key(params.seed, _FEATURES, tree), features, np.int64(n_chosen), chosen)
    return np.sort(chosen)


def n_node_features(params: Params, n_features: int) -> int:
    """How many features are drawn at each node; 0 if every node sees all of its tree's."""
    n_tree = _share(params.colsample_bytree, n_features)
    n_node = _share(params.colsample_bynode, n_tree)
    return 0 if n_node == n_tree else n_node


def _share(fraction: float, n: int) -> int:
    return max(1, min(n, round(fraction * n)))
