"""Trees on raw rows. The top of a tree is evaluated for a block of rows by striking exits out of bit sets: one
comparison per split, no branches, vectorised over rows. What lies below its 64 exits is walked."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.intrinsics import lowest_bit
from pvtree.kernels.jit import njit
from pvtree.kernels.predict.intrinsics import (
    GROUP,
    load_float32,
    load_float64,
    mask_leaves_nan_left,
    mask_leaves_nan_right,
    store_float64,
)

N_EXITS = 64  # bits of a row's set of live exits
N_SPLITS = N_EXITS - 1
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)

# Columns of node_link, 16 bytes per node: one load brings all that a walk needs beside the threshold.
SLOT, LEFT, NAN_RIGHT, CAT_SET = 0, 1, 2, 3


@njit
def new_block(n_slots, block_rows):
    """float64 (n_slots, block_rows + 8), aligned to a cache line: else each vector would straddle two.

    + 8 because slots a power of two apart would share cache sets.
    """
    n = n_slots * (block_rows + 8)
    cells = np.empty(n + 8)
    skip = (-cells.ctypes.data) % 64 // 8
    return cells[skip : skip + n].reshape(n_slots, block_rows + 8)


@njit
def load_block(start, rows, source, columns, block):
    """block[slot, row] = X[start + row, columns[slot]], the only copy of X that prediction makes."""
    address, row_stride, column_stride, item_size = source[0], source[1], source[2], source[3]
    slot_stride = block.strides[0]
    # The cache lines of 16 rows stay in L1 while all columns are picked from them. Where rows are neighbours in
    # memory (Fortran order), a column is best read in one go.
    tile = rows if abs(row_stride) <= item_size else 16
    for first in range(0, rows, tile):
        n = min(tile, rows - first)
        corner = address + (start + first) * row_stride
        target = block.ctypes.data + first * 8
        for slot in range(columns.size):
            cell = corner + columns[slot] * column_stride
            if item_size == 8:
                for row in range(n):
                    store_float64(target + row * 8, load_float64(cell + row * row_stride))
            else:
                for row in range(n):
                    store_float64(target + row * 8, load_float32(cell + row * row_stride))
            target += slot_stride


@njit
def outside(x, cat_sets, cat_set):
    """1 if bin x is not in the set. NaN and codes outside 0..255 count as bin 0, missing or unseen."""
    code = np.int64(x) if x >= 0.0 and x < 256.0 else np.int64(0)
    return np.int64(((cat_sets[cat_set, code >> 6] >> np.uint64(code & 63)) & np.uint64(1)) ^ np.uint64(1))


@njit
def mask_leaves_of_category(live, n, block, slot, cat_sets, cat_set, keep):
    for row in range(n):
        live[row] &= keep if outside(block[slot, row], cat_sets, cat_set) else ALL


@njit
def walk(rows, block, node_threshold, node_link, cat_sets, node, open_rows):
    """Move every row that stands on an inner node down to its leaf, one level at a time, so that loads overlap."""
    n_open = 0
    for row in range(rows):
        open_rows[n_open] = row
        n_open += node_link[node[row], LEFT] > 0
    while n_open > 0:
        n_kept = 0
        for i in range(n_open):
            row = open_rows[i]
            at = node[row]
            x = block[node_link[at, SLOT], row]
            cat_set = node_link[at, CAT_SET]
            if cat_set >= 0:
                right = outside(x, cat_sets, cat_set)
            else:
                right = np.int64((x > node_threshold[at]) | ((x != x) & (node_link[at, NAN_RIGHT] != 0)))
            at = node_link[at, LEFT] + right
            node[row] = at
            open_rows[n_kept] = row
            n_kept += node_link[at, LEFT] > 0
        n_open = n_kept


@njit
def find_leaves(
    tree, rows, block, split_threshold, split_keep, split_slot, split_end, exit_node,
    node_threshold, node_link, cat_sets, live, node, open_rows,
):  # fmt: skip
    """node[row] = the leaf of each of the block's rows in one tree."""
    live[:] = ALL
    nan_left, nan_right, category = split_end[tree, 0], split_end[tree, 1], split_end[tree, 2]
    stride = block.strides[0]
    slots = split_slot.ctypes.data + tree * N_SPLITS * 4
    thresholds = split_threshold.ctypes.data + tree * N_SPLITS * 8
    keeps = split_keep.ctypes.data + tree * N_SPLITS * 8
    for first in range(0, rows, GROUP):  # the last group also masks spare rows, which nobody reads
        bits, corner = live.ctypes.data + first * 8, block.ctypes.data + first * 8
        mask_leaves_nan_left(bits, corner, stride, slots, thresholds, keeps, nan_left)
        mask_leaves_nan_right(
            bits, corner, stride, slots + nan_left * 4, thresholds + nan_left * 8, keeps + nan_left * 8,
            nan_right - nan_left,
        )  # fmt: skip
    for k in range(nan_right, category):
        # A categorical split has the number of its set in place of a threshold.
        cat_set = np.int64(split_threshold[tree, k])
        mask_leaves_of_category(live, rows, block, split_slot[tree, k], cat_sets, cat_set, split_keep[tree, k])
    for row in range(rows):
        node[row] = exit_node[tree, lowest_bit(live[row])]
    if split_end[tree, 3]:
        walk(rows, block, node_threshold, node_link, cat_sets, node, open_rows)


@njit
def run_trees(
    start, stop, source, columns, block_rows, first_tree, end_tree,
    split_threshold, split_keep, split_slot, split_end, exit_node,
    node_threshold, node_link, cat_sets, value, leaf_number, out, leaves,
):  # fmt: skip
    """Add the trees' outputs on rows start..stop to OUT out (n_outputs, n), for each row in the order of trees.

    If OUT leaves (n, n_trees) is not empty, write the numbers of the leaves there instead.
    """
    block = new_block(columns.size, block_rows)
    live = new_block(1, block_rows).reshape(-1).view(np.uint64)
    node = np.empty(block_rows, np.uint32)  # unsigned: no test for negative indices
    open_rows = np.empty(block_rows, np.int64)
    n_outputs, n_values = out.shape[0], value.shape[1]
    for first in range(start, stop, block_rows):
        rows = min(block_rows, stop - first)
        load_block(first, rows, source, columns, block)
        for tree in range(first_tree, end_tree):
            find_leaves(
                tree, rows, block, split_threshold, split_keep, split_slot, split_end, exit_node,
                node_threshold, node_link, cat_sets, live, node, open_rows,
            )  # fmt: skip
            if leaves.shape[0] > 0:
                for row in range(rows):
                    leaves[first + row, tree - first_tree] = leaf_number[node[row]]
            elif n_values == 1:
                output = tree % n_outputs
                for row in range(rows):
                    out[output, first + row] += value[node[row], 0]
            else:
                for output in range(n_values):
                    for row in range(rows):
                        out[output, first + row] += value[node[row], output]


@njit
def find_top(root, node_link, count, top, top_left, top_size, exits):
    """Choose a tree's top: replace the exit that most training rows reach by its children until there are N_EXITS.

    OUT top[i] = node of the i-th split, whose left part owns exits top_left[i] .. + top_size[i];
    OUT exits = nodes from left to right. Returns the number of splits, one less than of exits.
    """
    exits[0] = root
    n_splits = 0
    while n_splits + 1 < N_EXITS:
        place, node = -1, exits[0]
        for i in range(n_splits + 1):
            exit = exits[i]
            more = count[exit] > count[node] or (count[exit] == count[node] and exit < node)  # ties: the higher
            if node_link[exit, LEFT] > 0 and (place < 0 or more):
                place, node = i, exit
        if place < 0:
            break
        # exits = [***abefilm|N|cdghjk***]  ->  [***abefilm|left|right|cdghjk***]
        for i in range(n_splits, place, -1):
            exits[i + 1] = exits[i]
        exits[place] = node_link[node, LEFT]
        exits[place + 1] = node_link[node, LEFT] + 1
        for i in range(n_splits):
            if top_left[i] > place:
                top_left[i] += 1
            elif top_left[i] + top_size[i] > place:
                top_size[i] += 1
        top[n_splits], top_left[n_splits], top_size[n_splits] = node, place, 1
        n_splits += 1
    return n_splits


@njit
def pack_tops(
    roots, node_threshold, node_link, count, split_threshold, split_keep, split_slot, split_end, exit_node
):  # fmt: skip
    """Fill OUT split_* and exit_node, one row per tree, from the stacked nodes."""
    top = np.empty(N_EXITS, np.int64)
    top_left = np.empty(N_EXITS, np.int64)
    top_size = np.empty(N_EXITS, np.int64)
    for tree in range(roots.size):
        n_splits = find_top(roots[tree], node_link, count, top, top_left, top_size, exit_node[tree])
        end = 0
        for group in range(3):  # NaN left, NaN right, categorical
            for i in range(n_splits):
                node = top[i]
                is_category = node_link[node, CAT_SET] >= 0
                if (2 if is_category else node_link[node, NAN_RIGHT]) == group:
                    left_exits = (np.uint64(1) << np.uint64(top_size[i])) - np.uint64(1)
                    split_keep[tree, end] = ~(left_exits << np.uint64(top_left[i]))
                    split_slot[tree, end] = node_link[node, SLOT]
                    cut = np.float64(node_link[node, CAT_SET]) if is_category else node_threshold[node]
                    split_threshold[tree, end] = cut
                    end += 1
            split_end[tree, group] = end
        split_end[tree, 3] = 0
        for i in range(n_splits + 1):
            if node_link[exit_node[tree, i], LEFT] > 0:
                split_end[tree, 3] = 1
