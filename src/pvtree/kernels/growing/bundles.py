"""Features that share a byte: from a bundle's histogram to its features' own, and from their splits to its codes.

A bundle's code 0 says that all of its features are in their usual bin; any other code is one bin of one feature. So a
feature's usual bin has what the others leave of the node's total: exactly, as histograms are sums of integers.
"""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import BLOCK, COUNT_BITS, ENTROPY, LANE_STRIDE, N_BINS, ZERO
from pvtree.kernels.growing.few_bins import least_score, may_score, sums_of_bin
from pvtree.kernels.intrinsics import int64_at, uint8_at
from pvtree.kernels.jit import njit

# What the search asks of every feature at every node, side by side: see dtypes.Bundles.plan.
FEATURE, LANE, FIRST, CODES, IS_PAIR, UNUSUAL = range(6)
PLAN_SIZE = np.int64(6)
_COUNT_MASK = (1 << COUNT_BITS) - 1


@njit
def place_of(feature, tree):
    """The block and the lane that hold a feature's bins, or its bundle's codes."""
    block_start = int64_at(tree.block_start, tree.n_blocks + 1)
    bundle = int64_at(tree.bundle_of, tree.n_features)[feature]
    block = np.searchsorted(block_start, bundle, side="right") - 1
    return block, bundle - block_start[block]


@njit
def codes_of(feature, tree):
    """(the bins that its codes stand for, its first code, its usual bin)"""
    bundle = int64_at(tree.bundle_of, tree.n_features)[feature]
    first = int64_at(tree.first_code, tree.n_features)[feature]
    n_codes = int64_at(tree.n_codes, tree.n_features)[feature]
    bins = uint8_at(tree.code_bin, (tree.n_bundles, N_BINS))[bundle, first : first + n_codes]
    return bins, first, int64_at(tree.usual_bin, tree.n_features)[feature]


@njit
def sides_of_codes(feature, tree, goes_left):
    """A table of the feature's bins that go left becomes one of its bundle's codes."""
    bins, first, usual = codes_of(feature, tree)
    by_bin = goes_left.copy()
    goes_left[:] = by_bin[usual]
    for i in range(len(bins)):
        goes_left[first + i] = by_bin[bins[i]]


@njit
def bins_of_codes(feature, tree, bin_of):
    """bin_of[code] = the feature's bin in a row whose bundle has that code."""
    bins, first, usual = codes_of(feature, tree)
    bin_of[:] = usual
    for i in range(len(bins)):
        bin_of[first + i] = bins[i]


@njit
def begin_expansion(hist, base, step, is_wide, n_codes, tree, scratch):
    """Sum up a bundle's histogram: the node's total, which every feature's histogram has."""
    totals, n_words = int64_at(scratch.totals, tree.n_fields), tree.n_fields if is_wide else tree.n_planes
    for j in range(n_words):
        codes = hist[base + j * step :][:n_codes]
        total = ZERO
        for code in range(n_codes):
            total += codes[code]
        totals[j] = total


@njit
def count_unusual(hist, base, step, is_wide, n_codes, tree):
    """Rows of the node that are not in a feature's usual bin; its first code is at ``base``."""
    mask = np.int64(-1) if is_wide else np.int64(_COUNT_MASK)
    n = ZERO
    for plane in range(tree.n_planes):
        for code in range(n_codes):
            n += hist[base + plane * step + code] & mask
    return n


@njit
def expand_feature(hist, base, step, n_words, feature, totals, tree, target, to, to_step):
    """A feature's own histogram, target[to + word * to_step + bin], out of its bundle's at ``base``."""
    n_bins = int64_at(tree.n_bins, tree.n_features)[feature]
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
    """The same where a single feature is wanted: in the scratch, (word, N_BINS), which is returned."""
    totals, n_words = int64_at(scratch.totals, tree.n_fields), tree.n_fields if is_wide else tree.n_planes
    target = int64_at(scratch.expanded, tree.n_fields * N_BINS)
    bundle = int64_at(tree.bundle_of, tree.n_features)[feature]
    begin_expansion(hist, base, step, is_wide, int64_at(tree.last_code, tree.n_bundles)[bundle] + 1, tree, scratch)
    expand_feature(hist, base, step, n_words, feature, totals, tree, target, ZERO, N_BINS)
    return target


@njit
def expanded_layout(is_wide, tree):
    """(step, lane_step) of what ``expand_lanes`` leaves."""
    return (LANE_STRIDE, tree.n_fields * LANE_STRIDE) if is_wide else (BLOCK * LANE_STRIDE, LANE_STRIDE)


@njit
def expand_lanes(
    at, block, hist, base, step, lane_step, is_wide, node, row, own_score, least_gain, takes_all, tree, scratch
):
    """Histograms of the block's next features, up to 16 of them, from the one at place ``at`` of the plan on.

    Left out are features that the node may not use and, unless ``takes_all``, those of which a quick look tells that no
    split gains ``least_gain``. The numbers of the others are left in lane_feature. Returns (the next place, how many
    features there are).
    """
    stop = int64_at(tree.feature_start, tree.n_blocks + 1)[block + 1]
    plan = int64_at(tree.plan, (tree.n_features, PLAN_SIZE))
    in_tree = uint8_at(tree.in_tree, tree.n_features)
    allowed = uint8_at(tree.allowed, (tree.n_evaluated, tree.n_features))[row]
    sums = int64_at(tree.sums, (tree.n_nodes, tree.n_fields))[node]
    features, totals = int64_at(scratch.lane_feature, BLOCK), int64_at(scratch.totals, tree.n_fields)
    target = int64_at(scratch.expanded, BLOCK * tree.n_fields * LANE_STRIDE)
    n_words = tree.n_fields if is_wide else tree.n_planes
    to_step, to_lane_step = expanded_layout(is_wide, tree)
    h_total, g_total = np.float64(sums[tree.hess_field]), np.float64(sums[tree.n_fields - 1])
    penalty, alpha = tree.reg_lambda / tree.hess_scale, tree.reg_alpha / tree.grad_scale
    least, min_count = least_score(own_score, least_gain, tree), tree.min_count
    n = ZERO
    while at < stop and n < BLOCK:
        feature, own, n_codes = plan[at, FEATURE], base + plan[at, LANE] * lane_step, plan[at, CODES]
        if not takes_all and plan[at, UNUSUAL] < min_count:  # nor do the features after it have enough rows
            return stop, n
        at += 1
        if not (in_tree[feature] and allowed[feature]):
            continue
        if not takes_all:
            # A child without the usual bin has only rows of the others.
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
