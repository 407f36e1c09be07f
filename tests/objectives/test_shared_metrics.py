"""Metrics of rows that are spread over workers: the bits of one process on all rows, for any partition and order."""

import math
from fractions import Fraction

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given
from hypothesis import strategies as st

from pvtree.comm import Solo
from pvtree.comm.local import run
from pvtree.errors import InvalidParameterError
from pvtree.kernels.objectives.metrics import add_product, ordered_pair_weight
from pvtree.objectives.metrics import CustomMetric, evaluate_together, get_metric
from thoroughness import examples

thorough = examples(25)
AUC = get_metric("auc", "binary")


def shared(metric, y, scores, weight=None, group=None, *, owner, n_workers):
    """The answers of all workers, row i lying with worker owner[i] (query i, where there are queries)."""

    def work(comm):
        rows = np.repeat(owner, group) == comm.rank if group is not None else owner == comm.rank
        its_group = None if group is None else group[owner == comm.rank]
        its_weight = None if weight is None else weight[rows]
        return metric.evaluate(y[rows], np.ascontiguousarray(scores[:, rows]), its_weight, its_group, comm)

    answers = run(work, n_workers, timeout=20)
    assert len({repr(answer) for answer in answers}) == 1  # repr tells every two floats apart, and NaN is NaN
    return answers[0]


def shared_auc(y, score, weight=None, *, owner, n_workers=3):
    y, score = np.array(y, float), np.array(score, float)
    [(name, value, greater)] = shared(
        AUC, y, score[None], None if weight is None else np.array(weight), owner=np.array(owner), n_workers=n_workers
    )
    assert (name, greater) == ("auc", True)
    return value


def draw_rows(rng, n, n_workers):
    """Labels, scores with and without ties, weights over many magnitudes, and who has which row."""
    y = (rng.random(n) < rng.choice([0.0, 0.1, 0.5, 1.0])).astype(float)
    score = (rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)).round(rng.choice([0, 1, 15]))
    lightest = rng.choice([1e-30, 0.5])
    weight = rng.choice([0.0, 1.0, lightest, 7.5], n) * (1 + rng.random(n)) if rng.random() < 0.6 else None
    return y, score, weight, rng.choice(rng.integers(0, n_workers, 3), n)


@thorough
@given(st.integers(0, 2**32), st.integers(0, 300), st.sampled_from([2, 3, 8]))
def test_auc_has_the_bits_of_one_process_and_the_value_of_scikit_learn(seed, n, n_workers):
    rng = np.random.default_rng(seed)
    y, score, weight, owner = draw_rows(rng, n, n_workers)
    alone = AUC(y, score[None], weight)
    assert shared_auc(y, score, weight, owner=owner, n_workers=n_workers) == alone
    counted = y if weight is None else y[weight > 0]
    if len(set(counted)) < 2:
        assert alone == 1.0
    elif weight is None or weight[weight > 0].min() > 1e-9:  # beyond that scikit-learn's float sums lose the small
        assert alone == pytest.approx(sk.roc_auc_score(y, score, sample_weight=weight), rel=1e-12, abs=1e-12)


@thorough
@given(st.integers(0, 2**32), st.integers(0, 40), st.sampled_from([2, 5]))
def test_means_have_the_bits_of_one_process(seed, n, n_workers):
    rng = np.random.default_rng(seed)
    y, score, weight, owner = draw_rows(rng, n, n_workers)
    scores = np.stack([score, rng.normal(size=n), rng.normal(size=n)])
    probabilities = rng.dirichlet(np.ones(3), n).T
    asked = [
        *((get_metric(name, "regression"), scores[:1]) for name in ("l2", "rmse", "l1")),
        *((get_metric(name, "binary"), scores[:1]) for name in ("auc", "binary_logloss", "binary_error")),
        *((get_metric(name, "multiclass"), scores) for name in ("multi_logloss", "multi_error")),
        (get_metric("logloss", "classification"), probabilities),
    ]
    alone = [metric.evaluate(y, its_scores, weight) for metric, its_scores in asked]
    one_by_one = [
        shared(metric, y, its_scores, weight, owner=owner, n_workers=n_workers) for metric, its_scores in asked
    ]
    assert repr(one_by_one) == repr(alone)

    def together(comm):
        rows = owner == comm.rank
        its_weight = None if weight is None else weight[rows]
        pairs = [(metric, (y[rows], s[:, rows].copy(), its_weight, None)) for metric, s in asked]
        answers = evaluate_together(pairs, comm)
        return repr(answers), comm.traffic["metrics"].calls

    for answers, calls in run(together, n_workers, timeout=20):
        assert answers == repr(alone)
        assert calls <= 2 + 3  # for all means, and for the AUC


@examples(15)
@given(st.integers(0, 2**32), st.integers(0, 12), st.sampled_from([2, 5]), st.booleans())
def test_ndcg_has_the_bits_of_one_process(seed, n_queries, n_workers, weighted):
    rng = np.random.default_rng(seed)
    group = rng.integers(1, 30, n_queries)
    n = int(group.sum())
    y, score = rng.integers(0, 4, n).astype(float), rng.normal(size=(1, n)).round(1)
    weight = rng.random(n) if weighted else None
    metric = get_metric("ndcg@5", "lambdarank")
    alone = metric.evaluate(y, score, weight, group)
    owner = rng.integers(0, n_workers, n_queries)
    assert repr(shared(metric, y, score, weight, group, owner=owner, n_workers=n_workers)) == repr(alone)


# -- AUC at the edges ---------------------------------------------------------------------------------------


def test_classes_missing_on_workers_or_everywhere():
    assert shared_auc([0, 0, 1, 1], [1.0, 3.0, 2.0, 4.0], owner=[0, 0, 2, 2]) == 0.75
    assert shared_auc([1, 1, 1], [1.0, 2.0, 3.0], owner=[0, 1, 2]) == 1.0
    assert shared_auc([0, 0, 0], [1.0, 2.0, 3.0], owner=[0, 1, 2]) == 1.0
    assert shared_auc([0, 1], [2.0, 1.0], [1.0, 0.0], owner=[0, 1]) == 1.0  # a class that weighs nothing


def test_ties_are_not_torn_apart():
    assert shared_auc([0, 1] * 40, [5.0] * 80, owner=[0] * 30 + [1] * 50) == 0.5
    assert shared_auc([0, 1, 0, 1], [0.0, -0.0, 0.0, -0.0], owner=[0, 1, 2, 0]) == 0.5
    assert shared_auc([0, 1, 0, 1], [-np.inf, np.inf, np.inf, -np.inf], owner=[0, 1, 2, 0]) == 0.5


def test_few_rows_and_none():
    assert shared_auc([], [], owner=[], n_workers=2) == 1.0
    assert shared_auc([1], [3.0], owner=[1], n_workers=2) == 1.0
    assert shared_auc([1, 0], [3.0, 2.0], [0.5, 0.25], owner=[7, 2], n_workers=8) == 1.0
    assert shared_auc([1, 0], [2.0, 3.0], owner=[7, 2], n_workers=8) == 0.0


def test_single_precision_scores():
    y, score = np.arange(9) % 2, np.sin(np.arange(9), dtype=np.float32)
    owner = np.arange(9) % 3
    assert shared(AUC, y, score[None], owner=owner, n_workers=3) == AUC.evaluate(y, score[None].astype(np.float64))


def test_nan_on_one_worker_is_nan_on_all():
    assert math.isnan(shared_auc([0, 1, 1], [1.0, 2.0, np.nan], owner=[0, 1, 2]))
    assert math.isnan(shared_auc([0, 1, 1], [1.0, 2.0, np.nan], [1.0, 1.0, 1.0], owner=[1, 1, 1]))


def test_light_classes_and_tiny_weights_count():
    # On one scale for both classes the positives would round to nothing.
    y, score, weight = [1, 1, 0, 0], [1.0, 4.0, 2.0, 3.0], [3e-200, 1e-200, 1e200, 1e200]
    assert shared_auc(y, score, weight, owner=[0, 1, 2, 0]) == 0.25
    assert AUC(np.array(y), np.array([score]), np.array(weight)) == 0.25
    assert shared_auc(y, score, [5e-324] * 4, owner=[0, 1, 2, 0]) == 0.5


@pytest.mark.parametrize("scores_each", [1, 3000], ids=["many ties", "few ties"])
def test_a_worker_sends_its_scores_only_and_ranges_are_even(scores_each):
    rng = np.random.default_rng(0)
    n, n_workers = 6000, 4
    y = rng.integers(0, 2, n).astype(float)
    score = rng.integers(0, 20 * scores_each, n) / 7

    def work(comm):
        rows = slice(comm.rank * n // n_workers, (comm.rank + 1) * n // n_workers)
        value = AUC(y[rows], score[None, rows], None, None, comm)
        return value, comm.traffic["metrics"].bytes, comm.traffic["metrics"].calls

    results = run(work, n_workers, timeout=20)
    own_bytes = 8 * n // n_workers  # of its rows, three quarters go to the others
    for value, n_bytes, calls in results:
        assert value == AUC(y, score[None])
        assert calls == 3
        sample = (n_workers - 1) * 8 * (64 + 1 + 6 + 4 + 3)
        assert n_bytes < sample + (own_bytes / 2 if scores_each == 1 else own_bytes * 0.85)


def test_whoever_has_all_rows_keeps_them():
    rng = np.random.default_rng(0)
    y, score = rng.integers(0, 2, 500).astype(float), rng.normal(size=500)

    def work(comm):
        rows = slice(None if comm.rank == 1 else 0)
        value = AUC(y[rows], score[None, rows], None, None, comm)
        return value, comm.traffic["metrics"].bytes

    for value, n_bytes in run(work, 3, timeout=20):
        assert value == AUC(y, score[None])
        assert n_bytes < 2 * 8 * (64 + 10 + 4)


def test_one_worker_exchanges_nothing():
    solo = Solo()
    rows = np.array([0.0, 1.0]), np.array([[0.0, 1.0]])
    assert AUC(*rows, comm=solo) == 1.0
    assert evaluate_together([(get_metric("l2", "regression"), (*rows, None, None))], solo) == [[("l2", 0.0, False)]]
    assert CustomMetric(lambda y, p: ("one", 1.0, True), "regression").evaluate(*rows, comm=solo)
    assert solo.traffic.total().calls == 0


# -- Counting pairs -----------------------------------------------------------------------------------------


@examples(80)
@given(*[st.integers(0, 2**64 - 1)] * 4)
def test_products_of_128_bits(high, low, a, b):
    got_high, got_low = add_product(*map(np.uint64, (high, low, a, b)))
    assert (int(got_high) << 64) + int(got_low) == ((high << 64) + low + a * b) % 2**128


@examples(25)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 2**58)), max_size=8))
def test_pairs_of_heavy_rows_are_counted_exactly(rows):
    pairs = sum(
        Fraction(p * n) * (2 if a > b else a == b)
        for a, is_positive, p in rows
        for b, is_other_positive, n in rows
        if is_positive and not is_other_positive
    )
    sides = [sorted((score, weight) for score, is_positive, weight in rows if is_positive == side) for side in (1, 0)]
    arrays = []
    for side in sides:
        arrays += [np.array([s for s, _ in side], np.float64), np.array([w for _, w in side], np.int64)]
    high, low = ordered_pair_weight(*arrays)
    assert (int(high) << 64) + int(low) == pairs


# -- Custom metrics -----------------------------------------------------------------------------------------


def test_a_custom_metric_is_called_once_with_all_rows():
    rng = np.random.default_rng(3)
    group = np.array([3, 4, 2, 5])
    y, scores, weight = rng.integers(0, 3, 14).astype(float), rng.normal(size=(3, 14)), rng.random(14)
    seen = []

    def spy(y_true, y_pred, weight, group):
        seen.append((y_true, y_pred, weight, group))
        return [("näme", float(y_pred[0, 1]), True), ("nan", math.nan, False), ("inf", -math.inf, True)]

    metric = CustomMetric(spy, "multiclass")
    alone = metric.evaluate(y, scores, weight, group)
    owner = np.array([0, 0, 2, 2])  # worker 1 has nothing
    assert repr(shared(metric, y, scores, weight, group, owner=owner, n_workers=3)) == repr(alone)
    assert len(seen) == 2
    for of_one, of_three in zip(*seen, strict=True):
        np.testing.assert_array_equal(of_three, of_one)
    plain = CustomMetric(lambda y, p, weight: ("p", float(weight is None and p.shape == (14,)), True), "binary")
    assert shared(plain, y, scores[:1], owner=np.arange(14) % 3, n_workers=3) == [("p", 1.0, True)]


def test_rows_for_a_custom_metric_go_to_worker_0_alone():
    metric = CustomMetric(lambda y, p: ("n", float(len(y)), True), "regression")

    def work(comm):
        answer = metric.evaluate(np.zeros(100), np.zeros((1, 100)), None, None, comm)
        return answer, comm.traffic["metrics"].bytes

    answers, n_bytes = zip(*run(work, 3, timeout=20), strict=True)
    assert answers == ([("n", 300.0, True)],) * 3
    assert n_bytes[0] < 100  # the answer
    assert n_bytes[1:] == (1600, 1600)


def test_a_custom_metric_that_fails_fails_everywhere():
    y, scores = np.zeros(4), np.zeros((1, 4))

    def broken(y_true, y_pred):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as error:
        shared(CustomMetric(broken, "regression"), y, scores, owner=np.array([0, 1, 2, 2]), n_workers=3)
    assert error.value.rank == 0
    with pytest.raises(InvalidParameterError, match="is_higher_better"):
        shared(CustomMetric(lambda y, p: 1.0, "regression"), y, scores, owner=np.array([0, 1, 2, 2]), n_workers=3)
