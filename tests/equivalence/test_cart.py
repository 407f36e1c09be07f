"""A single tree equals the brute force over the same bins: every split, threshold, category set and leaf."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracle
from oracle import Node, Rules, assert_same_tree, build_tree
from pvtree.model import Model
from pvtree.parameters.params import Params
from pvtree.training.train import train
from small_data import KINDS, categories_of, independent_bins, make_columns
from thoroughness import checkered, examples

# The largest integer that a label's distance from the mean becomes, where only it and the count share a word.
LARGEST = 2**36 - 1


@dataclass(frozen=True)
class Case:
    """One small training; ``n_classes`` 0 is regression."""

    seed: int
    n_rows: int
    kinds: tuple[str, ...]
    n_classes: int
    duplicates: bool
    max_bin: int
    rules: dict[str, Any]

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        X = make_columns(self.kinds, self.n_rows, rng)
        if self.duplicates:
            X = X[rng.integers(0, self.n_rows // 4 + 1, self.n_rows)]
        signal = np.nan_to_num(X, nan=-0.5, posinf=2.0, neginf=-2.0).clip(-3, 3) @ rng.normal(size=len(self.kinds))
        signal += rng.normal(size=self.n_rows) * (rng.random() < 0.7)
        if self.n_classes:
            return X, np.floor(signal * 2) % self.n_classes
        return X, np.round(signal) if rng.random() < 0.5 else signal + 1000.0


RULES = st.fixed_dictionaries(
    {
        "min_child_samples": st.sampled_from([1, 1, 2, 5, 20]),
        "max_depth": st.sampled_from([-1, -1, 1, 3]),
        "num_leaves": st.sampled_from([0, 0, 0, 2, 7, 31]),
        "min_split_gain": st.sampled_from([0.0, 0.0, 0.0, 0.01]),
        "min_child_weight": st.sampled_from([0.0, 0.0, 3.0]),
        "cat_smooth": st.sampled_from([0.0, 10.0]),
        "cat_l2": st.sampled_from([0.0, 10.0]),
    }
)


def cases(classes: st.SearchStrategy[int]) -> st.SearchStrategy[Case]:
    few = st.lists(st.sampled_from([*KINDS, "many categories"]), min_size=1, max_size=6).map(tuple)
    many = st.tuples(st.integers(16, 40), st.integers(0, 10)).map(
        lambda drawn: tuple((KINDS * 10)[drawn[1] : drawn[1] + drawn[0]])
    )
    n_rows = st.one_of(st.integers(1, 200), st.integers(100, 200))
    return st.builds(
        Case, st.integers(0, 2**32), n_rows, st.one_of(few, few, many), classes, st.booleans(),
        st.sampled_from([2, 5, 255]), RULES,
    )  # fmt: skip


def params_of(n_classes: int, **rules: Any) -> Params:
    return Params(
        ensemble="forest", objective="classification" if n_classes else "regression", n_classes=max(n_classes, 1),
        criterion="entropy" if n_classes else "variance", n_estimators=1, bootstrap=False, verbosity=0,
        **{"num_leaves": 0, "min_child_samples": 1, "min_child_weight": 0.0} | rules,
    )  # fmt: skip


def integer_values(y: np.ndarray, n_classes: int) -> tuple[np.ndarray, float, float]:
    """Per-row integers to add up, the real number a gradient's step stands for, and the labels' mean."""
    if n_classes:
        return np.eye(n_classes, dtype=np.int64)[y.astype(np.int64)], 1.0, 0.0
    mean = math.fsum(y) / len(y)
    gradient = mean - y
    largest = np.abs(gradient).max()
    scale = float(largest / LARGEST) if largest > 0 else 1.0
    integers = oracle.quantize(gradient, scale, key=None)
    return np.column_stack([np.ones(len(y), np.int64), integers]), scale, mean


def rules_of(params: Params, n_rows: int, scale: float) -> Rules:
    entropy = params.criterion == "entropy"
    return Rules(
        entropy=entropy, grad_scale=scale, gain_scale=1.0 / (n_rows * np.log(2.0)) if entropy else 1.0 / n_rows,
        min_count=params.min_child_samples, min_hess=params.min_child_weight, min_gain=params.min_split_gain,
        cat_smooth=0.0, cat_l2=0.0, max_leaves=params.num_leaves, max_depth=params.max_depth,
    )  # fmt: skip


def assert_same_values(tree: Any, nodes: list[Node], n_classes: int, scale: float, mean: float) -> None:
    sums = np.array([node.sums for node in nodes])
    if n_classes:
        assert_array_equal(tree.value, sums / sums.sum(axis=1, keepdims=True))
    else:
        assert_allclose(tree.value[:, 0], mean - sums[:, 1] * scale / sums[:, 0], rtol=1e-14, atol=1e-14 * abs(mean))
    assert_array_equal(tree.weight, [len(node.rows) for node in nodes])


def assert_routes_its_rows(model: Model, X: np.ndarray, nodes: list[Node]) -> None:
    """Prediction compares values with thresholds where growing compared bins."""
    leaves = [node for node in nodes if not node.children]
    reached = model.predict_leaf(X)[:, 0]
    for number, leaf in enumerate(leaves):
        assert (reached[leaf.rows] == number).all()


def check(case: Case) -> None:
    X, y = case.data()
    categorical = categories_of(case.kinds)
    params = params_of(case.n_classes, seed=case.seed, max_bin=case.max_bin, **case.rules)
    model = train(X, y, params, categorical=categorical).model
    bins, upper = independent_bins(X, categorical, case.max_bin)
    values, scale, mean = integer_values(y, case.n_classes)
    nodes = build_tree(bins, values, rules_of(params, len(y), scale), categorical)
    assert_same_tree(model.trees[0], nodes, upper, categorical)
    assert_same_values(model.trees[0], nodes, case.n_classes, scale, mean)
    assert_routes_its_rows(model, X, nodes)


@examples(25)
@given(cases(st.integers(1, 9)))
def test_classification_trees_equal_the_brute_force(case: Case) -> None:
    check(case)


@examples(25)
@given(cases(st.just(0)))
def test_regression_trees_equal_the_brute_force(case: Case) -> None:
    check(case)


# More than 8192 rows: nodes keep one sum per field, children become small enough for packed words, and the larger
# child's histogram is its parent's less its sibling's, on both sides of that change.
@pytest.mark.parametrize(
    ("n_classes", "limits"), checkered([0, 9, 2], [{"num_leaves": 0, "min_child_samples": 60}, {"num_leaves": 40}])
)
def test_large_nodes_equal_the_brute_force(n_classes: int, limits: dict[str, int]) -> None:
    check(Case(7, 10_000, ("many", "gaps", "few", "category", "infinite"), n_classes, False, 255, limits))


def entropy(y: np.ndarray) -> float:
    share = np.unique(y, return_counts=True)[1] / len(y)
    return float(-(share * np.log2(share)).sum())


@pytest.mark.parametrize("n_classes", [0, 3])
def test_gains_are_those_of_definition_2_1(n_classes: int) -> None:
    """P(node) H(Y|node) less the same of both children, in bits; or with variances; leaves are shares or means."""
    X, y = Case(3, 400, ("many", "gaps", "few", "infinite"), n_classes, False, 255, {}).data()
    tree = train(X, y, params_of(n_classes, min_child_samples=5)).model.trees[0]
    impurity = entropy if n_classes else np.var
    rows = {0: np.arange(len(y))}
    for node in range(tree.n_nodes):
        here = rows[node]
        if tree.feature[node] < 0:
            mean = np.bincount(y[here].astype(int), minlength=n_classes) / len(here) if n_classes else y[here].mean()
            assert_allclose(tree.value[node], mean, rtol=1e-9)
            continue
        x = X[here, tree.feature[node]]
        is_left = np.where(np.isnan(x), tree.default_left[node] == 1, x <= tree.threshold[node])
        left = tree.left_child[node]
        rows[left], rows[left + 1] = here[is_left], here[~is_left]
        term = {i: len(rows[i]) / len(y) * impurity(y[rows[i]]) for i in (node, left, left + 1)}
        assert_allclose(tree.gain[node], term[node] - term[left] - term[left + 1], rtol=1e-7, atol=1e-12)


# Fewer than a sixth of the features: they are added up one by one. More: block by block, with subtraction.
@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize(("n_rows", "n_classes"), [(300, 0), (300, 7), (10_000, 2)])
def test_nodes_split_by_the_best_of_the_features_they_drew(share: float, n_rows: int, n_classes: int) -> None:
    case = Case(5, n_rows, (KINDS * 5)[:37], n_classes, False, 63, {})
    X, y = case.data()
    categorical = categories_of(case.kinds)
    tree_share = 0.8
    params = params_of(
        n_classes, seed=11, max_bin=63, colsample_bynode=share, colsample_bytree=tree_share, min_child_samples=3,
        num_leaves=40, n_threads=2,
    )  # fmt: skip
    model = train(X, y, params, categorical=categorical).model
    key = oracle.tree_key(11, 0)
    in_tree = sorted(oracle.draw(oracle.hash_number(oracle.hash_number(11, 2), 0), list(range(37)), round(0.8 * 37)))
    bins, upper = independent_bins(X, categorical, 63)
    values, scale, mean = integer_values(y, n_classes)
    n_drawn = round(share * len(in_tree))
    features_of = partial(oracle.draw_at_node, key, features=in_tree, n_chosen=n_drawn)
    nodes = build_tree(bins, values, rules_of(params, n_rows, scale), categorical, features_of=features_of)
    assert len(nodes) > 20
    assert_same_tree(model.trees[0], nodes, upper, categorical)
    assert_same_values(model.trees[0], nodes, n_classes, scale, mean)


def test_equal_gains_go_to_the_lower_feature_the_lower_bin_and_the_older_node() -> None:
    # Columns 0 and 1 mirror each other, and so do the cuts of column 0 around its middle.
    x = np.repeat([1.0, 2.0, 3.0, 4.0], 10)
    y = np.repeat([0.0, 1.0, 1.0, 0.0], 10)
    X = np.column_stack([x, -x, x])
    tree = train(X, y, params_of(2, num_leaves=3)).model.trees[0]
    assert_array_equal(tree.feature, [0, -1, 0, -1, -1])
    assert_array_equal(tree.threshold[[0, 2]], [1.5, 3.5])
    # Two children of the same gain and one split left: the first made, on the left, gets it.
    x = np.repeat([1.0, 2.0, 3.0, 4.0], 10)
    y = np.repeat([0.0, 10.0, 100.0, 110.0], 10)
    tree = train(x[:, None], y, params_of(0, num_leaves=3)).model.trees[0]
    assert_array_equal(tree.threshold, [2.5, 1.5, 0.0, 0.0, 0.0])


def test_missing_values_go_right_where_both_sides_are_as_good() -> None:
    x = np.array([1.0] * 8 + [2.0] * 8 + [np.nan] * 8)
    y = np.array([0.0] * 8 + [2.0] * 8 + [1.0] * 8)
    tree = train(x[:, None], y, params_of(0, num_leaves=2)).model.trees[0]
    assert (tree.threshold[0], tree.default_left[0]) == (1.5, 0)
