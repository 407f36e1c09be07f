"""A quick look at features with few bins, like most in sparse data: hardly any of them has the best split.

What passes is searched closely, so the split and its gain are those that split.py finds, to the last bit.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from pvtree.kernels.constants import COUNT_BITS, ENTROPY, ZERO
from pvtree.kernels.growing.collect import gradient_bits
from pvtree.kernels.growing.records import is_categorical_of, n_bins_of
from pvtree.kernels.growing.split import score_unit
from pvtree.kernels.jit import njit
from pvtree.kernels.lazy import lazy

# Up to this many bins, a plain loop is faster than the arrays that split.best_numeric_split fills.
FEW = np.int64(16)
_ROOM = 1e-9  # relative, for rounding
_COUNT_MASK = (1 << COUNT_BITS) - 1


@njit
def is_few(feature, tree):
    """Whether a quick look can rule the feature out."""
    is_ordered = is_categorical_of(tree)[feature] == 0
    return is_ordered and tree.criterion != ENTROPY and n_bins_of(tree)[feature] <= FEW


@njit
def least_score(own_score, gain, tree):
    """A score below which a split certainly gains less than ``gain``, whatever was rounded."""
    if gain == -math.inf:
        return -math.inf
    return (1.0 - _ROOM) * (own_score + gain / (tree.gain_scale * score_unit(tree)))


@njit
def may_score(h, g, h_total, g_total, penalty, alpha, least):
    """Whether splitting (h, g) from the rest could score ``least``; compared without a division."""
    gl, gr = max(abs(g) - alpha, 0.0), max(abs(g_total - g) - alpha, 0.0)
    hl, hr = h + penalty, h_total - h + penalty
    return gl * gl * hr + gr * gr * hl >= least * (hl * hr)


@njit
def sums_of_bin(hist, at, step, is_wide, tree):
    """(count, hessian, gradient) of one bin or code."""
    if is_wide:
        return hist[at], hist[at + tree.hess_field * step], hist[at + (tree.n_fields - 1) * step]
    h_shift, h_mask, g_shift = gradient_bits(tree)
    word = hist[at]
    return word & _COUNT_MASK, (word >> h_shift) & h_mask, word >> g_shift


@lazy(types.boolean)
def may_gain(hist, base, step, is_wide, feature, sums, own_score, gain, tree):
    """Whether a close look could find a split of the feature that gains ``gain``."""
    if not is_few(feature, tree):
        return True
    least = least_score(own_score, gain, tree)
    g_total, h_total = np.float64(sums[tree.n_fields - 1]), np.float64(sums[tree.hess_field])
    penalty, alpha = tree.reg_lambda / tree.hess_scale, tree.reg_alpha / tree.grad_scale
    n_bins = n_bins_of(tree)[feature]
    n_missing, _, _ = sums_of_bin(hist, base, step, is_wide, tree)
    for missing_left in range(2 if n_missing > 0 else 1):
        count, h_left, g_left = ZERO, ZERO, ZERO
        for b in range(0 if missing_left else 1, n_bins + 1):
            n, h, g = sums_of_bin(hist, base + b, step, is_wide, tree)
            count += n
            h_left += h
            g_left += g
            if (
                b > 0 and n > 0 and count >= tree.min_count and count <= sums[0] - tree.min_count
                and may_score(np.float64(h_left), np.float64(g_left), h_total, g_total, penalty, alpha, least)
            ):  # fmt: skip
                return True
    return False
