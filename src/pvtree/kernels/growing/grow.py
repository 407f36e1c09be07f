"""BuildTree (the paper's Algorithm 1) for a worker that holds all rows: the whole tree in one kernel."""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.constants import BLOCK, NONE, ONE, ZERO
from pvtree.kernels.growing.children import begin_children, fill_sides_of_node
from pvtree.kernels.growing.evaluate import count_groups, evaluate_group
from pvtree.kernels.growing.families import (
    allow_features,
    can_split,
    free_parent,
    free_slot,
    plan_pair,
    plan_single,
    take_best,
)
from pvtree.kernels.growing.records import (
    allowed_of,
    chosen_of,
    chunk_left_of,
    goes_left_of,
    left_sums_of,
    open_leaves_of,
    sync_of,
    tree_features_of,
)
from pvtree.kernels.growing.route import CHUNK, mark_chunk, scatter_chunk
from pvtree.kernels.growing.split import count_rows
from pvtree.kernels.growing.work_sharing import (
    KIND,
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
from pvtree.kernels.jit import njit

# The phases of a split, in this order. Each has a number of items that threads share.
_START, _EVALUATE, _MARK, _SCATTER = (np.int64(kind) for kind in range(4))
_AT_ONCE = np.int64(2**25)  # bins that the leader reads, less than a tenth of a second, before Python looks for Ctrl-C
_OVERHEAD = np.int64(512)  # rows that take as long as searching a histogram does


@njit
def choose_features(row, node, tree, nodes):
    """Mark the features that the node may use; list them, in rising order, where they are searched singly."""
    if tree.n_sampled == 0 and tree.n_set_words == 0 and tree.n_level == 0:
        return  # all of the tree's, which are marked already
    allow_features(row, node, tree_features_of(tree)[: tree.n_tree_features], tree, nodes)
    if tree.singly:
        allowed, chosen = allowed_of(tree)[row], chosen_of(tree)[row]
        chosen[:] = NONE
        n = 0
        for feature in range(tree.n_features):
            if allowed[feature]:
                chosen[n] = feature
                n += 1


@njit
def begin_evaluation(tree, families, nodes):
    """FindBestSplit for the newest nodes, two children or the root; returns the number of items."""
    left, last = tree.left, max(tree.left, tree.right)
    for node in range(left, last + 1):
        nodes[node].is_open = can_split(node, tree, nodes)
        if nodes[node].is_open:
            choose_features(node - left, node, tree, nodes)
    if tree.right >= 0:
        tree.n_families = plan_pair(tree.parent, left, ZERO, ZERO, tree, families, nodes)
    else:
        tree.n_families = ZERO
        if nodes[left].is_open:
            plan_single(left, ZERO, ZERO, tree, families, nodes)
            tree.n_families = ONE
    return count_groups(tree) * tree.n_families


@njit
def finish_evaluation(tree, families, nodes, best):
    """Give each node its best candidate as split, and queue the nodes that have one."""
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
    """Split(D, N, bestSplit): choose the next leaf, whose rows go to its children's places in the other buffer.

    Returns the number of chunks of rows. Afterwards the record holds the operands that all threads need.
    """
    node = next_leaf(tree, nodes)
    tree.parent = node
    tree.buffer, tree.start, tree.stop = nodes[node].buffer, nodes[node].start, nodes[node].stop
    tree.block, tree.lane = fill_sides_of_node(node, nodes[node].feature, tree, nodes, goes_left_of(tree))
    return (tree.stop - tree.start + CHUNK - 1) // CHUNK


@njit
def place_chunks(tree):
    """Between the passes of a partition: chunk_left[i], the number of rows that go left, becomes where they go."""
    n_chunks = (tree.stop - tree.start + CHUNK - 1) // CHUNK
    chunk_left = chunk_left_of(tree)
    left_sums = left_sums_of(tree)[tree.parent]
    tree.n_left = count_rows(left_sums, tree.n_planes)
    at = tree.start
    for chunk in range(n_chunks):
        n_left = chunk_left[chunk]
        chunk_left[chunk] = at
        at += n_left
    return n_chunks


@njit
def make_children(tree, nodes):
    """Two new nodes, which share the rows and sums of their parent."""
    parent, left, middle = tree.parent, tree.n_made, tree.start + tree.n_left
    begin_children(parent, left, tree, nodes)
    nodes[left].start, nodes[left].stop = tree.start, middle
    nodes[left + 1].start, nodes[left + 1].stop = middle, tree.stop
    for child in range(left, left + 2):
        nodes[child].n_rows = nodes[child].stop - nodes[child].start
    tree.left, tree.right = left, left + 1
    tree.n_made += 2
    tree.n_leaves += 1


@njit
def open_leaf(node, tree, nodes):
    """Queue the node if it has a split, else free its histogram's slot."""
    if nodes[node].gain > -math.inf:
        open_leaves_of(tree)[tree.n_open] = node
        tree.n_open += 1
    else:
        free_slot(nodes[node].slot, nodes[node].is_wide, tree)
        nodes[node].slot = -1


@njit
def next_leaf(tree, nodes):
    """Take the open leaf to split next: the largest gain, ties to the older node; without a leaf budget the newest.

    Depth-wise growth always takes the oldest, so that a level is split before the next one.

    Without a budget the order of splits does not change the tree, and depth-first order keeps few histograms alive.
    """
    open_leaves = open_leaves_of(tree)
    tree.n_open -= 1
    last = tree.n_open
    if tree.max_leaves == 0:
        return open_leaves[last]
    chosen = 0
    for i in range(1, last + 1):
        leaf, leader = open_leaves[i], open_leaves[chosen]
        gain, most = nodes[leaf].gain, nodes[leader].gain
        if leaf < leader if tree.depthwise else gain > most or (gain == most and leaf < leader):
            chosen = i
    leaf = open_leaves[chosen]
    open_leaves[chosen] = open_leaves[last]
    return leaf


@njit
def next_phase(phase, tree, families, nodes, best):
    """What the leader does between phases; returns the next phase and its number of items, 0 at the end.

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
    if n_chunks == 1:  # nothing to count: the split says how many rows go left
        return _SCATTER, place_chunks(tree)
    return _MARK, n_chunks


@njit
def grow_tree(trees, families, nodes, best, scratches, leads):
    """BuildTree(N, D), run by all threads at once, one of which leads; node 0 must hold its rows and sums.

    One loop with one call per kind of item serves both roles, so that large functions are compiled once. For a leader
    False means that the tree is not finished: call again.
    """
    tree, scratch = trees[0], scratches[0]
    sync = sync_of(tree)
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
