"""Theorems 4.1 and 4.2 against elections that are held many times: the bounds hold, and what they promise happens."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import pvtree
from pvtree.theory import (
    best_machine_number,
    best_splits,
    bound_by_attributes,
    bound_by_machines,
    estimate_p,
    gain_gaps,
    least_votes,
    local_success,
    quantization_bias,
    quantization_certainty,
    selection_probability,
    simulate_alpha,
    simulate_quantization_alpha,
)
from pvtree.training.skew import SkewWarning

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import theory as elections

TRIALS = 80


@pytest.fixture(scope="module")
def population() -> elections.Population:
    return elections.make_population()


def test_gains_are_those_of_an_independent_count(population) -> None:
    found = best_splits(population.X, population.y, max_bin=elections.N_BINS)
    np.testing.assert_allclose(found.gain, population.gains.max(axis=1), atol=1e-12)
    assert population.best == 0


@pytest.mark.parametrize(
    ("n_workers", "n_rows", "top_k", "election_size"),
    [(2, 50, 2, 2.0), (5, 60, 1, 2.0), (8, 40, 1, 2.0), (8, 300, 1, 2.0), (9, 60, 2, 1.5), (9, 25, 3, 3.0)],
)
def test_elections_contain_the_best_at_least_as_often_as_the_binomial_says(
    population, n_workers, n_rows, top_k, election_size
) -> None:
    held = elections.hold_elections(population, n_workers, n_rows, top_k, election_size, TRIALS)
    assert 0.1 < held.p < 0.99
    for k in (None, top_k):  # the paper's number of votes, and the smaller one that is enough
        bound = selection_probability(held.p, n_workers, election_size, k)
        assert bound <= held.frequency + 3.0 * held.error
        enough = held.is_named.sum(axis=1) >= least_votes(n_workers, election_size, k)
        assert held.is_elected[enough].all()  # certainly, not probably


def test_the_frequency_rises_to_one_with_rows_and_drops_with_few(population) -> None:
    by_rows = [elections.hold_elections(population, 4, n_rows, 1, 2.0, TRIALS) for n_rows in (6, 25, 100, 400, 1200)]
    frequency = [held.frequency for held in by_rows]
    assert frequency == sorted(frequency)
    assert frequency[0] < 0.2 and frequency[1] < 0.55 and frequency[2] > 0.75
    assert frequency[-1] == 1.0
    assert [held.p for held in by_rows] == sorted(held.p for held in by_rows)
    more_votes = elections.hold_elections(population, 4, 25, 6, 2.0, TRIALS)
    assert more_votes.frequency > 0.95  # the same rows, more names on a ballot


def test_the_whole_bound_holds_and_comes_to_one(population) -> None:
    """The deviation terms with the vanishing one simulated. They ask for far more rows than an election needs."""
    X, y = population.X, population.y
    found = best_splits(X, y, max_bin=elections.N_BINS)
    bounds = []
    for n_rows in (100, 2400, 6000):
        alpha = simulate_alpha(X, y, n_rows, 8, max_bin=elections.N_BINS, n_draws=60)
        success = local_success(found.gain, found.impurities, n_rows, 8, alpha)
        held = elections.hold_elections(population, 8, n_rows, 8, 2.0, 25)
        assert success <= held.p + 1.0 / held.is_named.size
        assert selection_probability(success, 8) <= held.frequency + 1.0 / 25
        bounds.append(success)
    assert bounds[0] == 0.0 < bounds[1] < bounds[2]
    assert bounds[2] > 0.95


def test_without_the_vanishing_term_few_rows_are_promised_too_much() -> None:
    """Why alpha is no detail: of a rare class many machines see nothing, and then all attributes look alike."""
    n_rows, rare, n_noise = 150, 0.005, 30
    entropy = -rare * np.log2(rare) - (1 - rare) * np.log2(1 - rare)
    gains = np.array([entropy] + [0.0] * n_noise)  # one attribute tells the class, the others nothing
    impurities = np.array([[0.0, 0.0]] + [[entropy, entropy]] * n_noise)
    sees_none = (1.0 - rare) ** n_rows  # a ballot with one name then has the right one by chance
    true_p = 1.0 - sees_none * n_noise / (n_noise + 1)
    assert true_p < 0.6
    assert local_success(gains, impurities, n_rows, 1) > 0.95
    y = (np.arange(20_000) < rare * 20_000).astype(int)
    X = np.column_stack((y, np.random.default_rng(0).standard_normal((20_000, n_noise))))
    alpha = simulate_alpha(X, y, n_rows, 1, n_draws=100)
    assert local_success(gains, impurities, n_rows, 1, alpha) < true_p


def test_j_shrinks_like_the_square_root_and_only_the_contrast_faster() -> None:
    """Where docs/theory.md says that the proof's rate, n^(-2/3), is not that of J. The attribute is smooth."""
    sizes = (400, 1_600, 6_400)
    drawn = [elections.draw_smooth(n_rows, 300) for n_rows in sizes]
    spread, contrast = ([np.log(value) for value in values] for values in zip(*(
        (rest.std(), contrast.mean()) for rest, contrast in drawn
    ), strict=True))  # fmt: skip
    assert np.polyfit(np.log(sizes), spread, 1)[0] == pytest.approx(-1 / 2, abs=0.07)
    assert np.polyfit(np.log(sizes), contrast, 1)[0] == pytest.approx(-2 / 3, abs=0.07)


def test_alpha_is_how_often_j_of_a_smooth_attribute_is_too_large() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((60_000, 2))
    y = (rng.random(60_000) < elections.LOW + elections.RISE * X[:, 0]).astype(int)
    gap = gain_gaps(best_splits(X, y).gain, 1)[0] / 3.0
    for n_rows in (400, 1_600):
        share = (np.abs(elections.draw_smooth(n_rows, 400)[0]) > gap).mean()
        assert simulate_alpha(X, y, n_rows, 1)[0] == pytest.approx(share, abs=0.08)
        assert 0.05 < share < 0.95


def test_many_attributes_cost_the_bound_rows_and_elections_nothing(population) -> None:
    """Discussion 2: the bound falls as attributes are added, and a third more rows make up for ten times as many."""
    found = best_splits(population.X, population.y, max_bin=elections.N_BINS)
    by_rows = [bound_by_attributes(*found[:1], found.impurities, [40, 400, 4_000], n, 8, 8) for n in (2_400, 3_200)]
    assert all(bounds[0] > bounds[1] > bounds[2] for bounds in by_rows)
    assert by_rows[0][1] < 0.5 < by_rows[1][1]
    few, many = (elections.hold_elections(population, 8, 100, 1, 2.0, 20, n_added=n) for n in (0, 360))
    assert many.frequency > 0.8 and many.p == pytest.approx(few.p, abs=0.08)


def test_a_number_of_machines_in_between_elects_the_best_most_often(population) -> None:
    """Discussion 3, with 200 rows for all: in elections that are held, and in the bound that counts votes exactly."""
    machines = (1, 2, 16)
    held = {m: elections.hold_elections(population, m, 200 // m, 1, 2.0, TRIALS) for m in machines}
    frequency = [each.frequency for each in held.values()]
    p_of = {200 // m: each.p for m, each in held.items()}
    assert frequency[1] > max(frequency[0], frequency[2]) and p_of[200] > p_of[100] > p_of[12]
    assert best_machine_number(p_of.__getitem__, 200, machines, top_k=1) == 2
    for m, bound in zip(machines, bound_by_machines(p_of.__getitem__, 200, machines, top_k=1), strict=True):
        assert bound <= held[m].frequency + 3.0 * held[m].error


def test_coarse_gains_are_off_as_surely_as_theorem_4_2_says(population) -> None:
    x, y = population.X[:, 0], population.y
    bias = quantization_bias(x, y, elections.N_COARSE, max_bin=elections.N_BINS)
    coarse = best_splits(x[:, None], y, max_bin=elections.N_BINS, n_bins=elections.N_COARSE)
    rng, full = np.random.default_rng(1), population.gains[0].max()
    bounds = []
    for n_rows in (200, 2_000, 20_000):
        alpha = simulate_quantization_alpha(
            x, y, elections.N_COARSE, n_rows, 0.01, max_bin=elections.N_BINS, n_draws=100
        )
        bounds.append(quantization_certainty(bias, coarse.impurities[0], n_rows, 0.01, alpha))
        draws = rng.integers(0, len(y), (60, n_rows))
        counts = elections.histograms(population.codes[draws, :1], y[draws])
        gains = elections.gains_of(counts)[:, 0, 9::10].max(axis=1)  # boundaries of the coarse bins
        assert bounds[-1] <= (np.abs(gains - full) > 0.01).mean() + 0.02
    assert bounds[0] == 0.0 and bounds[-1] > 0.9


def test_the_quantized_loss_stays_and_voting_s_goes(population) -> None:
    bias = quantization_bias(population.X[:, 0], population.y, elections.N_COARSE, max_bin=elections.N_BINS)
    assert bias > 0.03
    few, many = (elections.hold_elections(population, 4, n_rows, 1, 2.0, 40) for n_rows in (25, 6400))
    assert few.voting_loss.mean() > 0.03
    assert many.voting_loss.mean() < 1e-3
    assert many.quantized_loss.mean() == pytest.approx(bias, rel=0.02)  # f_j(b): more rows do not help


def test_p_of_a_training_is_that_of_its_ballots_and_of_the_simulation(population) -> None:
    """Roots of many small trees. With exact voting, the winner is the best attribute of all rows."""
    n_workers, n_rows, top_k = 6, 80, 2
    rng = np.random.default_rng(1)
    votes, n_named, fits = [], 0, 30
    for _ in range(fits):
        rows = rng.permutation(len(population.y))[: n_workers * n_rows]
        codes, y = population.codes[rows] // 2, population.y[rows]  # 50 bins: ballots try all boundaries
        tree = pvtree.DecisionTreeClassifier(
            tree_learner="exact_voting", n_workers=n_workers, top_k=top_k, num_leaves=2, min_child_samples=1,
            min_child_weight=0,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkewWarning)
            tree.fit(codes.astype(float), y)
        votes += tree.votes_
        counts = elections.histograms(codes.reshape(n_workers, n_rows, -1), y.reshape(n_workers, n_rows))
        ballots = np.argsort(-elections.gains_of(counts).max(axis=2), axis=1, kind="stable")[:, :top_k]
        n_named += int((ballots == tree.model_.trees[0].feature[0]).sum())
    estimate = estimate_p(votes, n_workers)
    assert estimate.value == pytest.approx(n_named / (fits * n_workers), abs=0.02)  # ties of equal gains apart
    held = elections.hold_elections(population, n_workers, n_rows, top_k, 2.0, 400)
    assert estimate.low - 0.02 < held.p < estimate.high + 0.02
