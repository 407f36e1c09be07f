"""FindBestSplit in nodes of few rows, where a histogram would be nearly empty: only bins that have rows are looked at.

The boundaries, their scores and the split are those that split.py finds, to the last bit.
"""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.constants import BLOCK, COUNT_BITS, MISSING_BIN, NONE, ONE, ZERO
from pvtree.kernels.growing.records import (
    allowed_of,
    best_set_of,
    best_sums_of,
    bins_of,
    block_start_of,
    found_set_of,
    in_tree_of,
    mask_of,
    packed_of,
    rows_of,
    shift_of,
    sums_of,
    words_of,
)
from pvtree.kernels.growing.split import copy_row, gain_of_score, node_score
from pvtree.kernels.intrinsics import lowest_bit
from pvtree.kernels.jit import njit
from pvtree.kernels.lazy import lazy

# For packed words of one plane whose last field is the gradient, ordered features that are not bundled, and rules
# without constraints: the Grower sets ``tiny_rows`` to 0 where anything of that does not hold.

_COUNT_MASK = (1 << COUNT_BITS) - 1
_LOW_BITS = np.uint64(63)


@njit
def is_tiny(node, tree, nodes):
    # Where none are tiny, a node may have no rows on this worker; its histogram is still to be kept.
    return tree.tiny_rows > 0 and nodes[node].stop - nodes[node].start <= tree.tiny_rows


@njit
def add_to_cells(bins, step, lane, rows, words, start, stop, cells):
    """cells[bin] = the sum of the rows' words; bins without rows keep what they had. Returns a bit for each bin 1..255
    that has rows, in four words, and the sum of missing values."""
    a = b = c = d = np.uint64(0)
    for i in range(start, stop):
        cells[bins[np.intp(rows[i]) * step + lane]] = 0
    cells[MISSING_BIN] = 0
    for i in range(start, stop):
        bin_idx = bins[np.intp(rows[i]) * step + lane]
        cells[bin_idx] += words[i]
        bit = np.uint64(1) << (np.uint64(bin_idx) & _LOW_BITS)
        word = bin_idx >> 6
        a |= bit if word == 0 else np.uint64(0)
        b |= bit if word == 1 else np.uint64(0)
        c |= bit if word == 2 else np.uint64(0)
        d |= bit if word == 3 else np.uint64(0)
    return (a & ~np.uint64(1), b, c, d), cells[MISSING_BIN]


@njit
def best_of_cells(occupied, cells, total, n_rows, sums, tree):
    """(the best score of a boundary after one of the occupied bins, that bin); ``total`` is what is left of all."""
    hess_at = tree.hess_field - 1  # -1: the count, in the lowest bits
    shift, mask = shift_of(tree), mask_of(tree)
    h_shift, h_mask = (shift[hess_at], mask[hess_at]) if hess_at >= 0 else (ZERO, np.int64(_COUNT_MASK))
    g_shift = shift[tree.n_values - 1]
    g_total, h_total = np.float64(sums[tree.n_fields - 1]), np.float64(sums[tree.hess_field])
    penalty, alpha = tree.reg_lambda / tree.hess_scale, tree.reg_alpha / tree.grad_scale
    least_hess, most_left = tree.min_hess / tree.hess_scale, n_rows - tree.min_count
    best, best_bin = -math.inf, NONE
    for word in range(4):
        bits = occupied[word]
        while bits != np.uint64(0):
            b = 64 * word + np.int64(lowest_bit(bits))
            bits &= bits - np.uint64(1)
            total += cells[b]
            count = total & _COUNT_MASK
            if count > most_left:
                return best, best_bin
            h, g = np.float64((total >> h_shift) & h_mask), np.float64(total >> g_shift)
            gl, gr = max(abs(g) - alpha, 0.0), max(abs(g_total - g) - alpha, 0.0)
            hl, hr = h + penalty, h_total - h + penalty
            score = (gl * gl * hr + gr * gr * hl) / (hl * hr)
            enough = (h >= least_hess) & (h_total - h >= least_hess) & (count >= tree.min_count)
            if enough and score > best:
                best, best_bin = score, b
    return best, best_bin


@njit
def search_tiny_feature(bins, step, lane, feature, node, own_score, row, group, tree, nodes, best, scratch):
    """Keep the feature's best split if it beats the group's, whose features come in rising order."""
    buffer, start, stop = nodes[node].buffer, nodes[node].start, nodes[node].stop
    rows, words, cells = rows_of(tree)[buffer], words_of(tree)[buffer], packed_of(scratch)
    sums = sums_of(tree)[node]
    occupied, missing = add_to_cells(bins, step, lane, rows, words, start, stop, cells)
    score, split_bin = best_of_cells(occupied, cells, ZERO, sums[0], sums, tree)
    default_left = NONE
    if missing != 0:
        default_left = ZERO
        left_score, left_bin = best_of_cells(occupied, cells, missing, sums[0], sums, tree)
        if left_score > score:
            score, split_bin, default_left = left_score, left_bin, ONE
    gain = gain_of_score(score, own_score, sums[0], tree)
    if not gain > best[row, group].gain:
        return
    left = missing if default_left == 1 else ZERO
    for i in range(start, stop):
        bin_idx = bins[np.intp(rows[i]) * step + lane]
        left += words[i] if MISSING_BIN < bin_idx <= split_bin else ZERO
    if default_left < 0:  # unmet missing values follow the larger child
        default_left = np.int64(2 * (left & _COUNT_MASK) >= sums[0])
    best[row, group].gain, best[row, group].feature = gain, feature
    best[row, group].split_bin, best[row, group].default_left = split_bin, default_left
    at = row * tree.n_groups + group
    found, shift, mask = best_sums_of(tree)[at], shift_of(tree), mask_of(tree)
    found[0] = left & _COUNT_MASK
    for value in range(tree.n_values):
        found[1 + value] = (left >> shift[value]) & mask[value]
    copy_row(found_set_of(scratch), best_set_of(tree)[at])


@lazy()
def search_tiny_block(node, row, block, tree, nodes, best, scratch):
    """The best split of a tiny node in one block of features."""
    bins, first = bins_of(tree)[block], block_start_of(tree)[block]
    in_tree, allowed = in_tree_of(tree), allowed_of(tree)[row]
    own_score = node_score(sums_of(tree)[node], tree)
    for feature in range(first, block_start_of(tree)[block + 1]):
        if in_tree[feature] and allowed[feature]:
            search_tiny_feature(
                bins, BLOCK, feature - first, feature, node, own_score, row, block, tree, nodes, best, scratch
            )
