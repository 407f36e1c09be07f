"""The theorems' functions: known values, an oracle for the binomial, arguments that are refused in one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from pvtree import theory
from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.find_split import Votes

QUIET = settings(deadline=None, derandomize=True, database=None)


@QUIET
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


@QUIET
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
        (lambda: theory.deviation_terms(np.zeros(3), np.zeros((2, 2)), 5, 1), "as many attributes"),
        (lambda: theory.deviation_terms(np.zeros(2), np.zeros((2, 2)), 5, 1, alpha=-1.0), "must not be negative"),
        (lambda: theory.quantization_bias([1.0, 2.0], [0, 1], 1), "n_bins must be"),
        (lambda: theory.quantization_bias([1.0, 2.0], [0, 1], 2, max_bin=300), "max_bin must be"),
        (lambda: theory.quantization_bias([1.0, np.nan], [0, 1], 2), "must be finite"),
        (lambda: theory.quantization_bias([1.0, 2.0], [0], 2), "a label for each"),
        (lambda: theory.best_splits(np.zeros((2, 1)), [0, 1], "gini"), "criterion must be"),
        (lambda: theory.simulate_alpha(np.zeros((2, 1)), [0, 1], 0, 1), "n_rows and n_draws"),
        (lambda: theory.estimate_p([], 4), "no split that workers voted about"),
        (lambda: theory.estimate_p(Votes(2, 0, 0, 8), 3), "those of more workers"),
        (lambda: theory.estimate_p(Votes(2, 0, 0, 8), 4, confidence=1.0), "confidence must lie"),
    ],
)
def test_wrong_arguments_get_a_sentence(call, words) -> None:
    with pytest.raises((InvalidParameterError, InvalidDataError), match=words) as error:
        call()
    assert str(error.value).endswith(".")
