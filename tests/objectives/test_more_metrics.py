"""Metrics of values, probabilities, classes and ranks against scikit-learn and the formulas, on any partition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle

from pvtree.comm import local
from pvtree.errors import InvalidParameterError
from pvtree.objectives.metrics import get_metric

RNG = np.random.default_rng(0)
N = 60
Y, RAW, WEIGHT = RNG.uniform(0.1, 3.0, N), RNG.normal(size=N), RNG.uniform(0.5, 2.0, N)
MEAN = np.exp(RAW)  # the prediction of a loss with a log link


def value(name, objective, y, scores, weight=None, group=None, **constants):
    return get_metric(name, objective, constants)(y, np.atleast_2d(scores), weight, group)


def mean(terms):
    return np.average(terms, weights=WEIGHT)


VALUES = {
    ("l1", "poisson"): mean(np.abs(Y - MEAN)),
    ("l2", "gamma"): mean((Y - MEAN) ** 2),
    ("rmse", "tweedie"): math.sqrt(mean((Y - MEAN) ** 2)),
    ("poisson", "poisson"): mean(MEAN - Y * RAW),
    ("poisson-nloglik", "gamma"): mean(MEAN - Y * RAW),
    ("gamma", "gamma"): mean(Y / MEAN + RAW),
    ("gamma_deviance", "gamma"): oracle.mean_gamma_deviance(Y, MEAN, sample_weight=WEIGHT),
    ("tweedie", "tweedie"): mean(-Y * MEAN**-0.5 / -0.5 + MEAN**0.5 / 0.5),
    ("tweedie-nloglik@1.2", "tweedie"): mean(-Y * MEAN**-0.2 / -0.2 + MEAN**0.8 / 0.8),
    ("mape", "l1"): mean(np.abs(Y - RAW) / np.maximum(1, Y)),
    ("huber", "huber"): mean(
        np.where(np.abs(Y - RAW) <= 0.9, 0.5 * (Y - RAW) ** 2, 0.9 * (np.abs(Y - RAW) - 0.45))
    ),
    ("fair", "fair"): mean(np.abs(Y - RAW) - np.log1p(np.abs(Y - RAW))),
    ("quantile", "quantile"): oracle.mean_pinball_loss(Y, RAW, sample_weight=WEIGHT, alpha=0.9),
    ("mphe", "regression"): mean(0.81 * (np.sqrt(1 + ((Y - RAW) / 0.9) ** 2) - 1)),
    ("rmsle", "poisson"): math.sqrt(oracle.mean_squared_log_error(Y, MEAN, sample_weight=WEIGHT)),
    ("r2", "regression"): oracle.r2_score(Y, RAW, sample_weight=WEIGHT),
    ("r2", "poisson"): oracle.r2_score(Y, MEAN, sample_weight=WEIGHT),
}  # fmt: skip


@pytest.mark.parametrize(("name", "objective"), list(VALUES))
def test_metrics_of_values(name, objective):
    assert value(name, objective, Y, RAW, WEIGHT) == pytest.approx(VALUES[name, objective], rel=1e-9)
    metric = get_metric(name, objective)

    def on_worker(comm):
        own = np.arange(N) % comm.size == comm.rank
        return metric(Y[own], RAW[None, own].copy(), WEIGHT[own], None, comm)

    assert local.run(on_worker, 3) == [metric(Y, RAW[None], WEIGHT)] * 3


def test_metrics_of_probabilities():
    y, p = Y / 3.1, 1 / (1 + np.exp(-RAW))
    entropy = -y * np.log(p) - (1 - y) * np.log(1 - p)
    own = y * np.log(y) + (1 - y) * np.log(1 - y)
    assert value("cross_entropy", "cross_entropy", y, RAW, WEIGHT) == pytest.approx(mean(entropy))
    assert value("kullback_leibler", "cross_entropy", y, RAW, WEIGHT) == pytest.approx(mean(entropy + own))
    assert value("xentropy", "regression", y, p, WEIGHT) == pytest.approx(mean(entropy))
    share = 1 - np.exp(-WEIGHT * np.logaddexp(0, RAW))
    expected = np.mean(-y * np.log(share) - (1 - y) * np.log(1 - share))
    assert value("cross_entropy_lambda", "cross_entropy_lambda", y, RAW, WEIGHT) == pytest.approx(expected)
    assert value("kldiv", "cross_entropy", np.array([0.0, 1.0]), np.array([-40.0, 40.0])) < 1e-15


def test_metrics_of_two_classes():
    y = (Y > 1).astype(float)
    assert value("error@0.7", "binary", y, RAW) == np.mean((1 / (1 + np.exp(-RAW)) > 0.7) != y)
    assert value("hinge", "hinge", y, RAW) == pytest.approx(np.mean(np.maximum(0, 1 - (2 * y - 1) * RAW)))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 3), st.sampled_from([0.25, 1.0, 3.0])), min_size=1),
    st.booleans(),
    st.integers(1, 3),
)
def test_average_precision(rows, is_weighted, n_workers):
    y, score, weight = (np.array(column, float) for column in zip(*rows, strict=True))
    weight = weight if is_weighted else None
    metric = get_metric("aucpr", "binary")

    def on_worker(comm):
        own = np.arange(len(y)) % comm.size == comm.rank
        return metric(y[own], score[None, own].copy(), None if weight is None else weight[own], None, comm)

    alone = metric(y, score[None], weight)
    expected = oracle.average_precision_score(y, score, sample_weight=weight) if y.any() else 1.0
    assert alone == pytest.approx(expected, rel=1e-9)
    assert local.run(on_worker, n_workers) == [alone] * n_workers


def test_average_precision_of_nan():
    assert math.isnan(value("average_precision", "binary", np.array([0.0, 1.0]), np.array([np.nan, 1.0])))


def test_metrics_of_classes():
    y = np.digitize(Y, [1.0, 2.0]).astype(float)
    scores = RNG.normal(size=(3, N))
    p = np.exp(scores) / np.exp(scores).sum(axis=0)
    expected = oracle.roc_auc_score(y, p.T, multi_class="ovr", average="weighted")
    assert value("auc", "multiclass", y, scores) == pytest.approx(expected)
    pairs = []
    for i, j in ((0, 1), (0, 2), (1, 2)):
        both = (y == i) | (y == j)
        pairs.append(oracle.roc_auc_score(y[both] == i, (scores[i] - scores[j])[both], sample_weight=WEIGHT[both]))
    assert value("auc_mu", "multiclass", y, scores, WEIGHT) == pytest.approx(np.mean(pairs))
    top_2 = np.argsort(-scores, axis=0)[:2]
    assert value("multi_error@2", "multiclass", y, scores) == np.mean(~(top_2 == y).any(axis=0))
    own = 1 / (1 + np.exp(-scores))
    expected = oracle.log_loss(y, (own / own.sum(axis=0)).T)
    assert value("multi_logloss", "multiclassova", y, scores) == pytest.approx(expected)


def test_metrics_at_ranks():
    """Worked by hand: relevance 1 0 2 0 in the order of scores, and a query without relevant documents."""
    y = np.array([2.0, 0, 1, 0, 0, 0])
    score = np.array([2.0, 3, 4, 1, 5, 6])  # ranks of the first query: 1, 0, 2, 0
    group = np.array([4, 2])
    assert value("map@3", "lambdarank", y, score, group=group) == pytest.approx(((1 + 2 / 3) / 2 + 1) / 2)
    assert value("map@1", "lambdarank", y, score, group=group) == 1.0
    assert value("pre@3", "lambdarank", y, score, group=group) == pytest.approx((2 / 3 + 0) / 2)
    weight = np.array([1.0, 1, 1, 1, 3, 3])
    assert value("pre@2", "lambdarank", y, score, weight, group) == pytest.approx(0.5 / 4)


def test_unknown_names():
    for name in ("multi_error@0", "error@1.5", "map@3", "cox-nloglik"):
        with pytest.raises(InvalidParameterError, match="eval_metric"):
            get_metric(name, "regression")
