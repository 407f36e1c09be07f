"""What both growers do with a split: tabulate the bins that go left, make two nodes, and list the finished tree."""

from __future__ import annotations

import math

from pvtree.kernels.growing.bundles import place_of, sides_of_codes
from pvtree.kernels.growing.constraints import inherit_constraints
from pvtree.kernels.growing.records import is_categorical_of, left_set_of, left_sums_of, sums_of
from pvtree.kernels.growing.route import fill_sides
from pvtree.kernels.growing.split_options import smooth_children
from pvtree.kernels.hashing import hash_pair
from pvtree.kernels.jit import njit


@njit
def fill_sides_of_node(node, feature, tree, nodes, goes_left):
    """goes_left[b] = 1 where rows with bin b, or code b of a bundle, go left; returns the block and lane that hold b.

    ``feature`` is the number of the node's feature on this worker.
    """
    fill_sides(
        is_categorical_of(tree)[feature], nodes[node].split_bin, nodes[node].default_left, left_set_of(tree)[node],
        goes_left,
    )  # fmt: skip
    if tree.bundled:
        sides_of_codes(feature, tree, goes_left)
    return place_of(feature, tree)


@njit
def begin_children(parent, left, tree, nodes):
    """Make nodes ``left`` and ``left + 1``, as far as the parent and its split determine them; not their rows."""
    sums, left_sums = sums_of(tree), left_sums_of(tree)
    nodes[parent].left_child = left
    for child in range(left, left + 2):
        nodes[child].buffer = 1 - nodes[parent].buffer
        nodes[child].depth = nodes[parent].depth + 1
        nodes[child].path = hash_pair(nodes[parent].path, child - left)
        nodes[child].slot, nodes[child].is_wide, nodes[child].left_child = -1, 0, 0
        nodes[child].gain = -math.inf
    for j in range(tree.n_fields):
        sums[left, j] = left_sums[parent, j]
        sums[left + 1, j] = sums[parent, j] - left_sums[parent, j]
    if tree.is_monotone or tree.n_set_words > 0:
        inherit_constraints(parent, left, nodes[parent].feature, tree)
    if tree.path_smooth > 0.0:
        smooth_children(parent, left, tree)


@njit
def list_tree(is_split, nodes, sums, left_set, order, numbers, gain, own_sums, own_set):
    """List the tree's nodes level by level, below those that are split; returns their number.

    OUT: ``order``, the nodes' own numbers; ``numbers``, their (feature, -1 for a leaf; bin and default side of the
    split; place of the left child in the list, 0 for a leaf); and their gains, sums and sets of categories.
    """
    order[0] = 0
    n_seen = 1
    i = 0
    while i < n_seen:
        node = order[i]
        numbers[0, i], numbers[1, i], numbers[2, i], numbers[3, i], gain[i] = -1, 0, 0, 0, 0.0
        if is_split[node]:
            numbers[0, i], numbers[1, i] = nodes[node].feature, nodes[node].split_bin
            numbers[2, i], numbers[3, i] = nodes[node].default_left, n_seen
            gain[i] = nodes[node].gain
            order[n_seen] = nodes[node].left_child
            order[n_seen + 1] = nodes[node].left_child + 1
            n_seen += 2
        for j in range(sums.shape[1]):
            own_sums[i, j] = sums[node, j]
        for j in range(4):
            own_set[i, j] = left_set[node, j]
        i += 1
    return n_seen
