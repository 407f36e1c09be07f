"""The estimators inside scikit-learn's tools: searches, pipelines, calibration, ensembles, routed weights."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingRegressor, VotingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import pvtree

rng = np.random.default_rng(0)
X = rng.normal(size=(240, 4))
values = 2 * X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.normal(size=240)
labels = np.where(values > 1, "high", "low")
frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": rng.choice(["x", "y"], 240)})


def small(kind=pvtree.GBDTClassifier, **more):
    return kind(**({"n_estimators": 5, "num_leaves": 5, "n_jobs": 1} | more))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search(n_jobs):
    """By our names and by others; with two processes the estimators are pickled."""
    search = GridSearchCV(small(), {"num_leaves": [2, 6], "eta": [0.01, 0.5]}, cv=2, n_jobs=n_jobs)
    search.fit(X, labels)
    assert search.best_params_ == {"num_leaves": 6, "eta": 0.5}
    assert search.best_estimator_.learning_rate == 0.5
    assert search.best_score_ > 0.85


def test_pipeline_with_columns_of_several_kinds():
    columns = ColumnTransformer([("kind", OneHotEncoder(), ["kind"]), ("numbers", StandardScaler(), ["a", "b"])])
    columns.set_output(transform="default")
    pipeline = Pipeline([("columns", columns), ("model", small())])
    pipeline.set_params(model__num_leaves=4, model__lambda_l2=1.0)
    assert pipeline.named_steps["model"].reg_lambda == 1.0
    assert cross_val_score(pipeline, frame, labels, cv=2).mean() > 0.85
    named = make_pipeline(StandardScaler().set_output(transform="pandas"), small()).fit(frame[["a", "b"]], labels)
    assert named[-1].feature_names_in_.tolist() == ["a", "b"]


def test_calibrated_probabilities_are_between_0_and_1():
    calibrated = CalibratedClassifierCV(small(), cv=2).fit(X, labels)
    probabilities = calibrated.predict_proba(X)
    assert calibrated.score(X, labels) > 0.85
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_permutation_importance_finds_the_columns_that_matter():
    model = small(pvtree.GBDTRegressor, n_estimators=20).fit(X, values)
    importance = permutation_importance(model, X, values, n_repeats=2, random_state=0).importances_mean
    assert set(np.argsort(importance)[-2:]) == {0, 1}


def test_voting_and_stacking():
    voting = VotingClassifier([("trees", small()), ("line", LogisticRegression())], voting="soft").fit(X, labels)
    assert voting.score(X, labels) > 0.85
    stacking = StackingRegressor(
        [("trees", small(pvtree.GBDTRegressor, n_estimators=20)), ("line", LinearRegression())]
    )
    assert stacking.fit(X, values).score(X, values) > 0.85
    forest = small(pvtree.RandomForestClassifier)
    assert cross_val_predict(forest, X, labels, cv=2, method="predict_proba").shape == (240, 2)


@pytest.mark.parametrize("kind", [pvtree.GBDTClassifier, pvtree.GBDTRegressor, pvtree.DecisionTreeClassifier])
def test_clones_and_pickles(kind):
    given = {} if kind is pvtree.DecisionTreeClassifier else {"n_estimators": 3, "eta": 0.3}
    unfitted = kind(**given, min_data_in_leaf=4, n_jobs=1)
    target = values if kind is pvtree.GBDTRegressor else labels
    fitted = clone(unfitted).fit(X, target)
    for copy in (clone(fitted), pickle.loads(pickle.dumps(unfitted))):
        assert copy.get_params() == unfitted.get_params()
        assert not hasattr(copy, "model_")
    loaded = pickle.loads(pickle.dumps(fitted))
    assert loaded.model_ == fitted.model_
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))


def test_weights_are_routed_to_fit():
    weight = np.where(np.arange(240) < 120, 1.0, 0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = small().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        found = cross_validate(
            model,
            X,
            labels,
            cv=[(np.arange(240), np.arange(240))],
            params={"sample_weight": weight},
            return_estimator=True,
        )
    assert found["estimator"][0].model_ == small().fit(X[:120], labels[:120]).model_


def test_early_stopping_inside_a_search():
    search = GridSearchCV(small(early_stopping_rounds=2, n_estimators=40), {"learning_rate": [1.0]}, cv=2)
    search.fit(X, labels, eval_set=[(X[::2], labels[::2])], eval_names=["held"])
    assert 0 < search.best_estimator_.best_iteration_ <= 40
    assert list(search.best_estimator_.evals_result_) == ["held"]
