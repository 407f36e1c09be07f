"""What constraints forbid: leaf values outside a node's limits or out of order, and features that may not meet."""

from __future__ import annotations

import math

import numpy as np
from numba import types

from pvtree.kernels.constants import ENTROPY, ZERO
from pvtree.kernels.elementary import log
from pvtree.kernels.growing.records import feature_sets_of, limits_of, live_sets_of, monotone_of, sums_of
from pvtree.kernels.jit import njit
from pvtree.kernels.lazy import lazy

# Monotone constraints follow LightGBM's method "basic". Every node has limits, a lowest and a highest output. A split
# by a constrained feature gives its children limits that meet in the middle between their outputs, so that nothing
# below one child ever passes anything below the other. Limits follow from the splits above a node alone, so nodes can
# be searched in any order, by any worker, and in advance.
#
# While a tree grows, outputs are in steps of the quantized gradients and hessians; of two classes, the output is the
# share of the second.


@njit
def leaf_output(g, h, alpha):
    """The value v with the largest saving -2 g v - 2 alpha |v| - h v^2; ``h`` includes the penalty lambda."""
    size = max(abs(g) - alpha, 0.0) / h
    return -size if g > 0.0 else size


@njit
def saving(g, h, alpha, value):
    return -2.0 * g * value - 2.0 * alpha * abs(value) - h * value * value


@njit
def between(value, low, high):
    return min(max(value, low), high)


@njit
def constrained_score(score, gl, hl, gr, hr, alpha, low, high, sign):
    """A split's ``score`` if its sides' outputs must respect limits; -inf if they are out of order.

    It never exceeds ``score``, which is what the sides save with the outputs that suit them best. So whatever bounds
    unconstrained gains bounds these too, to the last bit because of the ``min``.
    """
    left, right = leaf_output(gl, hl, alpha), leaf_output(gr, hr, alpha)
    left_kept, right_kept = between(left, low, high), between(right, low, high)
    clipped = min(score, saving(gl, hl, alpha, left_kept) + saving(gr, hr, alpha, right_kept))
    score = score if left_kept == left and right_kept == right else clipped
    return -math.inf if sign * (right_kept - left_kept) < 0.0 else score


@lazy(types.float64)
def capped_saving(g, h, alpha, max_output):
    """What a node saves with the best output of at most ``max_output``."""
    return saving(g, h, alpha, between(leaf_output(g, h, alpha), -max_output, max_output))


@njit
def limited_score(g, h, alpha, max_output):
    """What a node saves with the best output of at most ``max_output``: G^2 / (H + lambda) if there is no limit.

    max_delta_step limits the node's own term in the gain as it limits those of both sides.
    """
    inner = max(abs(g) - alpha, 0.0)
    score = inner * inner / h
    if inner > max_output * h:
        score = min(score, capped_saving(g, h, alpha, max_output))
    return score


@njit
def log_likelihood(first, second, share):
    """The log-likelihood of two classes with these counts (or weights), if the second one's share is ``share``."""
    of_first = first * log(1.0 - share) if share < 1.0 else -math.inf
    of_second = second * log(share) if share > 0.0 else -math.inf
    return (of_first if first > 0 else 0.0) + (of_second if second > 0 else 0.0)


@njit
def constrained_class_score(score, left, right, low, high, sign):
    """The same for two classes, whose score is the log-likelihood of both sides with their own class shares.

    ``left`` and ``right`` are (weight of the first class, weight of the second).
    """
    left_share, right_share = left[1] / np.float64(left[0] + left[1]), right[1] / np.float64(right[0] + right[1])
    left_kept, right_kept = between(left_share, low, high), between(right_share, low, high)
    if sign * (right_kept - left_kept) < 0.0:
        return -math.inf
    if left_kept == left_share and right_kept == right_share:
        return score
    kept = log_likelihood(left[0], left[1], left_kept) + log_likelihood(right[0], right[1], right_kept)
    return min(score, kept)


@njit
def node_output(sums, tree):
    """The output of a node with these sums by field, before limits."""
    if tree.criterion == ENTROPY:
        first, second = sums[tree.n_fields - 2], sums[tree.n_fields - 1]
        return second / np.float64(first + second)
    h = sums[tree.hess_field] + tree.reg_lambda / tree.hess_scale
    return leaf_output(np.float64(sums[tree.n_fields - 1]), h, tree.reg_alpha / tree.grad_scale)


@njit
def set_limits(node, tree, scratch):
    """Set the limits of the node that is searched next."""
    limits = limits_of(tree)[node]
    scratch.low, scratch.high = limits[0], limits[1]


@njit
def narrowed(low, high, left, right, sign):
    """(low, high) of the left child, then of the right one; their outputs are ``left`` and ``right``."""
    middle = 0.5 * (between(left, low, high) + between(right, low, high))
    if sign > 0.0:
        return low, middle, middle, high
    if sign < 0.0:
        return middle, high, low, middle
    return low, high, low, high


@lazy()
def inherit_constraints(parent, left, feature, tree):
    """Set the limits of two new children, and the sets of features that hold every feature split by above them."""
    if tree.is_monotone:
        limits = limits_of(tree)
        sums = sums_of(tree)
        sign = monotone_of(tree)[feature]
        limits[left, 0], limits[left, 1], limits[left + 1, 0], limits[left + 1, 1] = narrowed(
            limits[parent, 0], limits[parent, 1], node_output(sums[left], tree), node_output(sums[left + 1], tree), sign
        )
    if tree.n_set_words > 0:
        live_sets = live_sets_of(tree)
        sets_of = feature_sets_of(tree)
        for word in range(tree.n_set_words):
            live_sets[left, word] = live_sets[parent, word] & sets_of[feature, word]
            live_sets[left + 1, word] = live_sets[left, word]


@njit
def permitted_features(features, live_sets, sets_of):
    """Those of ``features`` that share a set with all features above a node; all if there are no sets."""
    permitted = np.empty(len(features), np.int64)
    n = ZERO
    for i in range(len(features)):
        feature, meets = features[i], len(live_sets) == 0
        for word in range(len(live_sets)):
            meets |= live_sets[word] & sets_of[feature, word] != 0
        permitted[n] = feature
        n += meets
    return permitted[:n]


@njit
def keep_in_order(feature, left_child, monotone, value):
    """Clip the values of a finished tree, parents first, so that every leaf is within its limits.

    Limits are computed anew, because these values come from exact sums and those at the search from rounded ones.
    """
    limits = np.empty((len(value), 2))
    limits[0, 0], limits[0, 1] = -math.inf, math.inf
    for node in range(len(value)):
        low, high, left = limits[node, 0], limits[node, 1], left_child[node]
        value[node] = between(value[node], low, high)
        if left > 0:
            limits[left, 0], limits[left, 1], limits[left + 1, 0], limits[left + 1, 1] = narrowed(
                low, high, value[left], value[left + 1], monotone[feature[node]]
            )
