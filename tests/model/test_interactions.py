"""SHAP interaction values and values along the path: against their definitions, and against XGBoost's."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import pvtree
import pvtree.as_xgboost as xgb
from pvtree.errors import InvalidParameterError
from pvtree.model import Model, Tree
from pvtree.model.interactions import interactions, path_values
from random_trees import random_model, random_rows
from shap_trees import counted, expectation, stump_side


def pair_by_definition(tree: Tree, row: np.ndarray, i: int, j: int, used: list[int]) -> np.ndarray:
    """Half of what i and j add together, weighted by the share of orders of the pair and the others."""
    others, total = [each for each in used if each not in (i, j)], np.zeros(tree.n_values)
    for size in range(len(others) + 1):
        weight = factorial(size) * factorial(len(others) - size) / (2 * factorial(len(others) + 1))
        for known in combinations(others, size):
            both, first, second = ({*known, i, j}, {*known, i}, {*known, j})
            answers = [expectation(tree, row, each) for each in (both, first, second, set(known))]
            total += weight * (answers[0] - answers[1] - answers[2] + answers[3])
    return total


def pairs_naive(model: Model, X: np.ndarray) -> np.ndarray:
    """(n, n_outputs, n_features, n_features) with 0 on the diagonal."""
    out = np.zeros((len(X), model.n_outputs, model.n_features, model.n_features))
    for t, tree in enumerate(model.trees):
        outputs = slice(None) if tree.n_values > 1 else slice(t % model.n_outputs, t % model.n_outputs + 1)
        used = sorted(set(tree.feature[tree.feature >= 0].tolist()))
        for i, j in combinations(used, 2):
            for row in range(len(X)):
                found = pair_by_definition(tree, X[row], i, j, used)
                out[row, outputs, i, j] += found
                out[row, outputs, j, i] += found
    return out / (len(model.trees) if model.ensemble == "forest" else 1)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.sampled_from([0, 1, 2, 5, 9]), min_size=1, max_size=3),
    kind=st.sampled_from([("gbdt", 1), ("gbdt", 2), ("forest", 1), ("forest", 2)]),
    least=st.sampled_from([0, 1]),
)
def test_interactions_are_those_of_the_definition(seed, sizes, kind, least):
    ensemble, n_outputs = kind
    model = random_model(seed, sizes * (n_outputs if ensemble == "gbdt" else 1), n_outputs, ensemble)
    model = counted(model, seed, least)
    X = random_rows(np.random.default_rng(seed), 3)
    found = interactions(model, X)
    off_diagonal = found[:, :, :-1, :-1].copy()
    diagonal = np.arange(model.n_features)
    off_diagonal[:, :, diagonal, diagonal] = 0.0
    np.testing.assert_allclose(off_diagonal, pairs_naive(model, X), rtol=0, atol=1e-12)
    single = model.predict_contrib(X).reshape(found.shape[:3])
    np.testing.assert_allclose(found.sum(axis=3), single, rtol=0, atol=1e-12)
    assert not found[:, :, :-1, -1].any()


def path_naive(model: Model, X: np.ndarray) -> np.ndarray:
    out = np.zeros((len(X), model.n_outputs, model.n_features + 1))
    for t, tree in enumerate(model.trees):
        outputs = slice(None) if tree.n_values > 1 else slice(t % model.n_outputs, t % model.n_outputs + 1)
        for row in range(len(X)):
            node, before = 0, expectation(tree, X[row], set())
            out[row, outputs, -1] += before
            while tree.feature[node] >= 0:
                feature = tree.feature[node]
                node = int(tree.left_child[node]) + stump_side(tree, X[row], node)
                after = expectation(tree, X[row], set(), node)
                out[row, outputs, feature] += after - before
                before = after
    out /= len(model.trees) if model.ensemble == "forest" else 1
    out[:, :, -1] += model.init_score
    return out.reshape(len(X), -1)


@pytest.mark.parametrize(("ensemble", "n_outputs"), [("gbdt", 2), ("forest", 2)])
def test_values_along_the_path(ensemble, n_outputs):
    model = counted(random_model(5, [9, 4, 0, 12], n_outputs, ensemble), 5)
    X = random_rows(np.random.default_rng(5), 30)
    np.testing.assert_allclose(path_values(model, X), path_naive(model, X), rtol=0, atol=1e-12)


def make_rows(n_classes: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    known = np.nan_to_num(X)
    y = known[:, 0] * known[:, 1] + known[:, 2]
    return X, np.digitize(y, np.linspace(-1, 1, n_classes - 1)) if n_classes > 1 else y


@pytest.mark.parametrize("asked", [{"pred_interactions": True}, {"pred_contribs": True, "approx_contribs": True}])
def test_xgboost_has_the_same_values(tmp_path, asked):
    """With squared error, whose hessians are counts: XGBoost weighs nodes by hessians."""
    xgboost = pytest.importorskip("xgboost")
    X, y = make_rows()
    params = {"max_depth": 4, "nthread": 1, "base_score": 0.5}
    theirs = xgboost.train(params, xgboost.DMatrix(X, y), 5)
    theirs.save_model(tmp_path / "theirs.json")
    ours = xgb.Booster(model_file=tmp_path / "theirs.json")
    expected = theirs.predict(xgboost.DMatrix(X), **asked)
    np.testing.assert_allclose(ours.predict(xgb.DMatrix(X), **asked), expected, rtol=0, atol=2e-6)
    own = xgb.train(params, xgb.DMatrix(X, y), 5)
    own.save_model(tmp_path / "own.json")
    again = xgboost.Booster(model_file=tmp_path / "own.json")
    np.testing.assert_allclose(
        own.predict(xgb.DMatrix(X), **asked), again.predict(xgboost.DMatrix(X), **asked), rtol=0, atol=2e-6
    )
    for strict in (False, True):
        shapes = [
            model.predict(rows, strict_shape=strict, **asked).shape
            for model, rows in ((ours, xgb.DMatrix(X)), (theirs, xgboost.DMatrix(X)))
        ]
        assert shapes[0] == shapes[1]


def test_shapes_of_several_classes_and_sparse_rows():
    X, y = make_rows(3)
    booster = xgb.train({"objective": "multi:softprob", "num_class": 3, "max_depth": 3}, xgb.DMatrix(X, y), 3)
    found = booster.predict(xgb.DMatrix(X), pred_interactions=True)
    assert found.shape == (300, 3, 5, 5)
    margin = booster.predict(xgb.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(found.sum(axis=(2, 3)), margin, rtol=0, atol=1e-12)
    few = booster.predict(xgb.DMatrix(X), pred_interactions=True, iteration_range=(0, 1))
    assert np.abs(few - found).max() > 1e-3
    X = np.where(np.abs(np.nan_to_num(X)) < 0.8, 0.0, np.nan_to_num(X))
    model = pvtree.GBDTClassifier(n_estimators=3, num_leaves=7).fit(X, y).model_
    np.testing.assert_array_equal(interactions(model, csr_array(X)), interactions(model, X))
    np.testing.assert_array_equal(path_values(model, csr_array(X)), path_values(model, X))
    assert interactions(model, X[:0]).shape == (0, 3, 5, 5)


def test_what_is_refused():
    X, y = make_rows()
    booster = xgb.train({"max_depth": 2}, xgb.DMatrix(X, y), 2)
    with pytest.raises(InvalidParameterError, match="approx_contribs=True is for pred_contribs; leave it out"):
        booster.predict(xgb.DMatrix(X), pred_interactions=True, approx_contribs=True)
    linear = pvtree.GBDTRegressor(n_estimators=2, linear_tree=True).fit(X, y).model_
    for explain, name in ((interactions, "pred_interactions"), (path_values, "approx_contribs")):
        with pytest.raises(InvalidParameterError, match=name):
            explain(linear, X)
