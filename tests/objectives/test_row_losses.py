"""The losses of the table: gradients by differences, starts and leaves by brute force, one model on any workers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from pvtree import GBDTClassifier, GBDTRegressor
from pvtree.comm import local
from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.kernels.team import Team
from pvtree.objectives.losses import make_loss, predictions
from pvtree.objectives.quantiles import exact_quantile, group_quantiles
from pvtree.objectives.row_losses import RowLoss
from pvtree.parameters.loss_table import LOSSES, losses_of
from pvtree.parameters.params import Params

SMALL = {"n_estimators": 2, "num_leaves": 4, "min_child_samples": 3, "n_jobs": 1}
ROW_LOSSES = [name for name in losses_of("value") if name not in ("regression", "cox", "aft")]
# Their hessians are not second derivatives: 1 by convention, or larger by a factor.
CONVENTIONAL = ("l1", "quantile", "mape", "huber", "hinge")


def labels(name, n, seed=0):
    """Labels that the loss allows."""
    rng = np.random.default_rng(seed)
    if LOSSES[name].target == "class":
        return rng.integers(0, 2, n).astype(float)
    if LOSSES[name].labels == "from 0 to 1":
        return rng.uniform(0, 1, n).round(2)
    y = rng.normal(size=n).round(2) * 3
    return y if LOSSES[name].labels == "any" else np.abs(y) + 0.1


def loss_of(name, y, weight=None):
    return make_loss(Params(objective=name, n_classes=3), y, weight, None)


def filled(loss, scores):
    grad, hess = np.empty_like(scores), np.empty_like(scores)
    with Team(1) as team:
        loss.gradients(scores, grad, hess, team)
    return grad, hess


def totals(loss, scores):
    """The loss of each row, weighted."""
    values, weight = loss._losses(scores)
    return values if weight is None else values * weight


@pytest.mark.parametrize("name", [*ROW_LOSSES, "hinge", "multiclassova"])
def test_gradients_are_differences_of_losses(name):
    n, step = 200, 1e-4
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, n).astype(float) if name == "multiclassova" else labels(name, n)
    loss = loss_of(name, y, rng.uniform(0.5, 2.0, n))
    scores = rng.uniform(-0.9, 2.0, (loss.n_outputs, n))
    grad, hess = filled(loss, scores)
    for output in range(loss.n_outputs):
        move = np.zeros_like(scores)
        move[output] = step
        up, here, down = (totals(loss, scores + sign * move) for sign in (1, 0, -1))
        smooth = np.abs(up - 2 * here + down) < 1e-6  # not at a kink
        np.testing.assert_allclose(grad[output][smooth], ((up - down) / (2 * step))[smooth], rtol=1e-5, atol=1e-6)
        if name in CONVENTIONAL:
            continue
        factor = np.exp(0.7) if name == "poisson" else 1.0
        second = factor * (up - 2 * here + down) / step**2
        expected = np.maximum(second, 1e-6) if name == "squared_log" else second
        np.testing.assert_allclose(hess[output], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in ROW_LOSSES if n not in ("huber", "fair", "pseudohuber")])
def test_scores_start_at_the_best_constant(name):
    """Huber, Fair and pseudo-Huber start at the mean or median, as in LightGBM, which is only near the best."""
    y = labels(name, 41)
    weight = None if name == "cross_entropy_lambda" else np.random.default_rng(2).uniform(0.5, 2.0, 41)
    loss = loss_of(name, y, weight)
    found = loss.init_scores()[0]

    def total(score):
        return totals(loss, np.full((1, 41), score)).sum()

    best = minimize_scalar(total, bracket=(found - 1.0, found + 1.0), tol=1e-10)
    assert total(found) <= best.fun + 1e-9 * abs(best.fun)


@pytest.mark.parametrize("name", ["l1", "quantile", "mape"])
def test_leaves_are_quantiles_of_residuals(name):
    rng = np.random.default_rng(3)
    X, y, weight = rng.normal(size=(60, 2)), labels(name, 60), rng.integers(1, 4, 60).astype(float)
    model = GBDTRegressor(objective=name, quantile_alpha=0.3, learning_rate=1.0, **SMALL).fit(X, y, weight).model_
    level = 0.3 if name == "quantile" else 0.5
    own = weight / np.maximum(1, np.abs(y)) if name == "mape" else weight
    score = np.full(60, model.init_score[0])
    for number, tree in enumerate(model.trees):
        leaf = model.predict_leaf(X)[:, number]
        for k, value in enumerate(tree.value[tree.feature < 0, 0]):
            rows = leaf == k
            assert value == pytest.approx(naive_quantile((y - score)[rows], own[rows], level))
        score += tree.value[tree.feature < 0, 0][leaf]


def naive_quantile(values, weight, level):
    """The middle of the minimisers of the pinball loss, which are among the values."""
    losses = [np.sum(weight * np.where(values > q, level * (values - q), (level - 1) * (values - q))) for q in values]
    best = values[np.isclose(losses, min(losses), rtol=1e-12, atol=1e-12)]
    return 0.5 * (best.min() + best.max())


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(-4, 4), st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=25),
    st.sampled_from([0.5, 0.25, 0.9, 0.3]),
    st.integers(1, 3),
)
def test_quantiles_on_any_partition(rows, level, n_workers):
    values, weight, group = (np.array(column, float) for column in zip(*rows, strict=True))
    group = group.astype(int)

    def on_worker(comm):
        own = np.arange(len(rows)) % comm.size == comm.rank
        return group_quantiles(values[own] / 4, group[own], 3, level, weight[own], comm)

    expected = [
        naive_quantile(values[group == g] / 4, weight[group == g], level) if (group == g).any() else 0 for g in range(3)
    ]
    for found in local.run(on_worker, n_workers):
        np.testing.assert_array_equal(found, expected)


def test_quantiles_of_extreme_values():
    values = np.array([-np.inf, -1e300, -5e-324, -0.0, 0.0, 5e-324, 1e300])
    assert exact_quantile(values, 0.5) == 0.0
    assert exact_quantile(values[1:3], 0.9) == -5e-324
    found = local.run(lambda comm: exact_quantile(values[comm.rank :: 2], 0.7, None, comm), 2)
    assert found == [exact_quantile(values, 0.7)] * 2


@pytest.mark.parametrize("name", [*ROW_LOSSES, "hinge"])
def test_one_model_on_any_workers(name):
    rng = np.random.default_rng(4)
    X, y, weight = rng.normal(size=(70, 3)).round(1), labels(name, 70), rng.uniform(0.5, 2, 70)
    kind = GBDTClassifier if name == "hinge" else GBDTRegressor

    def fitted(**more):
        estimator = kind(objective=name, subsample=0.8, subsample_freq=1, **SMALL, **more)
        estimator.fit(X, y, weight, eval_set=[(X, y)])
        return estimator.model_.to_json(), estimator.evals_result_

    serial = fitted()
    for n_workers, learner in ((2, "exact_voting"), (5, "exact_voting"), (5, "data"), (2, "attribute")):
        assert fitted(n_workers=n_workers, tree_learner=learner) == serial


def test_predictions_are_on_the_scale_of_the_labels():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(80, 2)), labels("poisson", 80)
    model = GBDTRegressor(objective="poisson", **SMALL).fit(X, y)
    np.testing.assert_allclose(model.predict(X), np.exp(model.predict(X, raw_score=True)), rtol=1e-12)
    np.testing.assert_allclose(list(model.staged_predict(X))[-1], model.predict(X))
    raw = np.array([[-800.0], [0.5], [30.0]])
    np.testing.assert_allclose(predictions("cross_entropy_lambda", raw), np.logaddexp(0, raw[:, 0]))
    np.testing.assert_allclose(predictions("cross_entropy", raw), 1 / (1 + np.exp(-raw[:, 0])), atol=1e-300)
    three = np.array([[0.0, 0.0, -900.0]])
    np.testing.assert_allclose(predictions("multiclassova", three), [[0.5, 0.5, 0.0]])
    assert predictions("hinge", raw).tolist() == [[1, 0], [0, 1], [0, 1]]


def test_what_a_loss_refuses():
    X = np.zeros((30, 1))
    for name, wrong in (("poisson", -1), ("gamma", 0), ("squared_log", -1), ("cross_entropy", 1.5)):
        y = labels(name, 30)
        y[7] = wrong
        with pytest.raises(InvalidDataError, match=f"objective='{name}' needs labels"):
            GBDTRegressor(objective=name, **SMALL).fit(X, y)
    with pytest.raises(InvalidParameterError, match="monotone_constraints do not suit objective='l1'"):
        GBDTRegressor(objective="l1", monotone_constraints=[1], **SMALL).fit(X, labels("l1", 30))
    with pytest.raises(InvalidParameterError, match="above 0"):
        GBDTRegressor(objective="poisson", base_score=-1.0, **SMALL).fit(X, labels("poisson", 30))
    with pytest.raises(InvalidDataError, match="needs two classes"):
        GBDTClassifier(objective="binary:hinge", **SMALL).fit(X, np.arange(30) % 3)


def test_alpha_belongs_to_the_objective():
    assert GBDTRegressor(objective="quantile", alpha=0.2).quantile_alpha == 0.2
    assert GBDTRegressor(objective="huber", alpha=2.0).huber_slope == 2.0
    assert GBDTRegressor(alpha=2.0).reg_alpha == 2.0
    assert GBDTRegressor(objective="reg:quantileerror").set_params(alpha=0.1).quantile_alpha == 0.1


def test_every_record_has_its_kernels():
    from pvtree.kernels.objectives import row_losses

    for name, kind in LOSSES.items():
        loss = loss_of(name, np.array([1.0, 1.0]), None) if kind.target != "relevance" else None
        assert loss is None or not isinstance(loss, RowLoss) or hasattr(row_losses, f"{name}_losses")
