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
_ROWS, _FEATURES, _TREE, _DROP, _THRESHOLDS = 1, 2, 3, 4, 5


def _key(seed: int, purpose: int, number: int) -> np.uint64:
    stream = np.uint64(hash_pair(np.uint64(seed), np.int64(purpose)))
    return np.uint64(hash_pair(stream, np.int64(number)))


def _or(seed: int | None, params: Params) -> int:
    """A draw's own seed, or that of all draws."""
    return params.seed if seed is None else seed


def tree_key(params: Params, tree: int) -> int:
    """Names the tree's own stream: rounding of gradients, features drawn at its nodes."""
    return int(_key(params.seed, _TREE, tree))


def node_key(params: Params, tree: int) -> int:
    """Names the stream of the features drawn at a tree's nodes."""
    return int(_key(_or(params.feature_fraction_seed, params), _TREE, tree))


def threshold_key(params: Params, tree: int) -> int:
    """Names the stream of the thresholds drawn at a tree's nodes."""
    return int(_key(_or(params.extra_seed, params), _THRESHOLDS, tree))


def subsample_rows(
    params: Params,
    iteration: int,
    ids: RowIds,
    team: Team,
    parallel: int = 0,
    y: np.ndarray | None = None,
    group: np.ndarray | None = None,
) -> np.ndarray | None:
    """Ids of the rows that the ``parallel``-th tree of an iteration grows on, drawn anew every subsample_freq
    iterations; None for all."""
    fractions = {params.subsample}
    if params.pos_bagging_fraction < 1.0 or params.neg_bagging_fraction < 1.0:
        fractions = {params.pos_bagging_fraction, params.neg_bagging_fraction}
    if params.subsample_freq == 0 or min(fractions) == 1.0:
        return None
    number = iteration // params.subsample_freq * params.num_parallel_tree + parallel
    if params.bagging_by_query and group is not None:
        chance = row_chances(params, number, ids)[np.cumsum(group) - group]
        return np.flatnonzero(np.repeat(chance < params.subsample, group)).astype(np.uint32)
    kept = {fraction: _kept(params, number, ids, fraction, team) for fraction in fractions}
    if len(kept) == 1:
        return np.flatnonzero(kept[fractions.pop()]).astype(np.uint32)
    assert y is not None  # fractions by class need classes
    of_both = np.where(y > 0.0, kept[params.pos_bagging_fraction], kept[params.neg_bagging_fraction])
    return np.flatnonzero(of_both).astype(np.uint32)


def _kept(params: Params, number: int, ids: RowIds, fraction: float, team: Team) -> np.ndarray:
    """Mask of the rows in a draw of this fraction."""
    kept = np.empty(ids.n_rows, np.bool_)
    limit = np.uint64(min(int(fraction * 2.0**64), 2**64 - 1))
    key = _key(_or(params.bagging_seed, params), _ROWS, number)
    ids.for_blocks(team, lambda start, stop, shift: keep_rows(start, stop, key, limit, shift, kept))
    return kept


def row_chances(params: Params, number: int, ids: RowIds) -> np.ndarray:
    """A number in [0, 1) for each row, from the hash that ``_kept`` compares with its limit."""
    key = _key(_or(params.bagging_seed, params), _ROWS, number)
    return _chances(key, ids.numbers())


def _chances(key: np.uint64, numbers: np.ndarray) -> np.ndarray:
    """As ``unit_interval(hash_pair(key, number))`` of each number."""
    words = key + (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed(words) >> np.uint64(11)) * 2.0**-53


def drop_chances(params: Params, iteration: int, n: int) -> tuple[float, np.ndarray]:
    """A number in [0, 1) for this iteration, and one for each of ``n`` earlier ones."""
    key = _key(_or(params.drop_seed, params), _DROP, iteration)
    chances = _chances(key, np.arange(n + 1))
    return float(chances[0]), chances[1:]


def mixed(words: np.ndarray) -> np.ndarray:
    """splitmix64's finalizer, as ``kernels.hashing.mix``; products of arrays wrap around silently."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def counted_rows(rows: np.ndarray | None, counted: np.ndarray | None) -> np.ndarray | None:
    """Those of ``rows`` (None: of all rows) that count; rows of weight 0 grow no tree."""
    if counted is None:
        return rows
    return np.flatnonzero(counted).astype(np.uint32) if rows is None else rows[counted[rows]]


def is_empty(rows: np.ndarray, comm: Communicator) -> bool:
    """Whether a sample of rows has none on any worker, as may happen when there are very few."""
    n_rows = np.array([len(rows)])
    return int(comm.allreduce(n_rows, "scores")[0]) == 0 if comm.size > 1 else len(rows) == 0


def bootstrap_copies(params: Params, tree: int, ids: RowIds, team: Team) -> np.ndarray:
    """How often each row is in the tree's bootstrap sample: Poisson(1), cut at MAX_COPIES."""
    cumulative = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(MAX_COPIES)])
    copies = np.empty(ids.n_rows, np.uint8)
    key = _key(_or(params.bagging_seed, params), _ROWS, tree)

    def draw(start: int, stop: int, shift: int) -> None:
        bootstrap_multiplicities(start, stop, key, shift, cumulative, copies)

    ids.for_blocks(team, draw)
    return copies


def tree_features(params: Params, tree: int, n_features: int) -> np.ndarray:
    """The features a tree may use, in rising order."""
    features = np.arange(n_features)
    n_chosen = _share(params.colsample_bytree, n_features, params)
    if n_chosen == n_features:
        return features
    chosen = np.empty(n_chosen, np.int64)
    key = _key(_or(params.feature_fraction_seed, params), _FEATURES, tree)
    sample_features(key, features, np.int64(n_chosen), chosen)
    return np.sort(chosen)


def n_node_features(params: Params, n_features: int) -> int:
    """How many features are drawn at each node; 0 if every node sees all of its level's."""
    n_tree = _share(params.colsample_bytree, n_features, params)
    n_level = _share(params.colsample_bylevel, n_tree, params)
    n_node = _share(params.colsample_bynode, n_level, params)
    return 0 if n_node == n_level else n_node


def n_level_features(params: Params, n_tree_features: int) -> int:
    """How many of a tree's features are drawn at each level; 0 if all levels see all of them."""
    n_level = _share(params.colsample_bylevel, n_tree_features, params)
    return 0 if n_level == n_tree_features else n_level


def _share(fraction: float, n: int, params: Params) -> int:
    # XGBoost multiplies numbers of 32 bits and rounds down; LightGBM rounds to the nearest.
    share = int(np.float32(fraction) * np.float32(n)) if params.floors_columns else round(fraction * n)
    return max(1, min(n, share))
