"""Rounded sums of features in doubt: what workers write about their rows, and the bounds that owners derive."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.bounds.rounded_bound import bound_of_intervals, rounding_unit
from pvtree.kernels.bounds.rounded_sums import SCRATCH_SHAPE, add_exact, add_rounded, put_rounded
from pvtree.kernels.constants import ENTROPY, N_BINS, ZERO
from pvtree.kernels.growing.collect import decode_feature
from pvtree.kernels.growing.records import n_bins_of, sums_of
from pvtree.kernels.jit import njit
from pvtree.kernels.wire.messages import local_histogram


@njit
def own_features(row, to, n_workers, in_doubt, features):
    """List the features in doubt at a row that worker ``to`` owns; returns their number."""
    n = ZERO
    for feature in range(to, in_doubt.shape[1], n_workers):
        if in_doubt[row, feature]:
            features[n] = feature
            n += 1
    return n


@njit
def sum_by_position(node, feature, tree, nodes, scratch, g, h):
    """g[p], h[p] = the sums of this worker's rows in bins 1..p of a feature at a node; p = 0 is the missing bin alone.

    With two classes, g is the weight of the second and h that of both.
    """
    hist, base, step, is_wide = local_histogram(node, feature, tree, nodes, scratch)
    n_bins = n_bins_of(tree)[feature]
    fields = decode_feature(hist, base, step, is_wide, n_bins, tree, scratch)
    of_g, of_h = (tree.n_fields - 1) * N_BINS, tree.hess_field * N_BINS
    if tree.criterion == ENTROPY:
        of_h = tree.n_planes * N_BINS  # the first class
    g_sum, h_sum = ZERO, ZERO
    for b in range(n_bins + 1):
        g_here = fields[of_g + b]
        h_here = fields[of_h + b] + (g_here if tree.criterion == ENTROPY else ZERO)
        g_sum, h_sum = (g_sum + g_here, h_sum + h_here) if b > 1 else (g_here, h_here)
        g[b], h[b] = g_sum, h_sum


@njit
def slope_of(node, tree):
    """G / (H + lambda) of a node, relative to which sums are rounded; with two classes, the share of the second."""
    sums = sums_of(tree)[node]
    g = np.float64(sums[tree.n_fields - 1])
    if tree.criterion == ENTROPY:
        return g / np.float64(sums[tree.n_fields - 2] + sums[tree.n_fields - 1])
    h = sums[tree.hess_field] + tree.reg_lambda / tree.hess_scale
    return g / h if h > 0.0 else 0.0


@njit
def sum_features(node, features, n, tree, nodes, scratch, sums, n_bins):
    """sums[0 for g, 1 for h, i, position] = the sums by position of n features at a node; n_bins = their bins."""
    all_bins = n_bins_of(tree)
    for i in range(n):
        n_bins[i] = all_bins[features[i]]
        sum_by_position(node, features[i], tree, nodes, scratch, sums[0, i], sums[1, i])


@njit
def write_rounded(
    start, stop, first_row, last_row, n_workers, rank, in_doubt, most_features, least, row_node, trees, nodes, levels,
    step, message_start, at, bits, scratches,
):  # fmt: skip
    """Append the sums of features in doubt at rows first_row:last_row to the messages for workers start:stop.

    The message for worker m begins at word message_start[m] of ``bits`` and is at[m] bits long.
    """
    tree, scratch = trees[0], scratches[0]
    sums, rounded_scratch = np.empty((2, most_features, N_BINS), np.int64), np.zeros(SCRATCH_SHAPE, np.int64)
    features, n_bins = np.empty(in_doubt.shape[1], np.int64), np.empty(in_doubt.shape[1], np.int64)
    for row in range(first_row, last_row):
        node = row_node[row]
        slope = slope_of(node, tree)
        unit = step * rounding_unit(least[row], n_workers, slope, tree.criterion == ENTROPY)
        for to in range(start, stop):
            n = own_features(row, to, n_workers, in_doubt, features) if to != rank else ZERO
            if n > 0:
                sum_features(node, features, n, tree, nodes, scratch, sums, n_bins)
                own = bits[message_start[to] : message_start[to + 1]]
                at[to] = put_rounded(
                    sums[0], sums[1], n_bins, n, slope, unit, levels, own, at[to], rounded_scratch
                )  # fmt: skip


@njit
def read_rounded(
    n_workers, rank, in_doubt, most_features, least, row_node, trees, nodes, levels, step, message_start, data,
    smallest, upper, scratches,
):  # fmt: skip
    """Lower upper[row, own feature] to what all workers' sums allow; this worker's own are exact."""
    tree, scratch = trees[0], scratches[0]
    features, n_bins = np.empty(in_doubt.shape[1], np.int64), np.empty(in_doubt.shape[1], np.int64)
    node_sums = sums_of(tree)
    is_entropy = tree.criterion == ENTROPY
    penalty, alpha = tree.reg_lambda / tree.hess_scale, tree.reg_alpha / tree.grad_scale
    at = np.zeros(n_workers, np.int64)
    sums, rounded_scratch = np.empty((2, most_features, N_BINS), np.int64), np.zeros(SCRATCH_SHAPE, np.int64)
    intervals = np.empty((4, most_features, N_BINS))
    low_x, high_x, low_h, high_h = intervals[0], intervals[1], intervals[2], intervals[3]
    for row in range(len(row_node)):
        n = own_features(row, rank, n_workers, in_doubt, features)
        if n == 0:
            continue
        node = row_node[row]
        slope = slope_of(node, tree)
        unit = step * rounding_unit(least[row], n_workers, slope, is_entropy)
        intervals[:, :n] = 0.0
        sum_features(node, features, n, tree, nodes, scratch, sums, n_bins)
        add_exact(sums[0], sums[1], n_bins, n, slope, low_x, high_x, low_h, high_h)
        for other in range(n_workers):
            if other != rank:
                own = data[message_start[other] : message_start[other + 1]]
                at[other] = add_rounded(
                    own, at[other], n_bins, n, slope, unit, levels, low_x, high_x, low_h, high_h, rounded_scratch
                )  # fmt: skip
        g_total = node_sums[node, tree.n_fields - 1]
        h_total = node_sums[node, tree.n_fields - 2] + g_total if is_entropy else node_sums[node, tree.hess_field]
        least_hess = max(tree.min_hess / tree.hess_scale, np.float64(tree.min_count * smallest[row]))
        for i in range(n):
            bound = bound_of_intervals(
                low_x[i], high_x[i], low_h[i], high_h[i], n_bins[i], g_total, h_total, slope, penalty, alpha,
                least_hess, tree.max_output, is_entropy,
            )  # fmt: skip
            at_feature = features[i] // n_workers
            upper[row, at_feature] = min(upper[row, at_feature], bound)
