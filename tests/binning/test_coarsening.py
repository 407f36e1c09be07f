"""Merged bins: about equal mass, only at ends of fine bins, heavy bins alone, categories and few bins untouched."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from pvtree.binning.binned_rows import BinnedRows
from pvtree.binning.coarsening import coarsen, count_rows, merge_bins
from pvtree.binning.thresholds import Thresholds
from pvtree.kernels.constants import BLOCK, N_BINS
from pvtree.kernels.team import Team
from pvtree.parameters.params import Params


def thresholds_of(*n_bins: int, categorical: tuple[int, ...] = ()) -> Thresholds:
    upper = np.full((len(n_bins), N_BINS), np.inf)
    for feature, n in enumerate(n_bins):
        upper[feature, : n - 1] = np.arange(1, n) * 10.0
    return Thresholds(upper, np.array(n_bins), np.isin(np.arange(len(n_bins)), categorical).astype(np.uint8))


def mass_of(*masses: np.ndarray) -> np.ndarray:
    table = np.zeros((len(masses), N_BINS), np.int64)
    for row, mass in zip(table, masses, strict=True):
        row[1 : 1 + len(mass)] = mass
    return table


@settings(max_examples=80)
@given(st.lists(st.integers(1, 10**6), min_size=3, max_size=255), st.integers(2, 40))
def test_merged_bins_are_runs_of_fine_ones(masses: list[int], n_coarse: int) -> None:
    n = len(masses)
    fine = thresholds_of(n)
    merged = np.arange(1 if n > n_coarse else 0)
    coarse, new_bin = merge_bins(fine, merged, mass_of(masses)[: len(merged)], n_coarse)
    if n <= n_coarse:
        assert_array_equal(coarse.upper, fine.upper)
        assert_array_equal(new_bin[0], np.arange(N_BINS))
        return
    bins = new_bin[0, : n + 1].astype(int)
    n_new = coarse.n_bins[0]
    assert 2 <= n_new <= n_coarse
    assert bins[0] == 0 and bins[1] == 1 and bins[n] == n_new and np.isin(np.diff(bins), (0, 1)).all()
    last = np.flatnonzero(np.diff(bins[1:])) + 1  # the last fine bin of every coarse one
    assert_array_equal(coarse.upper[0, : n_new - 1], fine.upper[0, last - 1])
    assert (coarse.upper[0, n_new - 1 :] == np.inf).all()


@pytest.mark.parametrize("n_coarse", [2, 5, 26, 100])
def test_mass_is_spread_evenly(n_coarse: int) -> None:
    rng = np.random.default_rng(0)
    mass = rng.integers(700, 800, 255)
    coarse, new_bin = merge_bins(thresholds_of(255), np.array([0]), mass_of(mass), n_coarse)
    assert coarse.n_bins[0] == n_coarse
    coarse_mass = np.bincount(new_bin[0, 1:256], mass)[1:]
    # No bin can be cut: each is off by at most half a fine bin at either end.
    assert np.abs(coarse_mass - mass.sum() / n_coarse).max() <= 800 * 1.25


def test_a_heavy_bin_stays_alone_and_the_others_share_the_rest() -> None:
    mass = np.full(255, 100)
    mass[99] = 100_000
    coarse, new_bin = merge_bins(thresholds_of(255), np.array([0]), mass_of(mass), 26)
    assert coarse.n_bins[0] == 26
    assert np.count_nonzero(new_bin[0, 1:256] == new_bin[0, 100]) == 1
    others = np.delete(np.bincount(new_bin[0, 1:256], minlength=27)[1:], new_bin[0, 100] - 1)
    assert others.max() <= 11 and np.sort(others)[1] >= 4


@pytest.mark.parametrize(("quantized_bins", "n_coarse"), [(0.1, 26), (0.001, 2), (0.5, 128), (1.0, 255)])
def test_rows_are_recoded_in_place(quantized_bins: float, n_coarse: int) -> None:
    rng = np.random.default_rng(1)
    n_rows = 5000
    fine = thresholds_of(255, 200, 5, 1, 255, categorical=(1,))
    matrix = np.column_stack([rng.integers(0, n + 1, n_rows) for n in fine.n_bins]).astype(np.uint8)
    bins = np.zeros((2, n_rows, BLOCK), np.uint8)
    bins[0, :, :4], bins[1, :, :1] = matrix[:, :4], matrix[:, 4:]
    data = BinnedRows(bins.reshape(2, -1), np.array([0, 4, 5]), fine.n_bins, fine.is_categorical)
    with Team(2) as team:
        rows = np.flatnonzero(rng.random(n_rows) < 0.5)
        for feature, counts in enumerate(count_rows(data, rows, team)):
            assert_array_equal(counts, np.bincount(matrix[rows, feature], minlength=N_BINS))
        params = Params(tree_learner="quantized", quantized_bins=quantized_bins)
        new, coarse = coarsen(data, fine, np.arange(n_rows), params, team, None)
    assert new.bins is data.bins
    few = min(5, n_coarse)
    assert_array_equal(new.n_bins, coarse.n_bins)
    assert_array_equal(coarse.n_bins, [n_coarse, 200, few, 1, n_coarse])
    for feature, (block, lane) in enumerate([(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]):
        column = bins[block, :, lane].astype(int)
        # A fine bin's upper end is its number times ten; the largest fine bin has no end.
        ends = np.append(coarse.upper[feature, : coarse.n_bins[feature] - 1], np.inf)
        middle = matrix[:, feature] * 10.0 - 5.0
        expected = np.where(matrix[:, feature] == 0, 0, 1 + np.searchsorted(ends, middle))
        assert_array_equal(column, matrix[:, feature] if feature == 1 else expected)
    assert not bins[0, :, 4:].any() and not bins[1, :, 1:].any()
