"""What scripts of LightGBM and XGBoost expect of objects, with the peer beside it."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost

import pvtree
import pvtree.as_xgboost as xgb
from pvtree.errors import InvalidDataError

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4))
Y = (X[:, 0] + 0.5 * rng.normal(size=200) > 0).astype(int)
SMALL = {"n_estimators": 3, "num_leaves": 4, "verbosity": -1, "n_jobs": 1}


def constant(y_true, y_pred):
    return "constant", 0.0, False


@pytest.mark.parametrize(
    ("own", "asked"),
    [({}, "auc"), ({}, constant), ({"metric": "None"}, constant), ({"metric": "auc"}, ["fair", None]), ({}, [])],
)
def test_fit_adds_metrics_to_the_objective_s_own_as_in_lightgbm(own, asked):
    given = {"eval_X": X[:50], "eval_y": Y[:50], "eval_metric": asked}
    ours = pvtree.GBDTClassifier(**SMALL, **own).fit(X, Y, **given).evals_result_
    theirs = lightgbm.LGBMClassifier(**SMALL, **own).fit(X, Y, **given).evals_result_
    assert list(ours["valid_0"]) == list(theirs["valid_0"])


def test_classes_that_do_not_occur_have_columns():
    params = {"objective": "multiclass", "num_class": 3, "verbosity": -1}
    ours = pvtree.train(params, pvtree.Dataset(X, Y), 2).predict(X)
    theirs = lightgbm.train(params, lightgbm.Dataset(X, Y), 2).predict(X)
    assert ours.shape == theirs.shape
    assert ours[:, 2].max() < 1e-6
    with pytest.raises(InvalidDataError, match="num_class is 3, but y has 2 classes"):
        pvtree.GBDTClassifier(num_class=3, **SMALL).fit(X, Y)


def test_labels_above_0_are_the_second_class():
    constant_rows, labels = np.ones((4, 1)), [0.0, 10.0, 2.0, 3.0]
    with pytest.warns(UserWarning, match="above 0 are taken as the second class"):
        booster = pvtree.train({"objective": "binary", "verbosity": -1}, pvtree.Dataset(constant_rows, labels), 1)
    theirs = lightgbm.train({"objective": "binary", "verbosity": -1}, lightgbm.Dataset(constant_rows, labels), 1)
    np.testing.assert_allclose(booster.predict(constant_rows), theirs.predict(constant_rows))


def test_attributes_set_by_callbacks_stay_with_the_booster():
    def mark(env):
        env.model.mark = env.iteration

    assert pvtree.GBDTRegressor(**SMALL).fit(X, Y, callbacks=[mark]).booster_.mark == 2


def test_predict_takes_parameters_of_the_estimator():
    asked = {"pred_early_stop": True, "pred_early_stop_freq": 1, "pred_early_stop_margin": 0.1}
    plain = pvtree.GBDTClassifier(**SMALL).fit(X, Y)
    early = plain.predict(X, raw_score=True, **asked)
    assert not np.allclose(early, plain.predict(X, raw_score=True))
    np.testing.assert_array_equal(plain.set_params(**asked).predict(X, raw_score=True), early)


def test_ordered_categories_are_compared_by_place():
    levels = pd.Categorical(rng.choice(["a", "b", "c", "d"], 200), ordered=True)
    y = pd.Series(levels).cat.codes.to_numpy(float)
    frame = pd.DataFrame({"level": levels, "x": X[:, 0]})
    made = pvtree.GBDTRegressor(**SMALL).fit(frame, y)
    assert 0 in made.model_.ordered_categories()
    assert (
        0 not in pvtree.GBDTRegressor(**SMALL).fit(frame, y, categorical_feature=["level"]).model_.ordered_categories()
    )


def test_cross_validation_goes_on_from_a_model():
    params, data = {"verbosity": -1}, pvtree.Dataset(X, Y.astype(float))
    start = pvtree.train(params, data, 2)
    folds = pvtree.cv(params, data, 3, nfold=2, stratified=False, init_model=start, return_cvbooster=True)["cvbooster"]
    assert folds.current_iteration() == [5, 5]
    np.testing.assert_allclose(folds.boosters[0].predict(X, num_iteration=2), start.predict(X))


def early(kind):
    made = kind.XGBClassifier(n_estimators=30, max_depth=2, early_stopping_rounds=3, eval_metric="error", n_jobs=1)
    return made.fit(X[:100], Y[:100], eval_set=[(X[100:], Y[100:])], verbose=False)


def test_early_stopping_of_xgboost_keeps_all_trees(tmp_path):
    ours, theirs = early(xgb), early(xgboost)
    for made in (ours, theirs):
        assert len(made.get_booster().get_dump()) - made.best_iteration == 4
        margin = made.predict(X, output_margin=True, iteration_range=(0, made.best_iteration + 1))
        np.testing.assert_allclose(made.predict(X, output_margin=True), margin)
    ours.save_model(tmp_path / "m.json")
    assert xgboost.Booster(model_file=tmp_path / "m.json").attr("best_iteration") == str(ours.best_iteration)
    read = xgb.XGBClassifier()
    read.load_model(tmp_path / "m.json")
    assert (read.best_iteration, read.best_score) == (ours.best_iteration, ours.best_score)


def test_margins_take_the_place_of_the_initial_score():
    margin = rng.normal(size=200)
    for kind in (xgb, xgboost):
        made = kind.XGBClassifier(n_estimators=3, n_jobs=1).fit(X, Y)
        booster = made.get_booster()
        trees = booster.predict(kind.DMatrix(X, base_margin=np.zeros(200)), output_margin=True)
        moved = booster.predict(kind.DMatrix(X, base_margin=margin), output_margin=True)
        np.testing.assert_allclose(moved - trees, margin, atol=1e-5)
        np.testing.assert_array_equal(made.predict(X, base_margin=margin), moved > 0)


def test_importances_are_shares():
    made, theirs = (kind.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(X, Y) for kind in (xgb, xgboost))
    for name in ("weight", "gain", "cover", "total_gain", "total_cover", None):
        ours, other = (each.set_params(importance_type=name).feature_importances_ for each in (made, theirs))
        assert ours.dtype == other.dtype == np.float32
        assert ours.argmax() == other.argmax() == 0
        assert ours.sum() == pytest.approx(1)


@pytest.mark.parametrize("period", [True, 2, 4, 11])
def test_lines_of_metrics_are_xgboost_s(period, capsys):
    lines = []
    for kind in (xgb, xgboost):
        data = kind.DMatrix(X, Y)
        params = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}
        kind.train(params, data, 10, evals=[(data, "rows")], verbose_eval=period)
        lines.append([line.partition(":")[0] for line in capsys.readouterr().out.splitlines()])
    assert lines[0] == lines[1]


@pytest.mark.parametrize("asked", [{}, {"verbose": False}])
def test_metrics_are_printed_unless_refused(asked, capsys):
    params = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}
    lines = []
    for kind in (xgb, xgboost):
        data = kind.DMatrix(X, Y)
        kind.train(params, data, 3)
        kind.train(params, data, 3, evals=[(data, "rows")], **{f"{name}_eval": value for name, value in asked.items()})
        estimator = kind.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1)
        estimator.fit(X, Y)
        estimator.fit(X, Y, eval_set=[(X, Y)], **asked)
        lines.append([line.partition(":")[0] for line in capsys.readouterr().out.splitlines()])
    assert lines[0] == lines[1]
    assert len(lines[0]) == (0 if asked else 5)


def test_boosters_of_xgboost_begin_without_trees():
    data = xgb.DMatrix(X, Y)
    params = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}
    empty = xgb.train(params, data, 0)
    assert empty.num_boosted_rounds() == 0
    assert xgb.train(params, data, 3, xgb_model=empty).model_ == xgb.train(params, data, 3).model_
    histogram = xgb.train(params, data, 5).get_split_value_histogram("f0", bins=2)
    assert list(histogram.columns) == ["SplitValue", "Count"]
    assert len(histogram) <= 2
