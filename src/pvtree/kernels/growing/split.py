"""FindBestSplit on histograms (the paper's Algorithm 2): score the boundaries of a feature, keep the best."""

from __future__ import annotations

import math

import numpy as np
from numba import types

from pvtree.kernels.constants import COUNT_BITS, ENTROPY, N_BINS, NONE, ZERO
from pvtree.kernels.elementary import log
from pvtree.kernels.growing.collect import collect_fields, collect_packed, collect_sums, decode_feature
from pvtree.kernels.growing.constraints import constrained_class_score, constrained_score, limited_score
from pvtree.kernels.growing.records import (
    TABLE_SIZE,
    boundary_of,
    found_set_of,
    found_sums_of,
    grad_left_of,
    hess_left_of,
    left_of,
    mask_of,
    natural_order_of,
    order_of,
    plane_of,
    scores_of,
    shift_of,
    table_of,
)
from pvtree.kernels.jit import njit
from pvtree.kernels.lazy import lazy

# A gain is a difference. Below this share of its largest term it is rounding noise, not a split.
NOISE = 1e-14
_TINY = 1e-300
_COUNT_MASK = (1 << COUNT_BITS) - 1


@njit
def x_log_x(x, table):
    if x < TABLE_SIZE:
        return table[x]
    return x * log(np.float64(x))


@njit
def fill_x_log_x(table):
    table[0] = 0.0
    for x in range(1, len(table)):
        table[x] = x * log(np.float64(x))


@njit
def count_rows(sums, n_planes):
    n = 0
    for plane in range(n_planes):
        n += sums[plane]
    return n


@njit
def copy_row(source, target):
    """``target[:] = source`` of equal lengths; to check the lengths, numba would compile a message for seconds."""
    for i in range(len(source)):
        target[i] = source[i]


@lazy(types.float64)
def entropy_score(sums, tree):
    """The sum of x log x - n log n over a node's classes."""
    table = table_of(tree)
    total, score = ZERO, 0.0
    for j in range(tree.n_planes, tree.n_fields):
        total += sums[j]
        score += x_log_x(sums[j], table)
    return score - x_log_x(total, table)


@lazy(types.float64)
def largest_entropy_term(n_rows, tree):
    return x_log_x(n_rows, table_of(tree))


@njit
def node_score(sums, tree):
    """The node's own term in the gain, G^2 / (H + lambda) or sum x log x - n log n: what a split must improve on.

    Second-order scores are in steps of the quantized gradients and hessians; times ``score_unit`` they are real.
    """
    if tree.criterion == ENTROPY:
        return entropy_score(sums, tree)
    g, h = np.float64(sums[tree.n_fields - 1]), sums[tree.hess_field] + tree.reg_lambda / tree.hess_scale
    return limited_score(g, h, tree.reg_alpha / tree.grad_scale, tree.max_output)


@njit
def score_unit(tree):
    return 1.0 if tree.criterion == ENTROPY else tree.grad_scale * tree.grad_scale / tree.hess_scale


@njit
def first_maximum(scores, n):
    """Index of the first largest score, -1 if all are -inf; four maxima at a time hide the latency."""
    a = b = c = d = -math.inf
    n_fours = n // 4 * 4
    for i in range(0, n_fours, 4):
        a = scores[i] if scores[i] > a else a
        b = scores[i + 1] if scores[i + 1] > b else b
        c = scores[i + 2] if scores[i + 2] > c else c
        d = scores[i + 3] if scores[i + 3] > d else d
    for i in range(n_fours, n):
        a = scores[i] if scores[i] > a else a
    most = max(max(a, b), max(c, d))
    if most > -math.inf:
        for i in range(n):
            if scores[i] == most:
                return i
    return -1


@njit
def best_gradient_boundary(n, sums, extra_lambda, tree, scratch):
    """Index of the first boundary with the highest GL^2/(HL+lambda) + GR^2/(HR+lambda), and that score.

    Over a common denominator, because a division costs more than all the rest.
    """
    hess_left, grad_left = hess_left_of(scratch)[:n], grad_left_of(scratch)[:n]
    scores = scores_of(scratch)[:n]
    g_total, h_total = np.float64(sums[tree.n_fields - 1]), np.float64(sums[tree.hess_field])
    penalty = (tree.reg_lambda + extra_lambda) / tree.hess_scale
    least = tree.min_hess / tree.hess_scale
    alpha = tree.reg_alpha / tree.grad_scale
    for i in range(n):
        gl = max(abs(grad_left[i]) - alpha, 0.0)
        gr = max(abs(g_total - grad_left[i]) - alpha, 0.0)
        hl = hess_left[i] + penalty
        hr = h_total - hess_left[i] + penalty
        score = (gl * gl * hr + gr * gr * hl) / (hl * hr)
        enough = (hess_left[i] >= least) & (h_total - hess_left[i] >= least)
        scores[i] = score if enough else -math.inf
    if tree.is_monotone:
        constrain_scores(n, hess_left, grad_left, g_total, h_total, penalty, alpha, scratch, scores)
    best = first_maximum(scores, n)
    return best, scores[best] if best >= 0 else -math.inf


@lazy()
def constrain_scores(n, hess_left, grad_left, g_total, h_total, penalty, alpha, scratch, scores):
    for i in range(n):
        if scores[i] > -math.inf:
            scores[i] = constrained_score(
                scores[i], grad_left[i], hess_left[i] + penalty, g_total - grad_left[i],
                h_total - hess_left[i] + penalty, alpha, scratch.low, scratch.high, scratch.sign,
            )  # fmt: skip


@njit
def best_entropy_boundary(n, sums, tree, scratch):
    """Index of the first boundary with the highest information gain, and sum x log x - n log n of both sides."""
    left = left_of(scratch)
    table = table_of(tree)
    best, best_score = -1, -math.inf
    for i in range(n):
        n_left, n_right, score = ZERO, ZERO, 0.0
        for j in range(tree.n_planes, tree.n_fields):
            on_left = left[j, i]
            on_right = sums[j] - on_left
            n_left += on_left
            n_right += on_right
            score += x_log_x(on_left, table) + x_log_x(on_right, table)
        score -= x_log_x(n_left, table) + x_log_x(n_right, table)
        enough = min(n_left, n_right) * tree.hess_scale >= tree.min_hess
        if enough and tree.is_monotone:  # of two classes, the last fields
            a, b = tree.n_fields - 2, tree.n_fields - 1
            score = constrained_class_score(
                score, (left[a, i], left[b, i]), (sums[a] - left[a, i], sums[b] - left[b, i]), scratch.low,
                scratch.high, scratch.sign,
            )  # fmt: skip
        if enough and score > best_score:
            best, best_score = i, score
    return best, best_score


@njit
def best_of_fields(n, sums, extra_lambda, tree, scratch):
    """The best boundary after ``collect_fields``."""
    if tree.criterion == ENTROPY:
        return best_entropy_boundary(n, sums, tree, scratch)
    left = left_of(scratch)
    hess_left, grad_left = hess_left_of(scratch), grad_left_of(scratch)
    for i in range(n):
        hess_left[i] = left[tree.hess_field, i]
        grad_left[i] = left[tree.n_fields - 1, i]
    return best_gradient_boundary(n, sums, extra_lambda, tree, scratch)


@njit
def insert(key, b, n, keys, order):
    """Insert bin b into n bins sorted by rising keys; bins with equal keys stay in order."""
    i = n
    while i > 0 and keys[i - 1] > key:
        keys[i], order[i] = keys[i - 1], order[i - 1]
        i -= 1
    keys[i], order[i] = key, b


@njit
def order_categories(fields, n_bins, sums, tree, scratch):
    """Order the categories that have rows here, the missing bin included, by gradient statistics or class share."""
    order = order_of(scratch)
    keys = scores_of(scratch)
    major = tree.n_planes  # the class with the largest sum here
    for j in range(tree.n_planes, tree.n_fields):
        if sums[j] > sums[major]:
            major = j
    n = 0
    for b in range(n_bins + 1):
        count, weight = 0, 0
        for j in range(tree.n_planes):
            count += fields[j * N_BINS + b]
        if count == 0:
            continue
        if tree.criterion == ENTROPY:
            for j in range(tree.n_planes, tree.n_fields):
                weight += fields[j * N_BINS + b]
            key = fields[major * N_BINS + b] / weight if weight > 0 else 0.0
        else:
            h = fields[tree.hess_field * N_BINS + b] * tree.hess_scale
            key = fields[(tree.n_fields - 1) * N_BINS + b] * tree.grad_scale / max(h + tree.cat_smooth, _TINY)
        insert(key, b, n, keys, order)
        n += 1
    return n


@lazy(types.float64)
def best_class_split(hist, base, step, is_wide, n_bins, sums, n_rows, tree, scratch):
    """As ``best_numeric_split``, for trees that divide classes by information gain."""
    boundary, order = boundary_of(scratch), natural_order_of(scratch)
    fields = decode_feature(hist, base, step, is_wide, n_bins, tree, scratch)
    n_missing = ZERO
    for plane in range(tree.n_planes):
        n_missing += fields[plane * N_BINS]
    best_score = -math.inf
    for missing_left in range(2 if n_missing > 0 else 1):
        n = collect_fields(fields, ZERO, N_BINS, order, n_bins, missing_left, n_rows, tree, scratch)
        i, score = best_entropy_boundary(n, sums, tree, scratch)
        if i >= 0 and score > best_score:
            best_score = score
            scratch.split_bin = order[boundary[i]]
            scratch.default_left = missing_left if n_missing > 0 else NONE
    return best_score


@njit
def best_numeric_split(hist, base, step, is_wide, n_bins, sums, n_rows, tree, scratch):
    """The best threshold of an ordered feature; missing values, if there are any, are tried on both sides."""
    boundary = boundary_of(scratch)
    n_missing = ZERO
    for plane in range(tree.n_planes):
        n_missing += hist[base + plane * step] if is_wide else hist[base + plane * step] & _COUNT_MASK
    best_score = -math.inf
    for missing_left in range(2 if n_missing > 0 else 1):
        if is_wide:
            n = collect_sums(hist, base, step, n_bins, missing_left, n_rows, tree, scratch)
        else:
            start_word = hist[base] if missing_left else ZERO
            n = collect_packed(hist, base, n_bins, start_word, n_rows, tree, scratch)
        i, score = best_gradient_boundary(n, sums, 0.0, tree, scratch)
        if i >= 0 and score > best_score:
            best_score = score
            scratch.split_bin = boundary[i]
            scratch.default_left = missing_left if n_missing > 0 else NONE
    return best_score


@lazy(types.float64)
def best_categorical_split(hist, base, step, is_wide, n_bins, sums, n_rows, tree, scratch):
    """The best prefix of the categories in the order of their statistics; its bins are the set that goes left."""
    boundary = boundary_of(scratch)
    order = order_of(scratch)
    found_set = found_set_of(scratch)
    fields = decode_feature(hist, base, step, is_wide, n_bins, tree, scratch)
    n_order = order_categories(fields, n_bins, sums, tree, scratch)
    n = collect_fields(fields, ZERO, N_BINS, order, n_order, ZERO, n_rows, tree, scratch)
    i, score = best_of_fields(n, sums, tree.cat_l2, tree, scratch)
    if i < 0:
        return -math.inf
    n_left = ZERO
    for place in range(boundary[i] + 1):
        for plane in range(tree.n_planes):
            n_left += fields[plane * N_BINS + order[place]]
    # Categories without rows here, and those that only prediction meets, follow the larger child.
    found_set[:] = np.uint64(0xFFFFFFFFFFFFFFFF) if 2 * n_left >= n_rows else np.uint64(0)
    for place in range(n_order):
        b = order[place]
        bit = np.uint64(1) << np.uint64(b & 63)
        if place <= boundary[i]:
            found_set[b >> 6] |= bit
        else:
            found_set[b >> 6] &= ~bit
    scratch.split_bin = ZERO
    scratch.default_left = np.int64(found_set[0] & np.uint64(1))
    return score


@njit
def best_split_of_feature(hist, base, step, is_wide, n_bins, is_categorical, sums, own_score, tree, scratch):
    """The gain of the feature's best split, -inf if it has none; the split itself is left in ``scratch``.

    Field or plane j of bin b is hist[base + j * step + b]: one int64 per field if ``is_wide``, else packed words.
    """
    n_rows = count_rows(sums, tree.n_planes)
    if is_categorical:
        score = best_categorical_split(hist, base, step, is_wide, n_bins, sums, n_rows, tree, scratch)
    elif tree.criterion == ENTROPY:
        score = best_class_split(hist, base, step, is_wide, n_bins, sums, n_rows, tree, scratch)
    else:
        score = best_numeric_split(hist, base, step, is_wide, n_bins, sums, n_rows, tree, scratch)
    return gain_of_score(score, own_score, n_rows, tree)


@njit
def gain_of_score(score, own_score, n_rows, tree):
    """The gain of a feature's best score over the node's own, -inf if that is no gain."""
    return gain_of_difference(score - own_score, own_score, n_rows, tree)


@njit
def gain_of_difference(gain, own_score, n_rows, tree):
    """The same of a gain in steps."""
    largest_term = own_score
    if tree.criterion == ENTROPY:
        largest_term = largest_entropy_term(n_rows, tree)
    if not gain > NOISE * largest_term:
        return -math.inf
    gain *= score_unit(tree)
    if not gain > tree.noise:
        return -math.inf
    gain *= tree.gain_scale
    return gain if gain > tree.min_gain else -math.inf


@njit
def left_sum(values, n_bins, is_categorical, scratch):
    """The sum of the bins that go left by the split in ``scratch``."""
    total = ZERO
    if is_categorical:
        found_set = found_set_of(scratch)
        for b in range(n_bins + 1):
            if (found_set[b >> 6] >> np.uint64(b & 63)) & np.uint64(1) == np.uint64(1):
                total += values[b]
        return total
    bins = values[1:][: scratch.split_bin]
    for b in range(len(bins)):
        total += bins[b]
    return total + values[0] if scratch.default_left == 1 else total


@njit
def complete_split(hist, base, step, is_wide, n_bins, is_categorical, sums, tree, scratch):
    """Complete the split in ``scratch``: its left-hand sums, and the side of missing values if there were none."""
    found_sums = found_sums_of(scratch)
    plane, shift, mask = plane_of(tree), shift_of(tree), mask_of(tree)
    for j in range(tree.n_fields if is_wide else tree.n_planes):
        total = left_sum(hist[base + j * step :], n_bins, is_categorical, scratch)
        if is_wide:
            found_sums[j] = total
            continue
        found_sums[j] = total & _COUNT_MASK
        for value in range(tree.n_values):  # a sum of packed words holds the sums of their fields
            if plane[value] == j:
                found_sums[tree.n_planes + value] = (total >> shift[value]) & mask[value]
    if scratch.default_left < 0:  # unmet missing values follow the larger child
        larger_is_left = 2 * count_rows(found_sums, tree.n_planes) >= count_rows(sums, tree.n_planes)
        scratch.default_left = np.int64(larger_is_left)
