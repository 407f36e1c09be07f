import inspect
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pvtree
from estimator_samples import ALL, CLASSIFIERS, REGRESSORS, data, fitted, small
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError

# -- Predictions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_and_probabilities(estimator, n_classes):
    X, y = data(n_classes=n_classes)
    names = np.array(["low", "mid", "top"])[y]
    model = small(estimator).fit(X, names)
    probabilities = model.predict_proba(X)
    assert model.classes_.tolist() == ["low", "mid", "top"][:n_classes]
    assert model.model_.classes == tuple(model.classes_.tolist())
    assert probabilities.shape == (len(X), n_classes)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[probabilities.argmax(axis=1)])
    assert model.score(X, names) > 0.8
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(model.predict_log_proba(X), np.log(probabilities))


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_values(estimator):
    X, y = data(n_classes=50)
    model = small(estimator, n_estimators=30).fit(X, y)
    assert model.predict(X).shape == (len(X),)
    assert model.score(X, y) > 0.7
    np.testing.assert_array_equal(model.predict(X, raw_score=True), model.predict(X))


@pytest.mark.parametrize("estimator", ALL)
def test_staged_and_limited_predictions_agree(estimator):
    model, X, _ = fitted(estimator, n_classes=3)
    stages = list(model.staged_predict(X))
    assert len(stages) == getattr(model, "n_estimators", 1)
    np.testing.assert_array_equal(stages[-1], model.predict(X))
    for stage, predicted in enumerate(stages, start=1):
        np.testing.assert_array_equal(model.predict(X, num_iteration=stage), predicted)
    if hasattr(model, "predict_proba"):
        for stage, probabilities in enumerate(model.staged_predict_proba(X), start=1):
            np.testing.assert_array_equal(model.predict_proba(X, num_iteration=stage), probabilities)
        later = model.predict_proba(X, start_iteration=len(stages) - 1)
        np.testing.assert_array_equal(later.argmax(axis=1), model.predict(X, start_iteration=len(stages) - 1))
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X, start_iteration=len(stages) - 1)), later)
    np.testing.assert_array_equal(model.predict(X, num_iteration=-2), model.predict(X))
    with pytest.raises(InvalidTypeError, match=r"num_iteration must be an integer or None, got 1\.5"):
        model.predict(X, num_iteration=1.5)


def test_raw_scores_of_classifiers():
    model, X, _ = fitted(pvtree.GBDTClassifier)
    raw = model.predict(X, raw_score=True)
    assert raw.shape == (len(X),)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-raw)))
    np.testing.assert_array_equal(model.decision_function(X), raw)
    three, X, _ = fitted(pvtree.GBDTClassifier, n_classes=3)
    assert three.predict(X, raw_score=True).shape == three.decision_function(X).shape == (len(X), 3)


def test_softmax_with_two_classes():
    model, X, y = fitted(pvtree.GBDTClassifier, objective="multiclass")
    assert model.predict_proba(X).shape == (len(X), 2)
    assert model.decision_function(X).shape == (len(X),)
    np.testing.assert_array_equal(model.decision_function(X) > 0, model.predict(X) == 1)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("estimator", ALL)
def test_apply_tells_the_leaf_of_every_tree(estimator):
    model, X, _ = fitted(estimator)
    leaves = model.apply(X)
    one_tree = not hasattr(model, "n_estimators")
    assert leaves.shape == ((len(X),) if one_tree else (len(X), len(model.model_.trees)))
    first = leaves if one_tree else leaves[:, 0]
    assert sorted(set(first.tolist())) == list(range(first.max() + 1))
    if one_tree:  # rows of a leaf share their prediction
        predicted = model.predict(X, raw_score=True).reshape(len(X), -1)
        for leaf in range(leaves.max() + 1):
            assert len(np.unique(predicted[leaves == leaf], axis=0)) == 1


@pytest.mark.parametrize("estimator", ALL)
def test_importances(estimator):
    model, _, _ = fitted(estimator)
    splits = model.feature_importances_
    assert splits.shape == (4,)
    assert splits.sum() == sum((tree.feature >= 0).sum() for tree in model.model_.trees)
    gains = model.set_params(importance_type="gain").feature_importances_
    assert gains.argmax() == 0
    assert not np.array_equal(gains, splits)


@pytest.mark.parametrize("estimator", ALL)
def test_pickled_estimators_predict_the_same(estimator):
    model, X, _ = fitted(estimator)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    assert twin.get_params() == model.get_params()


@pytest.mark.parametrize("estimator", ALL)
def test_unfitted(estimator):
    for ask in (lambda m: m.predict([[0.0]]), lambda m: m.apply([[0.0]]), lambda m: m.feature_importances_):
        with pytest.raises(NotFittedError):
            ask(estimator())
    with pytest.raises(NotFittedError):
        estimator().staged_predict([[0.0]])


# -- Fitting ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ALL)
def test_fits_repeat_without_a_seed(estimator):
    first, X, _ = fitted(estimator)
    second, _, _ = fitted(estimator)
    np.testing.assert_array_equal(first.predict(X, raw_score=True), second.predict(X, raw_score=True))


def test_seeds_matter_where_there_is_chance():
    first, X, _ = fitted(pvtree.RandomForestClassifier, random_state=1)
    second, _, _ = fitted(pvtree.RandomForestClassifier, random_state=2)
    assert not np.array_equal(first.predict_proba(X), second.predict_proba(X))


@pytest.mark.parametrize("estimator", ALL)
def test_unit_weights_change_nothing(estimator):
    X, y = data()
    more = {"group": [200]} if estimator is pvtree.GBDTRanker else {}
    plain = small(estimator).fit(X, y, **more).predict(X, raw_score=True)
    weighted = small(estimator).fit(X, y, sample_weight=np.ones(len(X)), **more).predict(X, raw_score=True)
    np.testing.assert_array_equal(plain, weighted)


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS])
def test_rows_of_weight_zero_are_no_rows(estimator):
    X, y = data(n_classes=3)
    keep = y < 2
    left_out = small(estimator).fit(X, y, sample_weight=keep.astype(float))
    removed = small(estimator).fit(X[keep], y[keep])
    np.testing.assert_array_equal(left_out.predict(X, raw_score=True), removed.predict(X, raw_score=True))
    if hasattr(removed, "classes_"):
        assert left_out.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("estimator", ALL)
def test_weights_matter(estimator):
    X, y = data()
    more = {"group": [200]} if estimator is pvtree.GBDTRanker else {}
    weight = np.where(np.nan_to_num(X[:, 2]) > 0, 5.0, 0.2)
    plain = small(estimator).fit(X, y, **more).predict(X, raw_score=True)
    weighted = small(estimator).fit(X, y, sample_weight=weight, **more).predict(X, raw_score=True)
    assert not np.array_equal(plain, weighted)


def test_a_failed_fit_leaves_the_estimator_as_it_was():
    model, X, y = fitted(pvtree.GBDTClassifier)
    before = model.predict_proba(X)
    with pytest.raises(InvalidDataError):
        model.fit(X[:, :2], y[:-1])
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.n_features_in_ == 4


def test_parameters_are_checked_before_the_data():
    with pytest.raises(InvalidParameterError, match=r"num_leaves must be .*, got 1"):
        pvtree.GBDTClassifier(num_leaves=1).fit(None, None)
    with pytest.raises(InvalidParameterError, match="tree_learner must be 'auto' or 'serial' or 'voting'"):
        pvtree.GBDTClassifier(tree_learner="vote").fit(None, None)
    with pytest.raises(InvalidParameterError, match="n_workers must be an integer from 1"):
        pvtree.RandomForestClassifier(n_workers=0).fit(None, None)
    with pytest.raises(InvalidParameterError, match=r"objective must be 'regression' or 'l1' .*, None, or a function"):
        pvtree.GBDTRegressor(objective="binary").fit(None, None)
    with pytest.raises(InvalidParameterError, match="criterion must be 'variance', got 'entropy'"):
        pvtree.DecisionTreeRegressor(criterion="entropy").fit(None, None)


@pytest.mark.parametrize("argument", ["raw_score", "pred_leaf", "pred_contrib"])
def test_flags_of_predict_are_true_or_false(argument):
    model, X, _ = fitted(pvtree.GBDTRegressor)
    for flag in (np.array([1, 2]), "yes", None, 2):
        with pytest.raises(InvalidTypeError, match=f"^{argument} must be True or False, got"):
            model.predict(X, **{argument: flag})
    model.predict(X, **{argument: np.True_})


@pytest.mark.parametrize("estimator", [pvtree.GBDTRegressor, pvtree.RandomForestRegressor])
def test_arguments_of_fit_are_checked_whatever_they_are(estimator):
    X, y = data()
    for names in (3, np.array("a"), object(), ["a"], [1, 2, 3, 4]):
        with pytest.raises(InvalidDataError, match=r"^feature_name must be 'auto' or a list of 4 different strings"):
            small(estimator).fit(X, y, feature_name=names)
    with pytest.raises(InvalidTypeError, match=r"^early_stopping_rounds must be an integer of at least 1 or None"):
        small(estimator).fit(X, y, early_stopping_rounds=np.array([1, 2]))


@pytest.mark.parametrize("estimator", REGRESSORS)
@pytest.mark.parametrize("scale", [1e70, 1e-300, 5e-324])
def test_targets_of_any_size_give_finite_predictions(estimator, scale):
    X, y = data(n_classes=3)
    for weight in (None, np.where(y > 0, 1e70, 1e-70)):
        predicted = small(estimator).fit(X, y / 2 * scale, sample_weight=weight).predict(X)
        assert np.isfinite(predicted).all()


def test_idle_subsample_is_told():
    X, y = data()
    with pytest.warns(UserWarning, match="set subsample_freq=1"):
        small(pvtree.GBDTClassifier, subsample=0.5).fit(X, y)


def test_binary_objective_needs_two_classes():
    X, y = data(n_classes=3)
    with pytest.raises(InvalidDataError, match="objective='binary' needs two classes, but y has 3"):
        small(pvtree.GBDTClassifier, objective="binary").fit(X, y)


def test_column_names():
    X, y = data()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = small(pvtree.GBDTClassifier).fit(frame, y)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.model_.feature_names == tuple("abcd")
    with pytest.warns(UserWarning, match="X does not have valid feature names, but GBDTClassifier was fitted"):
        nameless = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(frame), nameless)
    with pytest.raises(InvalidDataError, match="in another order"):
        model.predict(frame[list("dcba")])
    assert not hasattr(model.fit(X, y), "feature_names_in_")


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS])
def test_categories(estimator):
    rng = np.random.default_rng(0)
    city = rng.choice(["Oslo", "Bonn", "Rome", "Lima"], 300)
    frame = pd.DataFrame({"x": rng.normal(size=300), "city": pd.Categorical(city)})
    y = np.isin(city, ["Bonn", "Lima"]).astype(int)
    model = small(estimator, n_estimators=30, num_leaves=4, max_features=None).fit(frame, y)
    assert model.model_.categories == {1: ("Bonn", "Lima", "Oslo", "Rome")}
    assert model.score(frame, y) > 0.95
    unseen = pd.DataFrame({"x": [0.0, 0.0], "city": pd.Categorical(["Paris", None])})
    raw = model.predict(unseen, raw_score=True)
    assert np.isfinite(raw).all()
    np.testing.assert_array_equal(raw[0], raw[1])
    listed = small(estimator, n_estimators=30, num_leaves=4, max_features=None, categorical_feature=[1])
    objects = frame.astype(object).to_numpy()
    np.testing.assert_array_equal(
        listed.fit(objects, y).predict(objects, raw_score=True), model.predict(frame, raw_score=True)
    )


def test_a_categorical_column_without_values():
    X, y = data()
    X[:, 3] = np.nan
    model = small(pvtree.GBDTClassifier, categorical_feature=[3]).fit(X, y)
    assert model.model_.categories == {3: ()}
    assert model.feature_importances_[3] == 0


# -- In scikit-learn's company ------------------------------------------------------------------------------


def test_pipelines_grids_and_cross_validation():
    X, y = data()
    pipeline = make_pipeline(StandardScaler(), small(pvtree.GBDTClassifier))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.7
    grid = GridSearchCV(small(pvtree.RandomForestClassifier), {"num_leaves": [2, 16]}, cv=2).fit(X, y)
    assert grid.best_params_["num_leaves"] in (2, 16)


def test_importing_is_light():
    code = "import sys, pvtree; print([m for m in ('sklearn', 'numba', 'pandas', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
    code = "import sys, pvtree; pvtree.GBDTClassifier(); print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_public_names():
    for name in pvtree.__all__:
        assert getattr(pvtree, name) is not None
    assert set(dir(pvtree)) == set(pvtree.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pvtree.nothing


# -- Documentation ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.parametrize("method", ["fit", "predict", "predict_proba", "decision_function", "apply", "score"])
def test_every_argument_is_documented(estimator, method):
    if not hasattr(estimator, method):
        return
    function = getattr(estimator, method)
    documented = [line.partition(" : ")[0] for line in function.__doc__.splitlines() if " : " in line]
    arguments = [name for name in inspect.signature(function).parameters if name not in ("self", "unknown")]
    assert [name for name in documented if name != "self"] == arguments


@pytest.mark.parametrize("estimator", ALL)
def test_every_fitted_attribute_is_documented(estimator):
    attributes = [name for name in vars(fitted(estimator)[0]) if name.endswith("_")]
    assert attributes
    for name in attributes:
        assert f"\n{name} : " in estimator.__doc__
