"""The best split of one feature, for every layout, on random histograms: packed, of several planes, and wide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from growing_rows import assert_same, brute_force, grow, make_rules
from packed_rows import FULL, LAYOUTS, random_values
from pvtree.kernels.growing.collect import gradient_in, hessian_in

PENALTIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "penalties": {"reg_lambda": 7.5, "reg_alpha": 20.0, "cat_smooth": 10.0, "cat_l2": 10.0},
    "minima": {"min_count": 6, "min_hess": 4.0, "min_gain": 0.05, "gain_scale": 0.25},
    "scales": {"grad_scale": 0.013, "hess_scale": 0.7},
}


def random_bins(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """One feature: few or many bins, with or without missing values, sometimes nothing but one bin."""
    bins = rng.integers(1, rng.choice([2, 3, 10, 256]), n_rows)
    bins[rng.random(n_rows) < rng.choice([0.0, 0.0, 0.2, 0.9])] = 0
    return bins[:, None]


@pytest.mark.parametrize("penalties", PENALTIES)
@pytest.mark.parametrize("is_categorical", [False, True])
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_best_split_of_a_feature_equals_the_brute_force(name: str, is_categorical: bool, penalties: str) -> None:
    rng = np.random.default_rng(3)
    categorical = (0,) if is_categorical else ()
    rules = make_rules(name, max_leaves=2, **PENALTIES[penalties])
    n_split = 0
    for _ in range(16):
        n_rows = int(rng.integers(1, 80))
        bins, values = random_bins(n_rows, rng), random_values(name, n_rows, rng)
        nodes = brute_force(name, bins, values, rules, categorical)
        assert_same(name, grow(name, bins, values, rules, categorical), nodes, categorical)
        n_split += len(nodes) > 1
    assert n_split > 0 or name.startswith("1 class")


@pytest.mark.parametrize("penalties", PENALTIES)
@pytest.mark.parametrize("name", ["gradient constant", "gradient real", "2 classes constant"])
def test_the_best_feature_of_a_block_equals_the_brute_force(name: str, penalties: str) -> None:
    """Side by side: features of few and of many bins, some of them equal, categories between them; a block not full."""
    rng = np.random.default_rng(5)
    rules = make_rules(name, max_leaves=3, **PENALTIES[penalties])
    for n_features in (3, 16, 19):
        n_rows = int(rng.integers(40, 120))
        columns = [random_bins(n_rows, rng) for _ in range(n_features)]
        columns[-1] = columns[0]
        bins, values = np.hstack(columns), random_values(name, n_rows, rng)
        nodes = brute_force(name, bins, values, rules, (1,))
        assert_same(name, grow(name, bins, values, rules, (1,)), nodes, (1,))


@pytest.mark.parametrize("is_categorical", [False, True])
@pytest.mark.parametrize("name", ["gradient constant", "gradient real", "3 classes copies", "9 classes constant"])
def test_wide_histograms_give_the_same_split(name: str, is_categorical: bool) -> None:
    """The same rows over and over: more than one word can take."""
    rng = np.random.default_rng(4)
    categorical = (0,) if is_categorical else ()
    for _ in range(3):
        bins, values = random_bins(60, rng), random_values(name, 60, rng)
        bins, values = np.tile(bins, (FULL // 60 + 2, 1)), np.tile(values, (FULL // 60 + 2, 1))
        rules = make_rules(name, max_leaves=2)
        nodes = brute_force(name, bins, values, rules, categorical)
        assert_same(name, grow(name, bins, values, rules, categorical), nodes, categorical)


@pytest.mark.parametrize("is_categorical", [False, True])
def test_of_equal_boundaries_the_first_wins(is_categorical: bool) -> None:
    """Gradients of -1, 0 and 1 in bins of one row each: many boundaries are equally good."""
    rng, categorical = np.random.default_rng(6), (0,) if is_categorical else ()
    name, rules = "gradient constant", make_rules("gradient constant", max_leaves=2)
    for _ in range(60):
        n_rows = int(rng.integers(2, 12))
        bins, values = rng.permutation(n_rows)[:, None], rng.integers(-1, 2, (n_rows, 1))
        nodes = brute_force(name, bins, values, rules, categorical)
        assert_same(name, grow(name, bins, values, rules, categorical), nodes, categorical)


def test_rounding_noise_is_no_gain() -> None:
    """Every bin has the same mean: gains are zero but for the last bits of the division."""
    bins = np.repeat(np.arange(1, 8), 3)[:, None]
    values = np.full((21, 1), 123_456_789_123)
    grown = grow("gradient constant", bins, values, make_rules("gradient constant", max_leaves=2))
    assert len(grown.feature) == 1


def test_unknown_values_follow_the_larger_child_where_nothing_is_missing() -> None:
    rules = make_rules("gradient constant", max_leaves=2)
    for n_left in (3, 7):
        bins = np.repeat([1, 2], [n_left, 10 - n_left])[:, None]
        values = np.where(bins == 1, -5, 5)
        assert grow("gradient constant", bins, values, rules).default_left[0] == (n_left == 7)
        left_set = grow("gradient constant", bins, values, rules, categorical=(0,)).left_set[0]
        assert (int(left_set[3]) == 2**64 - 1) == (n_left == 7)  # bins that no row has


def test_packed_sums_become_the_same_floats_as_their_integers() -> None:
    """Up to the largest that a word can hold, of both signs, whatever the other fields hold."""
    for name in ("gradient constant", "gradient copies", "gradient real"):
        shift, mask = LAYOUTS[name].shift, LAYOUTS[name].mask
        most = 2 ** (63 - int(shift[-1]))
        for grad in (-most, 1 - most, -1, 0, 1, most // 3, most - 1):
            word = np.int64((grad << int(shift[-1])) + 8191)
            assert gradient_in(word, shift[-1]) == grad
            assert hessian_in(word, np.int64(0), np.int64(2**14 - 1)) == 8191
        if len(shift) > 1:
            word = np.int64((int(mask[0]) << int(shift[0])) - (1 << int(shift[-1])))
            assert hessian_in(word, shift[0], mask[0]) == mask[0]
