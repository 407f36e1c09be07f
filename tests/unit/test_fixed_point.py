"""Exact sums: independent of order and of the spread over workers, and as accurate as float64 can say."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pvtree.errors import InvalidDataError
from pvtree.fixed_point import exact_mean, exact_sum, integer_sum, max_magnitude, to_float

ANY_FLOATS = st.floats(-1e300, 1e300, allow_subnormal=False)
FLOATS = ANY_FLOATS.map(lambda x: x if abs(x) > 1e-280 else 0.0)


@settings(max_examples=60, deadline=None)
@given(st.lists(ANY_FLOATS, max_size=40), st.randoms(use_true_random=False))
def test_sum_does_not_depend_on_order(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    assert exact_sum(np.array(values)) == exact_sum(np.array(shuffled))


@settings(max_examples=60, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=40), st.integers(0, 40))
def test_sum_does_not_depend_on_the_workers(values, cut):
    array = np.array(values)
    bound, n = max_magnitude(array), array.size
    parts = [integer_sum(part, bound, n) for part in (array[:cut], array[cut:])]
    assert parts[0][1] == parts[1][1]
    assert to_float(parts[0][0] + parts[1][0], parts[0][1]) == exact_sum(array)


@settings(max_examples=60, deadline=None)
@given(st.lists(FLOATS, max_size=40))
def test_sum_is_accurate_relative_to_the_largest_value(values):
    array = np.array(values)
    error = abs(exact_sum(array) - math.fsum(values))
    assert error <= 2.0**-90 * max_magnitude(array) + abs(math.fsum(values)) * 2.0**-52


@pytest.mark.parametrize("n", [1, 3, 4096, 4097, 1_000_003])
def test_equal_values_sum_to_the_rounded_product(n):
    assert exact_sum(np.full(n, 0.1)) == float(n * int(0.1 * 2**56) / 2**56)
    assert exact_mean(np.full(n, 0.1)) == pytest.approx(0.1, rel=2.0**-52)


def test_many_rows_keep_their_accuracy():
    values = np.random.default_rng(0).normal(size=300_001) * 1e6 + 1e9
    assert exact_sum(values) == math.fsum(values)


def test_extreme_magnitudes():
    top = np.finfo(float).max
    assert exact_sum(np.array([top, -top, 1e290])) == pytest.approx(1e290, rel=1e-12)
    assert exact_sum(np.array([top, top])) == math.inf
    assert exact_sum(np.array([-top, -top])) == -math.inf
    assert exact_sum(np.array([1e-300, 2e-300])) == pytest.approx(3e-300, rel=1e-15)
    assert exact_sum(np.array([])) == 0.0
    assert exact_sum(np.zeros(5)) == 0.0


def test_not_finite_values_sum_as_floats_do():
    assert math.isnan(exact_sum(np.array([1.0, np.nan])))
    assert exact_sum(np.array([1.0, np.inf, 1e308, 1e308])) == math.inf
    assert exact_sum(np.array([-np.inf, 1.0])) == -math.inf
    assert math.isnan(exact_sum(np.array([np.inf, -np.inf])))
    assert math.isnan(max_magnitude(np.array([np.inf, np.nan])))


def test_strided_values():
    values = np.arange(20.0).reshape(4, 5)
    assert exact_sum(values[:, 1]) == values[:, 1].sum()
    assert exact_sum(values.T) == 190.0


def test_weighted_mean():
    assert exact_mean(np.array([1.0, 2.0]), np.array([3.0, 1.0])) == 1.25
    assert math.isnan(exact_mean(np.array([1.0]), np.array([0.0])))
    assert math.isnan(exact_mean(np.array([])))


def test_wrong_bounds_are_refused():
    values = np.array([1.0, 3.0])
    with pytest.raises(InvalidDataError, match="max_abs=2"):
        exact_sum(values, max_abs=2.0)
    with pytest.raises(InvalidDataError, match="n=1"):
        exact_sum(values, n=1)
    with pytest.raises(InvalidDataError, match="finite"):
        integer_sum(values, math.inf, 2)
    with pytest.raises(InvalidDataError):
        integer_sum(np.array([np.nan]), 1.0, 1)
    assert exact_sum(values, max_abs=8.0, n=1000) == 4.0
