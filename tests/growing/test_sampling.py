"""Which rows and features a tree sees, whatever holds the rows."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from pvtree.growing.sampling import bootstrap_copies, n_node_features, subsample_rows, tree_features, tree_key
from pvtree.kernels.team import Team
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds

N_ROWS = 20_000
ALL = RowIds.consecutive(N_ROWS)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_shards_draw_what_the_whole_would_draw(n_threads: int) -> None:
    params = Params(subsample=0.3, subsample_freq=1, seed=4)
    with Team(1) as alone:
        rows = subsample_rows(params, 2, ALL, alone)
        copies = bootstrap_copies(params, 2, ALL, alone)
    with Team(n_threads) as team:
        bounds = [0, 1, 9000, 9000, N_ROWS]  # one row, and none at all
        pairs = list(pairwise(bounds))
        shards = [RowIds.consecutive(stop - start, start, N_ROWS) for start, stop in pairs]
        drawn = [subsample_rows(params, 2, ids, team) for ids in shards]
        copied = [bootstrap_copies(params, 2, ids, team) for ids in shards]
    together = [np.asarray(part, np.int64) + start for part, (start, _) in zip(drawn, pairs, strict=True)]
    np.testing.assert_array_equal(np.concatenate(together), rows)
    np.testing.assert_array_equal(np.concatenate(copied), copies)


def test_a_sample_lasts_for_subsample_freq_iterations_and_has_the_share_asked_for() -> None:
    params = Params(subsample=0.3, subsample_freq=2, seed=1)
    with Team(1) as team:
        samples = [subsample_rows(params, iteration, ALL, team) for iteration in range(4)]
        for turned_off in (Params(subsample=0.3), Params(subsample=1.0, subsample_freq=1)):
            assert subsample_rows(turned_off, 0, ALL, team) is None
    assert all(sample is not None and abs(len(sample) / N_ROWS - 0.3) < 0.02 for sample in samples)
    np.testing.assert_array_equal(samples[0], samples[1])
    np.testing.assert_array_equal(samples[2], samples[3])
    assert len(np.intersect1d(samples[0], samples[2])) < 0.35 * len(samples[0])  # independent: 30 %


def test_copies_are_poisson() -> None:
    with Team(2) as team:
        copies = bootstrap_copies(Params(seed=3), 0, RowIds.consecutive(100_000), team)
    expected = [math.exp(-1) / math.factorial(k) for k in range(5)]
    np.testing.assert_allclose(np.bincount(copies)[:5] / 100_000, expected, atol=0.006)
    assert copies.max() <= 8


def test_seeds_trees_and_purposes_are_different_streams() -> None:
    keys = {tree_key(Params(seed=seed), tree) for seed in range(20) for tree in range(20)}
    assert len(keys) == 400
    params = Params(subsample=0.5, subsample_freq=1, seed=0)
    with Team(1) as team:
        rows = subsample_rows(params, 0, ALL, team)
        other_seed = subsample_rows(Params(subsample=0.5, subsample_freq=1, seed=1), 0, ALL, team)
    assert rows is not None and other_seed is not None
    assert 0.45 < len(np.intersect1d(rows, other_seed)) / len(rows) < 0.55


def test_a_tree_gets_its_share_of_features_in_rising_order() -> None:
    params = Params(colsample_bytree=0.25)
    trees = [tree_features(params, tree, 40) for tree in range(200)]
    assert all(len(tree) == 10 and (np.diff(tree) > 0).all() for tree in trees)
    counts = np.bincount(np.concatenate(trees), minlength=40)
    assert (np.abs(counts - 50) < 5 * math.sqrt(200 * 0.25 * 0.75)).all()
    np.testing.assert_array_equal(tree_features(Params(), 0, 5), np.arange(5))
    np.testing.assert_array_equal(tree_features(Params(colsample_bytree=0.01), 0, 1), [0])


@pytest.mark.parametrize(
    ("by_tree", "by_node", "expected"), [(1.0, 1.0, 0), (0.5, 1.0, 0), (1.0, 0.3, 12), (0.5, 0.3, 6), (0.01, 0.01, 0)]
)
def test_nodes_draw_from_their_trees_features(by_tree: float, by_node: float, expected: int) -> None:
    assert n_node_features(Params(colsample_bytree=by_tree, colsample_bynode=by_node), 40) == expected


def test_xgboost_rounds_columns_down() -> None:
    params = Params(colsample_bytree=0.9, colsample_bylevel=0.9, colsample_bynode=0.8)
    assert n_node_features(params, 6) == 3  # 5 of a tree, 4 of a level (4.5 is rounded to an even number)
    assert n_node_features(replace(params, floors_columns=True), 6) == 3  # 5, 4
    assert [n_node_features(Params(colsample_bynode=0.8, floors_columns=down), 6) for down in (False, True)] == [5, 4]
    # In 64 bits 0.29 * 100 is less than 29.
    assert n_node_features(Params(colsample_bynode=0.29, floors_columns=True), 100) == 29
