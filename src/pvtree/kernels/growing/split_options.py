"""FindBestSplit with options: thresholds drawn at random, smoothed outputs, gains that cost something, and rules about
categories. Compiled when first used: without options split.py searches, faster."""

from __future__ import annotations

import math

import numpy as np
from numba import types

from pvtree.kernels.constants import N_BINS, NONE, ZERO
from pvtree.kernels.growing.collect import decode_feature
from pvtree.kernels.growing.constraints import between, constrained_score, leaf_output, saving
from pvtree.kernels.growing.records import (
    cost_of,
    factor_of,
    found_set_of,
    is_categorical_of,
    limits_of,
    monotone_of,
    n_bins_of,
    order_of,
    smooth_of,
    sums_of,
)
from pvtree.kernels.growing.split import gain_of_difference, node_score, order_categories, score_unit
from pvtree.kernels.hashing import hash_pair
from pvtree.kernels.jit import njit
from pvtree.kernels.lazy import lazy

# Trees that divide classes by information gain have no options: fields are (count, [hessian,] gradient).

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ULP = 2.0**-53


# ---- Outputs that are drawn towards those of the node above


@njit
def smoothed(output, count, above, path_smooth):
    """The mean of a node's own output, which counts as its rows, and of the node's above, as ``path_smooth`` rows."""
    share = count / path_smooth
    return (output * share + above) / (share + 1.0)


@njit
def side_output(g, h, alpha, count, node, tree):
    """The output of one side of a split of ``node``; ``h`` includes the penalty lambda."""
    output = between(leaf_output(g, h, alpha), -tree.max_output, tree.max_output)
    return smoothed(output, np.float64(count), smooth_of(tree)[node, 0], tree.path_smooth)


@lazy()
def smooth_children(parent, left, tree):
    """Set the smoothed outputs of two new children, and by how much each lowers the score of its node."""
    sums, smooth = sums_of(tree), smooth_of(tree)
    alpha = tree.reg_alpha / tree.grad_scale
    for child in range(left, left + 2):
        g = np.float64(sums[child, tree.n_fields - 1])
        h = sums[child, tree.hess_field] + tree.reg_lambda / tree.hess_scale
        output = side_output(g, h, alpha, sums[child, 0], parent, tree)
        if tree.is_monotone:
            output = between(output, limits_of(tree)[child, 0], limits_of(tree)[child, 1])
        smooth[child, 0] = output
        smooth[child, 1] = max(node_score(sums[child], tree) - saving(g, h, alpha, output), 0.0)


@njit
def smooth_values(left_child, count, path_smooth, value):
    """Smooth the values of a finished tree, parents first."""
    for node in range(len(value)):
        left = left_child[node]
        if left > 0:
            for child in range(left, left + 2):
                value[child] = smoothed(value[child], count[child], value[node], path_smooth)


# ---- Gains that are scaled, and cost something


@njit
def adjusted(gain, feature, node, n_rows, depth, tree):
    """A gain in steps, times the feature's factor, less the costs of the split and of the feature's first use."""
    factor = factor_of(tree)[feature]
    if tree.monotone_base > 0.0 and monotone_of(tree)[feature] != 0.0:
        factor *= max(1.0 - math.ldexp(tree.monotone_base, -depth), 0.0)
    if tree.path_smooth > 0.0:
        gain += tree.cost_share * smooth_of(tree)[node, 1]
    return factor * gain, (tree.cost_share * cost_of(tree)[feature] + tree.row_cost * n_rows) / score_unit(tree)


@njit
def adjust_bounds(n_workers, rank, row_node, upper, trees, nodes, reach):
    """reach[row, own feature] = the most that a feature could gain with options, if it gains ``upper`` without.

    Options never raise the score of a split, so a bound of what it gains without them, adjusted, is one with them.
    """
    tree = trees[0]
    for row in range(len(row_node)):
        node = row_node[row]
        for i in range(upper.shape[1]):
            reach[row, i] = -math.inf
            if upper[row, i] > -math.inf:
                gain, cost = adjusted(
                    upper[row, i], rank + i * n_workers, node, nodes[node].n_rows, nodes[node].depth, tree
                )
                reach[row, i] = gain - cost + 8 * _ULP * (abs(gain) + cost)


# ---- The search


@njit
def category_penalty(n_bins, tree):
    """What is added to lambda where categories are split; categories that are split off one by one have none."""
    return 0.0 if n_bins <= tree.max_onehot else tree.cat_l2


@njit
def score_with_options(count, h, g, n_rows, sums, extra_lambda, node, tree, scratch):
    """What a split saves whose left side has these sums; -inf if a side is too small or its output is out of order."""
    g_total, h_total = np.float64(sums[tree.n_fields - 1]), np.float64(sums[tree.hess_field])
    least = tree.min_hess / tree.hess_scale
    if count < tree.min_count or count > n_rows - tree.min_count or h < least or h_total - h < least:
        return -math.inf
    penalty, alpha = (tree.reg_lambda + extra_lambda) / tree.hess_scale, tree.reg_alpha / tree.grad_scale
    gl, gr = max(abs(g) - alpha, 0.0), max(abs(g_total - g) - alpha, 0.0)
    hl, hr = h + penalty, h_total - h + penalty
    score = (gl * gl * hr + gr * gr * hl) / (hl * hr)
    if tree.path_smooth > 0.0:
        left = side_output(g, hl, alpha, count, node, tree)
        right = side_output(g_total - g, hr, alpha, n_rows - count, node, tree)
        if tree.is_monotone:
            left, right = between(left, scratch.low, scratch.high), between(right, scratch.low, scratch.high)
            if scratch.sign * (right - left) < 0.0:
                return -math.inf
        return min(score, saving(g, hl, alpha, left) + saving(g_total - g, hr, alpha, right))
    if tree.is_monotone:
        return constrained_score(
            score, g, hl, g_total - g, hr, alpha, scratch.low, scratch.high, scratch.sign
        )  # fmt: skip
    return score


@njit
def best_ordered(fields, n_bins, sums, n_rows, node, draw, tree, scratch):
    """The best threshold of an ordered feature, or the one that was drawn."""
    of_h, of_g = tree.hess_field * N_BINS, (tree.n_fields - 1) * N_BINS
    drawn = 1 + np.int64(draw % np.uint64(max(n_bins - 1, 1)))
    n_missing, best_score = fields[0], -math.inf
    for missing_left in range(2 if n_missing > 0 else 1):
        count, h, g = (fields[0], fields[of_h], fields[of_g]) if missing_left else (ZERO, ZERO, ZERO)
        for b in range(1, n_bins + 1):
            count += fields[b]
            h += fields[of_h + b]
            g += fields[of_g + b]
            if b != drawn if tree.is_extra else fields[b] == 0:
                continue
            score = score_with_options(
                count, np.float64(h), np.float64(g), n_rows, sums, 0.0, node, tree, scratch
            )  # fmt: skip
            if score > best_score:
                best_score, scratch.split_bin = score, b
                scratch.default_left = missing_left if n_missing > 0 else NONE
    return best_score


@njit
def begin_set(n_left, n_rows, scratch):
    """Categories without rows here, and those that only prediction meets, follow the larger child."""
    found_set_of(scratch)[:] = _ALL if 2 * n_left >= n_rows else np.uint64(0)


@njit
def put_in_set(b, goes_left, scratch):
    bit, found_set = np.uint64(1) << np.uint64(b & 63), found_set_of(scratch)
    if goes_left:
        found_set[b >> 6] |= bit
    else:
        found_set[b >> 6] &= ~bit


@njit
def best_single_category(fields, n_bins, sums, n_rows, node, tree, scratch):
    """The best category to split off from all others."""
    of_h, of_g = tree.hess_field * N_BINS, (tree.n_fields - 1) * N_BINS
    best, best_score = NONE, -math.inf
    for b in range(n_bins + 1):
        if fields[b] > 0:
            score = score_with_options(
                fields[b], np.float64(fields[of_h + b]), np.float64(fields[of_g + b]), n_rows, sums, 0.0, node, tree,
                scratch,
            )  # fmt: skip
            if score > best_score:
                best, best_score = np.int64(b), score
    if best >= 0:
        begin_set(fields[best], n_rows, scratch)
        for b in range(n_bins + 1):
            if fields[b] > 0:
                put_in_set(b, b == best, scratch)
    return best_score


@njit
def best_prefix(fields, n_bins, sums, n_rows, node, draw, tree, scratch):
    """The best prefix, or the one that was drawn, of the categories in the order of their statistics.

    The side with fewer categories has at most max_cat_threshold of them. Between two boundaries that are tried, and
    after the last one, there are at least min_group rows.
    """
    order = order_of(scratch)
    of_h, of_g = tree.hess_field * N_BINS, (tree.n_fields - 1) * N_BINS
    n_order = order_categories(fields, n_bins, sums, tree, scratch)
    drawn = np.int64(draw % np.uint64(max(n_order - 1, 1)))
    count, h, g, in_group, n_left = ZERO, ZERO, ZERO, ZERO, ZERO
    best, best_score = NONE, -math.inf
    for place in range(n_order - 1):
        b = order[place]
        count += fields[b]
        h += fields[of_h + b]
        g += fields[of_g + b]
        in_group += fields[b]
        if in_group < tree.min_group or n_rows - count < tree.min_group:
            continue
        in_group = ZERO
        if min(place + 1, n_order - place - 1) > tree.max_cat_threshold or (tree.is_extra and place != drawn):
            continue
        score = score_with_options(
            count, np.float64(h), np.float64(g), n_rows, sums, tree.cat_l2, node, tree, scratch
        )  # fmt: skip
        if score > best_score:
            best, best_score, n_left = np.int64(place), score, count
    if best >= 0:
        begin_set(n_left, n_rows, scratch)
        for place in range(n_order):
            put_in_set(order[place], place <= best, scratch)
    return best_score


@lazy(types.float64)
def best_split_with_options(hist, base, step, is_wide, feature, node, own_score, tree, nodes, scratch):
    """As split.best_split_of_feature: the gain of the feature's best split, which is left in ``scratch``."""
    n_bins, sums = n_bins_of(tree)[feature], sums_of(tree)[node]
    n_rows, number = sums[0], tree.first_feature + feature
    fields = decode_feature(hist, base, step, is_wide, n_bins, tree, scratch)
    draw = hash_pair(hash_pair(tree.extra_key, nodes[node].path), number)
    if not is_categorical_of(tree)[feature]:
        score = best_ordered(fields, n_bins, sums, n_rows, node, draw, tree, scratch)
    elif n_bins <= tree.max_onehot:
        score = best_single_category(fields, n_bins, sums, n_rows, node, tree, scratch)
    else:
        score = best_prefix(fields, n_bins, sums, n_rows, node, draw, tree, scratch)
    if is_categorical_of(tree)[feature]:
        scratch.split_bin, scratch.default_left = ZERO, np.int64(found_set_of(scratch)[0] & np.uint64(1))
    if score == -math.inf:
        return -math.inf
    gain, cost = adjusted(score - own_score, number, node, n_rows, nodes[node].depth, tree)
    return gain_of_difference(gain - cost, own_score, n_rows, tree)
