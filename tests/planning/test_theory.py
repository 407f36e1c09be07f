"""The theorems' functions: known values, an oracle for the binomial, arguments that are refused in one sentence."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from pvtree import theory
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, PvtreeError
from pvtree.find_split import Votes


@given(st.floats(0, 1), st.integers(1, 200), st.sampled_from([1.0, 1.2, 1.5, 2.0, 3.0, 10.0]))
def test_selection_is_the_tail_of_a_binomial(p, n_workers, election_size) -> None:
    least = n_workers * 10 // round(10 * election_size) + 1  # in whole numbers
    expected = binom.sf(least - 1, n_workers, p)
    assert theory.selection_probability(p, n_workers, election_size) == pytest.approx(expected, abs=1e-12)
    sharper = theory.selection_probability(p, n_workers, election_size, top_k=4)
    assert sharper >= theory.selection_probability(p, n_workers, election_size) - 1e-12


def test_selection_of_arrays_and_of_the_paper_s_machines() -> None:
    p = np.array([0.0, 0.4, 0.6, 1.0])
    found = theory.selection_probability(p, 101)
    assert found.shape == (4,)
    assert found[0] == 0.0 and found[1] < 0.05 and found[2] > 0.95 and found[3] == 1.0
    assert theory.least_votes(8) == 5 and theory.least_votes(8, top_k=15) == 4 and theory.least_votes(32, 3.0) == 11
    assert theory.selection_probability(1.0, 5, 1.0) == 0.0  # beta must exceed 1: nothing is certain
    assert theory.selection_probability(1.0, 5, 1.0, top_k=2) == 1.0


@given(st.integers(1, 9), st.integers(1, 4), st.sampled_from([1.0, 1.5, 2.0, 3.0]), st.integers(0, 10**6))
def test_so_many_votes_are_enough_and_one_less_is_not_always(n_workers, top_k, election_size, seed) -> None:
    rng = np.random.default_rng(seed)
    n_elected = max(1, int(election_size * top_k))
    ballots = np.array([rng.permutation(n_elected + 2)[:top_k] for _ in range(n_workers)])
    votes = np.bincount(ballots.ravel(), minlength=n_elected + 2)
    least = theory.least_votes(n_workers, election_size, top_k)
    for attribute in np.flatnonzero(votes >= least):  # whoever wins ties, at most so many others are as good
        assert (votes >= votes[attribute]).sum() <= n_elected


def test_gaps_by_hand() -> None:
    gains = np.array([0.1, 0.5, 0.3, 0.0])
    assert theory.gain_gaps(gains, 2).tolist() == pytest.approx([0.2, 0.2, np.inf, 0.25])
    assert theory.gain_gaps(gains, 2, with_best=False).tolist() == pytest.approx([0.2, np.inf, np.inf, 0.25])
    assert np.isinf(theory.gain_gaps(gains, 4)).all()


def test_deviation_terms_by_hand() -> None:
    gains, impurities = np.array([0.5, 0.1]), np.array([[0.5, 0.25], [0.0, 1.0]])
    assert theory.deviation_constants(impurities).tolist() == pytest.approx([8 / 9, 2 / 9])
    terms = theory.deviation_terms(gains, impurities, 300, 1, alpha=0.01)
    assert terms.tolist() == pytest.approx([0.01 + 4 * np.exp(-300 * 0.04 * c) for c in (8 / 9, 2 / 9)])
    as_printed = theory.deviation_terms(gains, impurities, 300, 1, with_best=False)
    assert as_printed.tolist() == pytest.approx([0.0, 4 * np.exp(-300 * 0.04 * 2 / 9)])
    assert theory.local_success(gains, impurities, 300, 1) == pytest.approx(
        1 - 4 * np.exp(-8 / 3) - 4 * np.exp(-32 / 3)
    )
    assert theory.local_success(gains, impurities, 3, 1) == 0.0
    success = theory.local_success(gains, impurities, 1000, 1)
    assert theory.election_bound(gains, impurities, 1000, 1, 8) == pytest.approx(binom.sf(4, 8, success))
    assert theory.local_success(gains, impurities, 1, 2) == 1.0  # everything is on the ballot
    equal = theory.deviation_terms(np.array([0.5, 0.5]), np.zeros((2, 2)), 10**6, 1)
    assert equal.tolist() == [4.0, 4.0]  # no gap, no promise, even where sides are pure


@pytest.mark.parametrize("criterion", ["entropy", "variance"])
def test_best_splits_are_scikit_learn_s(criterion) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, (300, 3)).astype(float)
    y = (X[:, 0] + 10 * rng.standard_normal(300) > 20).astype(int) + (criterion == "entropy") * (X[:, 1] > 30)
    found = theory.best_splits(X, y, criterion)
    kinds = {"entropy": DecisionTreeClassifier, "variance": DecisionTreeRegressor}
    for attribute in range(3):
        words = {"criterion": "entropy"} if criterion == "entropy" else {}
        tree = kinds[criterion](max_depth=1, **words).fit(X[:, [attribute]], y).tree_
        shares = tree.n_node_samples[1:] / 300
        assert found.gain[attribute] == pytest.approx(tree.impurity[0] - shares @ tree.impurity[1:])
        assert found.impurities[attribute].tolist() == pytest.approx(tree.impurity[1:].tolist())


def test_quantization_bias_on_known_data() -> None:
    x = np.arange(1000) / 1000
    inside, at_edge = (x >= 0.55).astype(int), (x >= 0.5).astype(int)
    assert theory.quantization_bias(x, at_edge, 10, max_bin=100) == pytest.approx(0.0, abs=1e-12)
    entropy = lambda p: -p * np.log2(p) - (1 - p) * np.log2(1 - p)  # noqa: E731
    # The best of ten bins ends at 0.5 or at 0.6; a tenth of the larger side is then on the wrong one.
    expected = min(0.5 * entropy(0.1), 0.6 * entropy(0.05 / 0.6))
    assert theory.quantization_bias(x, inside, 10, max_bin=100) == pytest.approx(expected, rel=1e-9)
    both = theory.quantization_bias(np.column_stack((x, 1 - x, np.zeros(1000))), inside, 10, max_bin=100)
    assert both.shape == (3,) and both[2] == 0.0
    squares = theory.quantization_bias(x, inside.astype(float), 10, "variance", max_bin=100)
    assert squares == pytest.approx(min(0.5 * 0.1 * 0.9, 0.6 * (0.05 / 0.6) * (1 - 0.05 / 0.6)))
    assert theory.quantization_bias(x, inside, 100, max_bin=100) == 0.0


def test_p_from_ballots() -> None:
    trees = [Votes(3, 1, 0, 3 * 4 + 2), Votes(0, 1, 2, 3 + 2)]
    one, both = theory.estimate_p(trees[0], 4), theory.estimate_p(trees, 4)
    assert one.value == 14 / 16 and both.value == 19 / 28
    # Wilson's interval from its definition: both ends are z standard errors away from what was seen.
    for end in (both.low, both.high):
        assert abs(both.value - end) == pytest.approx(1.959964 * np.sqrt(end * (1 - end) / 28), rel=1e-5)
    sure = theory.estimate_p(Votes(5, 0, 0, 20), 4)
    assert sure.value == sure.high == 1.0 and 0.8 < sure.low < 0.9
    chosen = theory.estimate_selection(trees, 4, top_k=3)
    assert chosen.low < chosen.value < chosen.high
    assert chosen.value == pytest.approx(binom.sf(1, 4, 19 / 28))


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 10**6), st.booleans())
def test_the_bound_by_attributes_is_that_of_the_attributes_themselves(d, top_k, seed, with_best) -> None:
    rng = np.random.default_rng(seed)
    gains, impurities, alpha = rng.random(d), rng.uniform(0.2, 1.0, (d, 2)), rng.uniform(0, 0.02, d)
    order = np.argsort(-gains)
    wanted = sorted({1, max(1, d // 2), d, d + 3, d + top_k + 1})
    found = theory.bound_by_attributes(gains, impurities, wanted, 2_000, top_k, 7, 2.0, alpha, with_best)
    for n, bound in zip(wanted, found, strict=True):
        kept = order[np.minimum(np.arange(n), d - 1)]  # the best, or all and copies of the last
        terms = gains[kept], impurities[kept], 2_000, top_k
        assert bound == pytest.approx(theory.election_bound(*terms, 7, 2.0, alpha[kept], with_best), abs=1e-12)
    assert (np.diff(found) <= 1e-12).all()


def test_a_hundred_times_the_attributes_need_a_few_more_rows_only() -> None:
    """Discussion 2 by hand: one attribute of gain 0.3, others of 0, all sides of impurity 0.9."""
    gains, impurities = np.array([0.3] + [0.0] * 99), np.full((100, 2), 0.9)
    hundred, many = (theory.bound_by_attributes(gains, impurities, d, 2_000, 1, 8) for d in (100, 10_000))
    per_row = 2 / (9 * 0.81) * 0.15**2
    for bound, d in ((hundred, 100), (many, 10_000)):
        assert bound == pytest.approx(binom.sf(4, 8, 1 - d * 4 * np.exp(-2_000 * per_row)), abs=1e-9)
    more_rows = 2_000 + int(np.ceil(np.log(100) / per_row))  # the logarithm of the attributes
    assert theory.bound_by_attributes(gains, impurities, 10_000, more_rows, 1, 8) >= hundred - 1e-12


def test_the_best_number_of_machines_is_that_of_the_largest_probability() -> None:
    """Discussion 3: with p that falls slowly as rows are shared out, some machines are better than one or many."""
    p_of = {800: 0.93, 400: 0.86, 200: 0.74, 100: 0.5, 25: 0.2}
    machines = [1, 2, 4, 8, 32]
    found = theory.bound_by_machines(p_of.__getitem__, 800, machines, top_k=1)
    assert found[0] == pytest.approx(0.93)
    assert found[1] == pytest.approx(1 - 0.14**2)  # either vote elects: two attributes of two ballots
    assert found[2] == pytest.approx(binom.sf(1, 4, 0.74))
    assert theory.best_machine_number(p_of.__getitem__, 800, machines, top_k=1) == 2
    as_printed = theory.bound_by_machines(p_of.__getitem__, 800, machines)
    assert as_printed.tolist() == pytest.approx([binom.sf(m // 2, m, p_of[800 // m]) for m in machines])
    assert theory.best_machine_number(lambda n: 1.0, 7, np.array([5, 2])) == 5  # equals: the first


@given(st.integers(2, 33), st.integers(1, 4), st.integers(0, 10**6))
def test_without_alpha_the_printed_bound_is_never_better_with_more_machines(n_workers, top_k, seed) -> None:
    """docs/theory.md proves it; discussion 3 sees a best number in between."""
    rng = np.random.default_rng(seed)
    gains, impurities = rng.random(9), rng.uniform(0.1, 1.0, (9, 2))
    alone, together = theory.bound_by_machines(
        lambda n: theory.local_success(gains, impurities, n, top_k), int(rng.integers(33, 10**5)), [1, n_workers]
    )
    assert together <= alone + 1e-12


def test_quantization_certainty_by_hand() -> None:
    impurities = np.array([[0.5, 0.25], [0.9, 0.8]])
    found = theory.quantization_certainty(np.array([0.05, 0.2]), impurities, 5_000, epsilon=0.02, alpha=0.01)
    gaps, constants = (0.03, 0.18), (8 / 9, 2 / (9 * 0.81))
    expected = [0.99 - 4 * np.exp(-5_000 * c * gap**2) for gap, c in zip(gaps, constants, strict=True)]
    assert found.tolist() == pytest.approx(expected)
    assert theory.quantization_certainty(0.05, impurities[0], 5_000, 0.02, 0.01) == pytest.approx(expected[0])
    assert theory.quantization_certainty(0.05, impurities[:1], 5_000, 0.05) == 0.0  # nothing is left
    assert theory.quantization_certainty(0.05, impurities[:1], 1) == 0.0


def test_quantized_splits_and_their_alpha() -> None:
    rng = np.random.default_rng(0)
    x = np.arange(2_000) / 2_000
    y = ((x >= 0.55) ^ (rng.random(2_000) < 0.1)).astype(int)
    coarse = theory.best_splits(x[:, None], y, max_bin=100, n_bins=10)
    full = theory.best_splits(x[:, None], y, max_bin=100)
    assert theory.quantization_bias(x, y, 10, max_bin=100) == full.gain[0] - coarse.gain[0] > 0.02
    words = {"max_bin": 100, "n_draws": 40}
    alphas = [theory.simulate_quantization_alpha(x, y, 10, n, **words) for n in (50, 400, 20_000)]
    assert alphas[0] > alphas[1] > alphas[2] == 0.0
    both = theory.simulate_quantization_alpha(np.stack((x, x), axis=1), y, 10, 50, **words)
    assert both.tolist() == [alphas[0]] * 2
    assert theory.simulate_quantization_alpha(x, y, 10, 400, 0.02, **words) > alphas[1]  # less is left


def test_lists_are_taken_as_arrays_are() -> None:
    assert theory.selection_probability([0.3, 0.7], 8).tolist() == [
        theory.selection_probability(p, 8) for p in (0.3, 0.7)
    ]
    assert isinstance(theory.selection_probability(np.array(0.3), 8), float)
    gains, impurities = [0.5, 0.1], [[0.5, 0.25], [0.0, 1.0]]
    terms = theory.deviation_terms(gains, impurities, np.int64(300), 1, alpha=[0.01, 0.02])
    assert terms.tolist() == pytest.approx([0.01 + 4 * np.exp(-300 * 0.04 * 8 / 9), 0.02 + 4 * np.exp(-8 / 3)])
    assert theory.best_splits([[1.0], [2.0]], ["a", "b"]).gain.tolist() == [1.0]


TWO = np.zeros(2), np.zeros((2, 2))
BALLOTS = Votes(2, 0, 0, 8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.selection_probability(1.5, 4), "p must lie between 0 and 1"),
        (lambda: theory.selection_probability(np.array([0.5, np.nan]), 4), "p must lie between 0 and 1"),
        (lambda: theory.selection_probability(0.5, 0), "n_workers must be"),
        (lambda: theory.selection_probability(0.5, 4, 0.9), "election_size must be"),
        (lambda: theory.least_votes(4, top_k=0), "top_k must be"),
        (lambda: theory.gain_gaps(np.array([0.1, np.nan]), 1), "gains must be"),
        (lambda: theory.gain_gaps(np.array([0.1]), 0), "top_k must be"),
        (lambda: theory.deviation_constants(np.array([[0.1, -0.1]])), "impurities must be"),
        (lambda: theory.selection_probability("half", 4), "p must be numbers"),
        (lambda: theory.selection_probability([0.5, [0.5]], 4), "p must be numbers"),
        (lambda: theory.selection_probability(0.5, 4.5), "n_workers must be"),
        (lambda: theory.selection_probability(0.5, "4"), "n_workers must be"),
        (lambda: theory.selection_probability(0.5, 4, "2"), "election_size must be"),
        (lambda: theory.least_votes(4, top_k=1.5), "top_k must be"),
        (lambda: theory.gain_gaps(np.array([0.1, 0.2]), 1.5), "top_k must be"),
        (lambda: theory.gain_gaps("gains", 1), "gains must be"),
        (lambda: theory.gain_gaps(None, 1), "gains must be"),
        (lambda: theory.deviation_terms(np.zeros(3), np.zeros((2, 2)), 5, 1), "for each of 3 attributes, have 2"),
        (lambda: theory.deviation_terms(*TWO, 5, 1, alpha=-1.0), "alpha must be .* not negative"),
        (lambda: theory.deviation_terms(*TWO, 5, 1, alpha=[0.1] * 3), "alpha must be .* each of 2 attributes"),
        (lambda: theory.deviation_terms(*TWO, 5, 1, alpha=np.nan), "alpha must be"),
        (lambda: theory.deviation_terms(*TWO, 5, 1, alpha="no"), "alpha must be numbers"),
        (lambda: theory.deviation_terms(*TWO, 0, 1), "n_rows must be an integer of at least 1"),
        (lambda: theory.local_success(*TWO, 2.5, 1), "n_rows must be"),
        (lambda: theory.election_bound(*TWO, 5, 1.5, 8), "top_k must be"),
        (lambda: theory.bound_by_attributes(*TWO, 0, 5, 1, 8), "n_attributes must be an integer of at least 1"),
        (lambda: theory.bound_by_attributes(*TWO, [2.5], 5, 1, 8), "n_attributes must be"),
        (lambda: theory.bound_by_attributes(*TWO, 2, 0, 1, 8), "n_rows must be"),
        (lambda: theory.bound_by_machines(lambda n: 0.5, 10, [20]), "machines must be an integer from 1 to 10"),
        (lambda: theory.bound_by_machines(lambda n: 0.5, 10, ["a"]), "machines must be"),
        (lambda: theory.bound_by_machines(lambda n: 5.0, 10, [2]), "p must lie between 0 and 1"),
        (lambda: theory.best_machine_number(lambda n: 0.5, 10, []), "machines must hold"),
        (lambda: theory.quantization_certainty(0.1, TWO[1][:1], 5, epsilon=0.2), "epsilon must be"),
        (lambda: theory.quantization_certainty([0.1, 0.3], TWO[1], 5, epsilon=-0.1), "epsilon must be"),
        (lambda: theory.quantization_certainty([0.1, 0.3], TWO[1], 5, epsilon=[0.0, 0.0]), "epsilon must be"),
        (lambda: theory.quantization_certainty(0.1, TWO[1], 5), "for each of 1 attributes, have 2"),
        (lambda: theory.quantization_certainty(0.1, TWO[1][:1], 0), "n_rows must be"),
        (lambda: theory.quantization_bias([1.0, 2.0], [0, 1], 2.5), "n_bins must be"),
        (lambda: theory.quantization_bias(["a", "b"], [0, 1], 2), "x must be numbers"),
        (lambda: theory.best_splits(np.zeros((2, 1)), [0.0, np.nan]), "must be finite"),
        (lambda: theory.best_splits(np.zeros((2, 1)), [None, 1]), "y must be labels of one kind"),
        (lambda: theory.best_splits(np.zeros((2, 1)), ["a", "b"], "variance"), "y must be numbers"),
        (lambda: theory.best_splits(np.zeros((2, 1)), [0, 1], n_bins=1), "n_bins must be"),
        (lambda: theory.quantization_bias([1.0, 2.0], [0, 1], 1), "n_bins must be"),
        (lambda: theory.quantization_bias([1.0, 2.0], [0, 1], 2, max_bin=300), "max_bin must be"),
        (lambda: theory.quantization_bias([1.0, np.nan], [0, 1], 2), "must be finite"),
        (lambda: theory.quantization_bias([1.0, 2.0], [0], 2), "a label for each"),
        (lambda: theory.best_splits(np.zeros((2, 1)), [0, 1], "gini"), "criterion must be"),
        (lambda: theory.simulate_alpha(np.zeros((2, 1)), [0, 1], 0, 1), "n_rows must be"),
        (lambda: theory.simulate_alpha(np.zeros((2, 1)), [0, 1], 5, 1, n_draws=0), "n_draws must be"),
        (lambda: theory.simulate_alpha(np.zeros((2, 1)), [0, 1], 5, 1, random_state="a"), "random_state must be"),
        (lambda: theory.estimate_p([], 4), "no split that workers voted about"),
        (lambda: theory.estimate_p(5, 4), "votes must be an estimator's votes_"),
        (lambda: theory.estimate_p([5], 4), "votes must be an estimator's votes_"),
        (lambda: theory.estimate_p(BALLOTS, 0), "n_workers must be"),
        (lambda: theory.estimate_p(BALLOTS, 3), "of more workers"),
        (lambda: theory.estimate_p(BALLOTS, 4, confidence=1.0), "confidence must be"),
        (lambda: theory.estimate_p(BALLOTS, 4, confidence="95 %"), "confidence must be"),
    ],
)
def test_wrong_arguments_get_a_sentence(call, words) -> None:
    with warnings.catch_warnings(), pytest.raises(PvtreeError, match=words) as error:
        warnings.simplefilter("error")
        call()
    assert isinstance(error.value, InvalidParameterError | InvalidDataError | InvalidTypeError)
    assert str(error.value).endswith(".") and "\n" not in str(error.value)
