"""The gains of a block's features, all at once: each feature is a lane of the processor's vector registers."""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.constants import BLOCK, COUNT_BITS, NONE, ONE, ZERO
from pvtree.kernels.growing.collect import boundary_step, gradient_bits, gradient_in, heavy_from, hessian_in
from pvtree.kernels.growing.records import (
    TILE_BOUNDARIES,
    grad_left_of,
    hess_left_of,
    lane_best_of,
    lane_bin_of,
    lane_count_of,
    lane_sign_of,
    lane_total_of,
    n_bins_of,
    scores_of,
    tile_of,
    tile_scores_of,
)
from pvtree.kernels.growing.split import constrain_scores
from pvtree.kernels.jit import njit
from pvtree.kernels.lazy import lazy

# For packed words of one plane, which gradient trees have in all nodes but the largest. The boundaries and their scores
# are those of split.best_numeric_split, to the last bit; which boundary is the best is found there.

_COUNT_MASK = (1 << COUNT_BITS) - 1
_UNSIGNED_COUNT_MASK = np.uint64(_COUNT_MASK)


@njit
def collect_groups(bins, every, is_heavy_from, sum_so_far, own):
    """own[i * BLOCK] = the sum up to the last bin of group i; returns the number of groups, or -1 if one is heavy.

    The usual case. Without branches, it is several times as fast as a loop that looks into groups.
    """
    n_full = len(bins) // every
    is_heavy = False
    if every == 4:  # spelt out for features with more than 192 bins
        for i in range(n_full):
            group = (bins[4 * i] + bins[4 * i + 1]) + (bins[4 * i + 2] + bins[4 * i + 3])
            is_heavy |= (group & _COUNT_MASK) >= is_heavy_from
            sum_so_far += group
            own[i * BLOCK] = sum_so_far
    else:
        for i in range(n_full):
            group = ZERO
            for j in range(every * i, every * (i + 1)):
                group += bins[j]
            is_heavy |= (group & _COUNT_MASK) >= is_heavy_from
            sum_so_far += group
            own[i * BLOCK] = sum_so_far
    if n_full * every < len(bins):
        group = ZERO
        for j in range(n_full * every, len(bins)):
            group += bins[j]
        is_heavy |= (group & _COUNT_MASK) >= is_heavy_from
        own[n_full * BLOCK] = sum_so_far + group
        n_full += 1
    return NONE if is_heavy else np.int64(n_full)


@njit
def collect_lane(bins, every, is_heavy_from, b, sum_so_far, own):
    """own[i * BLOCK] = the sum of bins up to the i-th boundary from bin ``b`` on, of at most TILE_BOUNDARIES.

    Returns (the number of boundaries, the next bin, the sum before it).
    """
    if every == 1:
        some = bins[b:][:TILE_BOUNDARIES]
        for i in range(len(some)):
            sum_so_far += some[i]
            own[i * BLOCK] = sum_so_far
        return np.int64(len(some)), b + len(some), sum_so_far
    if b == 0 and len(bins) <= every * TILE_BOUNDARIES:
        n = collect_groups(bins, every, is_heavy_from, sum_so_far, own)
        if n >= 0:
            return n, np.int64(len(bins)), own[(n - 1) * BLOCK]
    n = ZERO
    while n + every <= TILE_BOUNDARIES and b < len(bins):
        end, n_rows = min(b + every, len(bins)), ZERO
        for j in range(b, end):
            n_rows += bins[j] & _COUNT_MASK
        for j in range(b, end):
            sum_so_far += bins[j]
            if n_rows >= is_heavy_from or j == end - 1:
                own[n * BLOCK] = sum_so_far
                n += ONE
        b = end
    return n, b, sum_so_far


@njit
def collect_lanes(hist, base, lane_step, n_lanes, features, n_rows, tree, total, next_bin, count, tile):
    """tile[i * BLOCK + lane] = the sum of the lane's bins up to its i-th boundary from ``next_bin`` on.

    Lanes with fewer boundaries than others repeat their last one. ``total`` and ``next_bin`` carry over to the next
    tile. Returns (the most boundaries of a lane, whether any lane has more to come).
    """
    n_bins = n_bins_of(tree)
    most, more = ZERO, False
    for lane in range(n_lanes):
        n_own = n_bins[features[lane]]
        bins = hist[base + lane * lane_step + 1 :][:n_own]
        count[lane], next_bin[lane], total[lane] = collect_lane(
            bins, boundary_step(n_own, tree), heavy_from(n_rows), next_bin[lane], total[lane], tile[lane:]
        )
        most = max(most, count[lane])
        more |= next_bin[lane] < n_own
    for lane in range(n_lanes):
        own = tile[lane:]
        for i in range(count[lane], most):
            own[i * BLOCK] = total[lane]
    return most, more


@lazy()
def constrain_lanes(sums, tree, tile, scratch, scores):
    """Apply monotone constraints to the tile's scores, lane by lane.

    By the function for single features, because a second one for whole tiles would take seconds to compile.
    """
    sign = lane_sign_of(scratch)
    hess_left, grad_left = hess_left_of(scratch), grad_left_of(scratch)
    own = scores_of(scratch)
    h_shift, h_mask, g_shift = gradient_bits(tree)
    g_total, h_total = np.float64(sums[tree.n_fields - 1]), np.float64(sums[tree.hess_field])
    penalty, alpha = tree.reg_lambda / tree.hess_scale, tree.reg_alpha / tree.grad_scale
    n = np.int64(len(tile)) // BLOCK
    for lane in range(BLOCK):
        scratch.sign = sign[lane]
        if sign[lane] == 0.0 and scratch.low == -math.inf and scratch.high == math.inf:
            continue
        for i in range(n):
            word = tile[i * BLOCK + lane]
            hess_left[i], grad_left[i] = (word >> h_shift) & h_mask, word >> g_shift
            own[i] = scores[i * BLOCK + lane]
        constrain_scores(n, hess_left, grad_left, g_total, h_total, penalty, alpha, scratch, own)
        for i in range(n):
            scores[i * BLOCK + lane] = own[i]


@njit
def score_lanes(sums, n_rows, tree, tile, scratch, scores, best):
    """Raise best[lane] to the largest GL^2/(HL+lambda) + GR^2/(HR+lambda) of the tile's boundaries."""
    h_shift, h_mask, g_shift = gradient_bits(tree)
    g_total, h_total = np.float64(sums[tree.n_fields - 1]), np.float64(sums[tree.hess_field])
    penalty, alpha = tree.reg_lambda / tree.hess_scale, tree.reg_alpha / tree.grad_scale
    least_hess = tree.min_hess / tree.hess_scale
    # Unsigned, a count below ``least`` is a huge number: one comparison checks both ends.
    least, span = np.uint64(tree.min_count), np.uint64(n_rows - 2 * tree.min_count)
    if alpha == 0.0:  # as a rule; the other loop would find the same
        for i in range(len(tile)):
            h, g = hessian_in(tile[i], h_shift, h_mask), gradient_in(tile[i], g_shift)
            gr, h_rest = g_total - g, h_total - h
            hl, hr = h + penalty, h_rest + penalty
            score = (g * g * hr + gr * gr * hl) / (hl * hr)
            enough = (h >= least_hess) & (h_rest >= least_hess)
            enough &= (np.uint64(tile[i]) & _UNSIGNED_COUNT_MASK) - least <= span
            scores[i] = score if enough else -math.inf
    else:
        for i in range(len(tile)):
            h, g = hessian_in(tile[i], h_shift, h_mask), gradient_in(tile[i], g_shift)
            gl = max(abs(g) - alpha, 0.0)
            gr = max(abs(g_total - g) - alpha, 0.0)
            hl, hr = h + penalty, h_total - h + penalty
            score = (gl * gl * hr + gr * gr * hl) / (hl * hr)
            enough = (h >= least_hess) & (h_total - h >= least_hess)
            enough &= (np.uint64(tile[i]) & _UNSIGNED_COUNT_MASK) - least <= span
            scores[i] = score if enough else -math.inf
    if tree.is_monotone:
        constrain_lanes(sums, tree, tile, scratch, scores)
    for start in range(0, len(scores), BLOCK):
        row = scores[start:][:BLOCK]
        for lane in range(BLOCK):
            best[lane] = max(best[lane], row[lane])


@njit
def best_of_lanes(hist, base, lane_step, features, n_lanes, sums, tree, scratch):
    """The best score of each of the features, one a lane, with missing values tried on both sides.

    Bin b of lane l is hist[base + l * lane_step + b]. A lane without a boundary has -inf. Lanes of features that the
    node may not use may hold anything.
    """
    best = lane_best_of(scratch)
    best[:] = -math.inf
    n_rows = sums[0]
    if n_rows < 2 * tree.min_count:  # one of several workers may have that few rows of a node
        return best
    total, next_bin = lane_total_of(scratch), lane_bin_of(scratch)
    count = lane_count_of(scratch)
    tile, scores = tile_of(scratch), tile_scores_of(scratch)
    for lane in range(n_lanes, BLOCK):  # lanes without a feature get words without rows
        for i in range(TILE_BOUNDARIES):
            tile[i * BLOCK + lane] = 0
    any_missing = False
    for lane in range(n_lanes):
        any_missing |= hist[base + lane * lane_step] & _COUNT_MASK != 0
    for missing_left in range(2 if any_missing else 1):
        for lane in range(n_lanes):
            total[lane] = hist[base + lane * lane_step] if missing_left else ZERO
            next_bin[lane] = 0
        more = True
        while more:
            most, more = collect_lanes(
                hist, base, lane_step, n_lanes, features, n_rows, tree, total, next_bin, count, tile
            )
            score_lanes(sums, n_rows, tree, tile[: most * BLOCK], scratch, scores[: most * BLOCK], best)
    return best
