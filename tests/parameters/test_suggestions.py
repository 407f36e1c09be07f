"""Slips are recognised; words that only look alike are not suggested."""

import inspect

import pytest

import pvtree
from pvtree.errors import InvalidParameterError
from pvtree.objectives.metrics import BY_OBJECTIVE, get_metric
from pvtree.parameters.aliases import right_names
from pvtree.parameters.suggestions import closest, n_slips

ESTIMATORS = (pvtree.GBDTClassifier, pvtree.GBDTRanker, pvtree.RandomForestClassifier, pvtree.DecisionTreeRegressor)
# What the parameters of other libraries may be taken for: the same thing but for a letter or two.
SENSIBLE = {"workers": "n_workers", "estimators": "n_estimators"}


@pytest.mark.parametrize(
    ("word", "meant", "n"),
    [("", "", 0), ("abc", "", 3), ("abc", "abc", 0), ("acu", "auc", 1), ("leafs", "leaves", 2), ("ab", "ba", 1)],
)
def test_slips_are_counted(word, meant, n):
    assert n_slips(word, meant) == n_slips(meant, word) == n


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("num_leafs", "num_leaves"),
        ("Learning-Rate", "learning_rate"),
        ("lerning_rate", "learning_rate"),
        ("n_estimator", "n_estimators"),
        ("estimators", "n_estimators"),
        ("max_dpeth", "max_depth"),
        ("warm_start", None),
        ("least_falls", None),
        ("x", None),
    ],
)
def test_only_slips_are_suggested(word, meant):
    assert closest(word, pvtree.GBDTClassifier._get_param_names()) == meant


def test_nothing_is_near_nothing():
    assert closest("abc", []) is None


def names_elsewhere():
    """The parameters of LightGBM, XGBoost and scikit-learn's trees."""
    import lightgbm
    import sklearn.ensemble
    import sklearn.tree
    import xgboost
    from lightgbm.basic import _ConfigAliases

    aliases = _ConfigAliases._get_all_param_aliases()
    names = set(aliases).union(*aliases.values())
    names |= set(lightgbm.LGBMRanker().get_params()) | set(xgboost.XGBRanker().get_params())
    for module in (sklearn.ensemble, sklearn.tree):
        for found in map(module.__dict__.get, module.__all__):
            if hasattr(found, "get_params"):
                names |= set(inspect.signature(found).parameters)
    return sorted(names)


def test_no_parameter_of_other_libraries_is_taken_for_another():
    names = names_elsewhere()
    assert len(names) > 300
    assert "warm_start" in names
    for estimator in ESTIMATORS:
        for name in names:
            try:
                right_names({name: object()}, estimator._get_param_names(), estimator.__name__)
            except InvalidParameterError as error:
                _, asked, rest = str(error).partition("did you mean ")
                assert not asked or rest.rstrip("?") == SENSIBLE.get(name), error


# Metrics of values suit the probability of one class too, so they are known there.
@pytest.mark.parametrize("objective", [name for name in BY_OBJECTIVE if name not in ("binary", "hinge")])
@pytest.mark.parametrize("name", ["mape", "rmsle", "interval", "mphe", "huber", "gamma", "aft-nloglik"])
def test_no_metric_of_other_libraries_is_taken_for_another(name, objective):
    with pytest.raises(InvalidParameterError, match="is not supported") as error:
        get_metric(name, objective)
    assert "did you mean" not in str(error.value)


def test_only_metrics_of_the_task_are_suggested():
    with pytest.raises(InvalidParameterError, match="'mlogloss' is not supported") as error:
        get_metric("mlogloss", "lambdarank")
    assert "did you mean" not in str(error.value)
    with pytest.raises(InvalidParameterError, match="did you mean 'mae'"):
        get_metric("mea", "regression")
    with pytest.raises(InvalidParameterError, match="did you mean 'ndcg'"):
        get_metric("ndgc", "lambdarank")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("warm_start", "pass init_model to fit"),
        ("min_samples_split", "min_child_samples"),
    ],
)
def test_well_known_names_have_an_answer(name, remedy):
    with pytest.raises(InvalidParameterError, match=f"^{name} is not a parameter of GBDTClassifier; .*{remedy}"):
        pvtree.GBDTClassifier(**{name: 2})
