"""LightGBM's estimators and modules under their own names; LightGBM's own stand beside them."""

import importlib
import inspect
import logging
import warnings

import lightgbm
import numpy as np
import pytest
from sklearn.base import clone

import pvtree
from pvtree.errors import InvalidParameterError, InvalidTypeError

RNG = np.random.default_rng(7)
X = RNG.normal(size=(120, 3))
CLASSES = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
NAMES = ("LGBMModel", "LGBMClassifier", "LGBMRegressor", "LGBMRanker")


def log_loss(y_true, y_pred):
    prob = 1 / (1 + np.exp(-y_pred))
    return prob - y_true, prob * (1 - prob)


@pytest.mark.parametrize("name", NAMES)
def test_constructors_are_lightgbm_s(name):
    ours, theirs = getattr(pvtree, name), getattr(lightgbm, name)
    assert ours().get_params() == theirs().get_params()
    named = {each.name: each.default for each in inspect.signature(theirs).parameters.values()}
    assert {each.name: each.default for each in inspect.signature(ours).parameters.values()} == named
    changed = {"n_estimators": 13, "path_smooth": 2.0, "min_data_in_bin": 3}
    assert ours(**changed).get_params() == theirs(**changed).get_params()
    assert clone(ours(**changed).set_params(num_leaves=7)).get_params()["path_smooth"] == 2.0


def test_another_name_of_a_parameter_counts():
    model = pvtree.LGBMRegressor(eta=0.25, n_iter=3, seed=4)
    plain = pvtree.GBDTRegressor(learning_rate=0.25, n_estimators=3, random_state=4)
    assert model.get_params()["eta"] == 0.25
    np.testing.assert_array_equal(model.fit(X, CLASSES).predict(X), plain.fit(X, CLASSES).predict(X))
    with pytest.raises(InvalidParameterError, match="did you mean num_leaves"):
        pvtree.LGBMRegressor(num_leavs=3)
    with pytest.raises(InvalidParameterError, match="sample_weight"):
        pvtree.LGBMRanker(class_weight="balanced").fit(X, CLASSES, group=[60, 60])


def test_values_are_kept_whatever_they_are():
    odd = np.ones(3)
    for name in ("learning_rate", "path_smooth"):
        assert getattr(pvtree.LGBMRegressor(**{name: odd}), name) is odd
        assert pvtree.LGBMRegressor().set_params(**{name: odd}).get_params()[name] is odd


def test_a_ranker_without_class_weight():
    model = pvtree.LGBMRanker(n_estimators=2, min_child_samples=5).fit(X, CLASSES, group=[60, 60])
    plain = pvtree.GBDTRanker(n_estimators=2, min_child_samples=5).fit(X, CLASSES, group=[60, 60])
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_a_function_as_objective_gives_raw_scores(method):
    both = [
        library.LGBMClassifier(n_estimators=2, objective=log_loss, verbose=-1).fit(X, CLASSES)
        for library in (pvtree, lightgbm)
    ]
    with pytest.warns(UserWarning, match="raw scores are returned"):
        ours = getattr(both[0], method)(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = getattr(both[1], method)(X)
        raw = both[0].predict(X, raw_score=True)
    assert ours.shape == theirs.shape == (len(X),)
    assert ours.min() < 0 and theirs.min() < 0
    np.testing.assert_array_equal(ours, raw)
    assert set(pvtree.GBDTClassifier(n_estimators=2, objective=log_loss).fit(X, CLASSES).predict(X)) <= {0, 1}


@pytest.mark.parametrize("module", ["basic", "callback", "engine", "plotting", "sklearn"])
def test_modules_have_what_lightgbm_s_have(module):
    theirs, ours = importlib.import_module(f"lightgbm.{module}"), importlib.import_module(f"pvtree.{module}")
    public = set(getattr(theirs, "__all__", ())) & set(dir(lightgbm))
    assert public <= set(dir(ours))
    assert getattr(pvtree, module) is ours
    assert all(getattr(ours, name) is getattr(pvtree, name, getattr(ours, name)) for name in public)


def test_compat_knows_the_optional_packages():
    from lightgbm import compat as theirs

    from pvtree import compat

    assert compat.PANDAS_INSTALLED is theirs.PANDAS_INSTALLED is compat.MATPLOTLIB_INSTALLED is True
    assert compat.pd_DataFrame is theirs.pd_DataFrame
    with pytest.raises(compat.LGBMNotFittedError):
        pvtree.LGBMRegressor().predict(X)
    with pytest.raises(AttributeError, match="no attribute 'dt_DataTable'"):
        compat.dt_DataTable  # noqa: B018


def test_errors_are_caught_by_lightgbm_s_name():
    with pytest.raises(pvtree.basic.LightGBMError):
        pvtree.Booster(model_file="nowhere.txt")


def test_names_of_a_parameter():
    ours, theirs = pvtree.basic._ConfigAliases, lightgbm.basic._ConfigAliases
    for name in ("num_iterations", "objective", "eval_at", "bagging_fraction", "verbosity"):
        assert theirs.get(name) - {"subsample"} <= ours.get(name)
        assert ours.get_sorted(name)[0] == name
    assert "num_leaves" in ours.get_by_alias("max_leaf")
    given = {"n_iter": 3, "num_trees": 4, "seed": 1}
    for library in (pvtree, lightgbm):
        chosen = library.basic._choose_param_value("num_iterations", given, 9)
        assert chosen == {"num_iterations": 3, "seed": 1}
        assert library.basic._choose_param_value("num_leaves", given, 9)["num_leaves"] == 9


def test_lines_and_warnings_go_to_a_logger(caplog, capsys, monkeypatch):
    from pvtree.comm import user_warnings

    monkeypatch.setattr(user_warnings, "_logging", None)
    logger = logging.getLogger("of_training")
    pvtree.register_logger(logger)
    data = pvtree.Dataset(X, CLASSES)
    with caplog.at_level(logging.INFO), warnings.catch_warnings():
        warnings.simplefilter("error")
        pvtree.train({"subsample": 0.5, "verbose": -1}, data, 1, [data], callbacks=[pvtree.log_evaluation()])
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.records[1].message.startswith("[1]\ttraining's l2: ")
    assert capsys.readouterr().out == ""
    with pytest.raises(InvalidTypeError, match="must have the methods 'info' and 'tell'"):
        pvtree.register_logger(logger, warning_method_name="tell")
