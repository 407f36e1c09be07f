"""Merging elected histograms: what has to travel, messages to the owners, sums over all workers, the search.

An item is the merged histogram of one feature at one node of the frontier. Its feature's owner keeps it.
"""

from __future__ import annotations

import math

import numpy as np

from pvtree.dtypes import BLOCK, N_BINS, NONE, ONE, ZERO
from pvtree.kernels.evaluate import narrow_slot, search_feature, wide_slot
from pvtree.kernels.histogram import histogram_of_feature, pack_fields, unpack_add
from pvtree.kernels.intrinsics import int64_at, uint8_at, uint32_at
from pvtree.kernels.jit import njit
from pvtree.kernels.split import decode_feature, node_score
from pvtree.kernels.sparse_words import add_sparse, put_sparse
from pvtree.kernels.wire import add_histogram, put_histogram

TRAVELS = NONE  # the parent of an item that every worker sends; others are differences
# Forms of a message: plain words; as few bits as possible (wire.py); only the bins in use (sparse_words.py).
PLAIN, PACKED, SPARSE = (np.int64(form) for form in range(3))


@njit
def plan_items(
    n_pairs, parent_row, is_open, n_rows, elected_start, elected, known_start, known, item_start, item_feature,
    item_parent, item_sibling,
):  # fmt: skip
    """Items of the frontier, by row and rising feature, the same on every worker.

    Row 2 i and 2 i + 1 are siblings whose parent was row parent_row[i] of the frontier before (-1: not there); without
    pairs row 0 is the root. Where the parent's merged histogram of a feature is known, only the smaller child's
    travels; the other is the difference, and is made known even if nobody elected it: its own children may.
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
        s, s_end = elected_start[smaller], elected_start[smaller + 1]
        large, large_end = elected_start[larger], elected_start[larger + 1]
        k, k_end = 0, 0
        if parent_row[i] >= 0:
            k, k_end = known_start[parent_row[i]], known_start[parent_row[i] + 1]
        n_small, n_large = 0, 0
        while s < s_end or large < large_end:
            feature = elected[s] if s < s_end else elected[large]
            if large < large_end:
                feature = min(feature, elected[large])
            by_smaller = s < s_end and elected[s] == feature
            by_larger = large < large_end and elected[large] == feature
            s += by_smaller
            large += by_larger
            while k < k_end and known[k] < feature:
                k += 1
            is_known = k < k_end and known[k] == feature
            derives = is_known and is_open[larger]
            if by_smaller or derives:
                features[0, n_small], parents[0, n_small], partners[0, n_small] = feature, TRAVELS, NONE
                n_small += 1
            if derives:
                features[1, n_large], parents[1, n_large], partners[1, n_large] = feature, k, n_small - 1
                n_large += 1
            elif by_larger:
                features[1, n_large], parents[1, n_large], partners[1, n_large] = feature, TRAVELS, NONE
                n_large += 1
        first = total  # where the smaller child's items begin
        if smaller != 2 * i:
            first += n_large
        for turn in range(2):
            which = turn if smaller == 2 * i else 1 - turn
            n = n_small if which == 0 else n_large
            for at in range(n):
                item_feature[total], item_parent[total] = features[which, at], parents[which, at]
                item_sibling[total] = first + partners[which, at] if parents[which, at] >= 0 else NONE
                total += 1
            item_start[2 * i + turn + 1] = total


@njit
def place_items(rank, owner, row_n_rows, capacity, n_planes, n_fields, stride, item_start, item_feature, item_place):
    """Where the owner keeps its items: packed words for nodes that fit them, else a sum per field; returns the size."""
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
def plain_size(to, owner, row_n_rows, capacity, n_planes, n_fields, n_bins, item_start, item_feature, item_parent):
    """8-byte words of a message with nothing packed: one a bin and plane, or a bin and field for large nodes."""
    size = ZERO
    for row in range(len(row_n_rows)):
        n_words = n_fields if row_n_rows[row] > capacity else n_planes
        for item in range(item_start[row], item_start[row + 1]):
            feature = item_feature[item]
            if owner[feature] == to and item_parent[item] == TRAVELS:
                size += n_words * (n_bins[feature] + 1)
    return size


@njit
def local_histogram(node, feature, tree, nodes, scratch):
    """This worker's histogram of a feature at a node: (array, base, step, is_wide), as kept or added up singly."""
    if nodes[node].slot >= 0:
        if nodes[node].is_wide:
            return wide_slot(nodes[node].slot, tree), feature * tree.n_fields * tree.stride, tree.stride, ONE
        return narrow_slot(nodes[node].slot, tree), feature * tree.n_planes * tree.stride, tree.stride, ZERO
    buffer, start, stop = nodes[node].buffer, nodes[node].start, nodes[node].stop
    block_start = int64_at(tree.block_start, tree.n_blocks + 1)
    bins = uint8_at(tree.bins, (tree.n_blocks, tree.n_all_rows * BLOCK))
    rows, words = uint32_at(tree.rows, (2, tree.n_places))[buffer], int64_at(tree.words, (2, tree.n_places))[buffer]
    planes = uint8_at(tree.planes, (2, tree.n_places if tree.n_planes > 1 else 0))[buffer]
    packed = int64_at(scratch.packed, tree.n_planes * N_BINS)
    wide = int64_at(scratch.wide, tree.n_fields * N_BINS)
    packed[:] = 0  # a node without rows here adds nothing up
    block = np.searchsorted(block_start, feature, side="right") - 1
    is_wide = histogram_of_feature(
        bins[block], feature - block_start[block], rows, words, planes, start, stop, tree, packed, wide
    )
    return wide if is_wide else packed, ZERO, N_BINS, is_wide


@njit
def put_words(fields, is_wide, n_bins, tree, out, at):
    """The plain form of a histogram."""
    if is_wide:
        for j in range(tree.n_fields):
            out[at + j * (n_bins + 1) :][: n_bins + 1] = fields[j * N_BINS :][: n_bins + 1]
        return at + tree.n_fields * (n_bins + 1)
    pack_fields(fields, ZERO, N_BINS, n_bins + 1, tree, out, at, n_bins + 1)
    return at + tree.n_planes * (n_bins + 1)


@njit
def add_words(data, at, is_wide, n_bins, tree, sums):
    """Add what ``put_words`` wrote to sums[field * N_BINS + bin]."""
    if is_wide:
        for j in range(tree.n_fields):
            target, source = sums[j * N_BINS :][: n_bins + 1], data[at + j * (n_bins + 1) :][: n_bins + 1]
            for b in range(n_bins + 1):
                target[b] += source[b]
        return at + tree.n_fields * (n_bins + 1)
    unpack_add(data, at, n_bins + 1, n_bins + 1, tree, sums, ZERO, N_BINS, ONE)
    return at + tree.n_planes * (n_bins + 1)


@njit
def write_message(
    first_row, last_row, to, form, at, owner, row_node, item_start, item_feature, item_parent, trees, nodes,
    scratches, wire_scratch, words, bits,
):  # fmt: skip
    """Append this worker's histograms of rows first_row:last_row for worker ``to``; returns the next word or bit."""
    tree, scratch = trees[0], scratches[0]
    n_bins = int64_at(tree.n_bins, tree.n_features)
    for row in range(first_row, last_row):
        node = row_node[row]
        for item in range(item_start[row], item_start[row + 1]):
            feature = item_feature[item]
            if owner[feature] != to or item_parent[item] != TRAVELS:
                continue
            hist, base, step, is_wide = local_histogram(node, feature, tree, nodes, scratch)
            if form == SPARSE:
                at = put_sparse(hist, base, step, is_wide, n_bins[feature], tree, words, at)
                continue
            fields = decode_feature(hist, base, step, is_wide, n_bins[feature], tree, scratch)
            if form == PACKED:
                at = put_histogram(fields, tree.n_planes, tree.n_fields, n_bins[feature], bits, at, wire_scratch)
            else:
                is_large = nodes[node].n_rows > tree.capacity
                at = put_words(fields, is_large, n_bins[feature], tree, words, at)
    return at


@njit
def add_from_message(form, words, bits, at, is_large, n_bins, tree, scratch, wire_scratch, sums):
    """Add the next histogram of a message to sums[field * N_BINS + bin]; returns the next word or bit."""
    if form == PACKED:
        return add_histogram(bits, at, tree.n_planes, tree.n_fields, n_bins, sums, ZERO, N_BINS, wire_scratch)
    if form == SPARSE:
        return add_sparse(words, at, n_bins, tree, int64_at(scratch.packed, tree.n_planes * N_BINS), sums)
    return add_words(words, at, is_large, n_bins, tree, sums)


@njit
def unpack_message(
    to, form, owner, row_node, item_start, item_feature, item_parent, trees, nodes, scratches, wire_scratch, words, bits,
    plain,
):  # fmt: skip
    """A packed or sparse message in its plain form."""
    tree, scratch = trees[0], scratches[0]
    n_bins = int64_at(tree.n_bins, tree.n_features)
    sums = int64_at(scratch.wide, tree.n_fields * N_BINS)
    read, at = ZERO, ZERO
    for row in range(len(row_node)):
        is_large = nodes[row_node[row]].n_rows > tree.capacity
        for item in range(item_start[row], item_start[row + 1]):
            feature = item_feature[item]
            if owner[feature] == to and item_parent[item] == TRAVELS:
                sums[:] = 0
                read = add_from_message(
                    form, words, bits, read, is_large, n_bins[feature], tree, scratch, wire_scratch, sums
                )
                at = put_words(sums, is_large, n_bins[feature], tree, plain, at)


@njit
def keep_item(sums, is_wide, n_bins, tree, arena, place):
    """Store sums[field * N_BINS + bin] in the form of its node."""
    if is_wide:
        for j in range(tree.n_fields):
            arena[place + j * tree.stride :][: n_bins + 1] = sums[j * N_BINS :][: n_bins + 1]
    else:
        pack_fields(sums, ZERO, N_BINS, n_bins + 1, tree, arena, place, tree.stride)


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
def read_messages(
    form, message_start, words, bits, row_node, item_start, item_feature, item_parent, item_place, trees, nodes,
    scratches, wire_scratch, arena,
):  # fmt: skip
    """Items that travelled: the sums of what all workers sent, this one to itself included.

    All messages stand one after another in ``words`` and, the same memory, in ``bits``; number m begins at word
    message_start[m].
    """
    tree, scratch = trees[0], scratches[0]
    n_bins = int64_at(tree.n_bins, tree.n_features)
    sums = int64_at(scratch.wide, tree.n_fields * N_BINS)
    at = np.empty(len(form), np.int64)
    for m in range(len(form)):
        at[m] = message_start[m] * (64 if form[m] == PACKED else 1)
    for row in range(len(row_node)):
        is_wide = nodes[row_node[row]].n_rows > tree.capacity
        for item in range(item_start[row], item_start[row + 1]):
            if item_place[item] < 0 or item_parent[item] != TRAVELS:
                continue
            bins = n_bins[item_feature[item]]
            sums[:] = 0
            for m in range(len(form)):
                at[m] = add_from_message(form[m], words, bits, at[m], is_wide, bins, tree, scratch, wire_scratch, sums)
            keep_item(sums, is_wide, bins, tree, arena, item_place[item])


@njit
def subtract_items(
    start, stop, row_node, row_parent_wide, item_start, item_feature, item_parent, item_sibling, item_place,
    parent_place, parent_arena, trees, nodes, arena, scratches,
):  # fmt: skip
    """Items that did not travel: parent - sibling, both of which this worker owns as well; rows start:stop."""
    tree, scratch = trees[0], scratches[0]
    n_bins = int64_at(tree.n_bins, tree.n_features)
    sums = int64_at(scratch.wide, tree.n_fields * N_BINS)
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
            keep_item(sums, nodes[node].n_rows > tree.capacity, bins, tree, arena, item_place[item])


@njit
def search_items(
    start, stop, row_node, elected_start, elected, item_start, item_feature, item_place, arena, trees, nodes, best,
    scratches,
):  # fmt: skip
    """FindBestSplit on the merged histograms of the elected features that this worker owns; rows start:stop."""
    tree, scratch = trees[0], scratches[0]
    sums = int64_at(tree.sums, (tree.n_nodes, tree.n_fields))
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
                    arena, item_place[item], tree.stride, is_wide, feature, node, own_score, row, ZERO, tree, best,
                    scratch,
                )  # fmt: skip
