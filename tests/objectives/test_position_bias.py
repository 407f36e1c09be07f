"""Positions of documents: their biases move as the formula says, on any workers, and no model keeps them."""

import numpy as np
import pytest

from pvtree import Booster, Dataset, GBDTRanker, train
from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.kernels.team import Team
from pvtree.objectives.losses import make_loss
from pvtree.parameters.params import Params

N_QUERIES, SIZE = 60, 8
GROUP = [SIZE] * N_QUERIES
SMALL = {"n_estimators": 5, "num_leaves": 4, "min_child_samples": 5, "n_jobs": 1}


def clicks(seed=0, n_queries=N_QUERIES):
    """Documents in the order of a poor ranker, clicked if they are relevant and seen: the first ones most often."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * SIZE, 3))
    position = np.empty(len(X), np.int64)
    for q in range(n_queries):
        rows = slice(q * SIZE, (q + 1) * SIZE)
        position[rows] = np.argsort(np.argsort(-(X[rows, 1] + 0.5 * rng.normal(size=SIZE))))
    relevance = X[:, 0] + 0.3 * rng.normal(size=len(X)) > 0.3
    return X, (relevance & (rng.random(len(X)) < 0.9 ** (3 * position))).astype(int), position, relevance


@pytest.mark.parametrize("objective", ["lambdarank", "pairwise", "rank_map"])
def test_gradients_and_steps(objective):
    _, y, position, _ = clicks()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    params = Params(objective=objective, learning_rate=0.2, lambdarank_position_bias_regularization=0.05)
    group = np.array(GROUP)
    loss = make_loss(params, np.column_stack([y, position]), weight, group)
    plain = make_loss(params, y.astype(float), weight, group)
    scores = np.random.default_rng(2).normal(size=(1, len(y)))
    bias = np.zeros(SIZE)
    with Team(1) as team:
        for _ in range(3):
            grad, hess, expected, expected_hess = np.empty((4, 1, len(y)))
            loss.gradients(scores, grad, hess, team)
            plain.gradients(scores + bias[position], expected, expected_hess, team)
            np.testing.assert_allclose(grad, expected, rtol=1e-12)
            np.testing.assert_allclose(hess, expected_hess, rtol=1e-12)
            for place in range(SIZE):
                here = position == place
                n, g, h = here.sum(), grad[0, here].sum(), hess[0, here].sum()
                bias[place] += 0.2 * (-g - 0.05 * n * bias[place]) / (h + 0.05 * n + 0.001)
            np.testing.assert_allclose(loss.bias.value, bias, rtol=1e-9)


@pytest.mark.parametrize("learner", ["data", "attribute", "exact_voting", "voting"])
def test_any_workers_give_the_same(learner):
    X, y, position, _ = clicks()
    words = np.array([f"place {place}" for place in position])
    serial = GBDTRanker(**SMALL).fit(X, y, group=GROUP, position=position)
    assert serial.model_ != GBDTRanker(**SMALL).fit(X, y, group=GROUP).model_
    for n_workers in (2, 5):
        spread = GBDTRanker(**SMALL, tree_learner=learner, n_workers=n_workers, top_k=3)
        assert spread.fit(X, y, group=GROUP, position=words).model_ == serial.model_


def test_what_users_see_is_unbiased():
    X, y, position, _ = clicks(seed=1, n_queries=300)
    given = SMALL | {"n_estimators": 40, "learning_rate": 0.2}
    group = [SIZE] * 300
    X_test, _, _, relevance = clicks(seed=2, n_queries=300)

    def share_in_order(model):
        """The share of pairs that the true relevance orders the same way."""
        scores, labels = model.predict(X_test).reshape(300, SIZE), relevance.reshape(300, SIZE)
        right = [
            (s[label][:, None] > s[~label]).mean()
            for s, label in zip(scores, labels, strict=True)
            if 0 < label.sum() < SIZE
        ]
        return np.mean(right)

    unbiased = share_in_order(GBDTRanker(**given).fit(X, y, group=group, position=position))
    biased = share_in_order(GBDTRanker(**given).fit(X, y, group=group))
    assert unbiased > biased + 0.01


def test_datasets_have_positions(tmp_path):
    X, y, position, _ = clicks()
    data = Dataset(X, y, group=GROUP, position=position + 10)
    np.testing.assert_array_equal(data.get_position(), position)
    np.testing.assert_array_equal(data.get_field("position"), position)
    params = {"objective": "lambdarank", "verbose": -1, **SMALL}
    rows = np.arange(2 * SIZE)
    np.testing.assert_array_equal(data.subset(rows).get_position(), position[rows])
    model = train(params, data, 5)
    assert model.model_.trees == GBDTRanker(**SMALL).fit(X, y, group=GROUP, position=position).model_.trees
    assert Dataset(X, y, group=GROUP).set_position(position).get_position() is not None
    with pytest.raises(InvalidParameterError, match="update does not support position"):
        Booster(params, data).update()
    with pytest.raises(InvalidParameterError, match="save_binary does not support position"):
        data.save_binary(tmp_path / "rows.bin")


def test_what_is_refused(tmp_path):
    X, y, position, _ = clicks()
    for more, fit in (({}, {"checkpoint": tmp_path}), ({"objective": "rank_xendcg"}, {})):
        with pytest.raises(InvalidParameterError, match=r"^position does not support .*; leave one of them out\.$"):
            GBDTRanker(**SMALL, **more).fit(X, y, group=GROUP, position=position, **fit)
    for wrong, message in ((position[:-1], "position has length"), (position + 0.5, "whole numbers or texts")):
        with pytest.raises(InvalidDataError, match=message):
            GBDTRanker(**SMALL).fit(X, y, group=GROUP, position=wrong)
