"""A worker's own part of growing a frontier: what to add up, local sums, rows to children, best-first order."""

from __future__ import annotations

import heapq
import math

import numpy as np

from pvtree.kernels.constants import N_BINS, NONE, ONE, ZERO
from pvtree.kernels.growing.children import begin_children, fill_sides_of_node
from pvtree.kernels.growing.evaluate import evaluate_group
from pvtree.kernels.growing.families import (
    allow_features,
    can_split,
    free_parent,
    free_slot,
    keep_histogram,
    plan_pair,
    plan_single,
    set_single,
    take_best,
)
from pvtree.kernels.growing.quantize import sum_words
from pvtree.kernels.growing.records import (
    bins_of,
    mask_of,
    plane_of,
    planes_of,
    rows_of,
    shift_of,
    side_of,
    sums_of,
    words_of,
)
from pvtree.kernels.growing.route import mark_sides, scatter
from pvtree.kernels.growing.split import count_rows
from pvtree.kernels.jit import njit


@njit
def draw_features(row_node, features, trees, nodes):
    """Mark what each node under evaluation may use of the tree's features, those of other workers included."""
    for row in range(len(row_node)):
        allow_features(row, row_node[row], features, trees[0], nodes)


@njit
def make_children(parents, n_made, trees, nodes):
    """Two nodes for each parent, numbered from ``n_made``, as far as the split alone determines them."""
    tree = trees[0]
    sums = sums_of(tree)
    for i in range(len(parents)):
        left = n_made + 2 * i
        begin_children(parents[i], left, tree, nodes)
        for child in range(left, left + 2):
            nodes[child].n_rows = count_rows(sums[child], tree.n_planes)
            nodes[child].is_open = can_split(child, tree, nodes)


@njit
def mark_rows(start, stop, parents, trees, nodes):
    """side[place] = 1 where the row at that place goes left, for the nodes parents[start:stop]."""
    tree = trees[0]
    goes_left = np.empty(N_BINS, np.uint8)
    bins, side, rows = bins_of(tree), side_of(tree), rows_of(tree)
    for i in range(start, stop):
        node = nodes[parents[i]]
        block, lane = fill_sides_of_node(parents[i], node.feature - tree.first_feature, tree, nodes, goes_left)
        mark_sides(bins[block], lane, rows[node.buffer], node.start, node.stop, goes_left, side)


@njit
def scatter_rows(start, stop, parents, trees, nodes):
    """Move the rows of parents[start:stop] to their children; ``side`` must be marked."""
    tree = trees[0]
    side = side_of(tree)
    rows, words = rows_of(tree), words_of(tree)
    planes = planes_of(tree)
    for i in range(start, stop):
        node = nodes[parents[i]]
        n_left = ZERO
        for place in range(node.start, node.stop):
            n_left += side[place]
        middle = node.start + n_left
        scatter(
            node.buffer, 1 - node.buffer, rows, words, planes, node.start, node.stop, side, node.start, middle
        )  # fmt: skip
        left = node.left_child
        nodes[left].start, nodes[left].stop = node.start, middle
        nodes[left + 1].start, nodes[left + 1].stop = middle, node.stop


@njit
def pack_sides(parents, nodes, side, bits):
    """Write the sides of the parents' rows as bits, in the order of parents and places; returns their number."""
    at = 0
    for parent in parents:
        for place in range(nodes[parent].start, nodes[parent].stop):
            if at & 7 == 0:
                bits[at >> 3] = 0
            bits[at >> 3] |= side[place] << np.uint8(at & 7)
            at += 1
    return at


@njit
def unpack_sides(parents, nodes, side, bits):
    """Read what ``pack_sides`` wrote; every worker has the same rows at the same places."""
    at = 0
    for parent in parents:
        for place in range(nodes[parent].start, nodes[parent].stop):
            side[place] = (bits[at >> 3] >> np.uint8(at & 7)) & np.uint8(1)
            at += 1


@njit
def sum_locally(start, stop, row_node, trees, nodes, local_sums):
    """local_sums[node] = the sums by field of this worker's rows, for the nodes of rows start:stop."""
    tree = trees[0]
    plane, shift = plane_of(tree), shift_of(tree)
    mask = mask_of(tree)
    words = words_of(tree)
    planes = planes_of(tree)
    for row in range(start, stop):
        node = nodes[row_node[row]]
        own_planes = planes[node.buffer]
        if len(own_planes) > 0:
            own_planes = own_planes[node.start : node.stop]
        sum_words(
            words[node.buffer, node.start : node.stop], own_planes, tree.capacity, tree.n_planes, plane, shift,
            mask, local_sums[row_node[row]],
        )  # fmt: skip


@njit
def plan_families(row_node, parents, trees, families, nodes):
    """Decide which nodes are added up and which follow by subtraction; returns the number of families.

    Rows 2 i and 2 i + 1 are the children of parents[i]; without parents, row 0 is the root.
    """
    tree = trees[0]
    if len(parents) == 0:
        plan_single(row_node[0], ZERO, ZERO, tree, families, nodes)
        return ONE
    n = ZERO
    for i in range(len(parents)):
        n = plan_pair(parents[i], row_node[2 * i], 2 * i, n, tree, families, nodes)
    return n


@njit
def plan_samples(row_node, searched, families, nodes):
    """Families of single nodes, whose histograms nobody keeps; returns their number."""
    n = ZERO
    for row in range(len(row_node)):
        if searched[row]:
            set_single(row_node[row], row, n, families)
            n += 1
    return n


@njit
def free_parents(n_families, trees, families, nodes):
    """Free the slots of parents' histograms that no child took over."""
    for i in range(n_families):
        family = families[i]
        if family.sibling >= 0:
            free_parent(family, trees[0], nodes)


@njit
def free_histograms(some_nodes, trees, nodes):
    """Free the slots of these nodes' histograms."""
    for node in some_nodes:
        if nodes[node].slot >= 0:
            free_slot(nodes[node].slot, nodes[node].is_wide, trees[0])
            nodes[node].slot = -1


@njit
def plan_additions(row_node, wanted, start, trees, families, nodes):
    """Families that only add up the nodes of ``wanted`` rows, from row ``start`` on while there are slots.

    Returns (the next row, the number of families).
    """
    tree = trees[0]
    n = ZERO
    for row in range(start, len(row_node)):
        if wanted[row]:
            node = row_node[row]
            keep_histogram(node, NONE, ZERO, tree, nodes)
            if nodes[node].slot < 0:
                return row, n
            set_single(node, row, n, families)
            n += 1
    return len(row_node), n


@njit
def evaluate_items(start, stop, trees, families, nodes, best, bounds, scratches):
    """Items start:stop of an evaluation: the groups of features of one family after another."""
    tree, scratch = trees[0], scratches[0]
    for item in range(start, stop):
        evaluate_group(item, tree, families, nodes, best, scratch, bounds)


@njit
def take_best_groups(row_node, n_groups, trees, nodes, best):
    """Give every open node the best candidate of its groups of features, and the others none."""
    for row in range(len(row_node)):
        node = row_node[row]
        nodes[node].gain = -math.inf
        if nodes[node].is_open:
            take_best(row, node, n_groups, trees[0], nodes, best)


@njit
def turn_of(node, depthwise):
    """The lower, the sooner the node is split, of equals the older one first; infinite if it has no split."""
    return 0.0 if depthwise and node.gain > -math.inf else -node.gain


@njit
def best_first(n_made, max_leaves, depthwise, nodes, is_split):
    """Mark the nodes known so far that best-first growth splits: always the largest gain, ties to the older node.

    With ``depthwise`` it is always the oldest node that has a split.
    A node's age is its number in best-first growth, not here, where whole levels are made at once. Returns the node
    whose split uses up the leaf budget, -1 if none does.
    """
    is_split[:n_made] = 0
    if max_leaves == 0:
        for node in range(n_made):
            is_split[node] = nodes[node].gain > -math.inf
        return NONE
    n_splits, n_named = ZERO, ONE
    heap = [(turn_of(nodes[0], depthwise), ZERO, ZERO)]  # (turn, age, node)
    while len(heap) > 0 and n_splits < max_leaves - 1:
        turn, _, node = heapq.heappop(heap)
        if turn == math.inf:
            return NONE
        is_split[node] = 1
        n_splits += 1
        if n_splits == max_leaves - 1:
            return node
        left = nodes[node].left_child
        if left > 0:
            for child in range(left, left + 2):
                heapq.heappush(heap, (turn_of(nodes[child], depthwise), n_named + child - left, child))
        n_named += 2
    return NONE


@njit
def find_runs(n_made, n_rows, order, n_nodes, nodes, leaf_of, run_leaf, run_stop, run_buffer):
    """List where this worker's rows are: runs of places in the same leaf, in the order of places; returns their number.

    A leaf may have been split in advance, for nothing; then the rows below it belong to the leaf.
    """
    leaf_of[:n_made] = -1
    for i in range(n_nodes):
        leaf_of[order[i]] = i
    for node in range(n_made):  # parents come before their children
        left = nodes[node].left_child
        if left > 0:
            for child in range(left, left + 2):
                if leaf_of[child] < 0:
                    leaf_of[child] = leaf_of[node]
    place_run = np.full(n_rows + 1, -1, np.int64)  # the node whose run begins at a place
    for node in range(n_made):
        if nodes[node].left_child == 0 and nodes[node].stop > nodes[node].start:
            place_run[nodes[node].start] = node
    n, place = 0, 0
    while place < n_rows:
        node = place_run[place]
        place = nodes[node].stop
        run_leaf[n], run_stop[n], run_buffer[n] = leaf_of[node], place, nodes[node].buffer
        n += 1
    return n
