"""Boosting against the brute force on the same quantized integers, and what never may depend on threads or order."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import oracle
from oracle import Rules, assert_same_tree, build_tree
from pvtree.binning.shard import make_shard
from pvtree.comm.worker import Worker
from pvtree.kernels.team import Team
from pvtree.model import Model, Tree
from pvtree.objectives.losses import make_loss
from pvtree.parameters.params import Params
from pvtree.reading.training_rows import TrainingRows
from pvtree.training.boosting import BoostingLoop
from pvtree.training.train import train
from small_data import categories_of, independent_bins, make_columns

KINDS = ("many", "gaps", "category", "few", "infinite", "constant", "many", "missing", "extreme") * 2
# The largest integers a row's gradient and hessian become: alone beside the count, and side by side.
LARGEST_ALONE = 2**36 - 1
LARGEST_GRADIENT, LARGEST_HESSIAN = 2047, 4095
GROUP = np.array([7, 1, 30, 12, 50, 100, 40, 60])
OBJECTIVES: dict[str, dict[str, Any]] = {
    "regression": {},
    "binary": {"n_classes": 2},
    "multiclass": {"n_classes": 4},
    "lambdarank": {"lambdarank_truncation_level": 5},
}


def small_data(objective: str, n_rows: int = 300, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = make_columns(KINDS, n_rows, rng)
    signal = X[:, 0] + np.nan_to_num(X[:, 1]) - (X[:, 2] % 3 == 1) + rng.normal(size=n_rows) * 0.3
    if objective == "regression":
        return X, signal + 5.0
    if objective == "binary":
        return X, (signal > 1.0).astype(np.float64)
    edges = np.quantile(signal, [0.25, 0.5, 0.75])
    return X, np.searchsorted(edges, signal).astype(np.float64)


def params_of(objective: str, **more: Any) -> Params:
    settings = {"objective": objective, "n_estimators": 4, "num_leaves": 9, "min_child_samples": 3, "verbosity": 0}
    return Params(**settings | OBJECTIVES[objective] | more)


def fit(X: np.ndarray, y: np.ndarray, params: Params, **more: Any) -> Model:
    group = GROUP if params.objective == "lambdarank" else None
    return train(X, y, params, categorical=categories_of(KINDS), group=group, **more).model


def plain_gradients(
    objective: str, y: np.ndarray, raw: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(n_outputs, n_rows) each, from raw scores (n_rows, n_outputs), by the textbook formulas."""
    if objective == "regression":
        gradient, hessian = raw.T - y, np.ones((1, len(y)))
    elif objective == "binary":
        p = 1.0 / (1.0 + np.exp(-raw.T))
        gradient, hessian = p - y, p * (1.0 - p)
    else:
        p = np.exp(raw.T - raw.max(axis=1))
        p /= p.sum(axis=0)
        is_class = np.arange(len(p))[:, None] == y
        gradient, hessian = p - is_class, len(p) / (len(p) - 1.0) * p * (1.0 - p)
    return gradient * weight, hessian * weight


def check_tree(
    tree: Tree, params: Params, number: int, bins: np.ndarray, upper: list[np.ndarray], gradient: np.ndarray,
    hessian: np.ndarray | None, rows: np.ndarray | None = None,
) -> None:  # fmt: skip
    """One tree against the brute force on integers quantized anew; no hessian means that each row's is 1."""
    key = oracle.tree_key(params.seed, number)
    used = slice(None) if rows is None else rows
    largest_gradient = np.abs(gradient[used]).max()
    grad_scale = float(largest_gradient / (LARGEST_ALONE if hessian is None else LARGEST_GRADIENT))
    hess_scale = 1.0 if hessian is None else float(hessian[used].max() / LARGEST_HESSIAN)
    hess = np.ones(len(gradient), np.int64)
    if hessian is not None:
        hess = oracle.quantize(hessian, hess_scale, key, low_half=True)
    values = np.column_stack([hess, oracle.quantize(gradient, grad_scale, key)])
    rules = Rules(
        entropy=False, hess_scale=hess_scale, grad_scale=grad_scale, reg_lambda=params.reg_lambda,
        reg_alpha=params.reg_alpha, min_count=params.min_child_samples, min_hess=params.min_child_weight,
        min_gain=params.min_split_gain, max_leaves=params.num_leaves, max_depth=params.max_depth,
    )  # fmt: skip
    categorical = categories_of(KINDS)
    nodes = build_tree(bins, values, rules, categorical, rows)
    assert_same_tree(tree, nodes, upper, categorical)
    # Quantized sums choose the splits; leaf values come from the gradients themselves.
    G = np.array([math.fsum(gradient[node.rows]) for node in nodes])
    H = np.array([float(len(node.rows)) if hessian is None else math.fsum(hessian[node.rows]) for node in nodes])
    shrunk = np.sign(G) * np.maximum(np.abs(G) - params.reg_alpha, 0.0)
    expected = -params.learning_rate * shrunk / (H + params.reg_lambda)
    assert_allclose(tree.value[:, 0], expected, rtol=1e-9, atol=1e-9)
    assert_allclose(tree.weight, H, rtol=1e-9)


PENALTIES: list[dict[str, Any]] = [
    {},
    {"reg_lambda": 3.0, "reg_alpha": 0.5},
    {"min_child_weight": 4.0, "min_split_gain": 0.2, "max_depth": 3},
]


@pytest.mark.parametrize("penalties", PENALTIES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
def test_every_iteration_equals_the_brute_force(objective: str, weighted: bool, penalties: dict[str, Any]) -> None:
    X, y = small_data(objective)
    weight = np.random.default_rng(4).uniform(0.2, 3.0, len(y)) if weighted else None
    params = params_of(objective, seed=17, **penalties)
    model = fit(X, y, params, weight=weight)
    bins, upper = independent_bins(X, categories_of(KINDS), 255)
    raw = np.repeat(model.init_score[None, :], len(y), axis=0)
    for iteration in range(params.n_estimators):
        gradient, hessian = plain_gradients(objective, y, raw, np.ones(len(y)) if weight is None else weight)
        for output in range(model.n_outputs):
            number = iteration * model.n_outputs + output
            unit = objective == "regression" and not weighted
            hess = None if unit else hessian[output]
            check_tree(model.trees[number], params, number, bins, upper, gradient[output], hess)
        raw = model.predict_raw(X, n_iterations=iteration + 1)
    assert max(tree.n_leaves for tree in model.trees) > 4


def test_ranking_equals_the_brute_force_on_the_gradients_of_its_loss() -> None:
    X, y = small_data("lambdarank")
    params = params_of("lambdarank", min_child_weight=0.0)
    model = fit(X, y, params)
    bins, upper = independent_bins(X, categories_of(KINDS), 255)
    loss = make_loss(params, y, None, GROUP)
    gradient, hessian = np.empty((1, len(y))), np.empty((1, len(y)))
    for iteration in range(params.n_estimators):
        scores = np.zeros((1, len(y)))
        if iteration:
            scores = np.ascontiguousarray(model.predict_raw(X, n_iterations=iteration).T)
        with Team(1) as team:
            loss.gradients(scores, gradient, hessian, team)
        check_tree(model.trees[iteration], params, iteration, bins, upper, gradient[0], hessian[0])


def test_an_iteration_grows_on_the_rows_that_the_hash_of_their_id_keeps() -> None:
    """Two iterations share a sample; rows of weight 0 are never in it."""
    X, y = small_data("regression")
    weight = np.ones(len(y))
    weight[::7] = 0.0
    params = params_of("regression", seed=5, subsample=0.6, subsample_freq=2)
    model = fit(X, y, params, weight=weight)
    bins, upper = independent_bins(X, categories_of(KINDS), 255)
    raw = np.repeat(model.init_score[None, :], len(y), axis=0)
    for iteration in range(params.n_estimators):
        key = oracle.hash_number(oracle.hash_number(5, 1), iteration // 2)
        drawn = np.array([oracle.hash_number(key, row) < 0.6 * 2**64 for row in range(len(y))])
        gradient, hessian = plain_gradients("regression", y, raw, weight)
        rows = np.flatnonzero(drawn & (weight > 0))
        check_tree(model.trees[iteration], params, iteration, bins, upper, gradient[0], hessian[0], rows)
        raw = model.predict_raw(X, n_iterations=iteration + 1)


@pytest.mark.parametrize("sampling", [{}, {"subsample": 0.5, "subsample_freq": 1, "colsample_bytree": 0.5}])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_scores_are_the_predictions_of_the_training_rows(objective: str, sampling: dict[str, Any]) -> None:
    X, y = small_data(objective)
    weight = np.where(np.arange(len(y)) % 5 == 0, 0.0, 2.0)
    params = params_of(objective, n_estimators=12, n_threads=2, **sampling)
    model = fit(X, y, params, weight=weight)
    with Team(2) as team:
        group = GROUP if objective == "lambdarank" else None
        shard = make_shard(TrainingRows(X, y, weight, group), categories_of(KINDS), params, team)
        booster = BoostingLoop(shard, params, Worker.alone(team))
        iterations = booster.iterations(0)
        trees = [tree for _ in range(12) for tree in next(iterations)]
    assert trees == list(model.trees)
    assert_allclose(booster.scores.T, model.predict_raw(X), rtol=1e-12, atol=1e-12)


SAMPLED = {"subsample": 0.7, "subsample_freq": 1, "colsample_bytree": 0.8, "colsample_bynode": 0.5}
FOREST = {"ensemble": "forest", "n_estimators": 5, "bootstrap": True, "colsample_bynode": 0.3, "num_leaves": 0}
TRAININGS: dict[str, Params] = {
    **{objective: params_of(objective, **SAMPLED) for objective in OBJECTIVES},
    "plain regression": params_of("regression"),
    "class forest": Params(objective="classification", criterion="entropy", n_classes=4, verbosity=0, **FOREST),
    "value forest": Params(objective="regression", criterion="variance", verbosity=0, **FOREST),
    "one tree": Params(
        objective="classification", criterion="entropy", n_classes=4, verbosity=0,
        **FOREST | {"n_estimators": 1, "bootstrap": False},
    ),
}  # fmt: skip


@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize("n_rows", [300, 20_000])
def test_models_are_byte_identical_for_any_number_of_threads_and_again(training: str, n_rows: int) -> None:
    params = TRAININGS[training]
    kind = "multiclass" if params.criterion == "entropy" else str(params.objective)
    X, y = small_data(kind, n_rows)
    weight = np.random.default_rng(6).uniform(0.5, 2.0, n_rows) if training in ("binary", "value forest") else None
    group = np.tile(GROUP, n_rows // 300 + 1)
    group = group[: np.searchsorted(np.cumsum(group), n_rows) + 1]
    group[-1] -= group.sum() - n_rows
    texts = [
        train(
            X, y, Params(**vars(params) | {"n_threads": n_threads}), weight=weight, categorical=categories_of(KINDS),
            group=group if kind == "lambdarank" else None,
        ).model.to_json()
        for n_threads in (1, 2, 3, 2)
    ]  # fmt: skip
    assert len(set(texts)) == 1


def permuted(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(8).permutation(len(y))
    return X[order], y[order]


def test_class_counts_do_not_depend_on_the_order_of_the_rows() -> None:
    X, y = small_data("multiclass", 12_000)
    params = Params(**vars(TRAININGS["one tree"]) | {"min_child_samples": 4})
    assert fit(*permuted(X, y), params).to_json() == fit(X, y, params).to_json()


def test_fixed_point_sums_do_not_depend_on_the_order_of_the_rows() -> None:
    """Rounding hashes the row's id, so sums differ by 2^-36 of the largest label: never enough for another split."""
    X, y = small_data("regression", 12_000)
    params = params_of("regression", num_leaves=60, n_estimators=3, learning_rate=0.5, cat_l2=0.0)
    one, other = fit(X, y, params), fit(*permuted(X, y), params)
    for a, b in zip(one.trees, other.trees, strict=True):
        for name in ("feature", "threshold", "left_child", "default_left", "cat_set", "cat_sets", "count"):
            assert_array_equal(getattr(a, name), getattr(b, name))
        assert_allclose(a.value, b.value, rtol=1e-7, atol=1e-9)


def test_the_score_to_start_from_is_the_best_constant() -> None:
    X, y = small_data("binary")
    mean = math.fsum(y) / len(y)
    assert_allclose(fit(X, y, params_of("binary")).init_score, math.log(mean / (1 - mean)), rtol=1e-14)
    X, y = small_data("regression")
    assert_allclose(fit(X, y, params_of("regression")).init_score, math.fsum(y) / len(y), rtol=1e-14)


def test_training_goes_on_where_a_model_stopped() -> None:
    X, y = small_data("binary")
    whole = fit(X, y, params_of("binary", n_estimators=6, **SAMPLED))
    half = fit(X, y, params_of("binary", n_estimators=3, **SAMPLED))
    rest = fit(X, y, params_of("binary", n_estimators=3, **SAMPLED), init_model=half)
    assert rest.to_json() == whole.to_json()


def test_a_sample_without_the_heaviest_row_takes_no_giant_steps() -> None:
    X, y = small_data("binary")
    weight = np.ones(len(y))
    weight[0] = 1e5
    params = params_of("binary", n_estimators=1, subsample=0.5, subsample_freq=1)
    for seed in range(8):  # some of the samples have the heavy row, some have not
        model = fit(X, y, replace(params, seed=seed), weight=weight)
        p = 1.0 / (1.0 + np.exp(-model.init_score[0]))
        # A Newton step is a weighted mean of the rows' own steps, |p - y| / (p (1 - p)).
        assert np.abs(model.trees[0].value).max() <= 1.001 * params.learning_rate / min(p, 1.0 - p)
