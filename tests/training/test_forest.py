"""Forests: each tree on its own bootstrap of the rows, whatever the threads and however many trees there are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import oracle
from pvtree.binning.shard import make_shard
from pvtree.binning.thresholds import choose_own_bins
from pvtree.comm.worker import Worker
from pvtree.kernels.team import Team
from pvtree.model import Model
from pvtree.parameters.params import Params
from pvtree.reading.training_rows import TrainingRows
from pvtree.training.forest import Planter, plant_forest
from pvtree.training.train import train

N_ROWS, N_FEATURES = 250, 5
MOST_COPIES = 8
LARGEST_WITH_COPIES = 2**19 - 1  # the integer that 8 copies of the most distant label may become


def params_of(n_classes: int, **more: Any) -> Params:
    settings: dict[str, Any] = {
        "ensemble": "forest", "n_classes": max(1, n_classes), "n_estimators": 3, "num_leaves": 0, "bootstrap": True,
        "objective": "classification" if n_classes else "regression",
        "criterion": "entropy" if n_classes else "variance",
        "min_child_samples": 2, "min_child_weight": 0.0, "verbosity": 0,
    }  # fmt: skip
    return Params(**settings | more)


def rows_of(n_classes: int, n_rows: int = N_ROWS) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n_rows, N_FEATURES))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0] + X[:, 1] ** 2) + 0.3 * rng.normal(size=n_rows)
    return X, np.floor(3 * y) % n_classes if n_classes else y


def copies_of(seed: int, tree: int) -> np.ndarray:
    """Poisson(1) by inversion of the row's hash."""
    key = oracle.hash_number(oracle.hash_number(seed, 1), tree)
    uniform = np.array([(oracle.hash_number(key, row) >> 11) / 2.0**53 for row in range(N_ROWS)])
    below = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(MOST_COPIES)])
    return np.searchsorted(below, uniform, side="right")


@pytest.mark.parametrize("n_classes", [0, 2, 7])
def test_trees_equal_the_brute_force_on_their_bootstrap(n_classes: int) -> None:
    X, y = rows_of(n_classes)
    params = params_of(n_classes, seed=3)
    model = train(X, y, params).model
    with Team(1) as team:
        thresholds = choose_own_bins(X, np.arange(len(X)), (0, X.shape[1]), {}, 255, team)
    upper = [thresholds.upper[f, : thresholds.n_bins[f] - 1] for f in range(N_FEATURES)]
    bins = np.column_stack([oracle.bin_values(X[:, f], upper[f]) for f in range(N_FEATURES)])
    mean = math.fsum(y) / N_ROWS
    scale = float(np.abs(mean - y).max() * MOST_COPIES / LARGEST_WITH_COPIES)
    for number, tree in enumerate(model.trees):
        copies = copies_of(3, number)
        if n_classes:
            values = np.eye(n_classes, dtype=np.int64)[y.astype(int)] * copies[:, None]
        else:
            values = np.column_stack([copies, copies * oracle.quantize(mean - y, scale, key=None)])
        total = copies.sum()
        rules = oracle.Rules(
            entropy=n_classes > 0, grad_scale=scale, min_count=2,
            gain_scale=1.0 / (total * np.log(2.0)) if n_classes else 1.0 / total,
        )  # fmt: skip
        nodes = oracle.build_tree(bins, values, rules, rows=np.flatnonzero(copies))
        oracle.assert_same_tree(tree, nodes, upper, ())
        sums = np.array([node.sums for node in nodes])
        if n_classes:
            assert_array_equal(tree.value, sums / sums.sum(axis=1, keepdims=True))
            assert_array_equal(tree.weight, sums.sum(axis=1))
            continue
        assert_allclose(tree.value[:, 0], mean - sums[:, 1] * scale / sums[:, 0], rtol=1e-12)
        means = [np.average(y[node.rows], weights=copies[node.rows]) for node in nodes]
        assert_allclose(tree.value[:, 0], means, atol=1e-4)


@pytest.mark.parametrize("n_classes", [0, 4])
def test_a_tree_depends_on_its_number_only(n_classes: int) -> None:
    X, y = rows_of(n_classes)
    few = train(X, y, params_of(n_classes, n_estimators=2, n_threads=3)).model
    many = train(X, y, params_of(n_classes, n_estimators=7, n_threads=2)).model
    assert few.trees == many.trees[:2]
    rest = train(X, y, params_of(n_classes, n_estimators=5), init_model=few).model
    assert rest.to_json() == many.to_json()
    assert len({tree.n_nodes for tree in many.trees}) > 1


@pytest.mark.parametrize("n_classes", [0, 4])
def test_predictions_are_the_mean_of_the_trees(n_classes: int) -> None:
    X, y = rows_of(n_classes)
    model = train(X, y, params_of(n_classes)).model
    alone = [
        Model((tree,), model.objective, "forest", N_FEATURES, model.n_outputs, model.init_score).predict_raw(X)
        for tree in model.trees
    ]
    assert_allclose(model.predict_raw(X), np.mean(alone, axis=0), rtol=1e-14, atol=1e-14)
    if n_classes:
        assert_allclose(model.predict_raw(X).sum(axis=1), 1.0, rtol=1e-14)


def test_a_forest_may_be_left_before_its_last_tree() -> None:
    X, y = rows_of(3)
    params = params_of(3, n_estimators=50)
    with Team(2) as team:
        shard = make_shard(TrainingRows(X, y), {}, params, team)
        trees = plant_forest(Planter(shard, params, Worker.alone(team)), 50, 0)
        first = [next(trees) for _ in range(2)]
        trees.close()  # type: ignore[attr-defined]
        again = plant_forest(Planter(shard, params, Worker.alone(Team(1))), 50, 0)
        assert first == [next(again) for _ in range(2)]


@pytest.mark.parametrize("n_classes", [0, 2])
@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_a_bootstrap_of_very_few_rows_is_never_empty(n_rows: int, n_classes: int) -> None:
    X, y = np.arange(float(n_rows))[:, None], np.arange(float(n_rows)) % 2
    model = train(X, y, params_of(n_classes, n_estimators=60, min_child_samples=1)).model
    raw = model.predict_raw(X)
    assert np.isfinite(raw).all() and raw.min() >= 0.0 and raw.max() <= 1.0
    assert min(tree.count[0] for tree in model.trees) > 0


@pytest.mark.parametrize("n_classes", [0, 2])
def test_rows_of_weight_zero_are_in_no_tree(n_classes: int) -> None:
    X, y = rows_of(n_classes)
    counted = np.arange(N_ROWS) % 3 > 0
    weight = np.where(counted, 1.5, 0.0)
    spoilt = np.where(counted, y, 0.0 if n_classes else 1e6)
    params = params_of(n_classes, bootstrap=False, n_estimators=1)
    tree = train(X, spoilt, params, weight=weight).model.trees[0]
    assert tree.count[0] == counted.sum()
    assert_allclose(tree.weight[0], 1.5 * counted.sum(), rtol=1e-3)
    assert np.abs(tree.value).max() < 100


@pytest.mark.parametrize("n_classes", [0, 3])
def test_weights_shift_leaves_towards_the_heavier_rows(n_classes: int) -> None:
    X, y = rows_of(n_classes)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, N_ROWS)
    params = params_of(n_classes, bootstrap=False, n_estimators=1, num_leaves=4)
    model = train(X, y, params, weight=weight).model
    leaf = model.predict_leaf(X)[:, 0]
    for number in range(4):
        here = leaf == number
        raw = model.predict_raw(X[here][:1])[0]
        if n_classes:
            expected = np.bincount(y[here].astype(int), weight[here], n_classes) / weight[here].sum()
        else:
            expected = np.average(y[here], weights=weight[here])
        # Weights of classes are kept to 12 bits; sums of weighted labels are exact.
        assert_allclose(raw, expected, atol=1e-3 if n_classes else 1e-9)


@pytest.mark.parametrize("n_classes", [0, 2])
def test_trees_without_the_heaviest_row_still_learn(n_classes: int) -> None:
    X, y = rows_of(n_classes)
    weight = np.ones(N_ROWS)
    weight[0] = 1e6
    model = train(X, y, params_of(n_classes, n_estimators=20), weight=weight).model
    assert np.isfinite(model.predict_raw(X)).all()
    assert max(tree.n_leaves for tree in model.trees if tree.weight[0] < 1e5) > 10
