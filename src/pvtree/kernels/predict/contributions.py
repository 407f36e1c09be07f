"""SHAP values of trees (Lundberg et al., 2018): what each feature adds to a row's score."""

from __future__ import annotations

from pvtree.kernels.jit import njit
from pvtree.kernels.predict.trees import outside

# A leaf with value v that d different features lead to answers a set of known features by v times a product: for a
# known feature o (1 where the row goes the leaf's way, else 0), for an unknown one z (the share of training rows that
# go this way). Shapley's mean over all orders in which features become known is an integral of a polynomial of degree
# d - 1,
#
#     phi_i  =  v (o_i - z_i)  int_0^1  prod_{j != i} (t o_j + (1 - t) z_j)  dt,
#
# because int t^s (1 - t)^(d-1-s) dt = s! (d-1-s)! / d!. Gauss's rule with d/2 points gives it exactly, and all
# factors are positive, so nothing cancels; 5 sqrt(d) points give it to the last digit. Products are made on the way
# down a tree, sums over leaves on the way up (as in Linear TreeShap, Yu et al., 2022): O(nodes x sqrt(depth)) for a
# row, where Lundberg's recursion takes O(leaves x depth^2).


@njit
def trace_paths(first, stop, feature, left_child, count, last, parent, above, share, reach):
    """Follow the paths of one tree, nodes first..stop, depth first. Returns the most different features on a path.

    OUT parent; above: the last node before, on the path, that the same feature led to, or -1; share: the part of the
    training rows that goes all the ways which that feature has decided up to here (z); reach: of those at the root.
    last[feature] is such a node on the path to where the walk stands; -1 before and after.
    """
    parent[first], above[first], share[first], reach[first] = -1, -1, 1.0, 1.0
    node, n_different, most = first, 0, 0
    while True:
        if node > first:
            over = parent[node]
            decided = feature[over]
            # A node without rows tells nothing about its children.
            part = count[node] / count[over] if count[over] > 0 else 0.5
            above[node] = last[decided]
            share[node] = part * (share[last[decided]] if last[decided] >= 0 else 1.0)
            reach[node] = part * reach[over]
            last[decided] = node
            n_different += above[node] < 0
            most = max(most, n_different)
        if feature[node] >= 0:
            parent[left_child[node]] = parent[left_child[node] + 1] = node
            node = left_child[node]
            continue
        while node > first:  # up, until there is a right sibling to go down to
            last[feature[parent[node]]] = above[node]
            n_different -= above[node] < 0
            if node == left_child[parent[node]]:
                node += 1
                break
            node = parent[node]
        if node == first:
            return most


@njit
def mark_ways(X, row, first, stop, feature, threshold, left_child, default_left, cat_set, cat_sets, above, known):
    """OUT known[node] = 1 where the row goes all the ways that the node's feature has decided (o), else 0."""
    for node in range(first, stop):
        if feature[node] < 0:
            continue
        x = X[row, feature[node]]
        if cat_set[node] >= 0:
            goes_right = outside(x, cat_sets, cat_set[node]) != 0
        elif x != x:
            goes_right = default_left[node] == 0
        else:
            goes_right = x > threshold[node]
        for side in range(2):
            child = left_child[node] + side
            before = 1.0 if above[child] < 0 else known[above[child] - first]
            known[child - first] = before if goes_right == (side == 1) else 0.0


@njit
def multiply_down(first, stop, parent, above, share, points, known, product, inverse):
    """OUT product[node, q] of the path's factors at the q-th point; inverse[node, q] of the feature's own factor.

    Where neither the row nor any training row goes, both are 0: such a leaf weighs nothing, whatever is known.
    """
    n_points = points.shape[1]
    product[0, :n_points] = 1.0
    for node in range(first + 1, stop):
        at, before, over = node - first, above[node] - first, parent[node] - first
        o, z = known[at], share[node]
        if o == 0.0 and z == 0.0:
            product[at, :n_points] = 0.0
            inverse[at, :n_points] = 0.0
            continue
        for q in range(n_points):
            factor = points[0, q] * o + (1.0 - points[0, q]) * z
            inverse[at, q] = 1.0 / factor
            kept = product[over, q] if above[node] < 0 else product[over, q] * inverse[before, q]
            product[at, q] = kept * factor


@njit
def add_up(first, stop, feature, left_child, parent, above, share, points, known, product, inverse, value, total, out):
    """Add one tree's SHAP values to OUT out (n_features,); total[node, q] sums up the leaves below a node."""
    n_points = points.shape[1]
    for node in range(stop - 1, first, -1):
        at = node - first
        if feature[node] < 0:
            for q in range(n_points):
                total[at, q] = points[1, q] * value[node] * product[at, q]
        else:
            left = left_child[node] - first
            for q in range(n_points):
                total[at, q] = total[left, q] + total[left + 1, q]
        added = 0.0
        gain = known[at] - share[node]
        for q in range(n_points):
            added += total[at, q] * inverse[at, q]
        added *= gain
        if above[node] >= 0:
            # The leaves below answer for this feature here, and no longer where it was asked before.
            before = above[node] - first
            taken = 0.0
            for q in range(n_points):
                taken += total[at, q] * inverse[before, q]
            added -= taken * (known[before] - share[above[node]])
        out[feature[parent[node]]] += added


@njit
def add_contributions(
    X, tree, n_outputs, roots, feature, threshold, left_child, default_left, cat_set, cat_sets, value,
    parent, above, share, points, scratch, known, out,
):  # fmt: skip
    """Add what some points of the rule tell of one tree's SHAP values on the rows of X to OUT out (rows, outputs,
    features)."""
    first, stop = roots[tree], roots[tree + 1]
    n_values = value.shape[0]
    for row in range(X.shape[0]):
        mark_ways(X, row, first, stop, feature, threshold, left_child, default_left, cat_set, cat_sets, above, known)
        multiply_down(first, stop, parent, above, share, points, known, scratch[0], scratch[1])
        for k in range(n_values):
            output = k if n_values > 1 else tree % n_outputs
            add_up(
                first, stop, feature, left_child, parent, above, share, points, known,
                scratch[0], scratch[1], value[k], scratch[2], out[row, output],
            )  # fmt: skip
