"""Features that share a byte: from a bundle's histogram to its features' own, and from their splits to its codes."""

from __future__ import annotations

import numpy as np
from numba import types

from pvtree.kernels.constants import BLOCK, COUNT_BITS, ENTROPY, LANE_STRIDE, N_BINS, ZERO
from pvtree.kernels.growing.few_bins import least_score, may_score, sums_of_bin
from pvtree.kernels.growing.records import (
    allowed_of,
    block_start_of,
    bundles_of,
    code_bin_of,
    expanded_of,
    feature_start_of,
    first_code_of,
    in_tree_of,
    lane_feature_of,
    last_code_of,
    n_bins_of,
    n_codes_of,
    plan_of,
    sums_of,
    totals_of,
    usual_bin_of,
)
from pvtree.kernels.growing.route import count_up_to
from pvtree.kernels.jit import njit
from pvtree.kernels.lazy import lazy

# A bundle's code 0 says that all its features are in their usual bin; any other code is one bin of one feature. So a
# feature's usual bin has the node's total less its other bins: exactly, because histograms are sums of integers.

# Columns of the plan, which holds side by side what the search asks about a feature: see dtypes.Bundles.plan.
FEATURE, LANE, FIRST, CODES, IS_PAIR, UNUSUAL = range(6)
PLAN_SIZE = np.int64(6)
_COUNT_MASK = (1 << COUNT_BITS) - 1


@njit
def place_of(feature, tree):
    """The (block, lane) that holds a feature's bins, or its bundle's codes."""
    block_start = block_start_of(tree)
    bundle = bundles_of(tree)[feature]
    block = count_up_to(bundle, block_start) - 1
    return block, bundle - block_start[block]


@njit
def codes_of(feature, tree):
    """(the bins that its codes stand for, its first code, its usual bin)"""
    bundle = bundles_of(tree)[feature]
    first = first_code_of(tree)[feature]
    n_codes = n_codes_of(tree)[feature]
    bins = code_bin_of(tree)[bundle, first : first + n_codes]
    return bins, first, usual_bin_of(tree)[feature]


@lazy()
def sides_of_codes(feature, tree, goes_left):
    """Turn a table of the feature's bins that go left into one of its bundle's codes."""
    bins, first, usual = codes_of(feature, tree)
    by_bin = goes_left.copy()
    goes_left[:] = by_bin[usual]
    for i in range(len(bins)):
        goes_left[first + i] = by_bin[bins[i]]


@njit
def bins_of_codes(feature, tree, bin_of):
    """bin_of[code] = the feature's bin in rows whose bundle has that code."""
    bins, first, usual = codes_of(feature, tree)
    bin_of[:] = usual
    for i in range(len(bins)):
        bin_of[first + i] = bins[i]


@lazy()
def begin_expansion(hist, base, step, is_wide, n_codes, tree, scratch):
    """totals = the sums over a bundle's histogram: the node's totals, the same for every feature."""
    totals, n_words = totals_of(scratch), tree.n_fields if is_wide else tree.n_planes
    for j in range(n_words):
        codes = hist[base + j * step :][:n_codes]
        total = ZERO
        for code in range(n_codes):
            total += codes[code]
        totals[j] = total


@njit
def count_unusual(hist, base, step, is_wide, n_codes, tree):
    """The number of the node's rows outside a feature's usual bin; its first code is at ``base``."""
    mask = np.int64(-1) if is_wide else np.int64(_COUNT_MASK)
    n = ZERO
    for plane in range(tree.n_planes):
        for code in range(n_codes):
            n += hist[base + plane * step + code] & mask
    return n


@njit
def expand_feature(hist, base, step, n_words, feature, totals, tree, target, to, to_step):
    """target[to + word * to_step + bin] = a feature's own histogram, from its bundle's at ``base``."""
    n_bins = n_bins_of(tree)[feature]
    bins, first, usual = codes_of(feature, tree)
    for j in range(n_words):
        codes, own = hist[base + j * step + first :][: len(bins)], target[to + j * to_step :][: n_bins + 1]
        rest = totals[j]
        own[:] = 0
        for i in range(len(bins)):
            own[bins[i]] += codes[i]
            rest -= codes[i]
        own[usual] += rest


@njit
def expand_alone(hist, base, step, is_wide, feature, tree, scratch):
    """The same for a single feature; returns its histogram, (word, N_BINS), which is in the scratch."""
    totals, n_words = totals_of(scratch), tree.n_fields if is_wide else tree.n_planes
    target = expanded_of(scratch)
    bundle = bundles_of(tree)[feature]
    begin_expansion(hist, base, step, is_wide, last_code_of(tree)[bundle] + 1, tree, scratch)
    expand_feature(hist, base, step, n_words, feature, totals, tree, target, ZERO, N_BINS)
    return target


@njit
def expanded_layout(is_wide, tree):
    """(step, lane_step) of what ``expand_lanes`` leaves."""
    return (LANE_STRIDE, tree.n_fields * LANE_STRIDE) if is_wide else (BLOCK * LANE_STRIDE, LANE_STRIDE)


@lazy(types.UniTuple(types.int64, 2))
def expand_lanes(
    at, block, hist, base, step, lane_step, is_wide, node, row, own_score, least_gain, takes_all, tree, scratch
):
    """Histograms of the block's next features, up to 16 of them, from the one at place ``at`` of the plan on.

    Features that the node may not use are skipped. So are, unless ``takes_all``, those where a quick look shows that no
    split gains ``least_gain``. The others are listed in lane_feature. Returns (next place, number of features).
    """
    stop = feature_start_of(tree)[block + 1]
    plan = plan_of(tree)
    in_tree = in_tree_of(tree)
    allowed = allowed_of(tree)[row]
    sums = sums_of(tree)[node]
    features, totals = lane_feature_of(scratch), totals_of(scratch)
    target = expanded_of(scratch)
    n_words = tree.n_fields if is_wide else tree.n_planes
    to_step, to_lane_step = expanded_layout(is_wide, tree)
    h_total, g_total = np.float64(sums[tree.hess_field]), np.float64(sums[tree.n_fields - 1])
    penalty, alpha = tree.reg_lambda / tree.hess_scale, tree.reg_alpha / tree.grad_scale
    least, min_count = least_score(own_score, least_gain, tree), tree.min_count
    n = ZERO
    while at < stop and n < BLOCK:
        feature, own, n_codes = plan[at, FEATURE], base + plan[at, LANE] * lane_step, plan[at, CODES]
        if not takes_all and plan[at, UNUSUAL] < min_count:  # nor do the features after it have enough
            return stop, n
        at += 1
        if not (in_tree[feature] and allowed[feature]):
            continue
        if not takes_all:
            # A child without the usual bin has no more rows than these.
            if count_unusual(hist, own + plan[at - 1, FIRST], step, is_wide, n_codes, tree) < min_count:
                continue
            if plan[at - 1, IS_PAIR] and tree.criterion != ENTROPY:
                _, h, g = sums_of_bin(hist, own + plan[at - 1, FIRST], step, is_wide, tree)
                if not may_score(np.float64(h), np.float64(g), h_total, g_total, penalty, alpha, least):
                    continue
        features[n] = feature
        expand_feature(hist, own, step, n_words, feature, totals, tree, target, n * to_lane_step, to_step)
        n += 1
    return at, n
