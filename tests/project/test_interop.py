"""Exported models in other programs, each the real one: treelite, lleaves, SHAP and ONNX.

``make interop`` installs and runs them all; what is not installed is skipped.
"""

from __future__ import annotations

import functools

import lightgbm
import numpy as np
import pytest

import pvtree
from pvtree.objectives.losses import predictions

N_ROWS, N_FEATURES, CATEGORICAL = 500, 6, 3


def rows(seed):
    """Multiples of 1/64, so that float32 (ONNX) tells them from all thresholds as float64 does; some are missing."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(N_ROWS, N_FEATURES)) * 64) / 64
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, CATEGORICAL] = rng.integers(0, 9, N_ROWS)
    X[::11, CATEGORICAL] = np.nan
    return X


def custom(y, scores):
    return scores - y, np.ones_like(y)


def train(kind):
    X = rows(0)
    score = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1] * X[:, 2]) + np.isin(X[:, CATEGORICAL], [2, 5, 8])
    level = np.digitize(score, [0, 1])
    params = {"n_estimators": 8, "n_jobs": 1, "random_state": 0, "categorical_feature": [CATEGORICAL]}
    numeric = params | {"categorical_feature": None}
    return {
        "regression": lambda: pvtree.GBDTRegressor(**params).fit(X, score),
        "binary": lambda: pvtree.GBDTClassifier(**params).fit(X, score > 0),
        "multiclass": lambda: pvtree.GBDTClassifier(**params).fit(X, level),
        "ranking": lambda: pvtree.GBDTRanker(**params).fit(X, level, group=[20] * (N_ROWS // 20)),
        "custom": lambda: pvtree.GBDTRegressor(objective=custom, **params).fit(X, score),
        "yu": lambda: pvtree.GBDTRegressor(tree_learner="yu", n_workers=2, **params).fit(X, score),
        "forest": lambda: pvtree.RandomForestRegressor(**params).fit(X, score),
        "class forest": lambda: pvtree.RandomForestClassifier(**params).fit(X, level),
        "leaves": lambda: pvtree.GBDTRegressor(**params).fit(X, np.full(N_ROWS, 1.5)),
        "numeric": lambda: pvtree.GBDTRegressor(**numeric).fit(X, score),
    }[kind]().model_


SINGLE = ("regression", "binary", "multiclass", "ranking", "custom", "yu", "forest", "leaves")


@pytest.fixture(scope="module")
def model_of():
    return functools.cache(train)


def expected(model, X):
    """(n, n_outputs): what LightGBM's predict gives; of two classes the second's probability."""
    answers = predictions(model.objective, model.predict_raw(X))
    return answers[:, 1:] if model.objective == "binary" else answers.reshape(len(X), -1)


@pytest.mark.parametrize("kind", SINGLE)
def test_treelite(kind, model_of, tmp_path):
    treelite = pytest.importorskip("treelite", reason="treelite is not installed; pip install 'pvtree[test-interop]'")
    model, path = model_of(kind), tmp_path / "model.txt"
    model.export_lightgbm(path)
    X = model.encode(rows(1))
    theirs = treelite.frontend.load_lightgbm_model(path)
    answers = np.asarray(treelite.gtil.predict(theirs, X)).reshape(N_ROWS, -1)
    softmax = model.objective == "multiclass"  # treelite's is made in float32, its sums are not
    np.testing.assert_allclose(answers, expected(model, X), rtol=0, atol=1e-6 if softmax else 1e-12)
    raw = np.asarray(treelite.gtil.predict(theirs, X, pred_margin=True)).reshape(N_ROWS, -1)
    np.testing.assert_allclose(raw, model.predict_raw(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", SINGLE)
def test_lleaves(kind, model_of, tmp_path):
    lleaves = pytest.importorskip("lleaves", reason="lleaves is not installed; pip install 'pvtree[test-interop]'")
    model, path = model_of(kind), tmp_path / "model.txt"
    model.export_lightgbm(path)
    X = model.encode(rows(1))
    theirs = lleaves.Model(model_file=path)
    theirs.compile()
    answers = theirs.predict(X, n_jobs=1).reshape(N_ROWS, -1)
    np.testing.assert_allclose(answers, expected(model, X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", (*SINGLE, "class forest"))
def test_shap(kind, model_of, tmp_path):
    shap = pytest.importorskip("shap", reason="shap is not installed; pip install 'pvtree[test-interop]'")
    model, path = model_of(kind), tmp_path / "model.txt"
    model.export_lightgbm(path, average_output=False)
    X = model.encode(rows(1))
    values = np.asarray(shap.TreeExplainer(lightgbm.Booster(model_file=path)).shap_values(X))
    values = values[:, :, None] if values.ndim == 2 else values  # (n, n_features, n_outputs)
    ours = model.predict_contrib(X).reshape(N_ROWS, model.n_outputs, N_FEATURES + 1)
    np.testing.assert_allclose(np.moveaxis(values, 2, 1), ours[:, :, :-1], rtol=0, atol=1e-9)


def test_shap_reads_the_trees_itself(model_of, tmp_path):
    """Against background rows SHAP does not ask LightGBM, but follows the splits of its dump."""
    shap = pytest.importorskip("shap", reason="shap is not installed; pip install 'pvtree[test-interop]'")
    model, path = model_of("numeric"), tmp_path / "model.txt"
    model.export_lightgbm(path)
    X = np.nan_to_num(rows(1))
    explainer = shap.TreeExplainer(lightgbm.Booster(model_file=path), data=X[:50])
    values = explainer.shap_values(X[50:80])
    assert explainer.expected_value == pytest.approx(model.predict_raw(X[:50]).mean(), abs=1e-6)
    sums = values.sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(sums, model.predict_raw(X[50:80])[:, 0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ("regression", "binary", "multiclass", "ranking", "yu", "forest", "leaves"))
def test_onnx(kind, model_of, tmp_path):
    onnxmltools = pytest.importorskip(
        "onnxmltools", reason="onnxmltools is not installed; pip install 'pvtree[test-interop]'"
    )
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="onnxruntime is not installed; pip install 'pvtree[test-interop]'"
    )
    from onnxmltools.convert.common.data_types import FloatTensorType

    model, path = model_of(kind), tmp_path / "model.txt"
    model.export_lightgbm(path, average_output=False)
    X = model.encode(rows(1))
    converted = onnxmltools.convert_lightgbm(
        lightgbm.Booster(model_file=path), initial_types=[("X", FloatTensorType([None, N_FEATURES]))], zipmap=False
    )
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    answers = np.asarray(session.run(None, {"X": X.astype(np.float32)})[-1]).reshape(N_ROWS, -1)
    wanted = expected(model, X)
    np.testing.assert_allclose(answers[:, -wanted.shape[1] :], wanted, rtol=1e-5, atol=1e-5)
