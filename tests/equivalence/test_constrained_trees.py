"""Constrained trees: those of a brute force, on every strategy and number of workers, and as good as LightGBM's."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from test_cart import integer_values, params_of, rules_of

import oracle
from oracle import Node, assert_same_tree, build_tree
from pvtree.model import Model, Tree
from pvtree.parameters.params import Params
from pvtree.training.train import train
from small_data import categories_of, independent_bins, make_columns
from thoroughness import checkered, examples

pytestmark = pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")
KINDS = ("many", "few", "gaps", "category", "many", "infinite", "few")
SIGNS = (1, -1, 1, 0, -1, 0, 0)
SETS = ((0, 1, 3), (2, 3, 4), (4, 5))


def data(seed: int, n_rows: int, n_classes: int, n_times: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """KINDS, so many times over; other rows of equal kinds have other values."""
    rng = np.random.default_rng(seed)
    X = make_columns(KINDS * n_times, n_rows, rng)
    signal = np.nan_to_num(X[:, :6], nan=-0.5, posinf=2.0, neginf=-2.0).clip(-3, 3) @ rng.normal(size=6)
    signal += np.abs(X[:, 0]) + rng.normal(size=n_rows)  # neither rises nor falls with a constrained column
    return X, (np.floor(signal) % 2 if n_classes else signal)


def expected_values(nodes: list[Node], rules: oracle.Rules) -> np.ndarray:
    """Outputs of all nodes, each clipped to what the nodes above leave it."""
    values = np.array([float(oracle.outputs(node.sums, rules)) for node in nodes])
    limits = {id(nodes[0]): nodes[0].limits}
    for i, node in enumerate(nodes):
        values[i] = np.clip(values[i], *limits[id(node)])
        if node.children and node.split:
            below = [float(oracle.outputs(child.sums, rules)) for child in node.children]
            sides = oracle.child_limits(limits[id(node)], below, rules.monotone[node.split.feature])
            limits |= {id(child): side for child, side in zip(node.children, sides, strict=True)}
    return values


@examples(30)
@given(
    st.integers(0, 2**32),
    st.integers(20, 150),
    st.sampled_from([0, 2]),
    st.sampled_from([(), SIGNS, tuple(-sign for sign in SIGNS), (1, 1, 1, 0, 1, 1, 1)]),
    st.sampled_from([(), SETS, ((0,), (1,), (6,)), tuple((i % 7, (i + 1) % 7) for i in range(70))]),
    st.sampled_from([0, 9]),
)
def test_trees_equal_the_brute_force(
    seed: int, n_rows: int, n_classes: int, signs: tuple[int, ...], sets: tuple[tuple[int, ...], ...], num_leaves: int
) -> None:
    check(seed, n_rows, n_classes, signs, sets, num_leaves)


def test_columns_searched_side_by_side() -> None:
    """Enough columns and rows that blocks of columns are searched at once; the best ones have the wrong sign."""
    for sign in (1, -1):
        signs = (sign, sign, sign, 0, sign, sign, sign) * 2
        check(1, 2000, 0, signs, (), 15, n_times=2)
        check(2, 2000, 0, signs, ((*range(7),), (*range(5, 14),)), 15, n_times=2)


def check(
    seed: int, n_rows: int, n_classes: int, signs: tuple[int, ...], sets: tuple[tuple[int, ...], ...],
    num_leaves: int, n_times: int = 1,
) -> None:  # fmt: skip
    X, y = data(seed, n_rows, n_classes, n_times)
    categorical = categories_of(KINDS * n_times)
    params = params_of(
        n_classes, max_bin=31, min_child_samples=3, num_leaves=num_leaves, monotone_constraints=signs,
        interaction_constraints=sets,
    )  # fmt: skip
    tree = train(X, y, params, categorical=categorical).model.trees[0]
    bins, upper = independent_bins(X, categorical, 31)
    values, scale, mean = integer_values(y, n_classes)
    rules = replace(rules_of(params, len(y), scale), monotone=signs, sets=sets)
    nodes = build_tree(bins, values, rules, categorical)
    assert_same_tree(tree, nodes, upper, categorical)
    if signs:
        shares = expected_values(nodes, rules)
        ours = tree.value[:, 1] if n_classes else tree.value[:, 0] - mean
        assert_allclose(ours, shares * (1.0 if n_classes else scale), rtol=1e-9, atol=1e-12)


# Every strategy


@cache
def model_of(params: Params, learner: str, n_workers: int) -> Model:
    X, y = data(5, 160, params.n_classes - 1)
    top_k = 1 if learner == "exact_voting" else 4  # an election that proofs must correct, or of all columns
    params = replace(params, tree_learner=learner, n_workers=n_workers, top_k=top_k)
    return train(X, y, params, categorical=categories_of(KINDS)).model


SMALL: dict[str, Any] = {"n_estimators": 3, "num_leaves": 9, "min_child_samples": 3, "max_bin": 31, "verbosity": 0}
BOTH: dict[str, Any] = {"monotone_constraints": SIGNS, "interaction_constraints": SETS}
CASES = {
    "regression": Params(**SMALL | BOTH),
    "classes": Params(objective="binary", n_classes=2, reg_alpha=0.1, reg_lambda=1.0, **SMALL | BOTH),
    "nodes that draw": Params(colsample_bynode=0.4, **SMALL | BOTH),
    "a column alone": Params(colsample_bytree=0.5, **SMALL | {"interaction_constraints": ((0,),)}),
    "forest": Params(
        ensemble="forest", objective="classification", criterion="entropy", n_classes=2, bootstrap=True,
        **SMALL | BOTH | {"num_leaves": 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "learner"), checkered(CASES, ["data", "attribute", "exact_voting", "voting", "quantized"])
)
def test_strategies_make_the_trees_of_one_worker(name: str, learner: str) -> None:
    params = CASES[name]
    alone = model_of(params, "quantized" if learner == "quantized" else "serial", 1)
    unconstrained = replace(params, monotone_constraints=(), interaction_constraints=())
    assert alone.to_json() != model_of(unconstrained, "serial", 1).to_json()
    for n_workers in (2, 5):
        assert model_of(params, learner, n_workers).to_json() == alone.to_json(), n_workers


def paths(tree: Tree) -> list[set[int]]:
    """The columns above each leaf."""
    above: list[set[int]] = [set() for _ in range(tree.n_nodes)]
    for node in np.flatnonzero(tree.feature >= 0):  # parents come before their children
        for child in (tree.left_child[node], tree.left_child[node] + 1):
            above[child] = above[node] | {int(tree.feature[node])}
    return [above[node] for node in np.flatnonzero(tree.feature < 0)]


@pytest.mark.parametrize("learner", ["voting", "svore", "yu"])
def test_learners_with_trees_of_their_own_keep_to_the_sets(learner: str) -> None:
    model = model_of(replace(CASES["regression"], n_estimators=4), learner, 3)
    found = [path for tree in model.trees for path in paths(tree)]
    assert all(any(path <= set(each) for each in SETS) for path in found)
    assert max(map(len, found)) > 1


# LightGBM

lightgbm = pytest.importorskip("lightgbm")


@pytest.mark.parametrize("constraints", [{"monotone_constraints": [1, -1, 1, 0, 0]},
                                         {"interaction_constraints": [[0, 1], [2, 3]]}])  # fmt: skip
def test_metrics_are_those_of_lightgbm(constraints: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4000, 5))
    y = X[:, 0] + np.sin(2 * X[:, 1]) - X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4] + rng.normal(size=4000)
    shared = {"n_estimators": 40, "num_leaves": 15, "min_child_samples": 20}
    settled = {name: tuple(map(_as_tuple, value)) for name, value in constraints.items()}
    model = train(X[:2000], y[:2000], Params(verbosity=0, **shared, **settled)).model
    peer = lightgbm.LGBMRegressor(**shared, **constraints, n_jobs=1, verbosity=-1).fit(X[:2000], y[:2000])
    ours, theirs = model.predict_raw(X[2000:])[:, 0], peer.predict(X[2000:])
    errors = [float(np.sqrt(np.mean((y[2000:] - predicted) ** 2))) for predicted in (ours, theirs)]
    assert abs(errors[0] / errors[1] - 1.0) < 0.012, errors
    free = train(X[:2000], y[:2000], Params(verbosity=0, **shared)).model.predict_raw(X[2000:])[:, 0]
    # Much nearer to LightGBM's constrained model than to our own without constraints.
    assert np.mean((ours - theirs) ** 2) < 0.2 * np.mean((ours - free) ** 2)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
