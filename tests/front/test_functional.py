"""Dataset, train, cv and Booster against the estimators that they wrap."""

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

import pvtree
from pvtree import as_xgboost
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 5))
values = X[:, 0] * 2 + np.sin(X[:, 1] * 3) + rng.normal(size=300) * 0.1
labels = np.digitize(values, [-1, 1])  # 0, 1, 2
PARAMS = {"num_leaves": 5, "num_threads": 1}


def test_train_is_fit():
    params = PARAMS | {"objective": "mse", "eta": 0.3, "metric": {"l2", "l1"}}
    valid = pvtree.Dataset(X[200:], values[200:])
    booster = pvtree.train(params, pvtree.Dataset(X[:200], values[:200]), 5, valid_sets=valid, valid_names="held")
    twin = pvtree.GBDTRegressor(n_estimators=5, num_leaves=5, learning_rate=0.3, n_jobs=1)
    twin.fit(X[:200], values[:200], eval_set=[(X[200:], values[200:])], eval_metric=["l1", "l2"], eval_names=["held"])
    assert booster.model_ == twin.model_
    assert booster.evals_result == twin.evals_result_
    assert booster.best_score == {"held": {name: each[-1] for name, each in booster.evals_result["held"].items()}}
    np.testing.assert_array_equal(booster.predict(valid), twin.predict(X[200:]))
    np.testing.assert_array_equal(booster.predict(X, num_iteration=2), twin.predict(X, num_iteration=2))
    np.testing.assert_array_equal(booster.predict(X, pred_leaf=True), twin.apply(X))
    for how in ({}, {"raw_score": True}, {"pred_leaf": True}, {"pred_contrib": True}):
        how |= {"start_iteration": 1, "num_iteration": 3}
        np.testing.assert_array_equal(booster.predict(X, **how), twin.predict(X, **how))
    with pytest.raises(InvalidTypeError, match=r"start_iteration must be an integer, got 1\.5"):
        booster.predict(X, start_iteration=1.5)
    np.testing.assert_array_equal(booster.predict(X, pred_contrib=True), twin.predict(X, pred_contrib=True))
    assert booster.feature_importance().tolist() == twin.feature_importances_.tolist()
    assert booster.feature_name() == [f"Column_{j}" for j in range(5)] == twin.feature_name_
    assert (booster.num_trees(), booster.num_feature(), booster.current_iteration()) == (5, 5, 5)
    assert twin.booster_.model_ == twin.model_


def test_datasets_may_be_filled_in_later():
    weight = np.linspace(0.5, 2.0, 200)
    late = pvtree.Dataset(X[:200]).set_label(labels[:200]).set_weight(weight).set_group([120, 80])
    at_once = pvtree.Dataset(X[:200], labels[:200], weight=weight, group=[120, 80])
    params = PARAMS | {"objective": "lambdarank", "metric": "ndcg", "eval_at": [3]}
    held = {"label": labels[200:], "group": [60, 40]}
    boosters = [
        pvtree.train(params, whole, 3, valid_sets=valid)
        for whole, valid in ((late, late.create_valid(X[200:], **held)), (at_once, pvtree.Dataset(X[200:], **held)))
    ]
    assert boosters[0].model_ == boosters[1].model_
    assert boosters[0].evals_result == boosters[1].evals_result
    matrix = as_xgboost.DMatrix(X, values)
    assert (matrix.num_row(), matrix.num_col()) == X.shape


def beside_lightgbm(tmp_path, params, y):
    """A booster, and LightGBM's with the same trees."""
    booster = pvtree.train(PARAMS | params, pvtree.Dataset(X, y), 10)
    booster.model_.export_lightgbm(tmp_path / "model.txt")
    return booster, lightgbm.Booster(model_file=tmp_path / "model.txt")


RANGES = [(0, 5), (5, 5), (5, None), (-1, 5), (-7, None), (3, -1), (3, 0), (12, 5), (9, 99)]
MULTICLASS = {"objective": "multiclass", "num_class": 3}


@pytest.mark.parametrize(
    ("params", "y"), [({}, values + 100), (MULTICLASS, labels), ({"objective": "binary"}, labels > 0)]
)
def test_ranges_of_iterations_are_lightgbm_s(params, y, tmp_path):
    booster, theirs = beside_lightgbm(tmp_path, params, y)
    assert booster.num_model_per_iteration() == theirs.num_model_per_iteration()
    for start, n in RANGES:
        for kind in ({}, {"raw_score": True}, {"pred_leaf": True}, {"pred_contrib": True}):
            ours = booster.predict(X, start, n, **kind)
            expected = theirs.predict(X, start, n, num_threads=1, **kind)
            np.testing.assert_allclose(ours, expected.reshape(ours.shape), rtol=0, atol=1e-10)
    for kind in ({"raw_score": True}, {"pred_contrib": True}):
        parts = [booster.predict(X, start, 5, **kind) for start in (0, 5)]
        np.testing.assert_allclose(parts[0] + parts[1], booster.predict(X, **kind), rtol=0, atol=1e-10)
    model = booster.model_
    for method in (model.predict_raw, model.predict_contrib):
        np.testing.assert_allclose(method(X, 5) + method(X, 5, 5), method(X), rtol=0, atol=1e-10)
        np.testing.assert_array_equal(method(X, 5, -3), method(X, 5))
    assert booster.model_to_string(start_iteration=-1) == booster.model_to_string()
    rest = pvtree.Booster(model_str=booster.model_to_string(start_iteration=5))
    np.testing.assert_array_equal(rest.predict(X), booster.predict(X, 5))


def test_ranges_of_iterations_of_estimators():
    made = pvtree.GBDTRegressor(n_estimators=10, num_leaves=5, n_jobs=1).fit(X, values + 100)
    parts = [made.predict(X, start_iteration=start, num_iteration=5) for start in (-1, 5)]
    np.testing.assert_allclose(parts[0] + parts[1], made.predict(X), rtol=0, atol=1e-10)
    classes = pvtree.GBDTClassifier(n_estimators=10, num_leaves=5, n_jobs=1).fit(X, labels)
    parts = [classes.predict(X, raw_score=True, start_iteration=start, num_iteration=5) for start in (0, 5)]
    np.testing.assert_allclose(parts[0] + parts[1], classes.predict(X, raw_score=True), rtol=0, atol=1e-10)
    forest = pvtree.RandomForestRegressor(n_estimators=4, n_jobs=1).fit(X, values)
    parts = [forest.predict(X, start_iteration=start, num_iteration=2) for start in (0, 2)]
    np.testing.assert_allclose((parts[0] + parts[1]) / 2, forest.predict(X), rtol=0, atol=1e-10)  # a forest is a mean


def test_xgboost_adds_the_initial_score_to_any_range():
    data = as_xgboost.DMatrix(X, values + 100)
    booster = as_xgboost.train({"nthread": 1}, data, 10)
    theirs = xgboost.train({"nthread": 1, "base_score": 100.0}, xgboost.DMatrix(X, values + 100), 10)
    base = booster.model_.init_score
    for first, stop in ((0, 0), (0, 5), (5, 10), (5, 0)):
        kinds = {"iteration_range": (first, stop), "output_margin": True}
        parts = booster.predict(data, **kinds)
        np.testing.assert_allclose(parts.mean(), theirs.predict(xgboost.DMatrix(X), **kinds).mean(), rtol=0, atol=0.5)
        begun = booster.model_.predict_raw(X, (stop or 10) - first, first)[:, 0] + (base if first else 0.0)
        np.testing.assert_allclose(parts, begun, rtol=0, atol=1e-10)
    made = as_xgboost.XGBRegressor(n_estimators=10, n_jobs=1)
    with pytest.raises(NotFittedError):
        made.predict(X, iteration_range=(5, 10))
    made.fit(X, values + 100)
    np.testing.assert_array_equal(
        made.predict(X, iteration_range=(5, 10)), made.get_booster().predict(data, iteration_range=(5, 10))
    )


def test_arguments_of_predict_are_done_or_refused():
    booster = pvtree.train(PARAMS, pvtree.Dataset(X, values), 3)
    expected = booster.predict(X)
    fine = {"data_has_header": False, "validate_features": True, "pred_early_stop": False, "pred_early_stop_freq": 5}
    for name, value in (fine | {"num_threads": 2, "verbosity": -1, "pred_early_stop_margin": None}).items():
        np.testing.assert_array_equal(booster.predict(X, **{name: value}), expected)
    for given, sentence in (
        ({"num_iterations": 1}, r"num_iterations is no argument of Booster\.predict; did you mean num_iteration\?$"),
        ({"output_margin": True}, r"output_margin is no argument of Booster\.predict; its arguments are data, start_"),
    ):
        with pytest.raises(InvalidParameterError, match=sentence):
            booster.predict(X, **given)


def test_arguments_of_xgboost_s_predict_are_done_or_refused():
    data = as_xgboost.DMatrix(X, values)
    booster = as_xgboost.train({"nthread": 1}, data, 3)
    fine = {"pred_interactions": False, "strict_shape": False, "approx_contribs": False, "training": False}
    np.testing.assert_array_equal(booster.predict(data, **fine, validate_features=True), booster.predict(data))
    for given, sentence in (
        ({"training": "yes"}, "training='yes' is not supported"),
        ({"pred_contrib": True}, r"no argument of Booster\.predict; did you mean pred_contribs\?"),
        ({"num_iteration": 1}, r"num_iteration is no argument of Booster\.predict"),
        ({"raw_score": True}, r"raw_score is no argument of Booster\.predict"),
    ):
        with pytest.raises(InvalidParameterError, match=sentence):
            booster.predict(data, **given)


def test_models_travel_as_files_and_strings(tmp_path):
    booster = pvtree.train(PARAMS, pvtree.Dataset(X, values, feature_name=list("abcde")), 4)
    booster.save_model(tmp_path / "model.txt", num_iteration=3)
    loaded = pvtree.Booster(model_file=tmp_path / "model.txt")
    np.testing.assert_array_equal(loaded.predict(X), booster.predict(X, num_iteration=3))
    assert loaded.feature_name() == list("abcde")
    assert pvtree.Booster(model_str=booster.model_to_string()).model_ == booster.model_
    booster.model_.export_lightgbm(tmp_path / "lightgbm.txt")
    np.testing.assert_array_equal(pvtree.Booster(model_file=tmp_path / "lightgbm.txt").predict(X), booster.predict(X))
    text = (tmp_path / "lightgbm.txt").read_text()
    np.testing.assert_array_equal(pvtree.Booster(model_str=text).predict(X), booster.predict(X))
    with pytest.raises(InvalidParameterError, match=r"call pvtree\.train"):
        pvtree.Booster(PARAMS)


def test_classes_are_numbers_from_0():
    params = PARAMS | {"objective": "multiclass", "num_class": 3}
    booster = pvtree.train(params, pvtree.Dataset(X, labels), 3)
    twin = pvtree.GBDTClassifier(n_estimators=3, num_leaves=5, n_jobs=1).fit(X, labels)
    np.testing.assert_array_equal(booster.predict(X), twin.predict_proba(X))
    assert booster.predict(X, raw_score=True).shape == (300, 3)
    with pytest.raises(InvalidDataError, match=r"Labels must be the classes 0 to 1; got 0\.0, 1\.0, 2\.0"):
        pvtree.train(params | {"num_class": 2}, pvtree.Dataset(X, labels), 3)
    with pytest.raises(InvalidParameterError, match="set num_class"):
        pvtree.train(PARAMS | {"objective": "softmax"}, pvtree.Dataset(X, labels), 3)
    with pytest.raises(InvalidTypeError, match="only accepts Dataset"):
        pvtree.train(PARAMS, X, 3)
    with pytest.raises(InvalidParameterError, match="objective='rank:mrr' is unknown"):
        pvtree.train({"objective": "rank:mrr"}, pvtree.Dataset(X, values))


def test_functions_of_the_user_s_own_see_a_dataset():
    def squared(preds, train_data):
        return preds - train_data.get_label(), np.ones(len(preds))

    def worst(preds, data):
        return "worst", float(np.abs(preds - data.get_label()).max()), False

    data = pvtree.Dataset(X, values)
    booster = pvtree.train(PARAMS | {"objective": squared}, data, 5, valid_sets=[data], feval=worst)
    expected = np.abs(booster.predict(X) - values).max()
    assert booster.evals_result["training"]["worst"][-1] == pytest.approx(expected)


def test_cv_is_the_mean_of_the_folds():
    params, data = PARAMS | {"metric": "l2"}, pvtree.Dataset(X, values)
    folds = list(KFold(3).split(X))
    found = pvtree.cv(params, data, 5, folds=folds, return_cvbooster=True)
    by_fold = []
    for chosen, held in folds:
        result = {}
        valid = pvtree.Dataset(X[held], values[held])
        pvtree.train(params, pvtree.Dataset(X[chosen], values[chosen]), 5, [valid], evals_result=result)
        by_fold.append(result["valid_0"]["l2"])
    np.testing.assert_allclose(found["valid l2-mean"], np.mean(by_fold, axis=0))
    np.testing.assert_allclose(found["valid l2-stdv"], np.std(by_fold, axis=0))
    assert len(found["cvbooster"].predict(X)) == 3


def test_cv_stops_early_by_the_mean():
    params = PARAMS | {"objective": "binary", "learning_rate": 1.0}
    data = pvtree.Dataset(X, (labels > 0).astype(int))
    kept = {}
    callbacks = [pvtree.record_evaluation(kept), pvtree.early_stopping(3, verbose=False)]
    found = pvtree.cv(params, data, 30, nfold=3, callbacks=callbacks, return_cvbooster=True)
    means = found["valid binary_logloss-mean"]
    assert len(means) < 30 and np.argmin(kept["valid"]["binary_logloss-mean"]) == len(means) - 1
    assert found["cvbooster"].best_iteration == found["cvbooster"].boosters[0].num_trees() == len(means)


def test_cv_keeps_queries_together(monkeypatch):
    data, subset, parts = pvtree.Dataset(X, labels, group=[30] * 10), pvtree.Dataset.subset, []
    monkeypatch.setattr(pvtree.Dataset, "subset", lambda self, rows: parts.append(rows) or subset(self, rows))
    found = pvtree.cv(PARAMS | {"objective": "lambdarank", "eval_at": [3]}, data, 2, nfold=2)
    assert list(found) == ["valid ndcg@3-mean", "valid ndcg@3-stdv"]
    assert [len(set(rows // 30)) * 30 for rows in parts] == [len(rows) for rows in parts] == [150] * 4


def test_xgboost_s_names_have_its_defaults():
    made = as_xgboost.XGBClassifier(eta=0.5, gamma=1, grow_policy="depthwise")
    assert (made.learning_rate, made.min_split_gain, made.max_depth, made.reg_lambda) == (0.5, 2, 6, 1.0)
    assert "max_depth : " in made.__doc__ and "default=6" in made.__doc__
    made.set_params(n_estimators=30, early_stopping_rounds=2, eval_metric=["merror", "mlogloss"], n_jobs=1)
    made.fit(X[:200], labels[:200], eval_set=[(X[:200], labels[:200]), (X[200:], labels[200:])])
    results = made.evals_result()
    assert list(results) == ["validation_0", "validation_1"]
    last = results["validation_1"]["mlogloss"]  # the last metric of the last set decides
    assert made.best_iteration == np.argmin(last) == len(last) - 3
    assert made.best_score == min(last)
    booster = made.get_booster()
    assert booster.num_boosted_rounds() == len(last)  # XGBoost's Booster keeps all trees, its estimators use the best
    best = booster.predict(as_xgboost.DMatrix(X), iteration_range=(0, made.best_iteration + 1))
    np.testing.assert_array_equal(best, made.predict_proba(X))
    margins = booster.predict(as_xgboost.DMatrix(X), output_margin=True, iteration_range=(1, 2))
    np.testing.assert_array_equal(made.predict(X, output_margin=True, iteration_range=(1, 2)), margins)
    data, told = as_xgboost.DMatrix(X, values), {}
    as_xgboost.train({"nthread": 1}, data, 1, [(data, "train")], evals_result=told)
    assert list(told["train"]) == ["rmse"]
    assert made.feature_importances_.sum() == pytest.approx(1)
    with pytest.raises(AttributeError, match="only after early stopping"):
        as_xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(X, values).best_iteration  # noqa: B018
