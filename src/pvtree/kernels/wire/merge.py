"""Merging elected histograms: what travels, what follows by subtraction, and the search of merged histograms.

An item is the merged histogram of one feature at one node of the frontier. Its feature's owner keeps it.
"""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.constants import N_BINS, NONE, ONE, ZERO
from pvtree.kernels.growing.evaluate import search_feature
from pvtree.kernels.growing.histogram import unpack_add
from pvtree.kernels.growing.records import n_bins_of, sums_of, wide_of
from pvtree.kernels.growing.split import node_score
from pvtree.kernels.jit import njit
from pvtree.kernels.wire.messages import TRAVELS, keep_item


@njit
def match_features(small, small_end, large, large_end, k, k_end, derives, elected, known, features, parents, partners):
    """Items of two siblings: of the smaller child in row 0, of the larger one in row 1; returns their numbers.

    ``elected`` has what the children elected, ``known`` the features of the parent's merged histograms, each in rising
    order. Where the parent's is known, and the larger child is open (``derives``), the larger child's item is the
    difference; it is listed even if nobody elected it, because its own children may.
    """
    n_small, n_large = 0, 0
    while small < small_end or large < large_end:
        feature = elected[small] if small < small_end else elected[large]
        if large < large_end:
            feature = min(feature, elected[large])
        by_smaller = small < small_end and elected[small] == feature
        by_larger = large < large_end and elected[large] == feature
        small += by_smaller
        large += by_larger
        while k < k_end and known[k] < feature:
            k += 1
        is_difference = derives and k < k_end and known[k] == feature
        if by_smaller or is_difference:
            features[0, n_small], parents[0, n_small], partners[0, n_small] = feature, TRAVELS, NONE
            n_small += 1
        if is_difference:
            features[1, n_large], parents[1, n_large], partners[1, n_large] = feature, k, n_small - 1
            n_large += 1
        elif by_larger:
            features[1, n_large], parents[1, n_large], partners[1, n_large] = feature, TRAVELS, NONE
            n_large += 1
    return n_small, n_large


@njit
def plan_items(
    n_pairs, parent_row, is_open, n_rows, elected_start, elected, known_start, known, item_start, item_feature,
    item_parent, item_sibling,
):  # fmt: skip
    """Items of the frontier, by row and rising feature, the same on every worker.

    Rows 2 i and 2 i + 1 are siblings whose parent was row parent_row[i] of the frontier before (-1: not there); without
    pairs row 0 is the root. Where the parent's merged histogram of a feature is known, only the smaller child's
    travels.
    """
    if n_pairs == 0:
        for i in range(elected_start[1]):
            item_feature[i], item_parent[i], item_sibling[i] = elected[i], TRAVELS, NONE
        item_start[0], item_start[1] = 0, elected_start[1]
        return
    most = 0
    for i in range(n_pairs):
        most = max(most, elected_start[2 * i + 2] - elected_start[2 * i])
    features = np.empty((2, most), np.int64)  # of the smaller and the larger child
    parents = np.empty((2, most), np.int64)
    partners = np.empty((2, most), np.int64)
    total = 0
    item_start[0] = 0
    for i in range(n_pairs):
        smaller = 2 * i if n_rows[2 * i] <= n_rows[2 * i + 1] else 2 * i + 1
        larger = 4 * i + 1 - smaller
        k, k_end = 0, 0
        if parent_row[i] >= 0:
            k, k_end = known_start[parent_row[i]], known_start[parent_row[i] + 1]
        n_small, n_large = match_features(
            elected_start[smaller], elected_start[smaller + 1], elected_start[larger], elected_start[larger + 1], k,
            k_end, is_open[larger], elected, known, features, parents, partners,
        )  # fmt: skip
        first = total if smaller == 2 * i else total + n_large  # where the smaller child's items begin
        for turn in range(2):
            which = turn if smaller == 2 * i else 1 - turn
            for at in range(n_small if which == 0 else n_large):
                item_feature[total], item_parent[total] = features[which, at], parents[which, at]
                item_sibling[total] = first + partners[which, at] if parents[which, at] >= 0 else NONE
                total += 1
            item_start[2 * i + turn + 1] = total


@njit
def place_items(rank, owner, row_n_rows, capacity, n_planes, n_fields, stride, item_start, item_feature, item_place):
    """Lay out the owner's items: packed words for nodes that fit them, else a sum per field; returns the size."""
    size = ZERO
    for row in range(len(row_n_rows)):
        n_words = n_fields if row_n_rows[row] > capacity else n_planes
        for item in range(item_start[row], item_start[row + 1]):
            item_place[item] = NONE
            if owner[item_feature[item]] == rank:
                item_place[item] = size
                size += n_words * stride
    return size


@njit
def add_item(arena, place, is_wide, sign, n_bins, tree, sums):
    """Add a kept item, times ``sign``, to sums[field * N_BINS + bin]."""
    if is_wide:
        for j in range(tree.n_fields):
            target, source = sums[j * N_BINS :][: n_bins + 1], arena[place + j * tree.stride :][: n_bins + 1]
            for b in range(n_bins + 1):
                target[b] += sign * source[b]
    else:
        unpack_add(arena, place, tree.stride, n_bins + 1, tree, sums, ZERO, N_BINS, sign)


@njit
def subtract_items(
    start, stop, row_node, row_parent_wide, item_start, item_feature, item_parent, item_sibling, item_place,
    parent_place, parent_arena, trees, nodes, arena, scratches,
):  # fmt: skip
    """Compute the items that did not travel, parent - sibling, for rows start:stop; this worker owns both of them."""
    tree, scratch = trees[0], scratches[0]
    n_bins = n_bins_of(tree)
    sums = wide_of(scratch)[: tree.n_fields * N_BINS]
    for row in range(start, stop):
        node = row_node[row]
        sibling_wide = nodes[row_node[row ^ 1]].n_rows > tree.capacity if len(row_node) > 1 else False
        for item in range(item_start[row], item_start[row + 1]):
            if item_place[item] < 0 or item_parent[item] == TRAVELS:
                continue
            bins = n_bins[item_feature[item]]
            sums[:] = 0
            add_item(parent_arena, parent_place[item_parent[item]], row_parent_wide[row], ONE, bins, tree, sums)
            add_item(arena, item_place[item_sibling[item]], sibling_wide, NONE, bins, tree, sums)
            keep_item(sums, ZERO, nodes[node].n_rows > tree.capacity, bins, tree, arena, item_place[item])


@njit
def search_items(
    start, stop, row_node, elected_start, elected, item_start, item_feature, item_place, arena, trees, nodes, best,
    scratches,
):  # fmt: skip
    """FindBestSplit on the merged histograms of the elected features that this worker owns; rows start:stop."""
    tree, scratch = trees[0], scratches[0]
    sums = sums_of(tree)
    for row in range(start, stop):
        node = row_node[row]
        best[row, 0].gain = -math.inf
        if not nodes[node].is_open:
            continue
        own_score = node_score(sums[node], tree)
        is_wide = np.int64(nodes[node].n_rows > tree.capacity)
        e, e_end = elected_start[row], elected_start[row + 1]
        for item in range(item_start[row], item_start[row + 1]):
            feature = item_feature[item]
            while e < e_end and elected[e] < feature:
                e += 1
            if item_place[item] >= 0 and e < e_end and elected[e] == feature:
                search_feature(
                    arena, item_place[item], tree.stride, is_wide, feature, node, own_score, row, ZERO, tree, nodes,
                    best, scratch,
                )  # fmt: skip
