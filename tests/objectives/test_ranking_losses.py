"""Rankings beside plain lambdarank: other gains, no normalisation, all pairs alike, and the cross-entropy of NDCG."""

import numpy as np
import pytest

from pvtree import GBDTRanker
from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.kernels.hashing import hash_pair, unit_interval
from pvtree.kernels.team import Team
from pvtree.objectives.losses import make_loss
from pvtree.objectives.metrics import get_metric
from pvtree.parameters.params import Params

RNG = np.random.default_rng(0)
GROUP = np.array([7, 1, 4])
LABEL = RNG.integers(0, 4, 12).astype(float)
SCORE = RNG.normal(size=12)
QUERIES = (slice(0, 7), slice(7, 8), slice(8, 12))


def gradients(score=SCORE, **params):
    loss = make_loss(Params(**params), LABEL, None, GROUP)
    grad, hess = np.empty((1, 12)), np.empty((1, 12))
    with Team(1) as team:
        loss.gradients(score[None], grad, hess, team)
    return grad[0], hess[0]


def test_pairwise_is_the_gradient_of_the_logistic_loss_of_pairs():
    def loss(score):
        total = 0.0
        for rows in QUERIES:
            y, s = LABEL[rows], score[rows]
            total += sum(np.logaddexp(0, s[j] - s[i]) for i in range(len(y)) for j in range(len(y)) if y[i] > y[j])
        return total

    grad, hess = gradients(objective="pairwise", lambdarank_norm=False)
    for i, step in enumerate(np.eye(12) * 1e-4):
        up, here, down = loss(SCORE + step), loss(SCORE), loss(SCORE - step)
        assert grad[i] == pytest.approx((up - down) / 2e-4, abs=1e-6)
        assert hess[i] == pytest.approx((up - 2 * here + down) / 1e-8, abs=1e-4)


def naive_lambdas(y, s, gain):
    """Every pair of unequal labels by the change of NDCG, without normalisation."""
    order = np.argsort(-s, kind="stable")
    discount = np.empty(len(y))
    discount[order] = 1 / np.log2(2 + np.arange(len(y)))
    ideal = np.sum(np.sort(gain[y])[::-1] / np.log2(2 + np.arange(len(y))))
    grad = np.zeros(len(y))
    for i in range(len(y)):
        for j in range(len(y)):
            if y[i] > y[j] and ideal > 0:
                delta = (gain[y[i]] - gain[y[j]]) * abs(discount[i] - discount[j]) / ideal
                slope = delta / (1 + np.exp(s[i] - s[j]))
                grad[i] -= slope
                grad[j] += slope
    return grad


def test_gains_of_labels_without_normalisation():
    gain = np.array([0.0, 1.0, 1.5, 10.0])
    grad, _ = gradients(objective="lambdarank", lambdarank_norm=False, label_gain=tuple(gain))
    expected = [naive_lambdas(LABEL[rows].astype(int), SCORE[rows], gain) for rows in QUERIES]
    np.testing.assert_allclose(grad, np.concatenate(expected), rtol=1e-9, atol=1e-12)


def test_the_default_gains():
    plain = gradients(objective="lambdarank")
    spelt = gradients(objective="lambdarank", label_gain=(0.0, 1.0, 3.0, 7.0))
    np.testing.assert_array_equal(plain, spelt)
    other = get_metric("ndcg@3", "lambdarank", {"label_gain": (0.0, 1.0, 1.0, 1.0)})
    assert other(LABEL, SCORE[None], None, GROUP) != get_metric("ndcg@3", "lambdarank")(LABEL, SCORE[None], None, GROUP)


def test_cross_entropy_of_ndcg():
    """LightGBM's three terms, written with arrays."""
    grad, hess = gradients(objective="rank_xendcg", seed=5)
    key = np.uint64(hash_pair(np.uint64(5), np.uint64(0)))
    drawn = np.array([unit_interval(np.uint64(hash_pair(key, np.uint64(row)))) for row in range(12)])
    for rows in QUERIES:
        if rows.stop - rows.start == 1:
            assert grad[rows] == hess[rows] == 0
            continue
        share = np.exp(SCORE[rows]) / np.exp(SCORE[rows]).sum()
        target = 2 ** LABEL[rows] - drawn[rows]
        first = share - target / target.sum()
        one = first / (1 - share)
        second = share * (one.sum() - one)
        two = second / (1 - share)
        np.testing.assert_allclose(grad[rows], first + second + share * (two.sum() - two), rtol=1e-9)
        np.testing.assert_allclose(hess[rows], share * (1 - share))


@pytest.mark.parametrize(
    "more",
    [
        {"objective": "rank:pairwise"},
        {"objective": "rank_xendcg"},
        {"objective": "rank:map"},
        {"label_gain": [0, 1, 2, 9]},
    ],
)
def test_one_model_on_any_workers(more):
    rng = np.random.default_rng(1)
    X, y, group = rng.normal(size=(60, 3)).round(1), rng.integers(0, 4, 60), [10, 5, 15, 8, 12, 10]

    def fitted(**where):
        settings = {"n_estimators": 3, "num_leaves": 4, "min_child_samples": 3, "n_jobs": 1}
        ranker = GBDTRanker(**settings, **more, **where).fit(X, y, group=group, eval_set=[(X, y)], eval_group=[group])
        return ranker.model_.to_json(), ranker.evals_result_

    serial = fitted()
    for n_workers, learner in ((2, "exact_voting"), (5, "data")):
        assert fitted(n_workers=n_workers, tree_learner=learner) == serial


def average_precision(relevant):
    ranks = np.flatnonzero(relevant)
    return np.mean(np.arange(1, len(ranks) + 1) / (ranks + 1))


@pytest.mark.parametrize("level", [2, 30])
@pytest.mark.parametrize("normalises", [False, True])
def test_pairs_weigh_what_swapping_them_changes_average_precision_by(level, normalises):
    grad, hess = gradients(objective="rank_map", lambdarank_norm=normalises, lambdarank_truncation_level=level)
    for rows in QUERIES:
        order = np.argsort(-SCORE[rows], kind="stable")
        relevant, s = LABEL[rows][order] > 0, SCORE[rows][order]
        expected, curvature, total = np.zeros(len(s)), np.zeros(len(s)), 0.0
        for i in range(min(level, len(s))):
            for j in range(i + 1, len(s)):
                if relevant[i] == relevant[j]:
                    continue
                swapped = relevant.copy()
                swapped[[i, j]] = relevant[[j, i]]
                delta = abs(average_precision(swapped) - average_precision(relevant))
                delta /= 0.01 + s[i] - s[j] if normalises else 1.0
                better, worse = (i, j) if relevant[i] else (j, i)
                p = 1 / (1 + np.exp(s[better] - s[worse]))
                expected[better] -= delta * p
                expected[worse] += delta * p
                curvature[[i, j]] += delta * p * (1 - p)
                total += 2 * delta * p
        factor = np.log2(1 + total) / total if normalises and total else 1.0
        np.testing.assert_allclose(grad[rows][order], expected * factor, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(hess[rows][order], curvature * factor, rtol=1e-9, atol=1e-12)


def test_gains_that_do_not_fit():
    X, y = np.zeros((4, 1)), [0, 1, 2, 3]
    with pytest.raises(InvalidDataError, match="label_gain has 2 gains"):
        GBDTRanker(label_gain=[0, 1]).fit(X, y, group=[4])
    with pytest.raises(InvalidParameterError, match="label_gain"):
        GBDTRanker(label_gain=[1, 0]).fit(X, y, group=[4])
