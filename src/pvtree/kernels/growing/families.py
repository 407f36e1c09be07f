"""What both growers decide before an evaluation: which nodes are added up, which follow by subtraction, where their
histograms are kept and which features they may use; and after it, which candidate becomes a node's split."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import NONE, ONE, ZERO
from pvtree.kernels.growing.constraints import permitted_features
from pvtree.kernels.growing.records import (
    allowed_of,
    best_set_of,
    best_sums_of,
    chosen_of,
    feature_sets_of,
    free_slots_of,
    left_set_of,
    left_sums_of,
    live_sets_of,
    n_free_of,
    open_leaves_of,
)
from pvtree.kernels.growing.split import copy_row
from pvtree.kernels.hashing import hash_pair, sample_features
from pvtree.kernels.jit import njit
from pvtree.kernels.lazy import lazy


@njit
def can_split(node, tree, nodes):
    """The opposite of the paper's StoppingCriteria, as far as rows and depth decide."""
    return nodes[node].n_rows >= 2 * tree.min_count and (tree.max_depth < 0 or nodes[node].depth < tree.max_depth)


# ---- Slots, in which histograms are kept


@njit
def take_slot(want_wide, tree, nodes):
    """A slot for a histogram: a free one, else that of the open leaf least likely to be split, else -1.

    The pool has room for half of the leaf budget: of n open leaves only the best (budget - n) can still be split.
    """
    n_free = n_free_of(tree)
    if n_free[want_wide] > 0:
        n_free[want_wide] -= 1
        return free_slots_of(tree)[want_wide, n_free[want_wide]]
    open_leaves = open_leaves_of(tree)
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
        n_free = n_free_of(tree)
        free_slots_of(tree)[is_wide, n_free[is_wide]] = slot
        n_free[is_wide] += 1


@njit
def is_worth_keeping(node, tree, nodes):
    """Whether subtracting the node's histogram, or keeping it for its children's, beats adding up rows.

    Histograms of many features go to memory and back, which takes as long as adding up some rows for every bin.
    """
    return nodes[node].stop - nodes[node].start >= tree.least_kept


@njit
def has_heirs(node, tree, nodes):
    """Whether the node may have children that can be split, for which its histogram is worth keeping."""
    if tree.singly or not nodes[node].is_open or nodes[node].n_rows < 3 * tree.min_count:
        return False
    return tree.max_depth < 0 or nodes[node].depth + 1 < tree.max_depth


@njit
def keep_histogram(node, heir_slot, heir_wide, tree, nodes):
    """Give the node a slot: its parent's if that has the same form, else a free one, else none."""
    nodes[node].is_wide = np.int64(nodes[node].stop - nodes[node].start > tree.capacity)
    if heir_slot >= 0 and heir_wide == nodes[node].is_wide:
        nodes[node].slot = heir_slot
    else:
        nodes[node].slot = take_slot(nodes[node].is_wide, tree, nodes)


@njit
def keep_if_useful(node, heir_slot, heir_wide, tree, nodes):
    """The same, if keeping the histogram pays. Messages to other workers need those of leaves as well."""
    if is_worth_keeping(node, tree, nodes) and (tree.keeps_leaves or has_heirs(node, tree, nodes)):
        keep_histogram(node, heir_slot, heir_wide, tree, nodes)


# ---- Families, which are evaluated together


@njit
def set_single(node, row, n, families):
    """Family n is a single node, whose rows are added up."""
    family = families[n]
    family.node, family.row = node, row
    family.sibling, family.sibling_row = NONE, NONE
    family.slot, family.slot_wide = NONE, ZERO


@njit
def plan_single(node, row, n, tree, families, nodes):
    """The same, and its histogram is kept if that pays."""
    set_single(node, row, n, families)
    keep_if_useful(node, NONE, ZERO, tree, nodes)


@njit
def plan_pair(parent, left, row, n, tree, families, nodes):
    """Families of two siblings at rows ``row`` and ``row + 1``, from number n on; returns the next number.

    The child with fewer rows here is added up. The other is the difference from their parent, if that one's histogram
    was kept. Afterwards the parent has no slot: a child has taken it over, the family holds it, or it is free.
    """
    slot, slot_wide = nodes[parent].slot, nodes[parent].is_wide
    nodes[parent].slot = NONE
    smaller, larger = ZERO, ONE
    if nodes[left + 1].stop - nodes[left + 1].start < nodes[left].stop - nodes[left].start:
        smaller, larger = ONE, ZERO
    if slot >= 0 and nodes[left + larger].is_open and is_worth_keeping(left + larger, tree, nodes):
        plan_single(left + smaller, row + smaller, n, tree, families, nodes)
        families[n].sibling, families[n].sibling_row = left + larger, row + larger
        families[n].slot, families[n].slot_wide = slot, slot_wide
        keep_if_useful(left + larger, slot, slot_wide, tree, nodes)
        return n + ONE
    free_slot(slot, slot_wide, tree)
    for child in range(2):
        if nodes[left + child].is_open:
            plan_single(left + child, row + child, n, tree, families, nodes)
            n += ONE
    return n


@njit
def free_parent(family, tree, nodes):
    """Free the slot of the parent's histogram, unless the child that was subtracted took it over."""
    heir = nodes[family.sibling]
    if heir.slot != family.slot or heir.is_wide != family.slot_wide:
        free_slot(family.slot, family.slot_wide, tree)


# ---- Features that a node may use


@lazy()
def allow_features(row, node, features, tree, nodes):
    """Mark the features that a node may use, out of ``features``, which are numbered over all workers.

    Interaction constraints may rule out some. Of the others, n_sampled are drawn by the hash of the node's path, so
    that every worker draws the same; if that is 0 or there are no more, all are taken. Levels draw before nodes do.
    """
    allowed = allowed_of(tree)[row]
    allowed[:] = 0
    if tree.n_level > 0:
        of_level = np.empty(tree.n_level, np.int64)
        sample_features(hash_pair(~tree.key, nodes[node].depth), features, tree.n_level, of_level)
        features = of_level
    if tree.n_set_words > 0:
        features = permitted_features(features, live_sets_of(tree)[node], feature_sets_of(tree))
    n = np.int64(len(features))
    if 0 < tree.n_sampled < n:
        chosen = chosen_of(tree)[row]
        sample_features(hash_pair(tree.key, nodes[node].path), features, tree.n_sampled, chosen)
        features, n = chosen, tree.n_sampled
    for i in range(n):
        feature = features[i] - tree.first_feature
        if 0 <= feature < tree.n_features:
            allowed[feature] = 1


# ---- The outcome of an evaluation


@njit
def take_best(row, node, n_groups, tree, nodes, best):
    """The best candidate of all groups becomes the node's split; ties go to the lowest feature."""
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
    copy_row(best_sums_of(tree)[at], left_sums_of(tree)[node])
    copy_row(best_set_of(tree)[at], left_set_of(tree)[node])
