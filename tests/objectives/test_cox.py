"""Cox's partial likelihood: against the formula, with ties, on any partition."""

import numpy as np
import pytest

from pvtree import GBDTRegressor
from pvtree.comm import local
from pvtree.errors import InvalidDataError
from pvtree.kernels.team import Team
from pvtree.objectives.losses import make_loss
from pvtree.objectives.metrics import get_metric
from pvtree.parameters.params import Params

RNG = np.random.default_rng(0)
Y = RNG.integers(1, 9, 25) * np.where(RNG.uniform(size=25) < 0.7, 1.0, -1.0)  # with ties
SCORE, WEIGHT = RNG.normal(size=25), RNG.uniform(0.5, 2.0, 25)


def negative_log_likelihood(score):
    events = [i for i in range(25) if Y[i] > 0]
    at_risk = {i: np.abs(Y) >= Y[i] for i in events}
    return sum(WEIGHT[i] * (np.log(np.sum((WEIGHT * np.exp(score))[at_risk[i]])) - score[i]) for i in events)


def test_gradients_are_differences():
    loss = make_loss(Params(objective="cox"), Y, WEIGHT, None)
    grad, hess = np.empty((1, 25)), np.empty((1, 25))
    with Team(1) as team:
        loss.gradients(SCORE[None], grad, hess, team)
    for i, step in enumerate(np.eye(25) * 1e-4):
        up, here, down = (negative_log_likelihood(SCORE + k * step) for k in (1, 0, -1))
        assert grad[0, i] == pytest.approx((up - down) / 2e-4, abs=1e-6)
        assert hess[0, i] == pytest.approx((up - 2 * here + down) / 1e-8, abs=1e-4)


def test_the_metric():
    metric = get_metric("cox-nloglik", "cox")
    alone = metric(Y, SCORE[None], WEIGHT)
    assert alone == pytest.approx(negative_log_likelihood(SCORE) / WEIGHT[Y > 0].sum())

    def on_worker(comm):
        own = np.arange(25) % comm.size == comm.rank
        return metric(Y[own], SCORE[None, own].copy(), WEIGHT[own], None, comm)

    assert local.run(on_worker, 3) == [alone] * 3


def test_one_model_on_any_workers():
    X = RNG.normal(size=(25, 2)).round(1)

    def fitted(**where):
        settings = {"n_estimators": 3, "num_leaves": 4, "min_child_samples": 3, "n_jobs": 1}
        model = GBDTRegressor(objective="survival:cox", **settings, **where)
        model.fit(X, Y, WEIGHT, eval_set=[(X, Y)])
        return model.model_.to_json(), model.evals_result_

    serial = fitted()
    for n_workers, learner in ((2, "exact_voting"), (5, "data"), (2, "attribute")):
        assert fitted(n_workers=n_workers, tree_learner=learner) == serial
    values = serial[1]["training"]["cox-nloglik"]
    assert values[-1] < values[0]


def test_a_time_of_zero_says_nothing():
    with pytest.raises(InvalidDataError, match="not 0"):
        GBDTRegressor(objective="cox").fit(np.zeros((3, 1)), [1.0, 0.0, -2.0])
