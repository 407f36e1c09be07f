"""exp and log: accuracy against extended precision, the edges of float64, and no dependence on blocking."""

import numpy as np
import pytest

from pvtree.kernels.elementary import exp, log, sigmoid, softplus
from pvtree.kernels.jit import njit


def over_array(function):
    @njit
    def loop(x):
        out = np.empty_like(x)
        for i in range(x.size):
            out[i] = function(x[i])
        return out

    return loop


exps, logs, softpluses = over_array(exp), over_array(log), over_array(softplus)


def ulps(actual, exact):
    """Distance from the long double result in units of the last place of the float64 one."""
    return np.max(np.abs(actual.astype(np.longdouble) - exact) / np.spacing(np.abs(exact.astype(np.float64))))


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("spread", [1e-8, 1.0, 30.0, 700.0])
def test_exp_is_within_two_ulp(rng, spread):
    x = rng.uniform(-spread, spread, 100_000)
    assert ulps(exps(x), np.exp(x.astype(np.longdouble))) < 2.0


def test_exp_saturates_and_passes_nan():
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 709.782712893, 709.79, 1e308, -745.1, -745.2, -1e308])
    expected = [np.nan, np.inf, 0.0, 1.0, 1.0, np.exp(709.782712893), np.inf, np.inf, 5e-324, 0.0, 0.0]
    np.testing.assert_allclose(exps(x), expected, rtol=1e-15)


def test_exp_underflows_gradually(rng):
    x = rng.uniform(-745.0, -708.0, 10_000)
    with np.errstate(under="ignore"):
        exact = np.exp(x.astype(np.longdouble))
    assert np.max(np.abs(exps(x).astype(np.longdouble) - exact)) < 2 * 5e-324 + 1e-15 * np.exp(-708.0)


@pytest.mark.parametrize("low, high", [(-708.0, 709.0), (-1.0, 1.0), (-1e-6, 1e-6), (-744.0, -708.5)])
def test_log_is_within_two_ulp(rng, low, high):
    x = np.exp(rng.uniform(low, high, 100_000))
    assert ulps(logs(x), np.log(x.astype(np.longdouble))) < 2.0


def test_log_at_the_edges():
    x = np.array([np.nan, np.inf, 1.0, 0.0, -0.0, -1.0, -np.inf, 5e-324, 2.0**-1022, np.finfo(float).max])
    expected = [np.nan, np.inf, 0.0, -np.inf, -np.inf, np.nan, np.nan, *np.log(x[7:])]
    np.testing.assert_allclose(logs(x), expected, rtol=1e-15)


def test_softplus_is_accurate_in_both_tails(rng):
    x = np.concatenate([rng.uniform(-700, 700, 50_000), rng.normal(size=50_000)])
    exact = np.logaddexp(np.longdouble(0), x.astype(np.longdouble))
    np.testing.assert_allclose(softpluses(x), exact.astype(np.float64), rtol=1e-15)


def test_sigmoid():
    assert sigmoid(0.0) == 0.5
    assert sigmoid(-1000.0) == 0.0
    assert sigmoid(1000.0) == 1.0
    assert sigmoid(1.5) == pytest.approx(1.0 / (1.0 + np.exp(-1.5)), rel=1e-15)


@pytest.mark.parametrize("loop", [exps, logs, softpluses])
def test_a_value_has_the_same_bits_in_a_vector_and_in_a_remainder(rng, loop):
    x = np.abs(rng.normal(size=64)) * 5
    whole = loop(x)
    one_by_one = np.concatenate([loop(x[i : i + 1].copy()) for i in range(x.size)])
    assert whole.tobytes() == one_by_one.tobytes()
