"""LightGBM's files read back: its own trainings, pvtree's exports, and files that nobody should trust."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pvtree
from pvtree.errors import InvalidDataError, ModelFileError
from pvtree.model import Model
from pvtree.model.export_lightgbm import dump
from random_trees import random_model, random_rows

# One test looks at this warning; others read objectives that are not known here.
pytestmark = pytest.mark.filterwarnings("ignore:What the objective")
N_ROWS, N_TREES = 600, 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 5))
X[RNG.random(X.shape) < 0.1] = np.nan
X[RNG.random(X.shape) < 0.1] = 0.0
X[:, 3] = RNG.integers(0, 40, N_ROWS) * 3
SCORE = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1] * X[:, 2]) + np.isin(X[:, 3], [6, 15, 51, 99])
LEVEL = np.digitize(SCORE, [0, 1])
RF = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}
QUERIES = {"group": [20] * (N_ROWS // 20)}


def train(y, rows=X, data=None, **params):
    params = {"verbose": -1, "num_threads": 1, "num_leaves": 12, "min_data_per_group": 5, "seed": 1} | params
    return lightgbm.train(params, lightgbm.Dataset(rows, y, **(data or {"categorical_feature": [3]})), N_TREES)


def read(text, folder):
    path = folder / "model.txt"
    path.write_text(text, encoding="utf-8")
    return Model.from_lightgbm(path)


TRAININGS = {
    "regression": ("regression", lambda: train(SCORE, objective="regression")),
    "l1": ("regression", lambda: train(SCORE, objective="l1")),
    "binary": ("binary", lambda: train(SCORE > 0, objective="binary")),
    "multiclass": ("multiclass", lambda: train(LEVEL, objective="multiclass", num_class=3)),
    "ranking": ("lambdarank", lambda: train(LEVEL, data=QUERIES, objective="lambdarank")),
    "poisson": ("poisson", lambda: train(np.exp(SCORE), objective="poisson")),
    "one against others": ("custom", lambda: train(LEVEL, objective="multiclassova", num_class=3)),
    "no missing values": ("regression", lambda: train(SCORE, np.nan_to_num(X), objective="regression")),
    "NaN is 0": ("regression", lambda: train(SCORE, objective="regression", use_missing=False)),
    "0 is missing": ("regression", lambda: train(SCORE, objective="regression", zero_as_missing=True)),
    "forest": ("binary", lambda: train(SCORE > 0, objective="binary", **RF)),
    "class forest": ("multiclass", lambda: train(LEVEL, objective="multiclass", num_class=3, **RF)),
    "dart": ("regression", lambda: train(SCORE, objective="regression", boosting="dart", drop_rate=0.5)),
    "leaves": ("regression", lambda: train(np.full(N_ROWS, 3.0), objective="regression")),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_lightgbm_s_own_models_predict_the_same(name, tmp_path):
    objective, training = TRAININGS[name]
    its = training()
    told = pytest.warns(UserWarning, match="predictions are raw scores") if objective == "custom" else nullcontext()
    with told:
        model = read(its.model_to_string(), tmp_path)
    assert model.objective == objective
    assert model.ensemble == ("forest" if "forest" in name else "gbdt")
    rows = np.concatenate([X, np.full((1, 5), np.nan), [[np.inf, -np.inf, -0.0, 7, 1e9], [0, 0, 0, -3, 0]]])
    matrix = model.encode(rows)
    expected = its.predict(rows, raw_score=True).reshape(len(rows), -1)
    if model.ensemble == "forest":
        np.testing.assert_allclose(model.predict_raw(matrix), expected / N_TREES, rtol=0, atol=1e-12)
    else:
        np.testing.assert_array_equal(model.predict_raw(matrix), expected)


def test_zeros_that_are_missing_at_some_splits_only(tmp_path):
    its = train(SCORE, data={"categorical_feature": []}, objective="regression", zero_as_missing=True)
    before, line, after = its.model_to_string().partition("\ndecision_type=")
    first, _, rest = after.partition("\n")
    mixed = " ".join({"4": "8", "6": "10"}.get(kind, kind) for kind in first.split())
    with pytest.raises(ModelFileError, match=r"missing at some splits .*; train with one value of zero_as_missing\.$"):
        read(f"{before}{line}{mixed}\n{rest}", tmp_path)


def test_zero_as_missing_is_read_where_zeros_stay_with_their_neighbours(tmp_path):
    # No zeros here, and missing ones left of all: with thresholds above 0 that is where 0 belongs.
    rows = np.abs(np.nan_to_num(X)) + 1
    rows[::7] = 0.0
    its = train(rows[:, 0], rows, data={"categorical_feature": []}, objective="regression", zero_as_missing=True)
    text = its.model_to_string()
    assert "decision_type=6" in text or "decision_type=4" in text  # zero is missing, default left or right
    model = read(text, tmp_path)
    assert not model.zero_as_missing
    rows[::5] = np.nan
    np.testing.assert_array_equal(model.predict_raw(rows)[:, 0], its.predict(rows))


def test_labels_of_a_data_frame(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["d"] = pd.Categorical([f"v{code:.0f}" for code in X[:, 3]])
    its = train(SCORE, frame, {"categorical_feature": "auto"}, objective="regression")
    model = read(its.model_to_string(), tmp_path)
    assert model.feature_names == tuple("abcde")
    assert set(model.categories[3]) == set(frame["d"])
    frame.loc[:20, "d"] = None
    np.testing.assert_array_equal(model.predict_raw(model.encode(frame))[:, 0], its.predict(frame))


def test_labels_are_found_beside_columns_that_have_none(tmp_path):
    """A column of one category, ordered categories, and numbers that categorical_feature names."""
    frame = pd.DataFrame({"the first": X[:, 0], "code": X[:, 3], "nothing": pd.Categorical(["z"] * N_ROWS)})
    frame["label"] = pd.Categorical([f"v{code % 12:.0f}" for code in X[:, 3]])
    its = train(SCORE, frame, {"categorical_feature": ["code", "label"]}, objective="regression")
    model = read(its.model_to_string(), tmp_path)
    assert set(model.categories[3]) == set(frame["label"])
    np.testing.assert_array_equal(model.predict_raw(model.encode(frame))[:, 0], its.predict(frame))

    frame["nothing"] = frame["label"]  # and no constant: either column may be the one that is named
    frame["label"] = X[:, 3] % 4
    its = train(SCORE, frame, {"categorical_feature": ["nothing", "label"]}, objective="regression")
    with pytest.warns(UserWarning, match="pass LightGBM's codes"):
        model = read(its.model_to_string(), tmp_path)
    with pytest.raises(InvalidDataError, match="'nothing' of X are text, but numbers in the model"):
        model.encode(frame)


def test_many_categories(tmp_path):
    """More than 255 were seen, but those that never go left need no bins of their own."""
    code = np.arange(300).repeat(8)
    rows = np.stack([np.zeros(code.size), code], axis=1)
    loose = {"min_data_per_group": 1, "min_data_in_leaf": 1, "cat_smooth": 0, "cat_l2": 0, "max_cat_threshold": 300}
    how = {"data": {"categorical_feature": [1]}, "objective": "regression", "max_bin": 500, **loose}
    its = train((code % 7 == 3) * 5.0, rows, **how)
    model = read(its.model_to_string(), tmp_path)
    assert 30 < len(model.categories[1]) < 255
    np.testing.assert_array_equal(model.predict_raw(model.encode(rows))[:, 0], its.predict(rows))
    its = train(RNG.normal(size=300)[code], rows, **how)
    with pytest.raises(ModelFileError, match=r"feature 1 splits on more than 255 categories.*train with fewer"):
        read(its.model_to_string(), tmp_path)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), kind=st.sampled_from([("gbdt", 1), ("gbdt", 3), ("forest", 1), ("forest", 3)]))
def test_exports_read_back(tmp_path_factory, seed, kind):
    ensemble, n_outputs = kind
    model = random_model(seed, [0, 3, 40] * n_outputs, n_outputs, ensemble)
    model = replace(model, init_score=np.zeros(n_outputs))
    back = read(dump(model), tmp_path_factory.mktemp("import"))
    rows = random_rows(np.random.default_rng(seed), 50)
    np.testing.assert_array_equal(back.predict_raw(rows), model.predict_raw(rows))
    assert (back.objective, back.ensemble, len(back.trees)) == (model.objective, model.ensemble, len(model.trees))
    for ours, theirs in zip(model.trees, back.trees, strict=True):
        assert sorted(ours.count) == sorted(theirs.count) and sorted(ours.weight) == sorted(theirs.weight)


def test_objectives_read_back(tmp_path):
    def objective(y, p):
        return p - y, np.ones_like(y)

    few = {"n_estimators": 2, "n_jobs": 1}
    fits = {
        "custom": pvtree.GBDTRegressor(objective=objective, **few).fit(X, SCORE),
        "classification": pvtree.RandomForestClassifier(max_depth=3, **few).fit(X, LEVEL),
        "lambdarank": pvtree.GBDTRanker(**few).fit(X, LEVEL, **QUERIES),
    }
    for name, estimator in fits.items():
        assert read(dump(estimator.model_), tmp_path).objective == estimator.model_.objective == name


# What cannot be read


REFUSED = {
    "sigmoid": (dict(objective="binary", sigmoid=2.0), r"its sigmoid is not 1\); train with sigmoid=1"),
    "sqrt": (dict(objective="regression", reg_sqrt=True), r"square roots of the target\); train with reg_sqrt=false"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_trees_here_cannot_say_is_refused(name, tmp_path):
    params, sentence = REFUSED[name]
    text = train(SCORE > 0, data={"categorical_feature": []}, **params).model_to_string()
    with pytest.raises(ModelFileError, match=sentence):
        read(text, tmp_path)


CATEGORICAL = dump(random_model(0, [12]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tree\n", "forest\n"),
        ("end of trees", "end"),
        ("max_feature_idx=5", "max_feature_idx=99"),
        ("max_feature_idx=5", "max_feature_idx=-1"),
        ("num_tree_per_iteration=1", "num_tree_per_iteration=2"),
        ("num_tree_per_iteration=1", "num_tree_per_iteration=0"),
        ("num_leaves=13", "num_leaves=12"),
        ("num_leaves=13", "num_leaves=99999999999999"),
        ("num_leaves=13", "num_leaves=²"),
        ("split_feature=", "split_feature=6 "),
        ("split_feature=", "split_feature=x"),
        ("left_child=1", "left_child=0"),
        ("left_child=1", "left_child=-14"),
        ("left_child=1", "left_child=13"),
        ("left_child=1", "left_child=2"),
        ("left_child=1 -1", "left_child=1 -2"),
        ("leaf_value=", "leaf_value=nan "),
        ("leaf_value=", "leaf_value=1 "),
        ("leaf_count=", "leaf_count=-"),
        ("cat_boundaries=0 8", "cat_boundaries=8 0"),
        ("cat_boundaries=0 8", "cat_boundaries=0 999"),
        ("cat_threshold=", "cat_threshold=4294967296 "),
        ("cat_threshold=", "cat_threshold=-"),
        ("num_cat=", "num_cat=9"),
        ("pandas_categorical:null", "pandas_categorical:[" * 2000),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(old, new, tmp_path):
    assert old in CATEGORICAL
    with pytest.raises(
        ModelFileError, match=r"^LightGBM's model file '.*model\.txt' cannot be used \(.+\); give a file"
    ):
        read(CATEGORICAL.replace(old, new, 1), tmp_path)


@settings(max_examples=150)
@given(st.data())
def test_a_damaged_file_gives_a_sound_model_or_a_sentence(tmp_path_factory, data):
    at = data.draw(st.integers(0, len(CATEGORICAL) - 1))
    piece = data.draw(st.sampled_from(["", "9", "-", " ", "\n", "=", "1e9", "nan", "\x00", "ß"]))
    text = CATEGORICAL[:at] + piece + CATEGORICAL[at + data.draw(st.integers(0, 3)) :]
    try:
        model = read(text, tmp_path_factory.mktemp("damaged"))
    except ModelFileError:
        return
    rows = np.zeros((3, model.n_features))
    assert model.predict_raw(rows).shape == (3, model.n_outputs)


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(ModelFileError, match=r"cannot be read \(No such file or directory\); check the path\.$"):
        Model.from_lightgbm(tmp_path / "nothing.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelFileError, match=r"it is not text\); give a file"):
        Model.from_lightgbm(tmp_path / "binary")
