"""Metrics against scikit-learn and LightGBM, on weights and ties, and the same for any order of the rows."""

import math

import numpy as np
import pytest
import sklearn.metrics as sk

from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.objectives.metrics import CustomMetric, default_metric, get_metric


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weight(request, rng):
    return rng.uniform(0.0, 3.0, 700) if request.param else None


def value_of(name, objective, y, scores, weight=None, group=None):
    return get_metric(name, objective)(y, np.atleast_2d(scores), weight, group)


def test_regression_metrics(rng, weight):
    y, score = rng.normal(size=700), rng.normal(size=700)
    l2 = sk.mean_squared_error(y, score, sample_weight=weight)
    assert value_of("l2", "regression", y, score, weight) == pytest.approx(l2, rel=1e-12)
    assert value_of("rmse", "regression", y, score, weight) == pytest.approx(math.sqrt(l2), rel=1e-12)
    l1 = sk.mean_absolute_error(y, score, sample_weight=weight)
    assert value_of("l1", "regression", y, score, weight) == pytest.approx(l1, rel=1e-12)


def test_binary_metrics(rng, weight):
    y, score = rng.integers(0, 2, 700).astype(float), rng.normal(size=700) * 3
    p = 1 / (1 + np.exp(-score))
    loss = sk.log_loss(y, p, sample_weight=weight)
    assert value_of("binary_logloss", "binary", y, score, weight) == pytest.approx(loss, rel=1e-11)
    error = 1 - sk.accuracy_score(y, p > 0.5, sample_weight=weight)
    assert value_of("binary_error", "binary", y, score, weight) == pytest.approx(error, rel=1e-12)


def test_a_score_of_zero_predicts_class_zero():
    assert value_of("error", "binary", np.array([0.0, 1.0]), [0.0, 0.0]) == 0.5


def test_log_loss_of_certain_scores_is_finite():
    assert value_of("logloss", "binary", np.array([0.0, 1.0]), [900.0, -700.0]) == 800.0
    assert value_of("logloss", "binary", np.array([1.0]), [50.0]) == pytest.approx(math.exp(-50.0), rel=1e-12)
    assert value_of("logloss", "multiclass", np.array([0.0]), [[-800.0], [100.0], [0.0]]) == 900.0


@pytest.mark.parametrize("decimals", [0, 1, 15])
def test_auc_with_ties(rng, weight, decimals):
    y, score = rng.integers(0, 2, 700).astype(float), (rng.normal(size=700)).round(decimals)
    expected = sk.roc_auc_score(y, score, sample_weight=weight)
    assert value_of("auc", "binary", y, score, weight) == pytest.approx(expected, rel=1e-11)


def test_auc_at_the_edges():
    y = np.array([0.0, 0.0, 1.0, 1.0])
    assert value_of("auc", "binary", y, [0.0, 0.0, 0.0, 0.0]) == 0.5
    assert value_of("auc", "binary", y, [-np.inf, 0.0, 1.0, np.inf]) == 1.0
    assert value_of("auc", "binary", y, [1.0, 1.0, 0.0, 0.0]) == 0.0
    assert value_of("auc", "binary", np.ones(3), [1.0, 2.0, 3.0]) == 1.0  # one class: as LightGBM
    assert value_of("auc", "binary", y, [0.0, 1.0, 2.0, 3.0], np.array([1.0, 1.0, 0.0, 0.0])) == 1.0
    assert math.isnan(value_of("auc", "binary", y, [np.nan, 1.0, 2.0, 3.0]))


def test_multiclass_metrics(rng, weight):
    y, scores = rng.integers(0, 4, 700).astype(float), rng.normal(size=(4, 700)).round(1)
    p = (np.exp(scores) / np.exp(scores).sum(axis=0)).T
    loss = sk.log_loss(y, p, sample_weight=weight, labels=range(4))
    assert value_of("multi_logloss", "multiclass", y, scores, weight) == pytest.approx(loss, rel=1e-12)
    error = 1 - sk.accuracy_score(y, scores.argmax(axis=0), sample_weight=weight)
    assert value_of("multi_error", "multiclass", y, scores, weight) == pytest.approx(error, rel=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_forest_scores_are_probabilities(rng, weight, n_classes):
    y = rng.integers(0, n_classes, 700).astype(float)
    p = rng.dirichlet(np.ones(n_classes), 700)
    p[:10] = np.eye(n_classes)[y[:10].astype(int)]
    loss = sk.log_loss(y, p, sample_weight=weight)
    assert value_of("log_loss", "classification", y, p.T, weight) == pytest.approx(loss, rel=1e-12)
    error = 1 - sk.accuracy_score(y, p.argmax(axis=1), sample_weight=weight)
    assert value_of("error", "classification", y, p.T, weight) == pytest.approx(error, rel=1e-12)
    if n_classes == 2:
        auc = sk.roc_auc_score(y, p[:, 1], sample_weight=weight)
        assert value_of("auc", "classification", y, p.T, weight) == pytest.approx(auc, rel=1e-12)
    else:
        shares = np.array([np.average(y == k, weights=weight) for k in range(3)])
        areas = [sk.roc_auc_score(y == k, p[:, k], sample_weight=weight) for k in range(3)]
        assert value_of("auc", "classification", y, p.T, weight) == pytest.approx(shares @ areas, rel=1e-12)


@pytest.fixture
def ranking(rng):
    group = np.array([1, 2, 30, 17, 65, 100, 4])
    y = rng.choice(5, size=group.sum(), p=[0.5, 0.2, 0.15, 0.1, 0.05]).astype(float)
    y[-4:] = 0.0
    return y, rng.normal(size=group.sum()), group


@pytest.mark.parametrize("level", [1, 5, 10, 50, 1000])
def test_ndcg_equals_scikit_learn(ranking, level):
    y, score, group = ranking
    expected = []
    for stop, size in zip(np.cumsum(group), group, strict=True):
        rows = slice(stop - size, stop)
        gain = 2 ** y[rows] - 1
        trivial = size == 1 or not gain.any()
        expected.append(1.0 if trivial else sk.ndcg_score([gain], [score[rows]], k=level))
    ours = value_of(f"ndcg@{level}", "lambdarank", y, score, None, group)
    assert ours == pytest.approx(np.mean(expected), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_equal_lightgbm(ranking, rng, weighted):
    lgb = pytest.importorskip("lightgbm")
    y, score, group = ranking
    score = score.round(1)  # ties by row order
    weight = rng.uniform(0.5, 2.0, y.size) if weighted else None
    if weighted:
        weight[-4:] = 1.0  # LightGBM forgets the weight of a query without relevant documents
    X = np.arange(y.size, dtype=float)[:, None]

    def evaluate(objective, y, group, names):
        params = {
            "objective": objective,
            "metric": names,
            "eval_at": [1, 5, 10],
            "verbose": -1,
            "num_threads": 1,
        }
        data = lgb.Dataset(X, y, group=group, weight=weight, init_score=score, params=params)
        booster = lgb.Booster(params, data)
        return {name: value for _, name, value, _ in booster.eval_train()}

    peers = [
        ("lambdarank", y, group, ["ndcg"]),
        ("binary", (y > 0).astype(float), None, ["auc", "binary_logloss", "binary_error"]),
        ("regression", y, None, ["l1", "l2", "rmse"]),
    ]
    for objective, labels, sizes, names in peers:
        answers = evaluate(objective, labels, sizes, names)
        assert len(answers) == 3
        for name, value in answers.items():
            ours = value_of(name, objective, labels, score, weight, sizes)
            assert ours == pytest.approx(value, rel=2e-6), name


@pytest.mark.parametrize("name, objective, n_outputs", [
    ("l2", "regression", 1), ("l1", "regression", 1), ("auc", "binary", 1), ("binary_logloss", "binary", 1),
    ("multi_logloss", "multiclass", 3),
])  # fmt: skip
def test_the_order_of_rows_does_not_matter(rng, weight, name, objective, n_outputs):
    y = rng.integers(0, max(2, n_outputs), 700).astype(float)
    scores = rng.normal(size=(n_outputs, 700)).round(1)
    order = rng.permutation(700)
    shuffled = None if weight is None else weight[order]
    there = value_of(name, objective, y, scores, weight)
    assert value_of(name, objective, y[order], scores[:, order].copy(), shuffled) == there


def test_names_aliases_and_directions():
    assert get_metric("mse", "regression").name == "l2"
    assert get_metric("logloss", "binary").name == "binary_logloss"
    assert get_metric("binary_logloss", "multiclass").name == "multi_logloss"
    assert get_metric("error", "multiclass").name == "multi_error"
    assert get_metric("ndcg", "lambdarank").name == "ndcg@10"
    assert get_metric("AUC", "binary").name == "auc"  # in any case of letters
    assert get_metric("NDCG@3", "lambdarank").name == "ndcg@3"
    assert get_metric("auc", "binary").greater_is_better
    assert get_metric("ndcg@3", "lambdarank").greater_is_better
    assert not get_metric("rmse", "regression").greater_is_better
    assert get_metric("auc", lambda y, p: None).name == "auc"
    for objective in ("regression", "binary", "multiclass", "lambdarank", "classification"):
        assert get_metric(default_metric(objective), objective).name == default_metric(objective)


def test_wrong_names():
    with pytest.raises(InvalidParameterError, match="did you mean 'rmse'"):
        get_metric("rsme", "regression")
    with pytest.raises(InvalidParameterError, match="use one of l2, rmse, l1"):
        get_metric("multi_error", "regression")
    with pytest.raises(InvalidParameterError, match="ndcg@K"):
        get_metric("ndcg@0", "lambdarank")
    with pytest.raises(InvalidParameterError, match="give eval_metric"):
        default_metric(lambda y, p: None)
    with pytest.raises(InvalidParameterError, match="'aft'"):
        get_metric("l2", "aft")
    with pytest.raises(InvalidDataError, match="group"):
        value_of("ndcg", "lambdarank", np.zeros(3), np.zeros(3))


def test_evaluate_names_the_value():
    answer = get_metric("mae", "regression").evaluate(np.array([1.0, 2.0]), np.array([[1.0, 4.0]]))
    assert answer == [("l1", 1.0, False)]


def test_custom_metrics(rng):
    y, scores = np.array([0.0, 1.0, 1.0]), rng.normal(size=(1, 3))
    p = 1 / (1 + np.exp(-scores[0]))

    def two(y_true, y_pred):
        np.testing.assert_allclose(y_pred, p, rtol=1e-12)
        return "two", 1, True

    def three(y_true, y_pred, sample_weight=None):
        return [("three", sample_weight.sum(), False), ("more", 0.0, True)]

    def four(y_true, y_pred, weight, group):
        return "four", group.sum(), False

    weight, group = np.ones(3), np.array([3])
    assert CustomMetric(two, "binary").evaluate(y, scores, weight, group) == [("two", 1.0, True)]
    assert CustomMetric(three, "binary").evaluate(y, scores, weight)[0] == ("three", 3.0, False)
    assert CustomMetric(four, "lambdarank").evaluate(y, scores, weight, group) == [("four", 3.0, False)]
    shapes = CustomMetric(lambda y, p: ("shape", p.shape == (3, 2), True), "multiclass")
    assert shapes.evaluate(y, rng.normal(size=(2, 3)))[0][1] == 1.0
    with pytest.raises(InvalidParameterError, match="is_higher_better"):
        CustomMetric(lambda y, p: 1.0, "binary").evaluate(y, scores)
