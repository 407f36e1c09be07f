"""The gains by which a worker votes on a sample of its rows: every feature's best boundary, and nothing is kept."""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.constants import BLOCK, COUNT_BITS, LANE_STRIDE, N_BINS, ONE, ZERO
from pvtree.kernels.growing.collect import boundary_step, heavy_from
from pvtree.kernels.growing.constraints import set_limits
from pvtree.kernels.growing.lanes import score_lanes
from pvtree.kernels.growing.records import (
    TILE_BOUNDARIES,
    bins_of,
    block_start_of,
    gains_of,
    in_tree_of,
    lane_best_of,
    lane_sign_of,
    lane_total_of,
    monotone_of,
    n_bins_of,
    packed_of,
    rows_of,
    sums_of,
    tile_of,
    tile_scores_of,
    words_of,
)
from pvtree.kernels.growing.split import gain_of_score, node_score
from pvtree.kernels.intrinsics import prefetch
from pvtree.kernels.jit import njit

# For ordered features and packed words of one plane. The histogram of a block is laid out (bin, lane), so that sums up
# to a bin, and their scores, are taken for 16 features in each step. Gains are those of evaluate.evaluate_group.

_COUNT_MASK = (1 << COUNT_BITS) - 1
# A sample of this many rows, four to a bin, is searched at every boundary: with more rows a ballot converges to the one
# that all rows would cast. Smaller ones cannot tell neighbouring boundaries apart.
FULL_GRAINED = 4 * N_BINS
_MOST_TOGETHER = LANE_STRIDE - N_BINS  # bins of a group: the scratch has room for as many beyond the last bin
_AHEAD = 32  # rows between the prefetch of a row's block and its use


@njit
def add_sample(block_bins, rows, words, start, stop, hist):
    """hist[bin * BLOCK + lane] += the words of rows[start:stop], for all lanes of a block."""
    for i in range(start, stop):
        prefetch(block_bins, np.intp(rows[min(i + _AHEAD, stop - 1)]) * BLOCK)
        at = np.intp(rows[i]) * BLOCK
        word = words[i]
        for lane in range(BLOCK):
            hist[np.intp(block_bins[at + lane]) * BLOCK + lane] += word


@njit
def sum_groups(hist, n_groups, every, tile):
    """tile = the sums of successive groups of ``every`` bins, without the missing one; returns the most rows of one."""
    for i in range(n_groups):
        group, own = hist[(1 + i * every) * BLOCK :][: every * BLOCK], tile[i * BLOCK :][:BLOCK]
        if every == 4:  # spelt out for features with more than 192 bins
            for lane in range(BLOCK):
                own[lane] = (group[lane] + group[lane + BLOCK]) + (group[lane + 2 * BLOCK] + group[lane + 3 * BLOCK])
        else:
            for lane in range(BLOCK):
                own[lane] = group[lane]
            for b in range(1, every):
                for lane in range(BLOCK):
                    own[lane] += group[b * BLOCK + lane]
    largest = ZERO
    for i in range(n_groups * BLOCK):
        largest = max(largest, tile[i] & _COUNT_MASK)
    return largest


@njit
def sum_up(so_far, tile):
    """Sums of groups or bins become sums up to each of them; ``so_far`` is what comes before, and then all."""
    for lane in range(BLOCK):
        tile[lane] += so_far[lane]
    for i in range(BLOCK, len(tile)):
        tile[i] += tile[i - BLOCK]
    for lane in range(BLOCK):  # not a slice: see ADR 0030
        so_far[lane] = tile[len(tile) - BLOCK + lane]


@njit
def best_of_block(hist, n_bins, every, sums, tree, scratch):
    """The best score of each lane over its boundaries, with missing values tried on both sides; -inf without one."""
    best, so_far = lane_best_of(scratch), lane_total_of(scratch)
    tile, scores = tile_of(scratch), tile_scores_of(scratch)
    best[:] = -math.inf
    n_rows = sums[0]
    if n_rows < 2 * tree.min_count:
        return best
    any_missing = False
    for lane in range(BLOCK):
        any_missing |= hist[lane] & _COUNT_MASK != 0
    n_groups = (n_bins + every - 1) // every
    for missing_left in range(2 if any_missing else 1):
        for lane in range(BLOCK):
            so_far[lane] = hist[lane] if missing_left else ZERO
        if every > 1:
            own = tile[: n_groups * BLOCK]
            if sum_groups(hist, n_groups, every, own) < heavy_from(n_rows):
                sum_up(so_far, own)
                score_lanes(sums, n_rows, tree, own, scratch, scores[: len(own)], best)
                continue
        # Few bins or a frequent value: look at all boundaries.
        for first in range(1, n_bins + 1, TILE_BOUNDARIES):
            last = min(first + TILE_BOUNDARIES, n_bins + 1)
            own = tile[: (last - first) * BLOCK]
            own[:] = hist[first * BLOCK : last * BLOCK]
            sum_up(so_far, own)
            score_lanes(sums, n_rows, tree, own, scratch, scores[: len(own)], best)
    return best


@njit
def scale_rules(trees, n_sampled, n_rows, rules):
    """A copy of the tree's rules for a sample: all that measures rows shrinks with their number."""
    tree, share = trees[0], n_sampled / max(n_rows, 1)
    rules[0].min_count = max(1, -(-tree.min_count * n_sampled // max(n_rows, 1)))
    rules[0].min_hess = tree.min_hess * share
    rules[0].reg_lambda = tree.reg_lambda * share
    rules[0].reg_alpha = tree.reg_alpha * share


@njit
def set_signs(node, first, n_lanes, tree, scratch):
    """Limits of the node and the monotone constraints of features from ``first`` on, if there are any."""
    if tree.is_monotone:
        set_limits(node, tree, scratch)
        sign, monotone = lane_sign_of(scratch), monotone_of(tree)
        for lane in range(BLOCK):
            sign[lane] = monotone[tree.first_feature + first + lane] if lane < n_lanes else 0.0


@njit
def find_sampled_gains(start, stop, trees, families, nodes, n_own, scratches):
    """Items start:stop: the gains of one block's features at one node, by the rows in its places.

    ``n_own`` are the rows of each node on this worker, of which those in its places are a sample.
    """
    rules, scratch = trees.copy(), scratches[0]
    tree = rules[0]
    block_start, n_bins, in_tree = block_start_of(tree), n_bins_of(tree), in_tree_of(tree)
    for item in range(start, stop):
        family, block = families[item // tree.n_blocks], item % tree.n_blocks
        node = nodes[family.node]
        scale_rules(trees, node.stop - node.start, n_own[family.row], rules)
        first, n_lanes = block_start[block], block_start[block + 1] - block_start[block]
        most, every = ZERO, _MOST_TOGETHER
        for feature in range(first, first + n_lanes):
            most = max(most, n_bins[feature])
            every = min(every, boundary_step(n_bins[feature], tree))
        if node.stop - node.start >= FULL_GRAINED or most > every * TILE_BOUNDARIES:
            every = ONE
        hist = packed_of(scratch)[: (most + every) * BLOCK]  # the last group of bins is as large as the others
        hist[:] = 0
        add_sample(
            bins_of(tree)[block], rows_of(tree)[node.buffer], words_of(tree)[node.buffer], node.start, node.stop, hist
        )
        set_signs(family.node, first, n_lanes, tree, scratch)
        sums = sums_of(tree)[family.node]
        own_score = node_score(sums, tree)
        scores = best_of_block(hist, most, every, sums, tree, scratch)
        for lane in range(n_lanes):
            if in_tree[first + lane]:
                gains_of(tree)[family.row, first + lane] = gain_of_score(scores[lane], own_score, sums[0], tree)
