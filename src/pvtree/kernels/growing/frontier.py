"""A worker's own part of growing a frontier: which nodes to add up, local sums, rows to children."""

from __future__ import annotations

import heapq
import math

import numpy as np

from pvtree.kernels.constants import BLOCK, N_BINS, NONE, ONE, ZERO
from pvtree.kernels.growing.bundles import place_of, sides_of_codes
from pvtree.kernels.growing.constraints import inherit_constraints, permitted_features
from pvtree.kernels.growing.evaluate import can_split, evaluate_group, is_worth_keeping
from pvtree.kernels.growing.grow import begin_children, free_parent, free_slot, set_family, take_best, take_slot
from pvtree.kernels.growing.quantize import sum_words
from pvtree.kernels.growing.route import fill_sides, mark_sides, scatter
from pvtree.kernels.hashing import hash_pair, sample_features
from pvtree.kernels.intrinsics import int64_at, uint8_at, uint32_at, uint64_at
from pvtree.kernels.jit import njit


@njit
def draw_features(
    start, stop, row_node, first_feature, tree_features, n_sampled, key, nodes, live_sets, sets_of, allowed
):
    """What each node may use, drawn by the hash of its path from all features, those of other workers included.

    From those that interaction constraints permit: of fewer than ``n_sampled``, and if that is 0, all.
    """
    chosen = np.empty(n_sampled, np.int64)
    for row in range(start, stop):
        allowed[row, :] = 0
        features = permitted_features(tree_features, live_sets[row_node[row]], sets_of)
        if 0 < n_sampled < len(features):
            sample_features(hash_pair(key, nodes[row_node[row]].path), features, n_sampled, chosen)
            features = chosen
        for i in range(len(features)):
            feature = features[i] - first_feature
            if 0 <= feature < allowed.shape[1]:
                allowed[row, feature] = 1


@njit
def make_children(parents, n_made, trees, nodes, sums, left_sums):
    """Two nodes for each parent, numbered from ``n_made``, as far as the split alone tells."""
    tree = trees[0]
    for i in range(len(parents)):
        parent, left = parents[i], n_made + 2 * i
        begin_children(parent, left, tree.n_fields, nodes, sums, left_sums)
        inherit_constraints(parent, left, nodes[parent].feature, tree)
        for child in range(left, left + 2):
            nodes[child].n_rows = 0
            for j in range(tree.n_planes):
                nodes[child].n_rows += sums[child, j]
            nodes[child].is_open = can_split(child, tree, nodes)


@njit
def mark_rows(start, stop, parents, first_feature, trees, nodes):
    """side[place] = 1 where the row at that place goes left, for the nodes parents[start:stop]."""
    tree = trees[0]
    goes_left = np.empty(N_BINS, np.uint8)
    bins = uint8_at(tree.bins, (tree.n_blocks, tree.n_all_rows * BLOCK))
    is_categorical = uint8_at(tree.is_categorical, tree.n_features)
    left_set = uint64_at(tree.left_set, (tree.n_nodes, 4))
    side = uint8_at(tree.side, tree.n_places)
    for i in range(start, stop):
        node = nodes[parents[i]]
        feature = node.feature - first_feature
        block, lane = place_of(feature, tree)
        fill_sides(is_categorical[feature], node.split_bin, node.default_left, left_set[parents[i]], goes_left)
        if tree.bundled:
            sides_of_codes(feature, tree, goes_left)
        rows = uint32_at(tree.rows, (2, tree.n_places))[node.buffer]
        mark_sides(bins[block], lane, rows, node.start, node.stop, goes_left, side)


@njit
def scatter_rows(start, stop, parents, trees, nodes):
    """Move the rows of parents[start:stop] to their children, once ``side`` is known."""
    tree = trees[0]
    side = uint8_at(tree.side, tree.n_places)
    rows, words = uint32_at(tree.rows, (2, tree.n_places)), int64_at(tree.words, (2, tree.n_places))
    planes = uint8_at(tree.planes, (2, tree.n_places if tree.n_planes > 1 else 0))
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
    """The sides of the parents' rows as one bit a row, in the order of parents and places; returns their number."""
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
    """What ``pack_sides`` packed; every worker has the same rows at the same places."""
    at = 0
    for parent in parents:
        for place in range(nodes[parent].start, nodes[parent].stop):
            side[place] = (bits[at >> 3] >> np.uint8(at & 7)) & np.uint8(1)
            at += 1


@njit
def sum_locally(start, stop, row_node, trees, nodes, local_sums):
    """Sums by field of this worker's rows in each of the nodes."""
    tree = trees[0]
    plane, shift = int64_at(tree.plane, tree.n_values), int64_at(tree.shift, tree.n_values)
    mask = int64_at(tree.mask, tree.n_values)
    words = int64_at(tree.words, (2, tree.n_places))
    planes = uint8_at(tree.planes, (2, tree.n_places if tree.n_planes > 1 else 0))
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
def keep_histogram(node, heir_slot, heir_wide, tree, nodes):
    """A place for the node's histogram: its parent's if it has the same form, else a free one, else none."""
    nodes[node].is_wide = np.int64(nodes[node].stop - nodes[node].start > tree.capacity)
    if heir_slot >= 0 and heir_wide == nodes[node].is_wide:
        nodes[node].slot = heir_slot
    else:
        nodes[node].slot = take_slot(nodes[node].is_wide, tree, nodes)


@njit
def plan_family(node, row, n, tree, families, nodes):
    """A family of a single node whose rows are added up."""
    set_family(n, node, row, NONE, NONE, ZERO, families)
    if is_worth_keeping(node, tree, nodes):
        keep_histogram(node, NONE, ZERO, tree, nodes)


@njit
def plan_families(row_node, parents, trees, families, nodes):
    """Which nodes to add up and which to get by subtraction, by local row counts; returns the number of families.

    Row 2 i and 2 i + 1 are the children of parents[i]; without parents, row 0 is the root.
    """
    tree = trees[0]
    if len(parents) == 0:
        plan_family(row_node[0], ZERO, ZERO, tree, families, nodes)
        return ONE
    n = ZERO
    for i in range(len(parents)):
        parent = nodes[parents[i]]
        slot, slot_wide = parent.slot, parent.is_wide
        parent.slot = -1
        left = row_node[2 * i]
        smaller, larger = ZERO, ONE
        if nodes[left + 1].stop - nodes[left + 1].start < nodes[left].stop - nodes[left].start:
            smaller, larger = ONE, ZERO
        if slot >= 0 and nodes[left + larger].is_open and is_worth_keeping(left + larger, tree, nodes):
            plan_family(left + smaller, 2 * i + smaller, n, tree, families, nodes)
            families[n].sibling, families[n].sibling_row = left + larger, 2 * i + larger
            families[n].slot, families[n].slot_wide = slot, slot_wide
            keep_histogram(left + larger, slot, slot_wide, tree, nodes)
            n += 1
            continue
        free_slot(slot, slot_wide, tree)
        for child in range(2):
            if nodes[left + child].is_open:
                plan_family(left + child, 2 * i + child, n, tree, families, nodes)
                n += 1
    return n


@njit
def free_parents(n_families, trees, families, nodes):
    """Give back the places of parents' histograms that no child took over."""
    for i in range(n_families):
        family = families[i]
        if family.sibling >= 0:
            free_parent(family, trees[0], nodes)


@njit
def free_histograms(some_nodes, trees, nodes):
    """Give back the places of these nodes' histograms."""
    for node in some_nodes:
        if nodes[node].slot >= 0:
            free_slot(nodes[node].slot, nodes[node].is_wide, trees[0])
            nodes[node].slot = -1


@njit
def plan_additions(row_node, wanted, start, trees, families, nodes):
    """Families that only add up the ``wanted`` rows' nodes, from ``start`` while there is room; (next, number)."""
    tree = trees[0]
    n = ZERO
    for row in range(start, len(row_node)):
        if wanted[row]:
            keep_histogram(row_node[row], NONE, ZERO, tree, nodes)
            if nodes[row_node[row]].slot < 0:
                return row, n
            set_family(n, row_node[row], row, NONE, NONE, ZERO, families)
            n += 1
    return len(row_node), n


@njit
def evaluate_items(start, stop, trees, families, nodes, best, bounds, scratches):
    """Items start:stop of an evaluation: groups of features of the families, one after another."""
    tree, scratch = trees[0], scratches[0]
    for item in range(start, stop):
        evaluate_group(item, tree, families, nodes, best, scratch, bounds)


@njit
def take_best_groups(row_node, n_groups, trees, nodes, best):
    """Every open node gets the best candidate of its groups of features; the others have none."""
    for row in range(len(row_node)):
        node = row_node[row]
        nodes[node].gain = -math.inf
        if nodes[node].is_open:
            take_best(row, node, n_groups, trees[0], nodes, best)


@njit
def best_first(n_made, max_leaves, nodes, is_split):
    """Which of the nodes known so far a best-first run splits: always the largest gain, ties to the older node.

    The age of a node is its number in that run, not here, where whole levels are made at once. Returns the node that
    takes the last of the leaf budget, -1 if some is left.
    """
    is_split[:n_made] = 0
    if max_leaves == 0:
        for node in range(n_made):
            is_split[node] = nodes[node].gain > -math.inf
        return NONE
    n_splits, n_named = ZERO, ONE
    heap = [(-nodes[0].gain, ZERO, ZERO)]  # (-gain, age, node)
    while len(heap) > 0 and n_splits < max_leaves - 1:
        cost, _, node = heapq.heappop(heap)
        if cost == math.inf:
            return NONE
        is_split[node] = 1
        n_splits += 1
        if n_splits == max_leaves - 1:
            return node
        left = nodes[node].left_child
        if left > 0:
            for child in range(left, left + 2):
                heapq.heappush(heap, (-nodes[child].gain, n_named + child - left, child))
        n_named += 2
    return NONE


@njit
def walk_split(is_split, nodes, order, left_child):
    """Nodes of the tree in level order, as far as ``is_split``, and each one's left child; returns their number."""
    order[0] = 0
    n_seen = 1
    i = 0
    while i < n_seen:
        left_child[i] = 0
        if is_split[order[i]]:
            left_child[i] = n_seen
            order[n_seen] = nodes[order[i]].left_child
            order[n_seen + 1] = nodes[order[i]].left_child + 1
            n_seen += 2
        i += 1
    return n_seen


@njit
def find_runs(n_made, n_rows, order, n_nodes, nodes, leaf_of, run_leaf, run_stop, run_buffer):
    """Where this worker's rows are: runs of places by their leaf, in the order of places; returns their number.

    Below a leaf there may be nodes that were made in advance and not needed; their rows belong to that leaf.
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
