"""BuildTree (the paper's Algorithm 1) for a worker that holds all rows: the whole tree in one kernel.

Leaf-wise: always split the open leaf with the largest gain. Without a leaf budget the order of splits does not
change the tree, and depth-first keeps few histograms alive. The records are described in memory.py.
"""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.constants import BLOCK, N_BINS, NONE, ONE, ZERO
from pvtree.kernels.growing.bundles import place_of, sides_of_codes
from pvtree.kernels.growing.constraints import inherit_constraints, permitted_features
from pvtree.kernels.growing.evaluate import can_split, count_groups, evaluate_group, is_worth_keeping
from pvtree.kernels.growing.route import CHUNK, fill_sides, mark_chunk, scatter_chunk
from pvtree.kernels.growing.split import count_rows
from pvtree.kernels.growing.work_sharing import (
    KIND,
    SYNC_SIZE,
    all_done,
    come,
    finish_item,
    go,
    let_helpers_go,
    may_go,
    publish,
    take,
    wait_a_moment,
)
from pvtree.kernels.hashing import hash_pair, sample_features
from pvtree.kernels.intrinsics import int64_at, uint8_at, uint64_at
from pvtree.kernels.jit import njit

# The phases of a split, in this order; each is a number of items that threads share.
_START, _EVALUATE, _MARK, _SCATTER = (np.int64(kind) for kind in range(4))
_AT_ONCE = np.int64(2**25)  # bins that the leader reads, less than a tenth of a second, before Python looks for Ctrl-C
_OVERHEAD = np.int64(512)  # rows that take as long as searching a histogram does


@njit
def take_slot(want_wide, tree, nodes):
    """A place for a histogram: a free one, else that of the open leaf least likely to be split, else none.

    The pool has room for half of the leaf budget: of n open leaves only the best (budget - n) can still be split.
    """
    top = max(tree.n_narrow_slots, tree.n_wide_slots)
    free = int64_at(tree.free_slots, (2, top + 1))
    if free[want_wide, top] > 0:
        free[want_wide, top] -= 1
        return free[want_wide, free[want_wide, top]]
    open_leaves = int64_at(tree.open_leaves, tree.n_nodes)
    least = -1
    for i in range(tree.n_open):
        leaf = open_leaves[i]
        if nodes[leaf].slot < 0 or nodes[leaf].is_wide != want_wide:
            continue
        if least < 0 or nodes[leaf].gain < nodes[least].gain:
            least = leaf
    if least < 0:
        return -1
    slot = nodes[least].slot
    nodes[least].slot = -1
    return slot


@njit
def free_slot(slot, is_wide, tree):
    if slot >= 0:
        top = max(tree.n_narrow_slots, tree.n_wide_slots)
        free = int64_at(tree.free_slots, (2, top + 1))
        free[is_wide, free[is_wide, top]] = slot
        free[is_wide, top] += 1


@njit
def choose_features(row, node, tree, nodes):
    """Draw the node's features by the hash of its path, so that every worker draws the same.

    From those that interaction constraints permit: of fewer than are to be drawn, all.
    """
    if tree.n_sampled == 0 and tree.n_set_words == 0:
        return
    chosen = int64_at(tree.chosen, (tree.n_evaluated, tree.n_sampled))
    allowed = uint8_at(tree.allowed, (tree.n_evaluated, tree.n_features))
    tree_features = int64_at(tree.tree_features, tree.n_tree_features)
    allowed[row, :] = 0
    if tree.n_set_words > 0:
        live_sets = uint64_at(tree.live_sets, (tree.n_nodes, tree.n_set_words))[node]
        sets_of = uint64_at(tree.sets_of, (tree.n_all_features, tree.n_set_words))
        tree_features = permitted_features(tree_features, live_sets, sets_of)
    if tree.n_sampled == 0:
        for i in range(len(tree_features)):
            allowed[row, tree_features[i]] = 1
        return
    n_drawn = min(tree.n_sampled, np.int64(len(tree_features)))
    sample_features(hash_pair(tree.key, nodes[node].path), tree_features, n_drawn, chosen[row])
    for i in range(n_drawn):
        allowed[row, chosen[row, i]] = 1
    for i in range(n_drawn, tree.n_sampled):
        chosen[row, i] = NONE
    n = 0
    for feature in range(tree.n_features):  # in rising order, so that ties go to the lower index
        if allowed[row, feature]:
            chosen[row, n] = feature
            n += 1


@njit
def give_slot(node, parent_slot, parent_wide, tree, nodes):
    """Decide where the node's histogram will be kept, if its children can be split at all."""
    n_rows = nodes[node].n_rows
    is_wide = np.int64(n_rows > tree.capacity)
    nodes[node].is_wide = is_wide
    if tree.singly or n_rows < 3 * tree.min_count or not is_worth_keeping(node, tree, nodes):
        return
    if tree.max_depth >= 0 and nodes[node].depth + 1 >= tree.max_depth:
        return
    if parent_slot >= 0 and parent_wide == is_wide:
        nodes[node].slot = parent_slot  # the larger child takes over its parent's place
    else:
        nodes[node].slot = take_slot(is_wide, tree, nodes)


@njit
def take_best(row, node, n_groups, tree, nodes, best):
    """The best candidate of all groups becomes the node's split; of equals the lowest feature."""
    winner = 0
    for group in range(1, n_groups):
        other, leader = best[row, group], best[row, winner]
        if other.gain > leader.gain or (other.gain == leader.gain and other.feature < leader.feature):
            winner = group
    nodes[node].gain = best[row, winner].gain
    nodes[node].feature = best[row, winner].feature
    nodes[node].split_bin = best[row, winner].split_bin
    nodes[node].default_left = best[row, winner].default_left
    at = row * tree.n_groups + winner
    left_sums = int64_at(tree.left_sums, (tree.n_nodes, tree.n_fields))
    left_set = uint64_at(tree.left_set, (tree.n_nodes, 4))
    left_sums[node, :] = int64_at(tree.best_sums, (tree.n_evaluated * tree.n_groups, tree.n_fields))[at]
    left_set[node, :] = uint64_at(tree.best_set, (tree.n_evaluated * tree.n_groups, 4))[at]


@njit
def set_family(i, node, row, sibling, slot, slot_wide, families):
    family = families[i]
    family.node, family.row = node, row
    family.sibling, family.sibling_row = sibling, ONE
    family.slot, family.slot_wide = slot, slot_wide


@njit
def begin_evaluation(tree, families, nodes):
    """FindBestSplit for the newest family (at the root: one node without sibling); returns the number of items."""
    first, second = tree.left, tree.right
    parent = tree.parent
    slot, slot_wide = nodes[parent].slot, nodes[parent].is_wide
    nodes[parent].slot = -1
    tree.n_families = ZERO
    for child in range(first, max(first, second) + 1):
        nodes[child].is_open = can_split(child, tree, nodes)
    if not (nodes[first].is_open or (second >= 0 and nodes[second].is_open)):
        free_slot(slot, slot_wide, tree)
        return 0
    smaller, larger = first, second
    if second >= 0 and nodes[second].n_rows < nodes[first].n_rows:
        smaller, larger = second, first
    if slot >= 0 and is_worth_keeping(larger, tree, nodes):  # add up the smaller child, the larger by subtraction
        tree.n_families = ONE
        set_family(ZERO, smaller, ZERO, larger, slot, slot_wide, families)
        choose_features(ZERO, smaller, tree, nodes)
        if nodes[smaller].is_open:
            give_slot(smaller, NONE, ZERO, tree, nodes)
        if nodes[larger].is_open:
            give_slot(larger, slot, slot_wide, tree, nodes)
            choose_features(ONE, larger, tree, nodes)
    else:  # add up each
        free_slot(slot, slot_wide, tree)
        for child in range(first, max(first, second) + 1):
            if nodes[child].is_open:
                set_family(tree.n_families, child, tree.n_families, NONE, NONE, ZERO, families)
                give_slot(child, NONE, ZERO, tree, nodes)
                choose_features(tree.n_families, child, tree, nodes)
                tree.n_families += ONE
    return count_groups(tree) * tree.n_families


@njit
def free_parent(family, tree, nodes):
    """Give back the place of the parent's histogram, unless the child got by subtraction took it over."""
    heir = nodes[family.sibling]
    if heir.slot != family.slot or heir.is_wide != family.slot_wide:
        free_slot(family.slot, family.slot_wide, tree)


@njit
def finish_evaluation(tree, families, nodes, best):
    """The best of each node's candidates becomes its split; nodes with a split wait for their turn."""
    for i in range(tree.n_families):
        family = families[i]
        take_best(family.row, family.node, count_groups(tree), tree, nodes, best)
        if family.sibling >= 0:
            take_best(family.sibling_row, family.sibling, count_groups(tree), tree, nodes, best)
            free_parent(family, tree, nodes)
    open_leaf(tree.left, tree, nodes)
    if tree.right >= 0:
        open_leaf(tree.right, tree, nodes)


@njit
def begin_partition(tree, nodes):
    """Split(D, N, bestSplit): the next leaf's rows will be ordered by child, in the other buffer."""
    node = next_leaf(tree, nodes)
    tree.parent = node
    feature = nodes[node].feature
    tree.block, tree.lane = place_of(feature, tree)
    tree.buffer, tree.start, tree.stop = nodes[node].buffer, nodes[node].start, nodes[node].stop
    fill_sides(
        uint8_at(tree.is_categorical, tree.n_features)[feature], nodes[node].split_bin, nodes[node].default_left,
        uint64_at(tree.left_set, (tree.n_nodes, 4))[node], uint8_at(tree.goes_left, N_BINS),
    )  # fmt: skip
    if tree.bundled:
        sides_of_codes(feature, tree, uint8_at(tree.goes_left, N_BINS))
    return (tree.stop - tree.start + CHUNK - 1) // CHUNK


@njit
def place_chunks(tree):
    """Between the two passes of a partition: turn how many rows go left into where each chunk's first one goes."""
    n_chunks = (tree.stop - tree.start + CHUNK - 1) // CHUNK
    chunk_left = int64_at(tree.chunk_left, n_chunks)
    left_sums = int64_at(tree.left_sums, (tree.n_nodes, tree.n_fields))[tree.parent]
    tree.n_left = count_rows(left_sums, tree.n_planes)
    at = tree.start
    for chunk in range(n_chunks):
        n_left = chunk_left[chunk]
        chunk_left[chunk] = at
        at += n_left
    return n_chunks


@njit
def begin_children(parent, left, n_fields, nodes, sums, left_sums):
    """Two new nodes, as far as the parent and its split tell."""
    nodes[parent].left_child = left
    for child in range(left, left + 2):
        nodes[child].buffer = 1 - nodes[parent].buffer
        nodes[child].depth = nodes[parent].depth + 1
        nodes[child].path = hash_pair(nodes[parent].path, child - left)
        nodes[child].slot, nodes[child].is_wide, nodes[child].left_child = -1, 0, 0
        nodes[child].gain = -math.inf
    for j in range(n_fields):
        sums[left, j] = left_sums[parent, j]
        sums[left + 1, j] = sums[parent, j] - left_sums[parent, j]


@njit
def make_children(tree, nodes):
    """Two new nodes that share the parent's rows and sums."""
    sums = int64_at(tree.sums, (tree.n_nodes, tree.n_fields))
    left_sums = int64_at(tree.left_sums, (tree.n_nodes, tree.n_fields))
    parent, left = tree.parent, tree.n_made
    tree.left, tree.right = left, left + 1
    tree.n_made += 2
    tree.n_leaves += 1
    middle = tree.start + tree.n_left
    begin_children(parent, left, tree.n_fields, nodes, sums, left_sums)
    inherit_constraints(parent, left, nodes[parent].feature, tree)
    for child in range(left, left + 2):
        nodes[child].start = tree.start if child == left else middle
        nodes[child].stop = middle if child == left else tree.stop
        nodes[child].n_rows = nodes[child].stop - nodes[child].start


@njit
def open_leaf(node, tree, nodes):
    """Queue the node if it has a split, else give its histogram's place back."""
    if nodes[node].gain > -math.inf:
        int64_at(tree.open_leaves, tree.n_nodes)[tree.n_open] = node
        tree.n_open += 1
    else:
        free_slot(nodes[node].slot, nodes[node].is_wide, tree)
        nodes[node].slot = -1


@njit
def next_leaf(tree, nodes):
    """Take the open leaf to split next: the largest gain (ties: the older node), or depth-first without a budget."""
    open_leaves = int64_at(tree.open_leaves, tree.n_nodes)
    tree.n_open -= 1
    last = tree.n_open
    if tree.max_leaves == 0:
        return open_leaves[last]
    chosen = 0
    for i in range(1, last + 1):
        leaf, leader = open_leaves[i], open_leaves[chosen]
        gain, most = nodes[leaf].gain, nodes[leader].gain
        if gain > most or (gain == most and leaf < leader):
            chosen = i
    leaf = open_leaves[chosen]
    open_leaves[chosen] = open_leaves[last]
    return leaf


@njit
def next_phase(phase, tree, families, nodes, best):
    """What one thread does between phases; returns the next phase and its number of items, 0 at the end.

    start -> evaluate -> mark -> scatter -> evaluate -> ...
    """
    if phase == _START:
        tree.parent, tree.left, tree.right = ZERO, ZERO, NONE
        tree.n_made, tree.n_leaves, tree.n_open = ONE, ONE, ZERO
    elif phase == _MARK:
        return _SCATTER, place_chunks(tree)
    elif phase == _SCATTER:
        make_children(tree, nodes)
        if tree.n_leaves == tree.max_leaves:
            return _START, ZERO
    if phase != _EVALUATE:
        n_items = begin_evaluation(tree, families, nodes)
        if n_items > 0:
            return _EVALUATE, n_items
    finish_evaluation(tree, families, nodes, best)
    if tree.n_open == 0:
        return _START, ZERO
    n_chunks = begin_partition(tree, nodes)
    if n_chunks == 1:  # the split knows how many rows go left: nothing to count
        return _SCATTER, place_chunks(tree)
    return _MARK, n_chunks


@njit
def grow_tree(trees, families, nodes, best, scratches, leads):
    """BuildTree(N, D), run by all threads at once, one of which leads; node 0 must hold its rows and sums.

    One loop and one place per kind of item serve both roles: the compiler sees the large functions once. For a leader
    False means that the tree is not finished: call again.
    """
    tree, scratch = trees[0], scratches[0]
    sync = int64_at(tree.sync, SYNC_SIZE)
    n_read, n_waits = ZERO, ZERO
    if not leads:
        come(sync)
    while True:
        item = take(sync)
        if item >= 0:
            kind = sync[KIND]
            n_read += CHUNK
            if kind == _EVALUATE:
                evaluate_group(item, tree, families, nodes, best, scratch, None)
                n_read += BLOCK * (nodes[tree.parent].n_rows + _OVERHEAD)
            elif kind == _MARK:
                mark_chunk(item, tree)
            else:
                scatter_chunk(item, tree)
            finish_item(sync)
            n_waits = ZERO
            if leads and n_read > _AT_ONCE:
                return False
        elif leads and all_done(sync):
            phase, n_items = next_phase(sync[KIND], tree, families, nodes, best)
            if n_items == 0:
                let_helpers_go(sync)
                return True
            publish(sync, phase, n_items)
        elif not leads and may_go(sync):
            go(sync)
            return True
        else:
            n_waits = wait_a_moment(n_waits)


@njit
def walk_levels(nodes, order, left_child):
    """Nodes in level order, and the left child of each by its new number (0 for a leaf)."""
    order[0] = 0
    n_seen = 1
    for i in range(len(order)):
        child = nodes[order[i]].left_child
        left_child[i] = n_seen if child > 0 else 0
        if child > 0:
            order[n_seen], order[n_seen + 1] = child, child + 1
            n_seen += 2
