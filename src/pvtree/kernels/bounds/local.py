"""How much a worker's own rows could contribute to the gain of a feature's best split, whatever other workers have."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import BLOCK, COUNT_BITS, ENTROPY, N_BINS, ZERO
from pvtree.kernels.elementary import exp, log
from pvtree.kernels.growing.collect import decode_feature, gradient_bits, gradient_in, hessian_in
from pvtree.kernels.growing.records import (
    TILE_BOUNDARIES,
    is_categorical_of,
    lane_below_of,
    lane_best_of,
    lane_bin_of,
    lane_count_of,
    lane_total_of,
    mask_of,
    n_bins_of,
    order_of,
    scores_of,
    shift_of,
    sums_of,
    table_of,
    tile_of,
    tile_scores_of,
    wide_of,
    words_of,
)
from pvtree.kernels.growing.split import insert, x_log_x
from pvtree.kernels.growing.split_options import category_penalty
from pvtree.kernels.jit import njit

# A gain is the loss that a split saves when each side takes the leaf value that suits all its rows. If every worker
# chose its own boundary and its own leaf values, together they would save at least as much. So the sum of these local
# bounds over all workers bounds the global gain (docs/exact-voting.md has the proofs). Constraints only forbid some of
# these splits and leaf values, so the bound still holds (see constraints.constrained_score).
#
# Savings are measured against the node's own leaf value, the *aim*, which every worker knows. A good split moves one
# side's value above the aim and the other's below it. So there are two bounds: "above" for splits that raise the left
# side, and "below" for those that lower it. The gain is at most the larger of the two sums.

_COUNT_MASK = (1 << COUNT_BITS) - 1
# Rounding may leave a side gradients but no hessian; then it may save any amount. Dividing by this instead of zero
# gives a bound that no gain reaches, and never a NaN.
_NEXT_TO_NOTHING = 1e-300
NO_HESSIAN = np.int64(2**31)  # of a worker without rows: more than any row's


@njit
def find_aims(start, stop, row_node, trees, aims):
    """aims[row] = a node's leaf value G / (H + lambda) over all workers' rows; for classes, the logs of their shares.

    Any numbers that are the same on all workers would do; these give the tightest bounds.
    """
    tree = trees[0]
    sums = sums_of(tree)
    for row in range(start, stop):
        own = sums[row_node[row]]
        if tree.criterion == ENTROPY:
            total = ZERO
            for j in range(tree.n_planes, tree.n_fields):
                total += own[j]
            for j in range(tree.n_planes, tree.n_fields):
                aims[row, j - tree.n_planes] = log(own[j] / np.float64(total)) if own[j] > 0 else 0.0
        else:
            g = np.float64(own[tree.n_fields - 1])
            alpha = tree.reg_alpha / tree.grad_scale
            g = max(g - alpha, 0.0) if g > 0.0 else min(g + alpha, 0.0)
            h = own[tree.hess_field] + tree.reg_lambda / tree.hess_scale
            aims[row, 0] = g / h if h > 0.0 else 0.0


@njit
def smallest_hessians(start, stop, row_node, trees, nodes, smallest):
    """smallest[row] = the least hessian, or weight, of this worker's rows in a node; huge without rows.

    Each side of a split has at least min_count rows, hence at least min_count times this hessian.
    """
    tree = trees[0]
    shift, mask = shift_of(tree), mask_of(tree)
    words = words_of(tree)
    is_constant = tree.criterion != ENTROPY and tree.hess_field == 0
    n_values = tree.n_values if tree.criterion == ENTROPY else np.int64(1)
    for row in range(start, stop):
        node = nodes[row_node[row]]
        least = NO_HESSIAN
        for place in range(node.start, node.stop):
            word = words[node.buffer, place]
            hessian = ZERO
            for j in range(n_values):
                hessian += (word >> shift[j]) & mask[j]
            if word & _COUNT_MASK != 0:  # passengers are not counted
                least = min(least, np.int64(1) if is_constant else hessian)
        smallest[row] = least


@njit
def saved_by_gradient(g, h, aim, alpha):
    """(above, below): max over leaf values v beyond the aim of 2 (v - aim) g - 2 alpha (|v| - |aim|) - (v^2 - aim^2) h.

    ``h`` includes the penalty lambda. One of the two is zero.
    """
    if alpha == 0.0:
        distance = g - aim * h
        saved = distance * distance / max(h, _NEXT_TO_NOTHING)
        return (saved, 0.0) if distance > 0.0 else (0.0, saved)
    inner = max(abs(g) - alpha, 0.0)
    h_safe = max(h, _NEXT_TO_NOTHING)
    value = inner / h_safe if g > 0.0 else -inner / h_safe
    saved = max(inner * inner / h_safe - (2.0 * aim * g - 2.0 * alpha * abs(aim) - aim * aim * h), 0.0)
    return (saved, 0.0) if value > aim else (0.0, saved)


@njit
def saved_by_classes(counts, at, step, aims, n_classes, table):
    """(above, below): how much the side's own class shares raise the log-likelihood over that of the node's shares.

    With two classes, "above" is a larger share of the second one. More classes have no order, and both are the same.
    """
    total, saved = ZERO, 0.0
    for k in range(n_classes):
        count = counts[at + k * step]
        total += count
        saved += x_log_x(count, table) - count * aims[k]
    saved = max(saved - x_log_x(total, table), 0.0)
    if n_classes != 2:
        return saved, saved
    return (saved, 0.0) if counts[at + step] * exp(-aims[1]) > total else (0.0, saved)


@njit
def saved_by_sums(sums, at, step, extra_penalty, aims, tree):
    """The same from one sum per field: field j is sums[at + j * step]."""
    if tree.criterion == ENTROPY:
        table = table_of(tree)
        return saved_by_classes(sums, at + tree.n_planes * step, step, aims, tree.n_fields - tree.n_planes, table)
    g, h = np.float64(sums[at + (tree.n_fields - 1) * step]), np.float64(sums[at + tree.hess_field * step])
    penalty = (tree.reg_lambda + extra_penalty) / tree.hess_scale
    return saved_by_gradient(g, h + penalty, aims[0], tree.reg_alpha / tree.grad_scale)


@njit
def saved_by_split(left, right, extra_penalty, aims, tree):
    """(above, below) of a split whose sides have these sums by field."""
    left_above, left_below = saved_by_sums(left, ZERO, np.int64(1), extra_penalty, aims, tree)
    right_above, right_below = saved_by_sums(right, ZERO, np.int64(1), extra_penalty, aims, tree)
    if tree.criterion == ENTROPY and tree.n_fields - tree.n_planes != 2:
        return left_above + right_above, left_above + right_above
    return left_above + right_below, left_below + right_above


@njit
def bound_ordered(fields, n_bins, totals, aims, tree):
    """The largest (above, below) of all thresholds, with missing values on either side.

    Thresholds with few rows here count as well: with other workers' rows they may have enough.
    """
    left, right = np.empty(tree.n_fields, np.int64), np.empty(tree.n_fields, np.int64)
    n_missing = ZERO
    for j in range(tree.n_planes):
        n_missing += fields[j * N_BINS]
    most_above, most_below = 0.0, 0.0
    for missing_left in range(2 if n_missing > 0 else 1):
        for j in range(tree.n_fields):
            left[j] = fields[j * N_BINS] if missing_left else ZERO
        for b in range(1, n_bins + 1):
            n_here = ZERO
            for j in range(tree.n_planes):
                n_here += fields[j * N_BINS + b]
            if n_here == 0 and b > 1:  # the left side has the same rows as before
                continue
            for j in range(tree.n_fields):
                left[j] += fields[j * N_BINS + b]
                right[j] = totals[j] - left[j]
            above, below = saved_by_split(left, right, 0.0, aims, tree)
            most_above, most_below = max(most_above, above), max(most_below, below)
    return most_above, most_below


@njit
def order_by_ratio(fields, n_bins, tree, scratch):
    """Order all categories by gradient over hessian or, with two classes, by second class over first."""
    order, keys = order_of(scratch), scores_of(scratch)
    last = (tree.n_fields - 1) * N_BINS
    weight = tree.n_planes * N_BINS if tree.criterion == ENTROPY else tree.hess_field * N_BINS
    for b in range(n_bins + 1):
        g, h = np.float64(fields[last + b]), np.float64(fields[weight + b])
        key = g / h if h != 0.0 else (0.0 if g == 0.0 else np.copysign(np.inf, g))
        insert(key, b, b, keys, order)


@njit
def bound_categories(fields, n_bins, totals, aims, tree, scratch):
    """The most that any set of categories saves, the same above and below: a set's complement is a set as well.

    What a set saves is convex in its sums, so the best set has all categories up to some ratio of gradient to hessian.
    More than two classes have no such order; for them every category counts as a side of its own.
    """
    left, right = np.zeros(tree.n_fields, np.int64), np.empty(tree.n_fields, np.int64)
    if tree.criterion == ENTROPY and tree.n_fields - tree.n_planes != 2:
        saved = 0.0
        for b in range(n_bins + 1):
            above, _ = saved_by_sums(fields, b, N_BINS, 0.0, aims, tree)
            saved += above
        return saved, saved
    order = order_of(scratch)
    order_by_ratio(fields, n_bins, tree, scratch)
    most, penalty = 0.0, category_penalty(n_bins, tree)
    for i in range(n_bins + 1):
        for j in range(tree.n_fields):
            left[j] += fields[j * N_BINS + order[i]]
            right[j] = totals[j] - left[j]
        left_above, left_below = saved_by_sums(left, ZERO, np.int64(1), penalty, aims, tree)
        right_above, right_below = saved_by_sums(right, ZERO, np.int64(1), penalty, aims, tree)
        most = max(most, left_above + left_below + right_above + right_below)
    return most, most


@njit
def bound_feature(hist, base, step, is_wide, feature, node, row, tree, scratch, values, aims):
    """Store a feature's bounds at a node; its bins are laid out as for split.best_split_of_feature."""
    n_bins = n_bins_of(tree)[feature]
    totals = sums_of(tree)[node]
    fields = decode_feature(hist, base, step, is_wide, n_bins, tree, scratch)
    if is_categorical_of(tree)[feature]:
        above, below = bound_categories(fields, n_bins, totals, aims[row], tree, scratch)
    else:
        above, below = bound_ordered(fields, n_bins, totals, aims[row], tree)
    values[0, row, feature], values[1, row, feature] = above, below


@njit
def can_bound_lanes(tree):
    """Whether ``bound_lanes`` supports this criterion; words must be packed too."""
    return tree.criterion != ENTROPY and tree.reg_alpha == 0.0


@njit
def bound_tile(tile, totals, aim, tree, rises, falls, above, below):
    """Raise above[lane] and below[lane] to the largest of the tile's boundaries; ``rises``, ``falls`` are scratch."""
    h_shift, h_mask, g_shift = gradient_bits(tree)
    penalty = tree.reg_lambda / tree.hess_scale
    g_total, h_total = np.float64(totals[tree.n_fields - 1]), np.float64(totals[tree.hess_field])
    for i in range(len(tile)):
        h, g = hessian_in(tile[i], h_shift, h_mask), gradient_in(tile[i], g_shift)
        h_left, h_right = h + penalty, h_total - h + penalty
        left, right = g - aim * h_left, g_total - g - aim * h_right
        # A side with neither rows nor penalty saves nothing: its hessian is taken to be 1.
        h_left = h_left if h_left > 0.0 else (1.0 if left == 0.0 else _NEXT_TO_NOTHING)
        h_right = h_right if h_right > 0.0 else (1.0 if right == 0.0 else _NEXT_TO_NOTHING)
        up, down = (left if left > 0.0 else 0.0), (left if left < 0.0 else 0.0)
        right_up, right_down = (right if right > 0.0 else 0.0), (right if right < 0.0 else 0.0)
        # Over a common denominator: a division costs more than all the rest.
        inverse = 1.0 / (h_left * h_right)
        rises[i] = (up * up * h_right + right_down * right_down * h_left) * inverse
        falls[i] = (down * down * h_right + right_up * right_up * h_left) * inverse
    # In a loop of its own, as the first one is several times as fast without results that wait for each other.
    for start in range(0, len(tile), BLOCK):
        rise, fall = rises[start:][:BLOCK], falls[start:][:BLOCK]
        for lane in range(BLOCK):
            above[lane] = rise[lane] if rise[lane] > above[lane] else above[lane]
            below[lane] = fall[lane] if fall[lane] > below[lane] else below[lane]


@njit
def sum_up_used_bins(bins, b, so_far, own):
    """own[i * BLOCK] = the sums up to bin ``b`` and to each later bin with rows, of at most TILE_BOUNDARIES.

    A boundary after an empty bin splits the rows like the one before it; only the first bin always counts, because the
    left side may have no rows. Returns (the number of sums, the next bin, the sum before it).
    """
    n = ZERO
    while b < len(bins) and n < TILE_BOUNDARIES:
        so_far += bins[b]
        own[n * BLOCK] = so_far
        n += np.int64((bins[b] != 0) | (b == 0))
        b += 1
    return n, b, so_far


@njit
def sum_up_bins(bins, b, so_far, own):
    """The same up to each bin, whether it has rows or not."""
    some = bins[b:][:TILE_BOUNDARIES]
    for i in range(len(some)):
        so_far += some[i]
        own[i * BLOCK] = so_far
    return np.int64(len(some)), b + len(some), so_far


@njit
def bound_lanes(hist, base, lane_step, features, n_lanes, node, row, tree, scratch, values, aims):
    """Store the bounds of a block's ordered features, one a lane, all at once, from packed words of one plane."""
    n_bins, totals = n_bins_of(tree), sums_of(tree)[node]
    tile, so_far, next_bin = tile_of(scratch), lane_total_of(scratch), lane_bin_of(scratch)
    count, above, below = lane_count_of(scratch), lane_best_of(scratch), lane_below_of(scratch)
    rises, falls = tile_scores_of(scratch), wide_of(scratch)[: len(tile)].view(np.float64)
    above[:], below[:] = 0.0, 0.0
    any_missing, most_bins = False, ZERO
    for lane in range(n_lanes):
        any_missing |= hist[base + lane * lane_step] & _COUNT_MASK != 0
        most_bins = max(most_bins, n_bins[features[lane]])
    skips_empty = totals[0] < most_bins
    tile[:] = 0
    for missing_left in range(2 if any_missing else 1):
        for lane in range(n_lanes):
            so_far[lane] = hist[base + lane * lane_step] if missing_left else ZERO
            next_bin[lane] = 0
        more = True
        while more:
            most, more = ZERO, False
            for lane in range(n_lanes):
                bins = hist[base + lane * lane_step + 1 :][: n_bins[features[lane]]]
                at, so_far_here, own = next_bin[lane], so_far[lane], tile[lane:]
                if skips_empty:
                    count[lane], next_bin[lane], so_far[lane] = sum_up_used_bins(bins, at, so_far_here, own)
                else:
                    count[lane], next_bin[lane], so_far[lane] = sum_up_bins(bins, at, so_far_here, own)
                most = max(most, count[lane])
                more |= next_bin[lane] < len(bins)
            for lane in range(n_lanes):  # lanes with fewer boundaries than others repeat their last one
                own = tile[lane:]
                for i in range(count[lane], most):
                    own[i * BLOCK] = so_far[lane]
            n = most * BLOCK
            bound_tile(tile[:n], totals, aims[row, 0], tree, rises[:n], falls[:n], above, below)
    for lane in range(n_lanes):
        values[0, row, features[lane]], values[1, row, features[lane]] = above[lane], below[lane]
