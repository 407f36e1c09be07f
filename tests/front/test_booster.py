"""Booster as LightGBM's users write it; LightGBM's own reads the same trees beside it."""

import copy
import gc
import pickle
import threading

import lightgbm
import numpy as np
import pandas as pd
import pytest

import pvtree
from pvtree.errors import InvalidDataError, InvalidParameterError

RNG = np.random.default_rng(4)
FRAME = pd.DataFrame(
    {"a": RNG.normal(size=150), "b": pd.Categorical(RNG.choice(list("xyzw"), 150)), "c": RNG.normal(size=150)}
)
X = FRAME[["a", "c"]].to_numpy()
VALUES = (FRAME["a"] + (FRAME["b"] == "x")).to_numpy()
CLASSES = (VALUES > 0).astype(float)
PARAMS = {"objective": "binary", "num_leaves": 5, "verbosity": -1, "metric": ["auc", "binary_logloss"]}
TRAINED = pvtree.train(PARAMS, pvtree.Dataset(X, CLASSES), 4)


def test_update_gives_the_model_of_one_training():
    booster = pvtree.Booster(PARAMS, pvtree.Dataset(X, CLASSES))
    assert booster.current_iteration() == 0
    np.testing.assert_allclose(booster.predict(X[:2]), CLASSES.mean())
    for _ in range(4):
        assert booster.update() is False
    assert booster.model_ == TRAINED.model_
    assert booster.rollback_one_iter().num_trees() == 3
    booster.update()
    assert booster.model_ == TRAINED.model_


def log_loss(preds, data):
    prob = 1 / (1 + np.exp(-preds))
    return prob - data.get_label(), prob * (1 - prob)


def test_update_with_a_custom_objective():
    booster = pvtree.Booster({**PARAMS, "objective": "none"}, pvtree.Dataset(X, CLASSES))
    for _ in range(3):
        booster.update(fobj=log_loss)
    expected = pvtree.train({**PARAMS, "objective": log_loss}, pvtree.Dataset(X, CLASSES), 3)
    np.testing.assert_array_equal(booster.predict(X, raw_score=True), expected.predict(X, raw_score=True))
    with pytest.raises(InvalidParameterError, match="pass it as fobj"):
        booster.update()
    with pytest.raises(InvalidParameterError, match="update needs rows"):
        TRAINED.update()


def test_metrics_are_those_of_training(tmp_path):
    results = {}
    data, valid = pvtree.Dataset(X, CLASSES), pvtree.Dataset(X[:60], CLASSES[:60], weight=np.arange(1, 61))
    booster = pvtree.train(
        PARAMS, data, 3, [data, valid], callbacks=[pvtree.record_evaluation(results)], keep_training_booster=True
    )
    found = {(name, metric): value for name, metric, value, _ in booster.eval_train() + booster.eval_valid()}
    assert found == {(name, metric): values[-1] for name, by in results.items() for metric, values in by.items()}

    def mine(preds, rows):
        return "mine", float(np.abs(preds - rows.get_label()).max()), False

    name, metric, _, is_higher = booster.eval(valid, "again", mine)[-1]
    assert (name, metric, is_higher) == ("again", "mine", False)
    booster.model_.export_lightgbm(tmp_path / "m.txt")
    theirs = lightgbm.Booster({**PARAMS}, model_file=tmp_path / "m.txt")
    assert theirs.num_trees() == 3
    with pytest.raises(InvalidParameterError, match="keep_training_booster"):
        TRAINED.eval_train()


def test_refit_moves_leaves_towards_the_new_rows():
    same = TRAINED.refit(X, CLASSES, decay_rate=1.0)
    np.testing.assert_allclose(same.predict(X), TRAINED.predict(X), rtol=1e-12)
    turned = TRAINED.refit(X, 1 - CLASSES, decay_rate=0.0)
    assert [tree.feature.tolist() for tree in turned.model_.trees] == [
        tree.feature.tolist() for tree in TRAINED.model_.trees
    ]
    assert np.corrcoef(turned.predict(X), 1 - CLASSES)[0, 1] > 0.5
    # By hand: the first tree's leaf is -0.1 * G / H at the initial score.
    leaf = TRAINED.model_.predict_leaf(X)[:, 0]
    p = 1 / (1 + np.exp(-TRAINED.model_.init_score[0]))
    rows = leaf == 0
    expected = -0.1 * (p - (1 - CLASSES[rows])).sum() / (rows.sum() * p * (1 - p))
    assert turned.get_leaf_output(0, 0) == pytest.approx(expected + TRAINED.model_.init_score[0])
    with pytest.raises(InvalidParameterError, match="decay_rate must be"):
        TRAINED.refit(X, CLASSES, decay_rate=2)


@pytest.mark.parametrize("kind", ["numbers", "categories", "classes"])
def test_dumps_and_tables_are_lightgbm_s(kind, tmp_path):
    if kind == "classes":
        model = pvtree.GBDTClassifier(n_estimators=2, num_leaves=4, verbosity=-1).fit(X, np.digitize(VALUES, [0, 1]))
    else:
        rows = X if kind == "numbers" else FRAME
        model = pvtree.GBDTRegressor(n_estimators=3, num_leaves=8, min_child_samples=5, verbosity=-1).fit(rows, VALUES)
    booster = model.booster_
    booster.model_.export_lightgbm(tmp_path / "m.txt")
    theirs = lightgbm.Booster(model_file=tmp_path / "m.txt")
    ours, expected = booster.dump_model(), theirs.dump_model()
    for name in set(expected) - {"tree_info", "pandas_categorical"}:
        assert ours[name] == expected[name]
    pd.testing.assert_frame_equal(
        booster.trees_to_dataframe(), theirs.trees_to_dataframe(), check_dtype=False, rtol=1e-6
    )
    assert kind != "categories" or "==" in set(booster.trees_to_dataframe()["decision_type"])
    for tree in range(booster.num_trees()):
        for leaf in range(3):
            assert booster.get_leaf_output(tree, leaf) == theirs.get_leaf_output(tree, leaf)
    assert (booster.lower_bound() <= booster.predict(FRAME if kind == "categories" else X, raw_score=True)).all()
    seen = []
    booster.dump_model(object_hook=lambda found: seen.append(found) or found)
    assert len(seen) > 5


def test_histogram_of_split_values(tmp_path):
    TRAINED.model_.export_lightgbm(tmp_path / "m.txt")
    theirs = lightgbm.Booster(model_file=tmp_path / "m.txt")
    for bins in (None, 3, "auto"):
        ours, expected = (each.get_split_value_histogram(0, bins) for each in (TRAINED, theirs))
        np.testing.assert_array_equal(ours[0], expected[0])
        np.testing.assert_allclose(ours[1], expected[1])
        ours, expected = (each.get_split_value_histogram("Column_0", bins, True) for each in (TRAINED, theirs))
        np.testing.assert_allclose(ours, expected)
    ax = pvtree.plot_split_value_histogram(TRAINED, "Column_0", title="of @feature@ by @index/name@")
    assert ax.get_title() == "of Column_0 by name"
    assert sum(patch.get_height() for patch in ax.patches) == TRAINED.feature_importance()[0]
    fitted = pvtree.GBDTRegressor(n_estimators=2, min_child_samples=3, verbosity=-1).fit(FRAME[["b"]], VALUES)
    with pytest.raises(InvalidDataError, match="categorical"):
        fitted.booster_.get_split_value_histogram("b")


def test_leaves_and_order_of_trees():
    booster = copy.copy(TRAINED).set_leaf_output(1, 2, 7.5)
    assert booster.get_leaf_output(1, 2) == 7.5
    assert TRAINED.get_leaf_output(1, 2) != 7.5
    with pytest.raises(IndexError, match="no tree 9"):
        booster.get_leaf_output(9, 0)
    with pytest.raises(IndexError, match="no leaf 99"):
        booster.get_leaf_output(0, 99)
    mixed = copy.copy(TRAINED).shuffle_models()
    assert mixed.model_ != TRAINED.model_
    np.testing.assert_allclose(mixed.predict(X), TRAINED.predict(X), rtol=1e-12)


def test_texts_and_pickles():
    again = pvtree.Booster(model_str=TRAINED.model_to_string()).model_from_string(TRAINED.model_to_string())
    assert again.model_ == TRAINED.model_
    kept = pvtree.train(PARAMS, pvtree.Dataset(X, CLASSES), 2, keep_training_booster=True)
    loaded = pickle.loads(pickle.dumps(kept))
    assert loaded.model_ == kept.model_ and loaded.train_set is None and loaded.params == PARAMS
    assert copy.deepcopy(kept).model_ == kept.model_
    assert repr(TRAINED) == "<Booster: <Model: gbdt for binary, 4 trees, 2 features>>"
    with pytest.raises(InvalidParameterError, match="one of train_set, model_file and model_str"):
        pvtree.Booster()
    kept.note = 5  # users keep attributes on it
    assert kept.note == 5


def test_boosters_of_a_cross_validation(tmp_path):
    calls = []

    def halve(train, valid, params):
        calls.append(len(train.get_label()))
        return train.subset(np.arange(0, train.num_data(), 2)), valid, {**params, "num_leaves": 3}

    found = pvtree.cv(
        PARAMS, pvtree.Dataset(X, CLASSES), 3, nfold=3, fpreproc=halve, return_cvbooster=True, stratified=False
    )
    boosters = found["cvbooster"]
    assert calls == [100] * 3
    assert boosters.best_iteration == -1
    assert boosters.current_iteration() == boosters.num_trees() == [3, 3, 3]
    assert all(tree.n_leaves <= 3 for each in boosters.boosters for tree in each.model_.trees)
    boosters.save_model(tmp_path / "cv.json")
    read = pvtree.CVBooster(model_file=tmp_path / "cv.json")
    assert [each.model_ for each in read.boosters] == [each.model_ for each in boosters.boosters]
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = boosters.absent
    with pytest.raises(pvtree.ModelFileError, match="not a file of CVBooster"):
        pvtree.CVBooster().model_from_string("[1]")


def test_early_stopping_can_be_off_and_has_parameters():
    valid = [pvtree.Dataset(X[:50], 1 - CLASSES[:50])]  # gets worse with every tree
    train = pvtree.Dataset(X, CLASSES)
    for rounds in (0, -1):
        made = pvtree.train(PARAMS, train, 6, valid, callbacks=[pvtree.early_stopping(rounds)])
        assert made.num_trees() == pvtree.train({**PARAMS, "early_stopping_round": rounds}, train, 6, valid).num_trees()
        assert made.num_trees() == 6
    assert pvtree.train({**PARAMS, "early_stopping_round": 2}, train, 6, valid).best_iteration == 1
    wanted = {"early_stopping_round": 1, "early_stopping_min_delta": 1e9, "first_metric_only": True}
    assert pvtree.train({**PARAMS, **wanted}, train, 6, [pvtree.Dataset(X, CLASSES)]).best_iteration == 1
    for callback in (pvtree.early_stopping(1), pvtree.log_evaluation(), pvtree.record_evaluation({})):
        assert callback.before_iteration is False and callback.order > 0
    assert pvtree.reset_parameter(learning_rate=[0.1]).before_iteration is True

    def stop(env):
        raise pvtree.EarlyStopException(0, env.evaluation_result_list)

    assert pvtree.train(PARAMS, train, 5, valid, callbacks=[stop]).num_trees() == 1


def test_columns_may_be_drawn_by_a_schedule():
    rows = np.hstack([X, RNG.normal(size=(150, 4))])
    shares = [1 / 6, 1.0, 1 / 6]
    made = pvtree.train(
        {"verbosity": -1, "colsample_bynode": 0.5}, pvtree.Dataset(rows, VALUES), 3,
        callbacks=[pvtree.reset_parameter(colsample_bytree=shares)],
    )  # fmt: skip
    used = [len(set(tree.feature[tree.feature >= 0].tolist())) for tree in made.model_.trees]
    assert used[0] <= 1 and used[2] <= 1 and used[1] > 1


def test_a_custom_objective_needs_no_metric():
    valid = [pvtree.Dataset(X, CLASSES)]
    made = pvtree.train({"objective": log_loss, "verbosity": -1}, pvtree.Dataset(X, CLASSES), 2, valid)
    assert made.num_trees() == 2


def test_updates_bin_the_rows_once(monkeypatch):
    from pvtree.training import train as trainer

    calls, make_shard = [], trainer.make_shard
    monkeypatch.setattr(trainer, "make_shard", lambda *given: calls.append(1) or make_shard(*given))
    booster = pvtree.Booster(PARAMS, pvtree.Dataset(X, CLASSES))
    for rate in (0.1, 0.1, 0.05):
        booster.reset_parameter({"learning_rate": rate}).update()
    assert len(calls) == 1
    booster.reset_parameter({"max_bin": 7}).update()  # other bins
    booster.set_leaf_output(0, 0, 1.0).update()  # other trees
    booster.train_set.set_label(1 - CLASSES)  # other rows
    booster.update()
    assert len(calls) == 4
    assert booster.current_iteration() == 6


def test_a_learning_rate_may_change_between_updates():
    booster = pvtree.Booster(PARAMS, pvtree.Dataset(X, CLASSES))
    for number in range(3):
        booster.reset_parameter({"learning_rate": 0.3 - 0.1 * number}).update()
    schedule = pvtree.reset_parameter(learning_rate=lambda number: 0.3 - 0.1 * number)
    expected = pvtree.train(PARAMS, pvtree.Dataset(X, CLASSES), 3, callbacks=[schedule])
    assert booster.model_ == expected.model_


def test_dart_by_updates():
    params = {**PARAMS, "boosting": "dart", "drop_rate": 0.9, "skip_drop": 0.0}
    booster = pvtree.Booster(params, pvtree.Dataset(X, CLASSES))
    for _ in range(4):
        booster.update()
    assert booster.model_ == pvtree.train(params, pvtree.Dataset(X, CLASSES), 4).model_
    with pytest.raises(InvalidParameterError, match="use train"):
        booster.rollback_one_iter().update()


def test_an_update_that_fails_leaves_the_model_and_no_thread():
    def fails(preds, data):
        raise ZeroDivisionError

    before = set(threading.enumerate())
    booster = pvtree.Booster({**PARAMS, "objective": "none"}, pvtree.Dataset(X, CLASSES))
    booster.update(fobj=log_loss)
    with pytest.raises(ZeroDivisionError):
        booster.update(fobj=fails)
    booster.update(fobj=log_loss)
    assert booster.current_iteration() == 2
    assert copy.deepcopy(booster).current_iteration() == 2
    waiting = set(threading.enumerate()) - before
    assert waiting
    del booster
    gc.collect()
    for thread in waiting:
        thread.join(10)
        assert not thread.is_alive()


def test_workers_are_asked_for_single_iterations():
    params = {**PARAMS, "tree_learner": "data", "n_workers": 2}
    booster = pvtree.Booster(params, pvtree.Dataset(X, CLASSES))
    booster.update()
    booster.update()
    assert booster.model_ == pvtree.train(params, pvtree.Dataset(X, CLASSES), 2).model_


def test_warnings_of_an_update_name_the_line_that_asked():
    booster = pvtree.Booster({"subsample": 0.5, "verbose": -1}, pvtree.Dataset(X, VALUES))
    with pytest.warns(UserWarning, match="subsample does nothing") as heard:
        booster.update()
    assert heard[0].filename == __file__
