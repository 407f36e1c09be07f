"""SHAP values against their definition (a mean over all orders of the features), and against LightGBM's."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import factorial

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import pvtree
from estimator_samples import ALL, CLASSIFIERS, fitted
from pvtree.model import Model, Tree
from pvtree.model.contributions import quadrature
from pvtree.reading.dask_data import predict_block
from random_trees import N_FEATURES, random_model, random_rows, random_tree
from shap_trees import counted, expectation, with_counts


def shap_by_definition(tree: Tree, row: np.ndarray, n_features: int) -> np.ndarray:
    """(n_values, n_features + 1): each feature's gain, weighted by the share of orders in which it comes then."""
    used = sorted(set(tree.feature[tree.feature >= 0].tolist()))
    n = len(used)
    answers = {known: expectation(tree, row, set(known)) for size in range(n + 1) for known in combinations(used, size)}
    out = np.zeros((tree.n_values, n_features + 1))
    out[:, -1] = answers[()]
    for feature in used:
        for known, answer in answers.items():
            if feature not in known:
                weight = factorial(len(known)) * factorial(n - len(known) - 1) / factorial(n)
                out[:, feature] += weight * (answers[tuple(sorted((*known, feature)))] - answer)
    return out


def contrib_naive(model: Model, X: np.ndarray) -> np.ndarray:
    out = np.zeros((len(X), model.n_outputs, model.n_features + 1))
    for t, tree in enumerate(model.trees):
        outputs = slice(None) if tree.n_values > 1 else slice(t % model.n_outputs, t % model.n_outputs + 1)
        for row in range(len(X)):
            out[row, outputs] += shap_by_definition(tree, X[row], model.n_features)
    out /= len(model.trees) if model.ensemble == "forest" else 1
    out[:, :, -1] += model.init_score
    return out.reshape(len(X), -1)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.sampled_from([0, 1, 2, 5, 12]), min_size=1, max_size=3),
    kind=st.sampled_from([("gbdt", 1), ("gbdt", 2), ("forest", 1), ("forest", 2)]),
    least=st.sampled_from([0, 1]),
)
def test_values_are_those_of_the_definition(seed, sizes, kind, least):
    ensemble, n_outputs = kind
    model = random_model(seed, sizes * (n_outputs if ensemble == "gbdt" else 1), n_outputs, ensemble)
    model = counted(model, seed, least)
    X = random_rows(np.random.default_rng(seed), 3)
    np.testing.assert_allclose(model.predict_contrib(X), contrib_naive(model, X), rtol=0, atol=1e-12)


def test_nodes_without_rows_weigh_nothing():
    """Not even where a whole subtree has none: LightGBM's answer would be NaN."""
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 9, depth_first=True)
    for count in (np.zeros(tree.n_nodes), np.arange(tree.n_nodes) % 2):
        model = Model((replace(tree, count=count),), "regression", "gbdt", N_FEATURES, 1, np.zeros(1))
        X = random_rows(rng, 20)
        np.testing.assert_allclose(model.predict_contrib(X), contrib_naive(model, X), rtol=0, atol=1e-12)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32),
    size=st.sampled_from([1, 7, 40, 150]),
    kind=st.sampled_from([("gbdt", 1), ("gbdt", 3), ("forest", 3)]),
)
def test_values_are_lightgbm_s(tmp_path_factory, seed, size, kind):
    ensemble, n_outputs = kind
    model = counted(random_model(seed, [size, 0, 3], n_outputs, ensemble), seed)
    path = tmp_path_factory.mktemp("contrib") / "model.txt"
    model.export_lightgbm(path, average_output=False)
    X = random_rows(np.random.default_rng(seed), 20)
    X[:, :4][np.abs(X[:, :4]) <= 1e-35] = 0.0  # as LightGBM reads them
    theirs = lightgbm.Booster(model_file=path).predict(X, pred_contrib=True, num_threads=1)
    np.testing.assert_allclose(model.predict_contrib(X), theirs, rtol=0, atol=1e-9)


def chain(n_features: int, rng: np.random.Generator) -> Model:
    """A path through all features, a leaf beside every step."""
    n_nodes = 2 * n_features + 1
    inner = np.arange(n_nodes) % 2 == 0
    inner[-1] = False
    feature = np.where(inner, np.arange(n_nodes) // 2, -1)
    tree = Tree(
        feature=feature, threshold=np.zeros(n_nodes), left_child=np.where(inner, np.arange(n_nodes) + 1, 0),
        default_left=np.zeros(n_nodes), cat_set=np.full(n_nodes, -1), cat_sets=np.empty((0, 4)),
        value=rng.normal(size=(n_nodes, 1)), gain=np.zeros(n_nodes), count=np.ones(n_nodes), weight=np.zeros(n_nodes),
    )  # fmt: skip
    return Model((with_counts(tree, rng),), "regression", "gbdt", n_features, 1, np.array([0.5]))


@pytest.mark.parametrize("n_features", [1, 2, 3, 30, 301])
def test_deep_trees_lose_no_digits(n_features):
    """Values sum up to the score; reversing all rows' ways and swapping children leaves them as they are."""
    model = chain(n_features, np.random.default_rng(n_features))
    X = np.random.default_rng(1).normal(size=(8, n_features))
    X[0], X[1] = 1.0, -1.0  # the whole way down, and out at once
    values = model.predict_contrib(X)
    np.testing.assert_allclose(values.sum(axis=1), model.predict_raw(X)[:, 0], rtol=0, atol=1e-12)
    # A row that leaves at the first step: features behind it matter only while the first is unknown.
    tree = model.trees[0]
    gone, share = float(tree.value[1, 0]), tree.count[2] / tree.count[0]
    rest = Model((_without_first_step(tree),), "regression", "gbdt", n_features, 1, np.zeros(1))
    if n_features == 2:
        inside = rest.predict_contrib(X)[1]
        second = share * inside[1] / 2  # before the first feature in half of the orders
        np.testing.assert_allclose(values[1, 1], second, rtol=0, atol=1e-14)
        expected = share * (gone - inside[-1]) - second + 0.0
        np.testing.assert_allclose(values[1, 0], expected, rtol=0, atol=1e-14)


def _without_first_step(tree: Tree) -> Tree:
    """The subtree at node 2."""
    parts = {
        name: getattr(tree, name)[2:]
        for name in ("feature", "threshold", "default_left", "cat_set", "value", "gain", "count", "weight")
    }
    return Tree(left_child=np.maximum(tree.left_child[2:].astype(int) - 2, 0), cat_sets=tree.cat_sets, **parts)


def test_quadrature_is_exact_up_to_its_degree():
    for n_features in (1, 2, 3, 8, 9, 60):
        points, weights = quadrature(n_features)
        assert np.all((points > 0) & (points < 1))
        for degree in range(n_features):
            assert np.sum(weights * points**degree) == pytest.approx(1 / (degree + 1), abs=1e-14)


def test_layout_iterations_threads_and_no_rows():
    model = counted(random_model(3, [9, 4, 0, 5, 6, 7], n_outputs=2), 3)
    X = random_rows(np.random.default_rng(0), 150)
    values = model.predict_contrib(X)
    assert values.shape == (150, 2 * (N_FEATURES + 1)) and values.dtype == np.float64
    by_output = values.reshape(150, 2, -1)
    np.testing.assert_allclose(by_output.sum(axis=2), model.predict_raw(X), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.predict_contrib(X, n_threads=3), values)
    np.testing.assert_array_equal(model.predict_contrib(np.asfortranarray(X))[::2], model.predict_contrib(X[::2]))
    middle = model.predict_contrib(X, n_iterations=1, start=1).reshape(150, 2, -1)
    np.testing.assert_allclose(middle.sum(axis=2), model.predict_raw(X, 1, 1), rtol=0, atol=1e-12)
    nothing = model.predict_contrib(X, n_iterations=0).reshape(150, 2, -1)
    np.testing.assert_array_equal(nothing[:, :, -1], np.tile(model.init_score, (150, 1)))
    assert not nothing[:, :, :-1].any()
    assert model.predict_contrib(X[:0]).shape == (0, 2 * (N_FEATURES + 1))
    no_trees = Model((), "regression", "forest", 2, 1, np.array([0.5]))
    np.testing.assert_array_equal(no_trees.predict_contrib(np.zeros((1, 2))), [[0, 0, 0.5]])


@pytest.mark.parametrize("estimator", ALL)
def test_estimators_explain_their_raw_scores(estimator):
    its, X, _ = fitted(estimator, n_classes=3 if estimator in CLASSIFIERS else 2)
    values = its.predict(X, pred_contrib=True)
    n_outputs = its.model_.n_outputs
    assert values.shape == (len(X), n_outputs * (X.shape[1] + 1))
    raw = its.predict(X, raw_score=True).reshape(len(X), -1)
    np.testing.assert_allclose(values.reshape(len(X), n_outputs, -1).sum(axis=2), raw, rtol=0, atol=1e-12)
    assert np.abs(values[:, 0]).mean() > np.abs(values[:, 3]).mean()  # column 0 tells most, column 3 nothing
    if "GBDT" in estimator.__name__:
        first = its.predict(X, pred_contrib=True, num_iteration=1)
        assert np.abs(first - values).max() > 1e-3


KINDS = {
    "csr_matrix": "csr_matrix", "csr_array": "csr_array", "csc_matrix": "csc_matrix", "csc_array": "csc_array",
    "coo_matrix": "csr_matrix", "lil_array": "csr_array",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_sparse_rows_have_sparse_values(kind, n_classes, tmp_path):
    """LightGBM's answer: a matrix of the same kind, and for more than two classes one for each."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(200, 8)) * (rng.random((200, 8)) < 0.4)
    dense[:, 5] = rng.integers(0, 3, 200)
    y = np.digitize(dense[:, 0] + dense[:, 1] + dense[:, 5], [0.5, 1.5][: n_classes - 1])
    few = {"n_estimators": 4, "n_jobs": 2, "min_child_samples": 5}
    its = pvtree.GBDTClassifier(**few, categorical_feature=[5]).fit(dense, y)
    X = getattr(sparse, kind)(dense)
    expected = its.predict(dense, pred_contrib=True)
    for values in (
        its.predict(X, pred_contrib=True),
        its.booster_.predict(X, pred_contrib=True),
        its.model_.predict_contrib(its.model_.encode(X), n_threads=2),
    ):
        matrices = values if n_classes > 2 else [values]
        assert isinstance(matrices, list) and len(matrices) == its.model_.n_outputs
        assert {type(each).__name__ for each in matrices} == {KINDS[kind]}
        np.testing.assert_array_equal(np.hstack([each.toarray() for each in matrices]), expected)
        assert all(np.count_nonzero(each.data) == each.nnz for each in matrices)
    its.model_.export_lightgbm(tmp_path / "model.txt")
    if kind in ("csr_matrix", "csc_matrix"):
        theirs = lightgbm.Booster(model_file=tmp_path / "model.txt").predict(X, pred_contrib=True, num_threads=1)
        assert type(theirs) is type(values)
        assert type(theirs[0] if n_classes > 2 else theirs) is type(matrices[0])


def test_sparse_values_are_never_dense():
    """The dense result would take 240 MB."""
    X = sparse.csr_array(sparse.random(3000, 10_000, 1e-3, random_state=0))
    model = replace(counted(random_model(3, [9, 5]), 3), n_features=10_000)
    tracemalloc.start()
    values = model.predict_contrib(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert values.shape == (3000, 10_001) and peak < 10e6
    np.testing.assert_allclose(values.sum(axis=1), model.predict_raw(X)[:, 0], rtol=0, atol=1e-12)


def test_sparse_rows_without_trees_or_rows():
    X = sparse.csr_array(np.eye(3))
    model = Model((), "regression", "gbdt", 3, 1, np.array([0.5]))
    np.testing.assert_array_equal(model.predict_contrib(X).toarray(), [[0, 0, 0, 0.5]] * 3)
    assert random_model(3, [2]).predict_contrib(sparse.csr_array((0, N_FEATURES))).shape == (0, N_FEATURES + 1)


@pytest.mark.dask
def test_a_dask_collection_is_explained_where_it_is():
    array = pytest.importorskip("dask.array")
    for estimator in (pvtree.GBDTClassifier, pvtree.GBDTRegressor):
        its, X, _ = fitted(estimator)
        values = its.predict(array.from_array(X, chunks=(60, X.shape[1])), pred_contrib=True)
        assert values.shape == (len(X), X.shape[1] + 1)
        np.testing.assert_array_equal(values.compute(scheduler="sync"), its.predict(X, pred_contrib=True))
        block = predict_block(sparse.csr_array(X), partial(its.predict, pred_contrib=True), float, None)
        np.testing.assert_array_equal(block, its.predict(X, pred_contrib=True))
