"""Whole trees from packed rows: the same with any memory, threads and history of the grower."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import oracle
from growing_rows import assert_same, brute_force, grow, grow_loaded, load, make_grower, make_rules
from packed_rows import random_values
from pvtree.growing.tree_memory import GrownTree
from pvtree.kernels.team import Team


def random_rows(name: str, n_rows: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, rng.integers(2, 60, n_features) + 1, (n_rows, n_features))
    return bins, random_values(name, n_rows, rng)


def assert_identical(one: GrownTree, other: GrownTree) -> None:
    is_leaf = one.feature < 0
    for each in fields(GrownTree):
        a, b = getattr(one, each.name), getattr(other, each.name)
        if each.name == "left_set":  # means nothing but at categorical splits
            a, b = a[~is_leaf], b[~is_leaf]
        if each.name != "run_buffer":
            assert_array_equal(a, b, err_msg=each.name)


NAMES = ["gradient constant", "gradient real", "3 classes constant", "9 classes copies"]


@pytest.mark.parametrize("max_leaves", [0, 2, 25])
@pytest.mark.parametrize("name", NAMES)
def test_trees_equal_the_brute_force(name: str, max_leaves: int) -> None:
    bins, values = random_rows(name, 400, 19)
    rules = make_rules(name, max_leaves=max_leaves, min_count=4, cat_smooth=3.0, cat_l2=2.0)
    categorical = (2, 17)
    nodes = brute_force(name, bins, values, rules, categorical)
    for n_threads in (1, 2, 5):
        assert_same(name, grow(name, bins, values, rules, categorical, n_threads), nodes, categorical)
    assert max_leaves == 0 or sum(not node.children for node in nodes) == max_leaves


@pytest.mark.parametrize("max_leaves", [0, 60])
@pytest.mark.parametrize("name", ["gradient real", "9 classes constant"])
def test_trees_do_not_depend_on_how_many_histograms_fit(
    name: str, max_leaves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few places to keep histograms nodes are added up anew instead of subtracted, wide and narrow ones."""
    bins, values = random_rows(name, 30_000, 6)
    rules = make_rules(name, max_leaves=max_leaves, min_count=100)
    plenty = grow(name, bins, values, rules)
    monkeypatch.setattr("pvtree.growing.grower.POOL_BYTES", 1)
    assert_identical(grow(name, bins, values, rules, n_threads=2), plenty)
    assert len(plenty.feature) > 60


def test_depth_first_without_a_budget_equals_leaf_wise_with_a_large_one() -> None:
    name = "gradient real"
    bins, values = random_rows(name, 2000, 5)
    unlimited = grow(name, bins, values, make_rules(name, min_count=10))
    assert_identical(grow(name, bins, values, make_rules(name, min_count=10, max_leaves=2000)), unlimited)


@pytest.mark.parametrize("name", NAMES)
def test_a_grower_keeps_nothing_from_one_tree_to_the_next(name: str) -> None:
    bins, values = random_rows(name, 500, 18)
    first, second = make_rules(name, min_count=30), make_rules(name, min_count=1)
    some = np.flatnonzero(np.random.default_rng(1).random(500) < 0.5)
    features = np.array([1, 5, 17])
    with Team(2) as team:
        grower = make_grower(name, bins, values, team, first)
        grow_loaded(grower, 500, first, np.arange(18))
        n_rows = load(grower, name, values, some)
        grown = grow_loaded(grower, n_rows, second, features)
        fresh = make_grower(name, bins, values, team, second)
        load(fresh, name, values, some)
        assert_identical(grown, grow_loaded(fresh, n_rows, second, features))
    nodes = brute_force(name, bins, values, second, rows=some, features_of=lambda path: features)
    assert_same(name, grown, nodes)


@pytest.mark.parametrize("n_sampled", [2, 9])
@pytest.mark.parametrize("name", NAMES)
def test_nodes_look_only_at_the_features_they_draw(name: str, n_sampled: int) -> None:
    """2 of 20 are added up one by one, 9 of 20 block by block."""
    bins, values = random_rows(name, 600, 20)
    rules = make_rules(name, min_count=20, n_sampled=n_sampled, key=123, max_leaves=15)

    def features_of(path: tuple[int, ...]) -> np.ndarray:
        return oracle.draw_at_node(123, path, list(range(20)), n_sampled)

    nodes = brute_force(name, bins, values, rules, features_of=features_of)
    assert_same(name, grow(name, bins, values, rules, n_threads=2), nodes)


@pytest.mark.parametrize("n_sampled", [0, 2])
@pytest.mark.parametrize("name", ["gradient constant", "gradient copies", "gradient real", "gradient precise"])
def test_few_rows_are_split_as_by_histograms(name: str, n_sampled: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing values on both sides, ties, least sums of hessians and a penalty, in blocks and one by one."""
    bins, values = random_rows(name, 500, 20)
    rules = make_rules(name, min_count=2, min_hess=3.0, reg_alpha=2.0, reg_lambda=1.0, n_sampled=n_sampled, key=5)
    grown = grow(name, bins, values, rules)
    monkeypatch.setattr("pvtree.growing.grower._TINY_ROWS", 0)
    assert_identical(grown, grow(name, bins, values, rules))
    inner = grown.feature >= 0
    assert (grown.sums[inner, 0] <= 32).sum() > 20
    assert {0, 1} == set(grown.default_left[inner])


@pytest.mark.parametrize("max_depth", [1, 2, 4])
def test_no_leaf_is_deeper_than_allowed(max_depth: int) -> None:
    name = "gradient constant"
    bins, values = random_rows(name, 300, 4)
    tree = grow(name, bins, values, make_rules(name, max_depth=max_depth))
    depth = np.zeros(len(tree.feature), int)
    for node in np.flatnonzero(tree.left_child):
        depth[tree.left_child[node] : tree.left_child[node] + 2] = depth[node] + 1
    assert depth.max() == max_depth
    assert (np.diff(depth) >= 0).all()  # level order


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_very_few_rows(n_rows: int) -> None:
    name = "gradient constant"
    bins = np.arange(1, n_rows + 1)[:, None]
    tree = grow(name, bins, 10 * bins, make_rules(name))
    assert (tree.feature < 0).sum() == n_rows
    assert_array_equal(tree.run_stop, np.arange(1, n_rows + 1))


def test_every_leaf_of_a_fully_grown_tree_is_pure() -> None:
    name = "3 classes constant"
    bins = np.random.default_rng(2).integers(1, 200, (2000, 3))
    values = np.eye(3, dtype=np.int64)[(bins[:, 0] + bins[:, 1]) % 3]
    tree = grow(name, bins, values, make_rules(name))
    assert (np.count_nonzero(tree.sums[tree.feature < 0, 1:], axis=1) == 1).all()
