"""FindBestSplit on histograms (the paper's Algorithm 2): walk a feature's bins, keep the best boundary."""

from __future__ import annotations

import math

import numpy as np

from pvtree.dtypes import COUNT_BITS, ENTROPY, N_BINS, ONE, ZERO
from pvtree.kernels.elementary import log
from pvtree.kernels.histogram import unpack_add
from pvtree.kernels.intrinsics import float64_at, int64_at, uint64_at
from pvtree.kernels.jit import njit

TABLE_SIZE = 8193  # x log x of counts up to MAX_CAPACITY is looked up
# Gains below this share of the largest term they are the difference of are rounding noise, not a split.
_NOISE = 1e-14
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
def node_score(sums, tree):
    """The node's own term in the gain, G^2 / (H + lambda) or sum x log x - n log n: what a split must improve on."""
    if tree.criterion == ENTROPY:
        table = float64_at(tree.table, TABLE_SIZE)
        total, score = ZERO, 0.0
        for j in range(tree.n_planes, tree.n_fields):
            total += sums[j]
            score += x_log_x(sums[j], table)
        return score - x_log_x(total, table)
    g = max(abs(sums[tree.n_fields - 1] * tree.grad_scale) - tree.reg_alpha, 0.0)
    return g * g / (sums[tree.hess_field] * tree.hess_scale + tree.reg_lambda)


@njit
def collect_packed(packed, base, n_bins, start_word, n_rows, tree, scratch):
    """Left-hand sums at each boundary of a packed one-plane histogram; returns how many boundaries are valid.

    A boundary after an empty bin splits the rows as the one before it, so the first of such a run stands for all.
    """
    words = int64_at(scratch.words, N_BINS)
    boundary = int64_at(scratch.boundary, N_BINS)
    left = int64_at(scratch.left, (tree.n_fields, N_BINS))
    shift = int64_at(tree.shift, tree.n_values)
    mask = int64_at(tree.mask, tree.n_values)
    least, most = tree.min_count, n_rows - tree.min_count
    n = 0
    total = start_word
    bins = packed[base + 1 :][:n_bins]
    for b in range(n_bins):
        word = bins[b]
        total += word
        words[n] = total
        boundary[n] = b + 1
        count = total & _COUNT_MASK
        n += (word != 0) & (count >= least) & (count <= most)
    counts = left[0]
    for i in range(n):
        counts[i] = words[i] & _COUNT_MASK
    for j in range(tree.n_values):
        values = left[1 + j]
        by, keep = shift[j], mask[j]
        for i in range(n):
            values[i] = (words[i] >> by) & keep
    return n


@njit
def collect_fields(fields, base, step, order, n_order, with_missing, n_rows, tree, scratch):
    """As ``collect_packed`` for one sum per field, walking the bins in ``order``; boundaries are places in it."""
    boundary = int64_at(scratch.boundary, N_BINS)
    counts = int64_at(scratch.words, N_BINS)
    place = int64_at(scratch.place, N_BINS)
    left = int64_at(scratch.left, (tree.n_fields, N_BINS))
    for i in range(n_order):
        counts[i] = fields[base + order[i]]
    for j in range(1, tree.n_planes):
        for i in range(n_order):
            counts[i] += fields[base + j * step + order[i]]
    total = 0
    for j in range(tree.n_planes):
        total += fields[base + j * step] if with_missing else 0
    n = 0
    for i in range(n_order):
        total += counts[i]
        boundary[n] = i
        place[i] = n  # sums of a boundary that does not count are overwritten by the next
        n += (counts[i] != 0) & (total >= tree.min_count) & (total <= n_rows - tree.min_count)
    for j in range(tree.n_fields):
        values = left[j]
        sums = fields[base + j * step :]
        running = sums[0] if with_missing else 0
        for i in range(n_order):
            running += sums[order[i]]
            values[place[i]] = running
    return n


@njit
def first_maximum(scores, n):
    """Index of the first of the largest scores, -1 if all are -inf; four maxima at a time hide the latency."""
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
    """Index of the first boundary with the highest GL^2/(HL+lambda) + GR^2/(HR+lambda), and that score."""
    left = int64_at(scratch.left, (tree.n_fields, N_BINS))
    scores = float64_at(scratch.scores, N_BINS)
    grads, hessians = left[tree.n_fields - 1], left[tree.hess_field]
    g_total, h_total = sums[tree.n_fields - 1], sums[tree.hess_field]
    g_scale, h_scale = tree.grad_scale, tree.hess_scale
    penalty = tree.reg_lambda + extra_lambda
    alpha, least = tree.reg_alpha, tree.min_hess
    for i in range(n):
        hl = hessians[i] * h_scale
        hr = (h_total - hessians[i]) * h_scale
        gl = max(abs(grads[i] * g_scale) - alpha, 0.0)
        gr = max(abs((g_total - grads[i]) * g_scale) - alpha, 0.0)
        score = gl * gl / (hl + penalty) + gr * gr / (hr + penalty)
        scores[i] = score if (hl >= least) & (hr >= least) else -math.inf
    best = first_maximum(scores, n)
    return best, scores[best] if best >= 0 else -math.inf


@njit
def best_entropy_boundary(n, sums, tree, scratch):
    """Index of the first boundary with the highest information gain, and sum x log x - n log n of both sides."""
    left = int64_at(scratch.left, (tree.n_fields, N_BINS))
    table = float64_at(tree.table, TABLE_SIZE)
    best, best_score = -1, -math.inf
    for i in range(n):
        n_left, n_right, score = 0, 0, 0.0
        for j in range(tree.n_planes, tree.n_fields):
            on_left = left[j, i]
            on_right = sums[j] - on_left
            n_left += on_left
            n_right += on_right
            score += x_log_x(on_left, table) + x_log_x(on_right, table)
        score -= x_log_x(n_left, table) + x_log_x(n_right, table)
        enough = min(n_left, n_right) * tree.hess_scale >= tree.min_hess
        if enough and score > best_score:
            best, best_score = i, score
    return best, best_score


@njit
def best_boundary(n, sums, extra_lambda, tree, scratch):
    if tree.criterion == ENTROPY:
        return best_entropy_boundary(n, sums, tree, scratch)
    return best_gradient_boundary(n, sums, extra_lambda, tree, scratch)


@njit
def order_categories(fields, n_bins, sums, tree, scratch):
    """Categories with rows here (the missing bin is one of them), by gradient statistics or class share."""
    order = int64_at(scratch.order, N_BINS)
    keys = float64_at(scratch.scores, N_BINS)
    major = tree.n_planes  # the class with most rows here
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
        # Insertion keeps the sort stable: equal keys stay in the order of their bins.
        i = n
        while i > 0 and keys[i - 1] > key:
            keys[i], order[i] = keys[i - 1], order[i - 1]
            i -= 1
        keys[i], order[i] = key, b
        n += 1
    return n


@njit
def best_numeric_split(hist, base, step, is_wide, n_bins, sums, n_rows, tree, scratch):
    """Best threshold of an ordered feature, with missing values tried on both sides where there are any."""
    left = int64_at(scratch.left, (tree.n_fields, N_BINS))
    boundary = int64_at(scratch.boundary, N_BINS)
    found_sums = int64_at(scratch.found_sums, tree.n_fields)
    natural_order = int64_at(scratch.natural_order, N_BINS)
    packed = is_wide == 0 and tree.n_planes == 1
    fields = hist
    if is_wide == 0 and not packed:
        fields = int64_at(scratch.fields, tree.n_fields * N_BINS)
        fields[:] = 0
        unpack_add(hist, base, step, n_bins + 1, tree, fields, ZERO, N_BINS, ONE)
        base, step = ZERO, N_BINS
    n_missing = 0
    for plane in range(tree.n_planes):
        here = fields[base + plane * step]
        n_missing += here & _COUNT_MASK if packed else here
    best_score = -math.inf
    for missing_left in range(2 if n_missing > 0 else 1):
        if packed:
            start_word = hist[base] if missing_left else 0
            n = collect_packed(hist, base, n_bins, start_word, n_rows, tree, scratch)
        else:
            n = collect_fields(fields, base, step, natural_order, n_bins, missing_left, n_rows, tree, scratch)
        i, score = best_boundary(n, sums, 0.0, tree, scratch)
        if i >= 0 and score > best_score:
            best_score = score
            scratch.split_bin = boundary[i] if packed else natural_order[boundary[i]]
            for j in range(tree.n_fields):
                found_sums[j] = left[j, i]
            # Missing values first met at prediction follow the larger child.
            larger_is_left = 2 * count_rows(found_sums, tree.n_planes) >= n_rows
            scratch.default_left = missing_left if n_missing > 0 else larger_is_left
    return best_score


@njit
def best_categorical_split(hist, base, step, is_wide, n_bins, sums, n_rows, tree, scratch):
    """Best prefix of the categories in the order of their statistics; its bins are the set that goes left."""
    left = int64_at(scratch.left, (tree.n_fields, N_BINS))
    boundary = int64_at(scratch.boundary, N_BINS)
    order = int64_at(scratch.order, N_BINS)
    found_sums = int64_at(scratch.found_sums, tree.n_fields)
    found_set = uint64_at(scratch.found_set, 4)
    fields = int64_at(scratch.fields, tree.n_fields * N_BINS)
    fields[:] = 0
    if is_wide:
        for j in range(tree.n_fields):
            for b in range(n_bins + 1):
                fields[j * N_BINS + b] = hist[base + j * step + b]
    else:
        unpack_add(hist, base, step, n_bins + 1, tree, fields, ZERO, N_BINS, ONE)
    n_order = order_categories(fields, n_bins, sums, tree, scratch)
    n = collect_fields(fields, ZERO, N_BINS, order, n_order, ZERO, n_rows, tree, scratch)
    i, score = best_boundary(n, sums, tree.cat_l2, tree, scratch)
    if i < 0:
        return -math.inf
    for j in range(tree.n_fields):
        found_sums[j] = left[j, i]
    # Categories without rows here, and those first met at prediction, follow the larger child.
    larger_is_left = 2 * count_rows(found_sums, tree.n_planes) >= n_rows
    found_set[:] = np.uint64(0xFFFFFFFFFFFFFFFF) if larger_is_left else np.uint64(0)
    for place in range(n_order):
        b = order[place]
        bit = np.uint64(1) << np.uint64(b & 63)
        if place <= boundary[i]:
            found_set[b >> 6] |= bit
        else:
            found_set[b >> 6] &= ~bit
    scratch.split_bin = 0
    scratch.default_left = np.int64(found_set[0] & np.uint64(1))
    return score


@njit
def best_split_of_feature(hist, base, step, is_wide, n_bins, is_categorical, sums, own_score, tree, scratch):
    """Gain of the feature's best split, -inf if it has none; the split itself is left in ``scratch``.

    Field or plane j of bin b is hist[base + j * step + b]: one int64 per field if ``is_wide``, else packed words.
    """
    n_rows = count_rows(sums, tree.n_planes)
    if is_categorical:
        score = best_categorical_split(hist, base, step, is_wide, n_bins, sums, n_rows, tree, scratch)
    else:
        score = best_numeric_split(hist, base, step, is_wide, n_bins, sums, n_rows, tree, scratch)
    gain = score - own_score
    largest_term = own_score
    if tree.criterion == ENTROPY:
        largest_term = x_log_x(n_rows, float64_at(tree.table, TABLE_SIZE))
    if not gain > max(_NOISE * largest_term, tree.noise):
        return -math.inf
    gain *= tree.gain_scale
    return gain if gain > tree.min_gain else -math.inf
