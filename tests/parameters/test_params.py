import numpy as np
import pytest
from sklearn.base import clone

import pvtree
from pvtree.errors import InvalidParameterError, InvalidTypeError
from pvtree.parameters.aliases import right_names
from pvtree.parameters.params import Params, make_params, n_threads
from pvtree.parameters.rules import RULES

ALL = [
    pvtree.GBDTClassifier,
    pvtree.GBDTRegressor,
    pvtree.GBDTRanker,
    pvtree.RandomForestClassifier,
    pvtree.RandomForestRegressor,
    pvtree.DecisionTreeClassifier,
    pvtree.DecisionTreeRegressor,
]


def rejected(name, value):
    with pytest.raises((InvalidParameterError, InvalidTypeError)) as caught:
        RULES[name].check(name, value)
    return str(caught.value)


def test_the_sentence_names_parameter_range_and_value():
    assert rejected("num_leaves", 1) == "num_leaves must be an integer of at least 2 or -1 for no limit, got 1."
    assert rejected("max_bin", 256) == "max_bin must be an integer from 2 to 255, got 256."
    assert rejected("subsample", 0) == "subsample must be a number greater than 0 and at most 1, got 0."
    assert rejected("learning_rate", np.nan) == "learning_rate must be a finite number of at least 0, got nan."
    assert rejected("num_leaves", 2**64).startswith(
        "num_leaves must be an integer of at least 2 or -1 for no limit below"
    )
    message = "reg_lambda must be a finite number of at least 0, got an integer of 16610 bits."
    assert rejected("reg_lambda", 10**5000) == message
    assert rejected("criterion", "gini") == "criterion must be 'entropy' or 'variance', got 'gini'."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_estimators", 0),
        ("n_estimators", 10.0),
        ("n_estimators", True),
        ("n_estimators", "10"),
        ("learning_rate", -1),
        ("learning_rate", np.inf),
        ("num_leaves", 0),
        ("max_depth", -2),
        ("min_child_samples", -1),
        ("min_child_weight", -1.0),
        ("reg_alpha", -0.1),
        ("reg_lambda", None),
        ("min_split_gain", -1),
        ("subsample", 1.5),
        ("subsample_freq", -1),
        ("colsample_bytree", 0.0),
        ("colsample_bynode", "all"),
        ("max_bin", 1),
        ("max_features", 0),
        ("max_features", 1.5),
        ("max_features", "cube"),
        ("bootstrap", 1),
        ("objective", "rank:mrr"),
        ("objective", 3),
        ("random_state", -1),
        ("random_state", "x"),
        ("n_jobs", 0),
        ("n_jobs", 1.0),
        ("verbosity", -2),
        ("early_stopping_rounds", 0),
        ("categorical_feature", "all"),
        ("categorical_feature", [1.5]),
        ("categorical_feature", 3.5),
        ("categorical_feature", np.array(3)),
        ("feature_contri", np.array(1.0)),
        ("label_gain", np.array(3.0)),
        ("monotone_constraints", np.array(1)),
        # Beyond what kernels count with.
        ("max_depth", 2**63),
        ("min_child_samples", 2**63),
        ("lambdarank_truncation_level", 2**63),
        ("importance_type", "weight"),
        ("lambdarank_truncation_level", 0),
        ("tree_learner", "vote"),
        ("top_k", 0),
        ("top_k", "all"),
        ("n_workers", 0),
    ],
)
def test_values_out_of_range_are_refused(name, value):
    message = rejected(name, value)
    assert message.startswith(f"{name} must be ")
    assert message.endswith(f", got {value!r}.")


def test_numpy_scalars_are_numbers():
    for name, value in {
        "num_leaves": np.int32(8),
        "learning_rate": np.float32(0.5),
        "n_jobs": np.int64(2),
    }.items():
        RULES[name].check(name, value)


@pytest.mark.parametrize("estimator", ALL)
def test_every_parameter_has_a_rule_that_accepts_its_default(estimator):
    values = estimator().get_params()
    assert set(values) <= set(RULES)
    for name, value in values.items():
        estimator._rules[name].check(name, value)


@pytest.mark.parametrize("estimator", ALL)
def test_help_lists_every_parameter(estimator):
    for name, value in estimator().get_params().items():
        rule = estimator._rules[name]
        assert rule.type_name
        assert f"\n{name} : {rule.type_name}, default={value!r}\n    " in estimator.__doc__


def test_help_tells_the_type_the_meaning_and_the_range():
    text = "n_estimators : int, default=100\n    The number of boosting iterations, or of trees in a forest. Must be an"
    assert f"\n{text} integer of at least 1.\n" in pvtree.GBDTRegressor.__doc__
    assert "\nimportance_type : {'split', 'gain'}, default='split'\n" in pvtree.GBDTRegressor.__doc__


@pytest.mark.parametrize(
    ("alias", "right"),
    [
        ("lambda_l2", "reg_lambda"),
        ("lambda_l1", "reg_alpha"),
        ("num_iterations", "n_estimators"),
        ("num_boost_round", "n_estimators"),
        ("n_iter", "n_estimators"),
        ("min_data_in_leaf", "min_child_samples"),
        ("min_samples_leaf", "min_child_samples"),
        ("min_sum_hessian_in_leaf", "min_child_weight"),
        ("feature_fraction", "colsample_bytree"),
        ("bagging_fraction", "subsample"),
        ("bagging_freq", "subsample_freq"),
        ("eta", "learning_rate"),
        ("gamma", "min_split_gain"),
        ("seed", "random_state"),
        ("num_threads", "n_jobs"),
        ("nthread", "n_jobs"),
        ("max_leaf_nodes", "num_leaves"),
        ("max_bins", "max_bin"),
        ("verbose", "verbosity"),
        ("loss", "objective"),
    ],
)
def test_synonyms_are_renamed(alias, right):
    twice = 2 if alias == "gamma" else 1  # XGBoost's gain is half of ours
    for made in (pvtree.GBDTClassifier(**{alias: 3}), pvtree.GBDTClassifier().set_params(**{alias: 3})):
        assert made.get_params()[right] == 3 * twice
        assert clone(made).get_params() == made.get_params()
        assert made.get_params()[alias] == 3  # shown as it was written
    with pytest.raises(InvalidParameterError, match=r"is ignored, because .* is another name for it"):
        right_names({right: 4, alias: 3}, [right], "a callback")


def test_what_only_resembles_a_parameter_is_refused():
    with pytest.raises(InvalidParameterError, match=r"feature_fraction is not .*; use max_features instead"):
        pvtree.DecisionTreeClassifier(feature_fraction=0.5)
    assert pvtree.DecisionTreeClassifier(colsample_bynode=0.5).max_features == 0.5
    with pytest.raises(InvalidParameterError, match="its parameters are criterion"):
        right_names({"zzz": 1}, ["criterion"], "Tree")


def test_what_is_done_anyway_may_be_asked_for():
    made = pvtree.GBDTClassifier(device="cpu", tree_method="hist", missing=np.nan, class_weight=None)
    assert made._parameters() == pvtree.GBDTClassifier()._parameters()
    with pytest.raises(
        InvalidParameterError,
        match=r"^tree_method='exact' is not supported by GBDTClassifier; leave it out, or give 'hist' or 'auto'\.$",
    ):
        pvtree.GBDTClassifier(tree_method="exact")


@pytest.mark.parametrize(
    ("estimator", "word"),
    [
        (pvtree.GBDTClassifier, "binary:logistic"),
        (pvtree.GBDTClassifier, "multi:softprob"),
        (pvtree.GBDTRegressor, "reg:squarederror"),
        (pvtree.GBDTRegressor, "mse"),
        (pvtree.GBDTRanker, "rank:ndcg"),
    ],
)
def test_objectives_have_words_elsewhere(estimator, word):
    estimator._rules["objective"].check("objective", word)
    others = [other for other in (pvtree.GBDTClassifier, pvtree.GBDTRegressor, pvtree.GBDTRanker) if other != estimator]
    for other in others:
        with pytest.raises(InvalidParameterError, match="objective must be"):
            other._rules["objective"].check("objective", word)


def test_misspelt_and_misplaced_names():
    with pytest.raises(InvalidParameterError, match=r"^num_leafs is not .*; did you mean num_leaves\?$"):
        pvtree.GBDTRegressor(num_leafs=3)
    with pytest.raises(InvalidParameterError, match=r"eval_set is not .*; it is an argument of fit.$"):
        pvtree.GBDTRegressor(eval_set=[])
    with pytest.raises(InvalidParameterError, match=r"pass sample_weight to fit instead.$"):
        pvtree.DecisionTreeClassifier(scale_pos_weight=2)


def test_a_subclass_may_add_parameters():
    class Mine(pvtree.GBDTRegressor):
        def __init__(self, *, extra=1, **others):
            self.extra = extra
            super().__init__(**others)

    mine = Mine(extra=2, num_leaves=5)
    assert (mine.extra, mine.num_leaves, mine.n_estimators) == (2, 5, 100)
    with pytest.raises(InvalidParameterError, match=r"extre is not a parameter of Mine; did you mean extra\?"):
        Mine().set_params(extre=1)


def test_params_for_the_trainer():
    values = pvtree.GBDTClassifier(num_leaves=-1, early_stopping_rounds=5, random_state=7, n_jobs=3).get_params()
    params = make_params(values, n_features=4, objective="binary", n_classes=2)
    assert (params.num_leaves, params.early_stopping_rounds, params.seed, params.n_threads) == (0, 5, 7, 3)
    assert (params.ensemble, params.objective, params.n_classes, params.criterion) == (
        "gbdt",
        "binary",
        2,
        "gradient",
    )
    assert make_params(pvtree.GBDTClassifier().get_params(), 4).early_stopping_rounds == 0


def test_gbdt_defaults_are_those_of_params():
    params = make_params(pvtree.GBDTRegressor(n_jobs=1).get_params(), n_features=3, objective="regression")
    assert params == Params()


@pytest.mark.parametrize(
    ("max_features", "n_features", "expected"),
    [
        (None, 10, 10),
        ("sqrt", 10, 3),
        ("log2", 10, 3),
        ("log2", 1, 1),
        (4, 10, 4),
        (0.25, 10, 2),
        (0.01, 10, 1),
        (1.0, 7, 7),
    ],
)
def test_max_features(max_features, n_features, expected):
    params = make_params({"max_features": max_features}, n_features)
    assert round(params.colsample_bynode * n_features) == expected
    assert params.colsample_bynode <= 1


def test_max_features_cannot_exceed_the_columns():
    with pytest.raises(InvalidParameterError, match="at most the number of columns of X, 3, got 4"):
        make_params({"max_features": 4}, 3)


def test_seeds():
    seed_of = lambda state: make_params({"random_state": state}, 1).seed  # noqa: E731
    assert seed_of(None) == 0
    assert seed_of(np.int64(2**62)) == 2**62
    assert type(seed_of(np.int64(3))) is int
    assert seed_of(np.random.RandomState(1)) == seed_of(np.random.RandomState(1)) != seed_of(np.random.RandomState(2))
    assert seed_of(np.random.default_rng(1)) == seed_of(np.random.default_rng(1))


def test_n_threads():
    import joblib

    assert n_threads(3) == 3
    assert n_threads(None) == n_threads(-1) == joblib.cpu_count()
    assert n_threads(-1000) == 1
