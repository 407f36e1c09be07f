"""Gradients against independent formulas, brute force over all pairs, and LightGBM's own."""

import numpy as np
import pytest

from pvtree.comm.local import run
from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.kernels.team import Team
from pvtree.objectives.losses import make_loss, predictions
from pvtree.parameters.params import Params


def loss_of(objective, y, weight=None, group=None, n_classes=1, level=30):
    params = Params(objective=objective, n_classes=n_classes, lambdarank_truncation_level=level)
    return make_loss(params, y, weight, group)


def gradients(loss, scores, n_threads=1):
    grad = np.full_like(scores, np.nan)
    hess = np.full_like(scores, np.nan)
    with Team(n_threads) as team:
        loss.gradients(scores, grad, hess, team)
    return grad, hess


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weight(request, rng):
    return rng.uniform(0.1, 3.0, 1001) if request.param else None


def by_weight(values, weight):
    return values if weight is None else values * weight


def test_squared_error(rng, weight):
    y, scores = rng.normal(size=1001), rng.normal(size=(1, 1001))
    loss = loss_of("regression", y, weight)
    grad, hess = gradients(loss, scores)
    assert loss.constant_hessian
    np.testing.assert_array_equal(grad[0], by_weight(scores[0] - y, weight))
    np.testing.assert_array_equal(hess[0], by_weight(np.ones(1001), weight))
    np.testing.assert_allclose(loss.init_scores(), [np.average(y, weights=weight)], rtol=1e-13)


def test_binary(rng, weight):
    y, scores = (rng.random(1001) < 0.3).astype(float), rng.normal(size=(1, 1001)) * 4
    loss = loss_of("binary", y, weight, n_classes=2)
    grad, hess = gradients(loss, scores)
    p = 1 / (1 + np.exp(-scores[0]))
    np.testing.assert_allclose(grad[0], by_weight(p - y, weight), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(hess[0], by_weight(p * (1 - p), weight), rtol=1e-12)
    mean = np.average(y, weights=weight)
    np.testing.assert_allclose(loss.init_scores(), [np.log(mean / (1 - mean))], rtol=1e-12)


def test_binary_extremes_stay_finite():
    grad, hess = gradients(loss_of("binary", np.array([0.0, 1.0])), np.array([[800.0, -800.0]]))
    np.testing.assert_array_equal(grad, [[1.0, -1.0]])
    np.testing.assert_array_equal(hess, [[0.0, 0.0]])
    assert np.isfinite(loss_of("binary", np.zeros(3)).init_scores()).all()
    assert np.isfinite(loss_of("binary", np.ones(3)).init_scores()).all()


@pytest.mark.parametrize("n_classes", [2, 5])
def test_multiclass(rng, weight, n_classes):
    y = rng.integers(0, n_classes, 1001).astype(float)
    scores = rng.normal(size=(n_classes, 1001)) * 3
    loss = loss_of("multiclass", y, weight, n_classes=n_classes)
    grad, hess = gradients(loss, scores)
    p = np.exp(scores - scores.max(axis=0))
    p /= p.sum(axis=0)
    one_hot = np.arange(n_classes)[:, None] == y
    np.testing.assert_allclose(grad, by_weight(p - one_hot, weight), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(hess, by_weight(n_classes / (n_classes - 1) * p * (1 - p), weight), rtol=1e-12)
    priors = [np.average(y == k, weights=weight) for k in range(n_classes)]
    np.testing.assert_allclose(loss.init_scores(), np.log(priors), rtol=1e-12)


def lambdarank_by_brute_force(y, score, group, level):
    """The definition, pair by pair in plain Python."""
    grad, hess = np.zeros(y.size), np.zeros(y.size)
    stop = 0
    for size in group:
        start, stop = stop, stop + size
        order = start + np.argsort(-score[start:stop], kind="stable")
        best = np.sort(y[start:stop])[::-1][:level]
        ideal = sum((2**label - 1) / np.log2(2 + i) for i, label in enumerate(best))
        spread = score[order[0]] != score[order[-1]]
        total = 0.0
        for i in range(size):
            for j in range(i + 1, size):
                if i >= level or y[order[i]] == y[order[j]]:
                    continue
                better, worse = (order[i], order[j]) if y[order[i]] > y[order[j]] else (order[j], order[i])
                lead = score[better] - score[worse]
                delta = (2 ** y[better] - 2 ** y[worse]) * (1 / np.log2(2 + i) - 1 / np.log2(2 + j)) / ideal
                delta /= 0.01 + abs(lead) if spread else 1.0
                p = 1 / (1 + np.exp(lead))
                grad[better] -= p * delta
                grad[worse] += p * delta
                hess[better] += p * (1 - p) * delta
                hess[worse] += p * (1 - p) * delta
                total += 2 * p * delta
        if total > 0:
            grad[start:stop] *= np.log2(1 + total) / total
            hess[start:stop] *= np.log2(1 + total) / total
    return grad, hess


@pytest.fixture
def ranking(rng):
    group = np.array([1, 2, 3, 7, 16, 17, 40, 90, 33, 5])
    y = rng.choice(5, size=group.sum(), p=[0.5, 0.2, 0.15, 0.1, 0.05]).astype(float)
    score = rng.normal(size=group.sum()).round(1)  # with ties
    return y, score, group


@pytest.mark.parametrize("level", [1, 3, 30, 1000])
def test_lambdarank_is_the_sum_over_pairs(ranking, level):
    y, score, group = ranking
    expected = lambdarank_by_brute_force(y, score, group, level)
    grad, hess = gradients(loss_of("lambdarank", y, None, group, level=level), score[None])
    np.testing.assert_allclose(grad[0], expected[0], rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(hess[0], expected[1], rtol=1e-11, atol=1e-14)


def test_lambdarank_of_equal_scores_and_of_useless_queries(ranking):
    y, _, group = ranking
    y = y.copy()
    y[-5:] = 0.0  # nothing relevant
    y[-38:-5] = 2.0  # nothing to order
    expected = lambdarank_by_brute_force(y[:-38], np.zeros(y.size - 38), group[:-2], 30)
    grad, hess = gradients(loss_of("lambdarank", y, None, group), np.zeros((1, y.size)))
    np.testing.assert_allclose(grad[0, :-38], expected[0], rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(hess[0, :-38], expected[1], rtol=1e-11, atol=1e-14)
    assert not grad[0, -38:].any() and not hess[0, -38:].any()


def test_lambdarank_does_not_depend_on_earlier_scores(ranking, rng):
    y, score, group = ranking
    loss = loss_of("lambdarank", y, None, group)
    first = gradients(loss, score[None])
    gradients(loss, rng.normal(size=(1, y.size)))
    again = gradients(loss, score[None])
    assert first[0].tobytes() == again[0].tobytes() and first[1].tobytes() == again[1].tobytes()


def test_lambdarank_weights_multiply(ranking, rng):
    y, score, group = ranking
    weight = rng.uniform(0.5, 2.0, y.size)
    plain = gradients(loss_of("lambdarank", y, None, group), score[None])
    weighted = gradients(loss_of("lambdarank", y, weight, group), score[None])
    np.testing.assert_array_equal(weighted[0], plain[0] * weight)
    np.testing.assert_array_equal(weighted[1], plain[1] * weight)


def leaf_sums_of_lightgbm(objective, y, scores, group=None, **params):
    """Each row's leaf in LightGBM's first trees, and the sums of gradients and hessians in the leaves."""
    lgb = pytest.importorskip("lightgbm")
    n = y.size
    params = params | {
        "objective": objective, "num_leaves": 40, "min_data_in_bin": 1, "min_data_in_leaf": 2, "verbose": -1,
        "min_sum_hessian_in_leaf": 0.0, "learning_rate": 1.0, "boost_from_average": False, "num_threads": 1,
    }  # fmt: skip
    X = np.arange(n, dtype=float)[:, None]
    data = lgb.Dataset(X, y, group=group, init_score=scores.ravel(), params=params)
    booster = lgb.train(params, data, 1)
    leaves = booster.predict(X, pred_leaf=True).T  # (n_outputs, n)
    frame = booster.trees_to_dataframe()
    for tree, leaf in enumerate(leaves):
        nodes = frame[(frame.tree_index == tree) & frame.left_child.isna()]
        index = nodes.node_index.str.split("L").str[-1].astype(int).to_numpy()
        hess, value = np.zeros(n), np.zeros(n)
        hess[index], value[index] = nodes.weight, nodes.value
        yield leaf, -value * hess, hess


@pytest.mark.parametrize("level", [5, 30])
def test_lambdarank_equals_lightgbm(ranking, level):
    # LightGBM keeps gradients in float32 and looks the sigmoid up in a table: hence the tolerance.
    y, score, group = ranking
    grad, hess = gradients(loss_of("lambdarank", y, None, group, level=level), score[None])
    options = {"lambdarank_truncation_level": level}
    for leaf, grad_sum, hess_sum in leaf_sums_of_lightgbm("lambdarank", y, score, group, **options):
        assert np.unique(leaf).size > 20
        np.testing.assert_allclose(np.bincount(leaf, grad[0], y.size), grad_sum, atol=2e-5)
        np.testing.assert_allclose(np.bincount(leaf, hess[0], y.size), hess_sum, atol=2e-5)


def test_multiclass_equals_lightgbm(rng):
    y, scores = rng.integers(0, 4, 150).astype(float), rng.normal(size=(4, 150))
    grad, hess = gradients(loss_of("multiclass", y, n_classes=4), scores)
    sums = leaf_sums_of_lightgbm("multiclass", y, scores, num_class=4)
    for k, (leaf, grad_sum, hess_sum) in enumerate(sums):
        np.testing.assert_allclose(np.bincount(leaf, grad[k], 150), grad_sum, atol=1e-5)
        np.testing.assert_allclose(np.bincount(leaf, hess[k], 150), hess_sum, atol=1e-5)


@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass", "lambdarank"])
def test_threads_give_the_same_bits(rng, objective):
    n_outputs = 3 if objective == "multiclass" else 1
    n = 3 * 4096 + 5
    y = rng.integers(0, max(2, n_outputs), n).astype(float)
    group = np.array([50] * (n // 50) + [n % 50])
    loss = loss_of(objective, y, rng.random(n), group, n_outputs)
    scores = rng.normal(size=(n_outputs, n))
    one, three = gradients(loss, scores, 1), gradients(loss, scores, 3)
    assert one[0].tobytes() == three[0].tobytes() and one[1].tobytes() == three[1].tobytes()


def test_custom_objective_of_one_output(rng):
    y, weight, scores = rng.normal(size=9), rng.random(9), rng.normal(size=(1, 9))
    expected = gradients(loss_of("regression", y, weight), scores)
    unweighted = loss_of(lambda y_true, y_pred: (y_pred - y_true, np.ones(9)), y, weight)
    weighted = loss_of(lambda y_true, y_pred, w: ((y_pred - y_true) * w, w), y, weight)
    for loss in (unweighted, weighted):
        assert not loss.constant_hessian and loss.init_scores() == [0.0]
        np.testing.assert_array_equal(gradients(loss, scores), expected)


def test_custom_objective_of_several_outputs(rng):
    scores = rng.normal(size=(3, 9))
    loss = loss_of(lambda y_true, y_pred: (y_pred * [1.0, 2.0, 3.0], y_pred**2), np.zeros(9), n_classes=3)
    grad, hess = gradients(loss, scores)
    np.testing.assert_array_equal(grad, scores * [[1.0], [2.0], [3.0]])
    np.testing.assert_array_equal(hess, scores**2)
    assert loss_of(lambda y, p: None, np.zeros(9), n_classes=2).n_outputs == 1


def test_custom_objective_cannot_change_the_scores():
    def greedy(y_true, y_pred):
        y_pred[:] = 0.0
        return y_pred, y_pred

    scores = np.ones((1, 4))
    gradients(loss_of(greedy, np.zeros(4)), scores)
    assert (scores == 1.0).all()


@pytest.mark.parametrize(
    "answer, message",
    [
        (np.zeros(4), r"must return \(grad, hess\)"),
        ((np.zeros(3), np.zeros(4)), r"grad of shape \(4,\)"),
        ((np.zeros(4), np.zeros((4, 1))), r"hess of shape \(4,\)"),
        ((np.zeros(4), np.full(4, np.nan)), "NaN or infinity in hess"),
    ],
)
def test_wrong_answers_of_a_custom_objective(answer, message):
    with pytest.raises(InvalidParameterError, match=message):
        gradients(loss_of(lambda y, p: answer, np.zeros(4)), np.zeros((1, 4)))


def test_wrong_input():
    with pytest.raises(InvalidParameterError, match="classification"):
        loss_of("classification", np.zeros(3))
    with pytest.raises(InvalidDataError, match="group"):
        loss_of("lambdarank", np.zeros(3))
    for group in ([2, 2], [3, 0], [4, -1]):
        with pytest.raises(InvalidDataError, match="add up"):
            loss_of("lambdarank", np.zeros(3), group=np.array(group))
    for label in (0.5, -1.0, 31.0, np.nan):
        with pytest.raises(InvalidDataError, match="0 to 30"):
            loss_of("lambdarank", np.array([0.0, label, 1.0]), group=np.array([3]))


def test_predictions(rng):
    raw = rng.normal(size=(7, 1))
    p = 1 / (1 + np.exp(-raw[:, 0]))
    np.testing.assert_allclose(predictions("binary", raw), np.column_stack([1 - p, p]), rtol=1e-13)
    many = rng.normal(size=(700, 3))
    softmax = np.exp(many) / np.exp(many).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(predictions("multiclass", many), softmax, rtol=1e-13)
    for objective in ("regression", "lambdarank", "custom"):
        np.testing.assert_array_equal(predictions(objective, raw), raw[:, 0])
    np.testing.assert_array_equal(predictions("custom", many), many)
    np.testing.assert_array_equal(predictions("classification", softmax), softmax)
    assert predictions("classification", np.ones((7, 1))).shape == (7, 1)


@pytest.mark.parametrize("n_workers", [2, 3, 8])
@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass", "lambdarank"])
def test_workers_start_from_the_scores_of_one(rng, weight, objective, n_workers):
    n_classes = {"binary": 2, "multiclass": 7}.get(objective, 1)
    y = rng.normal(size=1001) if objective == "regression" else rng.integers(0, max(2, n_classes), 1001).astype(float)
    cuts = np.array([0, 0, 400, 400, 401, 700, 1001, 1001])[: n_workers - 1]  # some workers have no rows

    def start(comm):
        part = np.split(y, cuts)[comm.rank]
        its_weight = None if weight is None else np.split(weight, cuts)[comm.rank]
        group = np.ones(len(part), np.int64) if objective == "lambdarank" else None
        return loss_of(objective, part, its_weight, group, n_classes).init_scores(comm), comm.traffic.total().calls

    alone = loss_of(objective, y, weight, np.ones(1001, np.int64), n_classes).init_scores()
    for scores, calls in run(start, n_workers, timeout=20):
        assert scores.tobytes() == alone.tobytes()
        assert calls == (0 if objective == "lambdarank" else 2)
