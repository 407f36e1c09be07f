"""A boosting tree with options of the search by brute force: every boundary of every feature in plain Python.

It shares nothing with the package but the formula of a score, whose last bits decide ties, and hashes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracle import NOISE, Node, Split, hash_number


@dataclass(frozen=True)
class Options:
    """What decides about splits; ``values`` are (hessian, gradient) as integers."""

    grad_scale: float
    hess_scale: float = 1.0
    reg_lambda: float = 0.0
    min_count: int = 1
    max_leaves: int = 0
    depthwise: bool = False
    extra_key: int | None = None
    path_smooth: float = 0.0
    factor: tuple[float, ...] = ()
    cost: tuple[float, ...] = ()
    row_cost: float = 0.0
    monotone: tuple[int, ...] = ()
    monotone_penalty: float = 0.0
    cat_smooth: float = 10.0
    cat_l2: float = 10.0
    max_onehot: int = 0
    max_cat_threshold: int = 999
    min_group: int = 1


@dataclass
class Found:
    """The best split so far of one feature."""

    score: float = -math.inf
    split_bin: int = 0
    goes_left: frozenset[int] = frozenset()
    default_left: bool | None = None  # None: nothing is missing here


class Search:
    """The search at one node."""

    def __init__(self, node: Node, bins: np.ndarray, values: np.ndarray, output: float, options: Options) -> None:
        self.bins, self.values, self.options = bins[node.rows], values[node.rows], options
        self.node, self.output = node, output
        self.h, self.g = (int(total) for total in node.sums)

    def own_score(self) -> float:
        return self.g * self.g / (self.h + self.options.reg_lambda / self.options.hess_scale)

    def smoothed(self, output: float, count: int) -> float:
        share = count / self.options.path_smooth
        return (output * share + self.output) / (share + 1.0)

    def score(self, left: np.ndarray, extra: float = 0.0) -> float:
        """What the split saves that sends the marked rows left."""
        o, count = self.options, int(left.sum())
        if not o.min_count <= count <= len(left) - o.min_count or count in (0, len(left)):
            return -math.inf
        h, g = (int(total) for total in self.values[left].sum(axis=0))
        penalty = (o.reg_lambda + extra) / o.hess_scale
        hl, hr, gr = h + penalty, self.h - h + penalty, self.g - g
        score = (float(g) * g * hr + float(gr) * gr * hl) / (hl * hr)
        if o.path_smooth:
            a, b = self.smoothed(-g / hl, count), self.smoothed(-gr / hr, len(left) - count)
            score = min(score, (-2.0 * g * a - hl * a * a) + (-2.0 * gr * b - hr * b * b))
        return score

    def drawn(self, feature: int, n: int) -> int:
        path = 1
        for side in self.node.path:
            path = hash_number(path, side)
        assert self.options.extra_key is not None
        return hash_number(hash_number(self.options.extra_key, path), feature) % max(n, 1)

    def ordered(self, feature: int, n_bins: int) -> Found:
        own = self.bins[:, feature]
        best, has_missing = Found(), bool((own == 0).any())
        tried = np.unique(own[own > 0]).tolist()
        if self.options.extra_key is not None:
            tried = [1 + self.drawn(feature, n_bins - 1)]
        for missing_left in (False, True)[: 1 + has_missing]:
            for b in tried:
                left = (own <= b) & (own > 0) | (missing_left & (own == 0))
                score = self.score(left)
                if score > best.score:
                    best = Found(score, b, frozenset(), missing_left if has_missing else None)
        return best

    def categories(self, feature: int, n_bins: int) -> Found:
        own, o = self.bins[:, feature], self.options
        present, best = np.unique(own).tolist(), Found()
        if n_bins <= o.max_onehot:
            sets = [[b] for b in present]
        else:

            def key(b: int) -> float:
                h, g = self.values[own == b].sum(axis=0)
                return g * o.grad_scale / max(h * o.hess_scale + o.cat_smooth, 1e-300)

            order = sorted(present, key=key)
            sets, since = [], 0
            for place in range(1, len(order)):
                since += int((own == order[place - 1]).sum())
                n_left = int(np.isin(own, order[:place]).sum())
                if since >= o.min_group and len(own) - n_left >= o.min_group:
                    since = 0
                    is_drawn = o.extra_key is None or place - 1 == self.drawn(feature, len(order) - 1)
                    if min(place, len(order) - place) <= o.max_cat_threshold and is_drawn:
                        sets.append(order[:place])
        for each in sets:
            left = np.isin(own, each)
            score = self.score(left, 0.0 if n_bins <= o.max_onehot else o.cat_l2)
            if score > best.score:
                others = set(range(256)) - set(present) if 2 * left.sum() >= len(own) else set()
                best = Found(score, 0, frozenset(set(each) | others), 0 in set(each) | others)
        return best

    def gain(self, score: float, feature: int) -> float:
        o, own = self.options, self.own_score()
        unit = o.grad_scale * o.grad_scale / o.hess_scale
        factor = o.factor[feature] if o.factor else 1.0
        if o.monotone_penalty and o.monotone[feature]:
            p, depth = o.monotone_penalty, len(self.node.path)
            factor *= max(1.0 - (p / 2**depth if p <= 1 else 2 ** (p - 1 - depth)), 0.0)
        gain = score - own
        if o.path_smooth:
            saved = -2.0 * self.g * self.output - self.h * self.output**2 - o.reg_lambda * self.output**2
            gain += max(own - saved, 0.0)
        gain = factor * gain - ((o.cost[feature] if o.cost else 0.0) + o.row_cost * len(self.bins)) / unit
        return gain * unit if gain > NOISE * own else -math.inf

    def best(self, n_bins: list[int], categorical: Any, features: np.ndarray) -> Split | None:
        winner: Split | None = None
        if len(self.bins) < 2 * self.options.min_count:
            return None
        for feature in features.tolist():
            search = self.categories if feature in categorical else self.ordered
            found = search(feature, n_bins[feature])
            if found.score == -math.inf:
                continue
            gain = self.gain(found.score, feature)
            if gain > (winner.gain if winner else -math.inf):
                goes_left, default_left = found.goes_left, found.default_left
                if feature not in categorical:
                    n_left = int(((self.bins[:, feature] <= found.split_bin) & (self.bins[:, feature] > 0)).sum())
                    default_left = 2 * n_left >= len(self.bins) if default_left is None else default_left
                    goes_left = frozenset(range(0 if default_left else 1, found.split_bin + 1))
                winner = Split(gain, feature, found.split_bin, goes_left, bool(default_left))
        return winner


def build(
    bins: np.ndarray,
    values: np.ndarray,
    n_bins: list[int],
    options: Options,
    categorical: Any = (),
    features_of: Any = None,
) -> tuple[list[Node], np.ndarray]:
    """The nodes in level order, and their outputs in steps of the gradients."""
    outputs: dict[int, float] = {}

    def make(rows: np.ndarray, path: tuple[int, ...], above: float | None) -> Node:
        node = Node(rows, values[rows].sum(axis=0), path)
        search = Search(node, bins, values, 0.0, options)
        output = -search.g / (search.h + options.reg_lambda / options.hess_scale)
        if above is not None and options.path_smooth:
            search.output = above
            output = search.smoothed(output, len(rows))
        search.output = outputs[id(node)] = output
        every = np.arange(bins.shape[1]) if features_of is None else features_of(path)
        node.split = search.best(n_bins, categorical, every)
        return node

    root = make(np.arange(len(bins)), (), None)
    open_leaves, n_leaves = [root], 1  # in the order of their making
    while n_leaves != options.max_leaves:
        candidates = [leaf for leaf in open_leaves if leaf.split]
        if not candidates:
            break
        leaf = candidates[0] if options.depthwise else max(candidates, key=lambda each: each.split.gain)
        open_leaves.remove(leaf)
        assert leaf.split is not None
        left = np.isin(bins[leaf.rows, leaf.split.feature], list(leaf.split.goes_left))
        leaf.children = [
            make(leaf.rows[side], (*leaf.path, i), outputs[id(leaf)]) for i, side in enumerate((left, ~left))
        ]
        open_leaves += leaf.children
        n_leaves += 1
    nodes = [root]
    for node in nodes:  # grows while it is walked: level by level
        nodes += node.children
    return nodes, np.array([outputs[id(node)] for node in nodes])
