"""BuildTree and FindBestSplit (the paper's Algorithms 1 and 2) by brute force in plain numpy, one node at a time.

It shares no code with the package: rows are sorted, not put into histograms; nothing is packed or subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

from pvtree.kernels.elementary import log

MASK_64 = 2**64 - 1
# Floats tie or differ in their last bit depending on how a formula is written, so the oracle writes it the same way:
#   second order and variance:  GL^2/(HL+lambda) + GR^2/(HR+lambda)  -  G^2/(H+lambda), the first two over a common
#   denominator, all in steps of the quantized G and H, then times grad_scale^2 / hess_scale
#   entropy:  sum_k (l_k log l_k + r_k log r_k) - (nl log nl + nr log nr)  -  (sum_k c_k log c_k - n log n)
# The entropy is Definition 2.1's gain times N: N P(node) H(Y|node) = n log n - sum_k c_k log c_k.
# Of splits with equal scores the lower feature wins, then missing right before left, then the lower bin.
NOISE = 1e-14  # a gain below this share of the largest term it is the difference of is rounding, not a split


@dataclass(frozen=True)
class Rules:
    """What decides about splits. ``values`` columns are class weights, or (hessian, gradient) as integers."""

    entropy: bool
    hess_scale: float = 1.0
    grad_scale: float = 1.0
    gain_scale: float = 1.0
    reg_lambda: float = 0.0
    reg_alpha: float = 0.0
    min_count: int = 1
    min_hess: float = 0.0
    min_gain: float = 0.0
    cat_smooth: float = 10.0
    cat_l2: float = 10.0
    max_leaves: int = 0
    max_depth: int = -1
    monotone: tuple[int, ...] = ()  # a sign for each feature
    sets: tuple[tuple[int, ...], ...] = ()  # of features that may meet


@dataclass
class Split:
    """Bins in ``goes_left`` go left; for an ordered feature these are 1..split_bin, and 0 if default_left."""

    gain: float
    feature: int
    split_bin: int
    goes_left: frozenset[int]
    default_left: bool


@dataclass(eq=False)
class Node:
    rows: np.ndarray
    sums: np.ndarray
    path: tuple[int, ...]  # 0 for left, 1 for right, from the root
    split: Split | None = None
    children: list[Node] = field(default_factory=list)
    above: frozenset[int] = frozenset()  # features that the nodes above are split by
    limits: tuple[float, float] = (-math.inf, math.inf)  # of its output, with monotone constraints


def bin_values(x: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """1 + how many thresholds are below x; 0 for NaN."""
    return np.where(np.isnan(x), 0, np.searchsorted(upper, x, side="left") + 1)


def x_log_x(x: np.ndarray) -> np.ndarray:
    """With the project's own logarithm, tested by itself: ties hang on its last bit."""
    x = np.asarray(x)
    values = np.maximum(x, 1).astype(np.float64).reshape(-1)
    return x * np.array([log(value) for value in values.tolist()]).reshape(x.shape)


def thresholded(g: np.ndarray, rules: Rules) -> np.ndarray:
    return np.maximum(np.abs(g) - rules.reg_alpha / rules.grad_scale, 0.0)


def weight(sums: np.ndarray, rules: Rules) -> np.ndarray:
    return (sums.sum(axis=-1) if rules.entropy else sums[..., 0]) * rules.hess_scale


def split_scores(left: np.ndarray, sums: np.ndarray, rules: Rules, extra_lambda: float = 0.0) -> np.ndarray:
    """What a split makes of a node, before the node's own term is taken off; left is (..., n_values)."""
    right = sums - left
    if not rules.entropy:
        gl, gr = thresholded(left[..., 1], rules), thresholded(right[..., 1], rules)
        penalty = (rules.reg_lambda + extra_lambda) / rules.hess_scale
        hl, hr = left[..., 0] + penalty, right[..., 0] + penalty
        with np.errstate(divide="ignore", invalid="ignore"):
            return (gl * gl * hr + gr * gr * hl) / (hl * hr)
    total = np.zeros(left.shape[:-1])
    for k in range(left.shape[-1]):
        total += x_log_x(left[..., k]) + x_log_x(right[..., k])
    return total - (x_log_x(left.sum(axis=-1)) + x_log_x(right.sum(axis=-1)))


def own_score(sums: np.ndarray, rules: Rules) -> float:
    if not rules.entropy:
        g = float(thresholded(sums[1], rules))
        return g * g / float(sums[0] + rules.reg_lambda / rules.hess_scale)
    total = 0.0
    for k in range(len(sums)):
        total += float(x_log_x(sums[k : k + 1])[0])
    return total - float(x_log_x(sums.sum(keepdims=True))[0])


def outputs(sums: np.ndarray, rules: Rules, extra_lambda: float = 0.0) -> np.ndarray:
    """What a leaf would return; in steps, or the share of the second of two classes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if rules.entropy:
            return sums[..., 1] / sums.sum(axis=-1)
        penalty = (rules.reg_lambda + extra_lambda) / rules.hess_scale
        return -np.sign(sums[..., 1]) * thresholded(sums[..., 1], rules) / (sums[..., 0] + penalty)


def saved_with(sums: np.ndarray, value: np.ndarray, rules: Rules, extra_lambda: float) -> np.ndarray:
    """A leaf's own term of a score, if it must return ``value`` instead of its best output."""
    if rules.entropy:
        logs = np.array([[log(p) if p > 0 else -math.inf for p in (1.0 - v, v)] for v in value.reshape(-1).tolist()])
        with np.errstate(invalid="ignore"):
            terms = np.where(sums > 0, sums * logs.reshape(sums.shape), 0.0)
        return terms[..., 0] + terms[..., 1]
    h = sums[..., 0] + (rules.reg_lambda + extra_lambda) / rules.hess_scale
    alpha = rules.reg_alpha / rules.grad_scale
    return -2.0 * sums[..., 1] * value - 2.0 * alpha * np.abs(value) - h * value * value


def constrained(
    scores: np.ndarray, left: np.ndarray, node: Node, signs: np.ndarray | int, rules: Rules, extra_lambda: float
) -> np.ndarray:
    """Sides whose outputs are clipped to the node's limits, or, out of order, are no split at all."""
    right = node.sums - left
    free = [np.nan_to_num(outputs(side, rules, extra_lambda)) for side in (left, right)]
    kept = [np.clip(value, *node.limits) for value in free]
    clipped = saved_with(left, kept[0], rules, extra_lambda) + saved_with(right, kept[1], rules, extra_lambda)
    is_free = (free[0] == kept[0]) & (free[1] == kept[1])
    scores = np.where(is_free, scores, np.minimum(scores, clipped))
    return np.where(np.sign(kept[1] - kept[0]) * signs < 0, -np.inf, scores)


def allowed_scores(
    left: np.ndarray, n_left: np.ndarray, node: Node, signs: np.ndarray | int, rules: Rules, extra_lambda: float = 0.0
) -> np.ndarray:
    """-inf where a child would be too small, or constraints forbid the split."""
    n_rows, sums = len(node.rows), node.sums
    least = max(rules.min_hess, np.finfo(np.float64).tiny)
    enough = (n_left >= rules.min_count) & (n_left <= n_rows - rules.min_count)
    if rules.entropy:
        enough &= (weight(left, rules) >= least) & (weight(sums - left, rules) >= least)
    else:
        enough &= np.minimum(left[..., 0], sums[0] - left[..., 0]) >= least / rules.hess_scale
    scores = np.where(enough, split_scores(left, sums, rules, extra_lambda), -np.inf)
    return constrained(scores, left, node, signs, rules, extra_lambda) if rules.monotone else scores


def gain_of(best_score: float, node: Node, rules: Rules) -> float:
    own = own_score(node.sums, rules)
    gain = best_score - own
    largest_term = float(x_log_x(np.array([len(node.rows)]))[0]) if rules.entropy else own
    if not gain > NOISE * largest_term:
        return -math.inf
    unit = 1.0 if rules.entropy else rules.grad_scale * rules.grad_scale / rules.hess_scale
    gain *= unit
    gain *= rules.gain_scale
    return gain if gain > rules.min_gain else -math.inf


def numeric_splits(node: Node, bins: np.ndarray, values: np.ndarray, features: np.ndarray, rules: Rules) -> list[Split]:
    """The best split of each ordered feature: sort the rows by bin, try every end of a run of equal bins."""
    n = len(node.rows)
    here = bins[node.rows][:, features]  # (n, features)
    order = np.argsort(here, axis=0, kind="stable")
    ordered = np.take_along_axis(here, order, axis=0)
    sums = np.cumsum(values[node.rows][order], axis=0)  # (n, features, n_values)
    is_end = ordered > 0
    is_end[:-1] &= ordered[1:] != ordered[:-1]
    n_missing = (here == 0).sum(axis=0)  # missing values come first in the order
    missing_sums = np.where((n_missing > 0)[:, None], sums[n_missing - 1, np.arange(len(features))], 0)
    n_left = np.arange(1, n + 1)[:, None] + np.zeros_like(n_missing)
    signs = np.array(rules.monotone)[features] if rules.monotone else 0
    to_right = allowed_scores(sums - missing_sums, n_left - n_missing, node, signs, rules)
    to_left = allowed_scores(sums, n_left, node, signs, rules)
    scores = np.stack([np.where(is_end, to_right, -np.inf), np.where(is_end & (n_missing > 0), to_left, -np.inf)])
    scores = scores.transpose(2, 0, 1)  # (features, missing right or left, boundaries): the order of preference
    splits = []
    for i, feature in enumerate(features):
        missing_left, place = np.unravel_index(np.argmax(scores[i]), scores[i].shape)
        gain = gain_of(float(scores[i, missing_left, place]), node, rules)
        split_bin = int(ordered[place, i])
        rows_left = place + 1 - (0 if missing_left else n_missing[i])
        # Where nothing is missing here, missing values of later rows follow the larger child.
        default_left = bool(missing_left) if n_missing[i] else bool(2 * rows_left >= n)
        goes_left = frozenset(range(0 if default_left else 1, split_bin + 1))
        splits.append(Split(gain, int(feature), split_bin, goes_left, default_left))
    return splits


def categorical_split(node: Node, bins: np.ndarray, values: np.ndarray, feature: int, rules: Rules) -> Split:
    """The best prefix of the categories present, ordered by their statistics; missing is a category too."""
    here, stats = bins[node.rows, feature], values[node.rows]
    present = np.unique(here)
    sums = np.array([stats[here == b].sum(axis=0) for b in present])
    counts = np.array([(here == b).sum() for b in present])
    if rules.entropy:
        major = int(np.argmax(node.sums))  # the node's most frequent class
        total = sums.sum(axis=1)
        keys = np.where(total > 0, sums[:, major] / np.maximum(total, 1), 0.0)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            keys = sums[:, 1] * rules.grad_scale / (sums[:, 0] * rules.hess_scale + rules.cat_smooth)
    order = np.argsort(keys, kind="stable")
    left, n_left = np.cumsum(sums[order], axis=0), np.cumsum(counts[order])
    scores = allowed_scores(left, n_left, node, 0, rules, rules.cat_l2)
    place = int(np.argmax(scores))
    chosen = set(present[order[: place + 1]].tolist())
    if 2 * n_left[place] >= len(node.rows):  # categories without rows here follow the larger child
        chosen |= set(range(256)) - set(present.tolist())
    return Split(gain_of(float(scores[place]), node, rules), feature, 0, frozenset(chosen), 0 in chosen)


def find_best_split(
    node: Node, bins: np.ndarray, values: np.ndarray, categorical: Collection[int], features: np.ndarray, rules: Rules
) -> Split | None:
    """Algorithm 2 on one node, None if no split is worth making."""
    too_deep = 0 <= rules.max_depth <= len(node.path)
    if too_deep or len(node.rows) < 2 * rules.min_count:
        return None
    if rules.sets:
        meeting = {f for each in rules.sets if node.above <= set(each) for f in each}
        features = np.array([f for f in features if f in meeting], np.int64)
    ordered = np.array([f for f in features if f not in categorical], np.int64)
    splits = numeric_splits(node, bins, values, ordered, rules) if len(ordered) else []
    splits += [categorical_split(node, bins, values, int(f), rules) for f in features if f in categorical]
    best: Split | None = None
    for split in sorted(splits, key=lambda split: split.feature):
        if split.gain > (best.gain if best else -math.inf):
            best = split
    return best


def child_limits(limits: tuple[float, float], values: Any, sign: int) -> list[tuple[float, float]]:
    """Of the left and the right child, whose outputs would be ``values``."""
    middle = float(np.clip(values, *limits).sum()) / 2
    return [limits, limits] if sign == 0 else [(limits[0], middle), (middle, limits[1])][::sign]


def build_tree(
    bins: np.ndarray,
    values: np.ndarray,
    rules: Rules,
    categorical: Collection[int] = (),
    rows: np.ndarray | None = None,
    features_of: Callable[[tuple[int, ...]], np.ndarray] | None = None,
) -> list[Node]:
    """Algorithm 1, its nodes in level order. ``bins`` is (n_rows, n_features), ``values`` (n_rows, n_values).

    With max_leaves the open leaf of the largest gain is split first, of equals the one made first.
    ``features_of`` tells the features that the node at a path may use.
    """
    rows = np.arange(len(bins)) if rows is None else rows
    every_feature = np.arange(bins.shape[1])

    def make(rows: np.ndarray, path: tuple[int, ...], above: frozenset[int], limits: tuple[float, float]) -> Node:
        node = Node(rows, values[rows].sum(axis=0), path, above=above, limits=limits)
        features = every_feature if features_of is None else np.sort(features_of(path))
        node.split = find_best_split(node, bins, values, categorical, features, rules)
        return node

    root = make(rows, (), frozenset(), (-math.inf, math.inf))
    open_leaves, n_leaves = [root], 1  # in the order of their making
    while n_leaves != rules.max_leaves:
        candidates = [leaf for leaf in open_leaves if leaf.split]
        if not candidates:
            break
        leaf = max(candidates, key=lambda node: node.split.gain if node.split else -math.inf)
        open_leaves.remove(leaf)
        assert leaf.split is not None
        is_left = np.isin(bins[leaf.rows, leaf.split.feature], list(leaf.split.goes_left))
        sides = [leaf.rows[is_left], leaf.rows[~is_left]]
        sign = rules.monotone[leaf.split.feature] if rules.monotone else 0
        limits = child_limits(leaf.limits, [outputs(values[side].sum(axis=0), rules) for side in sides], sign)
        above = leaf.above | {leaf.split.feature}
        leaf.children = [make(side, (*leaf.path, i), above, limits[i]) for i, side in enumerate(sides)]
        open_leaves += leaf.children
        n_leaves += 1
    nodes = [root]
    for node in nodes:  # grows while it is walked: level by level
        nodes += node.children
    return nodes


def assert_same_tree(
    tree: Any, nodes: list[Node], upper: list[np.ndarray], categorical: Collection[int], gain_rtol: float = 1e-12
) -> None:
    """Every split, threshold, default direction, category set and count of ``tree``, in level order.

    ``upper[feature]`` are the ends of its bins but the last. Gains may differ in their last digits.
    """
    is_leaf = np.array([not node.children for node in nodes])
    first_child = 2 * np.cumsum(~is_leaf) - 1  # children come in pairs, in the order of their parents
    assert_array_equal(tree.count, [len(node.rows) for node in nodes])
    expected = [node.split.feature if node.children and node.split else -1 for node in nodes]
    assert_array_equal(tree.feature, expected)
    assert_array_equal(tree.left_child, np.where(is_leaf, 0, first_child))
    n_sets = 0
    for i, node in enumerate(nodes):
        if is_leaf[i] or node.split is None:
            assert (tree.threshold[i], tree.default_left[i], tree.gain[i], tree.cat_set[i]) == (0.0, 0, 0.0, -1)
            continue
        split = node.split
        np.testing.assert_allclose(tree.gain[i], split.gain, rtol=gain_rtol, err_msg=f"gain of node {i}")
        assert tree.default_left[i] == split.default_left, f"default direction of node {i}"
        if split.feature in categorical:
            assert tree.cat_set[i] == n_sets
            words = tree.cat_sets[n_sets].tolist()
            assert {b for b in range(256) if words[b // 64] >> (b % 64) & 1} == split.goes_left, f"set of node {i}"
            n_sets += 1
            continue
        ends = upper[split.feature]
        threshold = ends[split.split_bin - 1] if split.split_bin <= len(ends) else np.inf
        assert (tree.threshold[i], tree.cat_set[i]) == (threshold, -1), f"threshold of node {i}"
    assert len(tree.cat_sets) == n_sets


def hash_number(key: int, counter: int) -> int:
    """splitmix64's finalizer of key + (counter + 1) * golden ratio, in Python's integers."""
    x = (key + (counter + 1) * 0x9E3779B97F4A7C15) & MASK_64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK_64
    return x ^ (x >> 31)


def tree_key(seed: int, tree: int) -> int:
    """The stream of random numbers that belongs to a tree: purpose 3 of the seed."""
    return hash_number(hash_number(seed, 3), tree)


def quantize(values: np.ndarray, scale: float, key: int | None, low_half: bool = False) -> np.ndarray:
    """values / scale, rounded up where the row's hash says so, or without a key to the nearest."""
    up = np.full(len(values), 0.5)
    if key is not None:
        noise = [hash_number(key, row) for row in range(len(values))]
        up = np.array([number & 0xFFFFFFFF if low_half else number >> 32 for number in noise]) / 2.0**32
    return np.floor(values * (1.0 / scale) + up).astype(np.int64)


def draw(key: int, features: list[int], n_chosen: int) -> list[int]:
    """The first places of a Fisher-Yates shuffle whose i-th number is hash(key, i)."""
    features = list(features)
    for i in range(n_chosen):
        j = i + hash_number(key, i) % (len(features) - i)
        features[i], features[j] = features[j], features[i]
    return features[:n_chosen]


def draw_at_node(key: int, path: tuple[int, ...], features: list[int], n_chosen: int) -> np.ndarray:
    """The features of the node at ``path``, whose name is a chain of hashes from the root's 1."""
    name = 1
    for side in path:
        name = hash_number(name, side)
    return np.array(draw(hash_number(key, name), features, n_chosen))
