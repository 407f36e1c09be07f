"""Rows to children: a stable partition of rows by one feature's bin, and walks down finished trees by bins."""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.constants import BLOCK, MISSING_BIN, N_BINS, ONE, ZERO
from pvtree.kernels.growing.records import bins_of, chunk_left_of, goes_left_of, planes_of, rows_of, side_of, words_of
from pvtree.kernels.intrinsics import prefetch
from pvtree.kernels.jit import njit

CHUNK = 16384  # rows of a node that one thread takes at a time
_AHEAD = 32
_NEAR = 4  # rows that lie closer together than this, on average, are near each other


@njit
def count_up_to(value, rising):
    """How many of the rising numbers are not above ``value``: np.searchsorted, which takes longer to compile."""
    low, high = ZERO, np.int64(len(rising))
    while low < high:
        middle = (low + high) // 2
        if rising[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@njit
def in_set(left_set, bin_idx):
    return (left_set[bin_idx >> 6] >> np.uint64(bin_idx & 63)) & np.uint64(1)


@njit
def fill_sides(is_categorical, split_bin, default_left, left_set, goes_left):
    """Turn a split into a table over bins, so that every kind of split costs one look-up per row."""
    for b in range(N_BINS):
        if is_categorical:
            goes_left[b] = in_set(left_set, b)
        elif b == MISSING_BIN:
            goes_left[b] = default_left
        else:
            goes_left[b] = b <= split_bin


@njit
def mark_sides(block_bins, lane, rows, start, stop, goes_left, side):
    """side[i] = 1 where rows[i] goes left; returns how many do."""
    last = len(rows) - 1
    n_left = 0
    if start < stop and np.int64(rows[stop - 1]) - np.int64(rows[start]) < _NEAR * (stop - start):
        # The processor itself fetches rows ahead that lie close together.
        lane_bins = block_bins[lane:]
        for i in range(start, stop):
            left = goes_left[lane_bins[np.intp(rows[i]) * BLOCK]]
            side[i] = left
            n_left += left
        return n_left
    for i in range(start, stop):
        prefetch(block_bins, np.intp(rows[min(i + _AHEAD, last)]) * BLOCK)
        left = goes_left[block_bins[np.intp(rows[i]) * BLOCK + lane]]
        side[i] = left
        n_left += left
    return n_left


@njit
def scatter(source, target, rows, words, planes, start, stop, side, left_at, right_at):
    """Move rows[start:stop], their words and planes to their child's places, keeping their order.

    source = [a b c d e f]  side = [1 0 1 1 0 0]  ->  target = [a c d | b e f]
    """
    own_rows, own_words, own_side = rows[source, start:stop], words[source, start:stop], side[start:stop]
    to_rows, to_words = rows[target], words[target]
    # Unsigned: checking for negative indices would cost as much as all the rest.
    next_left, next_right = np.uint64(left_at), np.uint64(right_at)
    for i in range(len(own_rows)):
        left = np.uint64(own_side[i])
        to = next_left if left else next_right
        next_left += left
        next_right += np.uint64(1) - left
        to_rows[to] = own_rows[i]
        to_words[to] = own_words[i]
    if planes.shape[1] > 0:
        own_planes, to_planes = planes[source, start:stop], planes[target]
        next_left, next_right = np.uint64(left_at), np.uint64(right_at)
        for i in range(len(own_planes)):
            left = np.uint64(own_side[i])
            to_planes[next_left if left else next_right] = own_planes[i]
            next_left += left
            next_right += np.uint64(1) - left


@njit
def chunk_bounds(chunk, tree):
    start = tree.start + chunk * CHUNK
    return start, min(start + CHUNK, tree.stop)


@njit
def mark_chunk(chunk, tree):
    """First pass of a partition: mark which rows of the chunk go left, and count them."""
    start, stop = chunk_bounds(chunk, tree)
    chunk_left_of(tree)[chunk] = mark_sides(
        bins_of(tree)[tree.block], tree.lane,
        rows_of(tree)[tree.buffer], start, stop,
        goes_left_of(tree), side_of(tree),
    )  # fmt: skip


@njit
def scatter_chunk(chunk, tree):
    """Second pass, once chunk_left says where the chunk's first left row goes."""
    start, stop = chunk_bounds(chunk, tree)
    if stop - start == tree.stop - tree.start:  # a single chunk skips the first pass
        mark_chunk(chunk, tree)
        chunk_left_of(tree)[chunk] = start
    left_at = chunk_left_of(tree)[chunk]
    # Before this chunk are start - tree.start rows; those of them that did not go left went right.
    right_at = tree.start + tree.n_left + (start - left_at)
    scatter(
        tree.buffer, 1 - tree.buffer, rows_of(tree),
        words_of(tree),
        planes_of(tree),
        start, stop, side_of(tree), left_at, right_at,
    )  # fmt: skip


@njit
def add_leaf_values(start, stop, rows, run_stop, run_buffer, value, scores):
    """scores[row] += value of its leaf, for the places start:stop; runs and values in the order of places."""
    run = count_up_to(start, run_stop)
    i = start
    while i < stop:
        end = min(run_stop[run], stop)
        buffer = run_buffer[run]
        for place in range(i, end):
            scores[rows[buffer, place]] += value[run]
        i = end
        run += 1


@njit
def sum_by_run(start, stop, rows, run_stop, run_buffer, copies, grad, hess, inverse_scale, sums):
    """sums[run] = fixed-point (G, H) of the run's rows, each as often as it is in the sample; runs start:stop."""
    for run in range(start, stop):
        first = run_stop[run - 1] if run > 0 else 0
        buffer = run_buffer[run]
        g, h = ZERO, ZERO
        for place in range(first, run_stop[run]):
            row = rows[buffer, place]
            times = np.int64(copies[row]) if len(copies) > 0 else ONE
            g += times * np.int64(math.floor(grad[row] * inverse_scale[0] + 0.5))
            h += times * np.int64(math.floor(hess[row] * inverse_scale[1] + 0.5))
        sums[run, 0] = g
        sums[run, 1] = h


@njit
def sum_upwards(left_child, sums):
    """Give inner nodes the sums of their children, which come after them."""
    for node in range(len(left_child) - 1, -1, -1):
        left = left_child[node]
        if left > 0:
            for j in range(sums.shape[1]):
                sums[node, j] = sums[left, j] + sums[left + 1, j]


@njit
def add_routed_values(
    start, stop, bins, row_ids, block, lane, bin_of_code, split_bin, default_left, cat_set, cat_sets, left_child, value,
    scores,
):  # fmt: skip
    """Walk rows that did not take part in growing a tree down to their leaf, by their bins.

    ``bin_of_code`` is a table over codes for each node, or empty where ``bins`` are no codes of bundles.
    """
    for i in range(start, stop):
        at = np.intp(row_ids[i]) * BLOCK
        node = 0
        while left_child[node] > 0:
            b = bins[block[node], at + lane[node]]
            if len(bin_of_code) > 0:
                b = bin_of_code[node, b]
            if cat_set[node] >= 0:
                left = in_set(cat_sets[cat_set[node]], b) == 1
            elif b == MISSING_BIN:
                left = default_left[node] == 1
            else:
                left = b <= split_bin[node]
            node = left_child[node] + (0 if left else 1)
        scores[row_ids[i]] += value[node]
