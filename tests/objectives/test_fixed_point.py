"""Exact sums: independent of order and of the spread over workers, and as accurate as float64 can say."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pvtree.comm import Solo
from pvtree.comm.local import run
from pvtree.objectives.fixed_point import (
    _flat,
    _join,
    _limbs,
    _scale,
    exact_mean,
    exact_means,
    exact_sum,
    max_magnitude,
    to_float,
)

ANY_FLOATS = st.floats(-1e300, 1e300, allow_subnormal=False)
FLOATS = ANY_FLOATS.map(lambda x: x if abs(x) > 1e-280 else 0.0)


def integer_sum(values, max_abs, n):
    """``(total, shift)`` with sum(values) = total / 2**shift, as a worker adds up its part of ``n`` values."""
    limb, scale_exponent = _scale(max_abs, n)
    return _join(*_limbs(_flat(values), limb, scale_exponent), limb), scale_exponent + limb


@settings(max_examples=60)
@given(st.lists(ANY_FLOATS, max_size=40), st.randoms(use_true_random=False))
def test_sum_does_not_depend_on_order(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    assert exact_sum(np.array(values)) == exact_sum(np.array(shuffled))


@settings(max_examples=60)
@given(st.lists(FLOATS, min_size=1, max_size=40), st.integers(0, 40))
def test_sum_does_not_depend_on_the_workers(values, cut):
    array = np.array(values)
    bound, n = max_magnitude(array), array.size
    parts = [integer_sum(part, bound, n) for part in (array[:cut], array[cut:])]
    assert parts[0][1] == parts[1][1]
    assert to_float(parts[0][0] + parts[1][0], parts[0][1]) == exact_sum(array)


@settings(max_examples=60)
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


def test_loose_bounds_do_not_change_a_sum():
    assert to_float(*integer_sum(np.array([1.0, 3.0]), 8.0, 1000)) == 4.0


def bits(values):
    return [float(np.float64(value)).hex() for value in values]


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 40), st.sampled_from([2, 3, 5, 8]), st.booleans())
def test_workers_together_get_the_bits_of_one(seed, n, n_workers, weighted):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(3, n)) * 10.0 ** rng.integers(-40, 40, (3, n))
    matrix[rng.random((3, n)) < 0.01 * rng.integers(0, 3)] = rng.choice([np.nan, np.inf, -np.inf])
    weight = rng.random(n) if weighted else None
    cuts = np.sort(rng.integers(0, n + 1, n_workers - 1))
    with np.errstate(invalid="ignore"):
        sums = [exact_sum(values) for values in matrix]
        alone = exact_means(lambda: matrix, weight)

    def work(comm):
        part = np.split(matrix, cuts, axis=1)[comm.rank]
        its_weight = None if weight is None else np.split(weight, cuts)[comm.rank]
        with np.errstate(invalid="ignore"):
            means = exact_means(lambda: part, its_weight, comm)
            calls = comm.traffic.total().calls
            return means, [exact_mean(v, its_weight, comm) for v in part], [exact_sum(v, comm) for v in part], calls

    for means, one_by_one, its_sums, calls in run(work, n_workers, timeout=20):
        assert bits(means) == bits(one_by_one) == bits(alone)
        assert bits(its_sums) == bits(sums)
        assert calls == 2  # for all three means


def test_the_number_of_all_values_sets_the_scale():
    # Alone each worker would keep bits that the sum of a million values has no room for.
    values = np.random.default_rng(1).normal(size=70_001)
    expected = exact_sum(values), exact_mean(values, np.abs(values))

    def work(comm):
        part = np.array_split(values, 5)[comm.rank]
        return exact_sum(part, comm, "metrics"), exact_mean(part, np.abs(part), comm, "metrics")

    assert run(work, 5, timeout=20) == [expected] * 5


def test_not_finite_values_of_several_workers():
    def total(*parts):
        sums = run(lambda comm: exact_sum(np.array(parts[comm.rank]), comm), len(parts), timeout=20)
        assert len({str(each) for each in sums}) == 1
        return sums[0]

    assert total([1.0], [np.inf], [np.inf, 2.0]) == math.inf
    assert total([-np.inf], [], [1.0]) == -math.inf
    assert math.isnan(total([np.inf], [-np.inf]))
    assert math.isnan(total([np.inf], [np.nan]))
    assert total([], []) == 0.0


def test_a_single_worker_exchanges_nothing():
    solo = Solo()
    assert exact_mean(np.array([1.0, 2.0]), None, solo) == 1.5
    assert solo.traffic.total().calls == 0
