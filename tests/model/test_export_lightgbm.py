"""LightGBM's text model: what pvtree writes, LightGBM predicts; what LightGBM writes, pvtree predicts."""

from __future__ import annotations

import os
from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pvtree
from pvtree.errors import ModelFileError
from pvtree.front.cli import main
from pvtree.model import Model, export_lightgbm
from pvtree.objectives.losses import predictions
from random_trees import N_NUMERIC, random_model, random_rows, random_tree

SMALL = {"n_estimators": 6, "min_child_samples": 5, "n_jobs": 1, "random_state": 0}
N_ROWS = 400


def table(seed=0):
    """Numbers with every special value, and a column of categories (3) with missing ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.03] = np.inf
    X[rng.random(X.shape) < 0.03] = -np.inf
    X[rng.random(X.shape) < 0.03] = -0.0
    X[:, 3] = rng.integers(0, 12, N_ROWS)
    X[::9, 3] = np.nan
    tame = np.nan_to_num(X, posinf=3, neginf=-3)
    return X, tame[:, 0] + tame[:, 1] * tame[:, 2] + 2 * np.isin(X[:, 3], [2, 5, 11]) + 0.5 * np.isnan(X[:, 3])


def custom(y, scores):
    return scores - y, np.ones_like(y)


def trained(kind):
    X, score = table()
    level = np.digitize(score, [-0.5, 1.0])
    params = SMALL | {"categorical_feature": [3]}
    few = dict(params, n_estimators=3)
    return {
        "regression": lambda: pvtree.GBDTRegressor(**params).fit(X, score),
        "binary": lambda: pvtree.GBDTClassifier(**params).fit(X, score > 0),
        "multiclass": lambda: pvtree.GBDTClassifier(**few).fit(X, level),
        "ranking": lambda: pvtree.GBDTRanker(**params).fit(X, level, group=[20] * (N_ROWS // 20)),
        "custom": lambda: pvtree.GBDTRegressor(objective=custom, **params).fit(X, score),
        "forest": lambda: pvtree.RandomForestRegressor(**params).fit(X, score),
        "class forest": lambda: pvtree.RandomForestClassifier(**few).fit(X, level),
        "tree": lambda: pvtree.DecisionTreeClassifier(categorical_feature=[3], n_jobs=1).fit(X, level),
        "yu": lambda: pvtree.GBDTClassifier(tree_learner="yu", n_workers=2, **few).fit(X, level),
        "leaves": lambda: pvtree.GBDTRegressor(**params).fit(X, np.full(N_ROWS, 1.25)),
    }[kind]()


KINDS = ("regression", "binary", "multiclass", "ranking", "custom", "forest", "class forest", "tree", "yu", "leaves")


def booster(model, path, **how):
    model.export_lightgbm(path, **how)
    return lightgbm.Booster(model_file=path)


def scores(its_booster, X, **how):
    return its_booster.predict(X, num_threads=1, **how).reshape(len(X), -1)


def without_tiny(X):
    """LightGBM takes numbers up to 1e-35 for 0."""
    X = X.copy()
    numbers = X[:, :N_NUMERIC]
    numbers[np.abs(numbers) <= 1e-35] = 0.0
    return X


# Out


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.sampled_from([0, 1, 2, 5, 30, 70]), min_size=1, max_size=4),
    kind=st.sampled_from([("gbdt", 1), ("gbdt", 3), ("forest", 1), ("forest", 3)]),
)
def test_random_trees_predict_the_same_bits(tmp_path_factory, seed, sizes, kind):
    ensemble, n_outputs = kind
    model = random_model(seed, sizes * (n_outputs if ensemble == "gbdt" else 1), n_outputs, ensemble)
    model = model if ensemble == "gbdt" else replace(model, objective="classification")
    X = without_tiny(random_rows(np.random.default_rng(seed), 64))
    its = booster(model, tmp_path_factory.mktemp("export") / "model.txt")
    raw = model.predict_raw(X)
    if ensemble == "gbdt":
        np.testing.assert_array_equal(scores(its, X, raw_score=True), raw)
        np.testing.assert_array_equal(scores(its, X, pred_leaf=True), model.predict_leaf(X))
    else:
        np.testing.assert_allclose(scores(its, X), raw, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_trained_models_predict_the_same(kind, tmp_path):
    model = trained(kind).model_
    X = model.encode(table(seed=1)[0])
    X[:5, 3] = [0, 13, 255, 300, -1]  # missing, and codes that training has not seen
    its = booster(model, tmp_path / "model.txt")
    raw = model.predict_raw(X)
    if model.ensemble == "gbdt":
        np.testing.assert_array_equal(scores(its, X, raw_score=True), raw)
    else:  # LightGBM's raw score of a forest is the sum
        np.testing.assert_array_equal(scores(its, X, raw_score=True) / len(model.trees), raw)
    expected = predictions(model.objective, raw)
    expected = expected[:, 1:] if model.objective == "binary" else expected.reshape(N_ROWS, -1)
    np.testing.assert_allclose(scores(its, X), expected, rtol=0, atol=1e-12)


def test_numbers_next_to_zero_are_zero_to_lightgbm(tmp_path):
    """The one difference, as docs/export.md says it."""
    tree = random_tree(np.random.default_rng(0), 1)
    tree = replace(tree, feature=[0, -1, -1], threshold=[-1e-36, 0, 0], cat_set=[-1] * 3, cat_sets=np.empty((0, 4)))
    model = Model((tree,), "regression", "gbdt", 1, 1, np.zeros(1))
    its = booster(model, tmp_path / "model.txt")
    X = np.array([[-2e-36], [-2e-35], [0.0], [2e-36]])
    same = scores(its, X) == model.predict_raw(X)
    np.testing.assert_array_equal(same[:, 0], [False, True, True, True])


def test_a_data_frame_goes_into_lightgbm_as_it_went_into_fit(tmp_path):
    X, score = table()
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["d"] = pd.Categorical([None if code != code else f"value {code:.0f}" for code in X[:, 3]])
    frame["f"] = pd.Categorical(np.digitize(X[:, 0], [-1, 0, 1]) * 1000)
    estimator = pvtree.GBDTRegressor(**SMALL).fit(frame, score + frame["f"].cat.codes)
    its = booster(estimator.model_, tmp_path / "model.txt")
    other = frame.assign(d=frame["d"].cat.add_categories("(missing)"))  # unseen, and a word that stands for nothing
    other.loc[other.index[:20], "d"] = "(missing)"
    other["f"] = other["f"].cat.reorder_categories([3000, 0, 2000, 1000])
    for rows in (frame, other):
        np.testing.assert_array_equal(its.predict(rows), estimator.predict(rows))
        np.testing.assert_array_equal(its.predict(estimator.model_.encode(rows)), estimator.predict(rows))
    assert Model.from_lightgbm(tmp_path / "model.txt").categories == estimator.model_.categories


@pytest.mark.parametrize("sign", [1, -1])  # missing values go left with one of them
def test_numbers_of_no_category_go_where_missing_ones_go(sign, tmp_path):
    colour = np.resize(["red", "blue", "green", None], 200)
    frame = pd.DataFrame({"a": pd.Categorical(colour)})
    # Missing rows are like red ones, so they go to their side, wherever that is.
    estimator = pvtree.GBDTRegressor(**SMALL).fit(frame, sign * np.isin(colour, ["red", None]))
    its = booster(estimator.model_, tmp_path / "m")
    np.testing.assert_array_equal(its.predict([[np.nan], [4], [200]]), estimator.predict(frame[3:4])[[0, 0, 0]])
    back = Model.from_lightgbm(tmp_path / "m")
    assert back.categories == estimator.model_.categories
    np.testing.assert_array_equal(back.predict_raw(back.encode(frame))[:, 0], estimator.predict(frame))


def test_a_label_may_be_the_word_that_stands_for_nothing(tmp_path):
    frame = pd.DataFrame({"a": pd.Categorical(["(missing)", "b"] * 20)})
    estimator = pvtree.GBDTRegressor(**SMALL).fit(frame, np.arange(40) % 2)
    np.testing.assert_array_equal(booster(estimator.model_, tmp_path / "m").predict(frame), estimator.predict(frame))


@pytest.mark.parametrize("ensemble", ["gbdt", "forest"])
def test_a_model_without_trees_predicts_its_initial_score(ensemble, tmp_path):
    model = Model((), "custom", ensemble, 3, 2, np.array([0.5, -2.0]))
    np.testing.assert_array_equal(scores(booster(model, tmp_path / "m"), np.zeros((4, 3))), [[0.5, -2.0]] * 4)


def test_a_forest_as_a_sum_is_a_sum_everywhere(tmp_path):
    model = trained("class forest").model_
    X = model.encode(table(seed=1)[0])
    its = booster(model, tmp_path / "m", average_output=False)
    for raw_score in (False, True):
        np.testing.assert_allclose(scores(its, X, raw_score=raw_score), model.predict_raw(X), rtol=0, atol=1e-12)
    np.testing.assert_allclose(its.predict(X, pred_contrib=True), model.predict_contrib(X), rtol=0, atol=1e-9)


def test_names_are_what_lightgbm_can_hold(tmp_path):
    names = ("a b", "a_b", 'q":{}[],=\\', "", "größe", "a\tb")
    model = replace(random_model(0, [5]), feature_names=names)
    its = booster(model, tmp_path / "m")
    assert its.feature_name() == ["a_b", "a_b_2", "q_________"[:10], "Column_3", "größe", "a_b_3"]
    assert its.dump_model()["feature_names"] == its.feature_name()
    splits = its.feature_importance()
    np.testing.assert_array_equal(splits, model.feature_importance())


def test_counts_beyond_32_bits_keep_their_ratios(tmp_path):
    tree = random_tree(np.random.default_rng(0), 1)
    tree = replace(
        tree, feature=[0, -1, -1], cat_set=[-1] * 3, cat_sets=np.empty((0, 4)), count=[2**40, 2**40 - 2**38, 2**38]
    )
    model = Model((tree,), "regression", "gbdt", 1, 1, np.zeros(1))
    its, X = booster(model, tmp_path / "m"), np.array([[0.0], [np.nan]])
    np.testing.assert_allclose(its.predict(X, pred_contrib=True), model.predict_contrib(X), rtol=0, atol=1e-12)


def test_a_failed_export_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "model.txt"
    path.write_text("before")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFileError, match=r"Cannot write .*model\.txt.*No space left.*; use a folder"):
        random_model(0, [5]).export_lightgbm(path)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["model.txt"]


def test_command(tmp_path, capsys):
    model = random_model(0, [5, 3], ensemble="forest")
    model.save(tmp_path / "model.json")
    for flags, divided in (([], False), (["--no-average-output"], True)):
        main(["export", "--model", str(tmp_path / "model.json"), "--output", str(tmp_path / "m.txt"), *flags])
        assert "2 trees written" in capsys.readouterr().out
        assert (tmp_path / "m.txt").read_text() == export_lightgbm.dump(model, not divided)
    main(["export", "--model", str(tmp_path / "model.json"), "--output", "-"])
    assert capsys.readouterr().out == export_lightgbm.dump(model)
    with pytest.raises(SystemExit) as exit:
        main(["export", "--model", str(tmp_path / "m.txt"), "--output", str(tmp_path / "n.txt")])
    assert exit.value.code == 2
    assert capsys.readouterr().err.startswith("Error: Model file") and not (tmp_path / "n.txt").exists()
