"""Rounded sums of features in doubt: what workers write about their rows, and the bounds that owners draw from it."""

from __future__ import annotations

import numpy as np

from pvtree.dtypes import ENTROPY, N_BINS, ZERO
from pvtree.kernels.intrinsics import int64_at
from pvtree.kernels.jit import njit
from pvtree.kernels.messages import local_histogram
from pvtree.kernels.rounded_bound import bound_of_intervals
from pvtree.kernels.rounded_sums import add_exact, add_rounded, put_rounded
from pvtree.kernels.split import decode_feature


@njit
def own_features(row, to, n_workers, in_doubt, features):
    """The features in doubt at a row that worker ``to`` owns; returns their number."""
    n = ZERO
    for feature in range(to, in_doubt.shape[1], n_workers):
        if in_doubt[row, feature]:
            features[n] = feature
            n += 1
    return n


@njit
def sum_by_position(node, feature, tree, nodes, scratch, g, h):
    """g[p], h[p] = the sums of this worker's rows in bins 1..p of a feature at a node; p = 0 is the missing bin alone.

    Of two classes, g is the second one's weight and h that of both.
    """
    hist, base, step, is_wide = local_histogram(node, feature, tree, nodes, scratch)
    n_bins = int64_at(tree.n_bins, tree.n_features)[feature]
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
def aim_of(aims, row, tree):
    """The slope against which sums are rounded; of two classes, the second one's share."""
    return np.exp(aims[row, 1]) if tree.criterion == ENTROPY else aims[row, 0]
