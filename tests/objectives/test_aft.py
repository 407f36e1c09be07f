"""Accelerated failure times: likelihoods, gradients and trainings of bounded times."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from pvtree import GBDTRegressor, load
from pvtree.as_xgboost import DMatrix, train
from pvtree.errors import InvalidDataError
from pvtree.kernels.team import Team
from pvtree.objectives.aft import FailureTimes, negative_log_likelihoods
from pvtree.objectives.metrics import get_metric
from pvtree.objectives.normal_tails import upper_tail
from pvtree.reading.targets import LARGEST

KINDS = ["normal", "logistic", "extreme"]
# Exact, right-censored, left-censored, between.
BOUNDS = np.array([[2.0, 2.0], [3.0, LARGEST], [0.0, 1.5], [0.5, 4.0], [0.1, 0.1], [7.0, LARGEST]])


def likelihood(kind, scale, lower, upper, score):
    """Minus the log-likelihood of one row, by the textbook."""
    cdf = {
        "normal": NormalDist().cdf,
        "logistic": lambda z: 1 / (1 + math.exp(-z)),
        "extreme": lambda z: 1 - math.exp(-math.exp(z)),
    }[kind]
    if lower == upper:
        z, w = (math.log(lower) - score) / scale, math.exp((math.log(lower) - score) / scale)
        pdf = {"normal": NormalDist().pdf(z), "logistic": w / (1 + w) ** 2, "extreme": w * math.exp(-w)}[kind]
        return -math.log(pdf / (scale * lower))
    above = 1.0 if upper == LARGEST else cdf((math.log(upper) - score) / scale)
    return -math.log(above - (cdf((math.log(lower) - score) / scale) if lower > 0 else 0.0))


@pytest.mark.parametrize("kind", KINDS)
def test_likelihoods_and_gradients(kind):
    scores = np.array([0.3, 0.9, -0.5, 0.0, -1.5, 1.2])
    for scale in (0.8, 1.3):
        expected = [likelihood(kind, scale, *row, score) for row, score in zip(BOUNDS, scores, strict=True)]
        np.testing.assert_allclose(negative_log_likelihoods(BOUNDS, scores, kind, scale), expected, rtol=1e-10)
        loss = FailureTimes(BOUNDS, None, kind, scale)
        grad, hess = np.empty((1, 6)), np.empty((1, 6))
        step = 1e-5

        def of(moved, loss=loss):
            return loss._losses(moved)[0]

        with Team(1) as team:
            loss.gradients(scores[None], grad, hess, team)
            up, down = np.empty((1, 6)), np.empty((1, 6))
            loss.gradients(scores[None] + step, up, np.empty((1, 6)), team)
            loss.gradients(scores[None] - step, down, np.empty((1, 6)), team)
        slopes = (of(scores[None] + step) - of(scores[None] - step)) / (2 * step)
        np.testing.assert_allclose(grad[0], slopes, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(hess, (up - down) / (2 * step), rtol=1e-6, atol=1e-8)
        # Far from the bounds, steps lead back to them.
        for far in (-60.0, 60.0):
            with Team(1) as team:
                loss.gradients(np.full((1, 6), far), grad, hess, team)
            assert np.isfinite(grad).all()
            assert (hess > 0).all()
            needs = [far < 0 or (row[1] < LARGEST and far > 0) for row in BOUNDS]
            inside = [(row[0] == 0 and far < 0) or (row[1] == LARGEST and far > 0) for row in BOUNDS]
            for g, inner, must in zip(grad[0], inside, needs, strict=True):
                assert abs(g) < 1e-6 if inner else must and g * far > 0


def test_upper_tail():
    z = np.linspace(0.0, 30.0, 301)
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(upper_tail(z, density), [0.5 * math.erfc(x / math.sqrt(2)) for x in z], rtol=1e-12)


def made_times(seed=0, n=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(2)
    time = np.exp(1 + X[:, 0] + 0.3 * rng.normal(size=n))
    censored = rng.exponential(6.0, n)
    return X, np.column_stack([np.minimum(time, censored), np.where(time <= censored, time, np.inf)]), time


@pytest.mark.parametrize("kind", KINDS)
def test_trainings_of_bounded_times(kind, tmp_path):
    X, bounds, time = made_times()
    params = {"objective": "survival:aft", "aft_loss_distribution": kind, "aft_loss_distribution_scale": 0.5}
    small = {"n_estimators": 20, "num_leaves": 5, "n_jobs": 1}
    metric = ["aft-nloglik", "interval-regression-accuracy"]
    model = GBDTRegressor(**params, **small).fit(X, bounds, eval_set=[(X, bounds)], eval_metric=metric)
    results = model.evals_result_["training"]
    assert results["aft-nloglik"][-1] < results["aft-nloglik"][0] - 0.1
    error = np.abs(np.log(model.predict(X)) - np.log(time))
    assert np.median(error) < 0.45  # of 300 times, whose logarithms spread by about 1
    upper = np.where(np.isinf(bounds[:, 1]), LARGEST, bounds[:, 1])
    raw = model.predict(X, raw_score=True)
    expected = np.mean(negative_log_likelihoods(np.column_stack([bounds[:, 0], upper]), raw, kind, 0.5))
    np.testing.assert_allclose(results["aft-nloglik"][-1], expected)
    inside = (np.exp(raw) >= bounds[:, 0]) & (np.exp(raw) <= upper)
    np.testing.assert_allclose(results["interval-regression-accuracy"][-1], inside.mean())
    if kind == "normal":
        for learner, n_workers in (("data", 2), ("exact_voting", 5), ("attribute", 2)):
            spread = GBDTRegressor(**params, **small, tree_learner=learner, n_workers=n_workers).fit(X, bounds)
            assert spread.model_.to_json() == model.model_.to_json()
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))
        xgboost = pytest.importorskip("xgboost")
        model.model_.export_xgboost(tmp_path / "model.json")
        theirs = xgboost.Booster(model_file=str(tmp_path / "model.json")).predict(xgboost.DMatrix(X))
        np.testing.assert_allclose(theirs, model.predict(X), rtol=1e-4)


def test_bounds_of_a_matrix_and_times_without_bounds():
    X, bounds, time = made_times(n=100)
    rows = DMatrix(X, label_lower_bound=bounds[:, 0], label_upper_bound=bounds[:, 1])
    results = {}
    booster = train({"objective": "survival:aft", "nthread": 1}, rows, 3, evals=[(rows, "rows")], evals_result=results)
    assert len(results["rows"]["aft-nloglik"]) == 3
    assert (booster.predict(DMatrix(X)) > 0).all()
    exact = GBDTRegressor(objective="aft", n_estimators=2, n_jobs=1)
    both = exact.fit(X, np.column_stack([time, time])).predict(X)
    np.testing.assert_array_equal(exact.fit(X, time).predict(X), both)
    for wrong in (np.column_stack([-bounds[:, 0], bounds[:, 0]]), np.column_stack([bounds[:, 0] + 1, bounds[:, 0]])):
        with pytest.raises(InvalidDataError, match="must hold times above 0"):
            exact.fit(X, wrong)
    assert get_metric("aft-nloglik", "aft").name == "aft-nloglik"
