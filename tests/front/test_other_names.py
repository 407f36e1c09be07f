"""Estimators under LightGBM's and XGBoost's names: subclasses, several names at once, names that mean nothing."""

import pickle

import lightgbm
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import pvtree
import pvtree.as_xgboost as xgb
from pvtree.errors import InvalidParameterError

X = np.random.default_rng(0).normal(size=(80, 3))
Y = (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)


class Extended(pvtree.GBDTClassifier):
    def __init__(self, *, extra="mine", **kwargs):
        self.extra = extra
        super().__init__(**kwargs)


class Theirs(lightgbm.LGBMClassifier):
    def __init__(self, *, extra="mine", **kwargs):
        self.extra = extra
        super().__init__(**kwargs)


class ExtendedXGB(xgb.XGBRegressor):
    def __init__(self, *, extra=1, **kwargs):
        self.extra = extra
        super().__init__(**kwargs)


def test_a_subclass_with_kwargs_has_all_parameters():
    ours, theirs = Extended(n_estimators=3, eta=0.2), Theirs(n_estimators=3, eta=0.2)
    for name in ("extra", "n_estimators", "eta", "num_leaves", "min_child_samples"):
        assert ours.get_params()[name] == theirs.get_params()[name]
    assert ours.learning_rate == 0.2
    again = clone(ours.set_params(min_child_samples=1, extra="other"))
    assert (again.extra, again.min_child_samples, again.learning_rate) == ("other", 1, 0.2)
    assert clone(ExtendedXGB(extra=4, eta=0.1)).get_params()["max_depth"] == 6
    search = GridSearchCV(Extended(n_estimators=2), {"learning_rate": [0.1, 0.9]}, cv=2).fit(X, Y)
    assert pickle.loads(pickle.dumps(search.best_estimator_.model_)) == search.best_estimator_.model_


def test_a_subclass_may_pass_on_other_names():
    class Deep(pvtree.GBDTRegressor):
        def __init__(self, **kwargs):
            super().__init__(min_data_in_leaf=3, **kwargs)

    assert (Deep().min_child_samples, Deep(eta=0.5).learning_rate) == (3, 0.5)


def test_what_was_set_is_shown():
    made = pvtree.GBDTRegressor(eta=0.3, gamma=1.0, boosting_type="gbdt", verbose=-1)
    shown = made.get_params()
    assert (shown["eta"], shown["gamma"], shown["boosting_type"], made.verbose) == (0.3, 1.0, "gbdt", -1)
    assert (shown["learning_rate"], shown["min_split_gain"], shown["verbosity"]) == (0.3, 2.0, -1)
    assert clone(made).get_params() == shown
    # A parameter that is set anew is no longer what was written.
    made.set_params(learning_rate=0.1)
    assert "eta" not in made.get_params()
    made.min_split_gain = 5.0
    assert "gamma" not in made.get_params()
    assert clone(made).min_split_gain == 5.0
    assert xgb.XGBClassifier(tree_method="hist").get_params()["tree_method"] == "hist"


@pytest.mark.parametrize(
    ("names", "counts"),
    [
        ({"learning_rate": 0.3, "eta": 0.2}, 0.3),  # LightGBM's own name
        ({"eta": 0.2, "shrinkage_rate": 0.1}, 0.2),  # the shortest
        ({"shrinkage_rate": 0.1, "eta": 0.2, "learning_rate": 0.3}, 0.3),
    ],
)
def test_of_several_names_the_one_counts_that_lightgbm_chooses(names, counts):
    with pytest.warns(UserWarning, match="is ignored, because .* is another name for it"):
        assert pvtree.GBDTRegressor(**names).learning_rate == counts
    with pytest.warns(UserWarning, match="is ignored"):
        ours = pvtree.train({**names, "objective": "binary", "verbosity": -1}, pvtree.Dataset(X, Y), 1)
    alone = pvtree.train({"learning_rate": counts, "objective": "binary", "verbosity": -1}, pvtree.Dataset(X, Y), 1)
    assert ours.model_ == alone.model_
    booster = lightgbm.train({**names, "objective": "binary", "verbosity": -1}, lightgbm.Dataset(X, Y), 1)
    expected = lightgbm.train(
        {"learning_rate": counts, "objective": "binary", "verbosity": -1}, lightgbm.Dataset(X, Y), 1
    )
    np.testing.assert_array_equal(booster.predict(X), expected.predict(X))


def test_the_objective_may_have_several_names_too():
    with pytest.warns(UserWarning, match="application is ignored, because objective"):
        booster = pvtree.train(
            {"application": "regression", "objective": "binary", "verbose": -1}, pvtree.Dataset(X, Y), 1
        )
    assert booster.model_.objective == "binary"


def test_names_that_mean_nothing_are_told_and_kept():
    made = pvtree.GBDTClassifier(n_estimators=1, my_own_mark=7, verbosity=-1)
    assert clone(made).get_params()["my_own_mark"] == 7
    with pytest.warns(UserWarning, match="^my_own_mark is not a parameter of GBDTClassifier and has no effect"):
        made.fit(X, Y)
    with pytest.warns(UserWarning, match="my_own_mark is not a parameter of train and has no effect"):
        pvtree.train({"my_own_mark": 3, "verbosity": -1}, pvtree.Dataset(X, Y), 1)


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"num_leafs": 3}, "did you mean num_leaves"),
        ({"bagging_fractoin": 0.5}, "did you mean bagging_fraction"),
        ({"cegb_penalty_feature_lazy": [1.0]}, "is not supported"),
        ({"device_type": "cuda"}, "is not supported"),
    ],
)
def test_a_misspelt_name_and_an_unsupported_one_are_errors(given, answer):
    for make in (pvtree.GBDTClassifier, Extended, lambda **p: pvtree.train(p, pvtree.Dataset(X, Y), 1)):
        with pytest.raises(InvalidParameterError, match=answer):
            make(**given)


def test_the_base_of_the_boosting_estimators():
    ours = pvtree.GBDTModel(objective="binary", n_estimators=3, verbosity=-1).fit(X, Y)
    theirs = lightgbm.LGBMModel(objective="binary", n_estimators=3, verbosity=-1).fit(X, Y)
    assert ours.predict(X).shape == theirs.predict(X).shape == (80,)
    same = pvtree.GBDTClassifier(n_estimators=3, verbosity=-1).fit(X, Y)
    assert isinstance(same, pvtree.GBDTModel)
    np.testing.assert_array_equal(ours.predict(X), same.predict_proba(X)[:, 1])
    values = pvtree.GBDTModel(n_estimators=2, verbosity=-1).fit(X, X[:, 0])
    assert (values.objective_, values.n_estimators_, ours.objective_) == ("regression", 2, "binary")
    assert hasattr(ours, "feature_names_in_") == hasattr(theirs, "feature_names_in_")  # arrays have no names
    assert ours.feature_name_ == theirs.feature_name_ == ["Column_0", "Column_1", "Column_2"]
    with pytest.raises(Exception, match="not fitted"):
        pvtree.GBDTModel().predict(X)
