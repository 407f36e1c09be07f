"""From the sums that all workers rounded outward to a bound of a feature's gain, computed by the feature's owner."""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.elementary import log
from pvtree.kernels.growing.constraints import limited_score
from pvtree.kernels.jit import njit

# The score f(GL, HL) + f(GR, HR) is convex in (GL, HL), so no point of a parallelogram scores more than its corners.
# The bound must hold for the gain as split.py computes it, hence the small widenings: each is a few times the
# rounding error of the expression beside it.

# Relative, about 8 and 64 times the error of one operation: for sums of a few terms, and for scores.
_SMALL, _WIDER = 2.0**-50, 2.0**-47


@njit
def rounding_unit(threshold, n_workers, slope, is_entropy):
    """The ``unit`` of rounded sums: if all workers have this x, in standard widths, the gain is the threshold."""
    # Near pure chance, information gain is x^2 (1/HL + 1/HR) over twice the variance of the class.
    variance = 2.0 * slope * (1.0 - slope) if is_entropy else 1.0
    return math.sqrt(max(threshold * variance, 0.0) / n_workers)


@njit
def _gradient_score(x, h, g_total, h_total, slope, penalty, alpha):
    """At least split.py's f(GL, HL) + f(GR, HR) at one corner; inf if a side may have gradient without hessian."""
    product = slope * h
    left = x + product
    size = abs(x) + abs(product)
    gl = max(abs(left) + _SMALL * size - alpha, 0.0)
    gr = max(abs(g_total - left) + _SMALL * (size + abs(g_total)) - alpha, 0.0)
    hl = (h + penalty) * (1.0 - _SMALL)
    hr = (max(h_total - h, 0.0) + penalty) * (1.0 - _SMALL)
    of_left = gl * gl / hl if gl > 0.0 else 0.0
    of_right = gr * gr / hr if gr > 0.0 else 0.0
    return of_left + of_right


@njit
def _x_log_x(x):
    return x * log(x) if x > 0.0 else 0.0


@njit
def _entropy_score(c1, n, c1_total, n_total):
    """sum x log x - n log n of both sides, for the possible class count nearest to ``c1``."""
    right = max(n_total - n, 0.0)
    c1 = min(max(c1, 0.0, c1_total - right), n, c1_total)
    d1 = c1_total - c1
    score = _x_log_x(c1) + _x_log_x(n - c1) - _x_log_x(n)
    return score + _x_log_x(d1) + _x_log_x(right - d1) - _x_log_x(right)


@njit
def _entropy_of_box(x0, x1, h0, h1, c1_total, n_total, slope):
    """The highest score in the part of the parallelogram that class counts can have.

    Its corners are at h0, at h1, where an edge of x meets a line on which one side lacks a class, and where two such
    lines meet.
    """
    c0_total = n_total - c1_total
    meetings = (
        *(h0, h1, c1_total, c0_total),
        *(x1 / (1.0 - slope), (c1_total - x1) / slope, -x0 / slope, (c0_total + x0) / (1.0 - slope)),
    )
    best = -math.inf
    for i in range(8):
        h = meetings[i]
        if h0 <= h <= h1:
            best = max(best, _entropy_score(x0 + slope * h, h, c1_total, n_total))
            best = max(best, _entropy_score(x1 + slope * h, h, c1_total, n_total))
    return best


@njit
def _over_own_score(best, g_total, h_total, penalty, alpha, max_output, is_entropy):
    """``best`` less the node's own score, as split.py computes it."""
    if best == -math.inf:
        return best
    if is_entropy:
        own = _x_log_x(g_total) + _x_log_x(h_total - g_total) - _x_log_x(h_total)
        # x log x is steepest near 0, where the rounding error of a count, e.g. N 2^-50, changes it by 35 times as much.
        return best - own + 2.0**-44 * h_total * (log(h_total + 2.0) + 40.0)
    own = limited_score(g_total, h_total + penalty, alpha, max_output) if abs(g_total) > alpha else 0.0
    return best * (1.0 + _WIDER) - own * (1.0 - _WIDER) if own < math.inf else math.inf


@njit
def bound_of_intervals(
    low_x, high_x, low_h, high_h, n_bins, g_total, h_total, slope, penalty, alpha, least_hess, max_output, is_entropy
):
    """At least the gain (in steps, over the node's own score) of every split of a feature, -inf if there is none.

    Intervals are by position: 0 for missing values, p for bins 1 to p. ``penalty``, ``alpha`` and ``least_hess``, the
    least hessian that a side may have, are in steps, as is the largest output of a node, ``max_output``.
    """
    g_total, h_total = np.float64(g_total), np.float64(h_total)
    most_hess = (h_total - least_hess) * (1.0 + _SMALL)
    has_missing = high_h[0] > 0.0 or low_x[0] < 0.0 or high_x[0] > 0.0
    best = -math.inf
    for side in range(2 if has_missing else 1):
        mx0, mx1, mh0, mh1 = (low_x[0], high_x[0], low_h[0], high_h[0]) if side == 1 else (0.0, 0.0, 0.0, 0.0)
        # Right of the last position there is nothing, unless missing values go there.
        for p in range(1, n_bins + 1 if has_missing and side == 0 else n_bins):
            h0 = max((low_h[p] + mh0) * (1.0 - _SMALL), least_hess)
            h1 = min((high_h[p] + mh1) * (1.0 + _SMALL), most_hess)
            if h0 > h1:
                continue
            x0 = low_x[p] + mx0 - _SMALL * (abs(low_x[p]) + abs(mx0))
            x1 = high_x[p] + mx1 + _SMALL * (abs(high_x[p]) + abs(mx1))
            if is_entropy:
                best = max(best, _entropy_of_box(x0, x1, h0, h1, g_total, h_total, slope))
                continue
            best = max(best, _gradient_score(x0, h0, g_total, h_total, slope, penalty, alpha))
            best = max(best, _gradient_score(x0, h1, g_total, h_total, slope, penalty, alpha))
            best = max(best, _gradient_score(x1, h0, g_total, h_total, slope, penalty, alpha))
            best = max(best, _gradient_score(x1, h1, g_total, h_total, slope, penalty, alpha))
    return _over_own_score(best, g_total, h_total, penalty, alpha, max_output, is_entropy)
