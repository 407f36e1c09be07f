"""PV-Tree (the paper's Algorithms 1, 2 and 3) by brute force: one node after another, one attribute after another.

It shares nothing with the package: histograms of Python's integers, nothing packed, subtracted or made in advance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

# Gains that are equal on paper may differ in their last bit, and that bit then decides. So every formula is written
# as the package documents it: scores in steps of G and H, both children over a common denominator, then the node's own
# term taken off, then the units. ``x_log_x`` is the caller's, because logarithms differ in that bit too.
NOISE = 1e-14  # a gain below this share of the largest term that it is the difference of is rounding
LEAST_HESSIAN = 2.0**-1022  # children without any hessian have no score

Path = tuple[int, ...]  # 0 for left, 1 for right, from the root


@dataclass(frozen=True)
class Rules:
    """What decides about splits. Scales are what one step of G or H, and one unit of gain, stand for."""

    x_log_x: Callable[[int], float] | None = None  # given for entropy
    grad_scale: float = 1.0
    hess_scale: float = 1.0
    gain_scale: float = 1.0
    reg_lambda: float = 0.0
    reg_alpha: float = 0.0
    min_count: int = 1
    min_hess: float = 0.0
    min_gain: float = 0.0
    cat_smooth: float = 0.0
    cat_l2: float = 0.0
    max_leaves: int = 0  # 0: no limit
    max_depth: int = -1  # -1: no limit
    top_k: int = 1
    election_size: float = 2.0
    most_boundaries: int = 256  # of an ordered attribute with more bins some are left out; for gradients only
    ballot_boundaries: int = 256  # the same for local voting
    block: int = 1  # so many successive attributes are looked at alike, as finely as any of them needs
    # Which of a worker's rows at a node vote: (rows, the node's rows on all workers, whether at a first look) -> rows.
    sample: Callable[[np.ndarray, int, bool], np.ndarray] | None = None
    scales: bool = False  # whether rules that measure rows shrink with the sample
    # If a worker names k of more than 2 * candidates * k attributes, only so many for each name get a closer look.
    candidates: int | None = None

    def of_one_worker(self, n_workers: int) -> Rules:
        """For local voting: a worker has about 1/M of the rows, so rules that measure rows shrink by as much."""
        return replace(
            self, min_count=math.ceil(self.min_count / n_workers), min_hess=self.min_hess / n_workers, min_gain=0.0,
            reg_lambda=self.reg_lambda / n_workers, reg_alpha=self.reg_alpha / n_workers,
            cat_smooth=self.cat_smooth / n_workers, cat_l2=self.cat_l2 / n_workers,
            most_boundaries=self.ballot_boundaries,
        )  # fmt: skip

    def of_sample(self, n_sampled: int, n_rows: int) -> Rules:
        """For n_sampled of a worker's n_rows rows at a node."""
        if not self.scales or n_rows == 0:
            return self
        share = n_sampled / n_rows
        return replace(
            self, min_count=max(1, math.ceil(Fraction(self.min_count * n_sampled, n_rows))),
            min_hess=self.min_hess * share, reg_lambda=self.reg_lambda * share, reg_alpha=self.reg_alpha * share,
        )  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """The whole data, and which worker holds each row. ``values`` are class weights, or (hessian, gradient)."""

    bins: np.ndarray  # (n_rows, n_attributes), 0 is missing
    values: np.ndarray  # int64 (n_rows, n_values)
    worker: np.ndarray  # (n_rows,)
    n_workers: int
    categorical: Collection[int] = ()
    n_bins: Sequence[int] | None = None  # of each attribute; None: as many as occur


@dataclass(frozen=True)
class Split:
    gain: float
    attribute: int
    split_bin: int  # the last bin on the left, 0 for categories
    goes_left: frozenset[int]  # bins
    default_left: bool  # where missing values go


@dataclass(eq=False)
class Node:
    rows: np.ndarray
    sums: list[int]  # values of its rows
    path: Path
    ballots: list[list[int]] | None = None  # by worker; None where there was nothing to elect, or nothing to split
    elected: list[int] = field(default_factory=list)
    split: Split | None = None
    children: list[Node] = field(default_factory=list)
    is_last: bool = False  # made by the split that used up the leaf budget: nobody needs to know its own split


# A histogram is {bin: [count, value, value, ...]}, of the bins that have rows.
Histogram = dict[int, list[int]]


def construct_histogram(rows: Rows, here: np.ndarray, attribute: int) -> Histogram:
    histogram: Histogram = {}
    for b, values in zip(rows.bins[here, attribute].tolist(), rows.values[here].tolist(), strict=True):
        sums = histogram.setdefault(b, [0] * (1 + len(values)))
        for j, amount in enumerate([1, *values]):
            sums[j] += amount
    return dict(sorted(histogram.items()))


def add(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def subtract(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a - b for a, b in zip(one, other, strict=True)]


def shrunk(gradient: int, rules: Rules) -> float:
    return max(abs(float(gradient)) - rules.reg_alpha / rules.grad_scale, 0.0)


def own_score(total: Sequence[int], rules: Rules) -> float:
    if rules.x_log_x is None:
        g = shrunk(total[2], rules)
        return g * g / (total[1] + rules.reg_lambda / rules.hess_scale)
    score = 0.0
    for amount in total[1:]:
        score += rules.x_log_x(amount)
    return score - rules.x_log_x(sum(total[1:]))


def split_score(left: Sequence[int], right: Sequence[int], rules: Rules, extra_lambda: float) -> float:
    """CalSplitGain(leftSum, rightSum), -inf where a child is too small."""
    least = max(rules.min_hess, LEAST_HESSIAN) / (1.0 if rules.x_log_x else rules.hess_scale)
    if min(left[0], right[0]) < rules.min_count:
        return -math.inf
    if rules.x_log_x is None:
        if min(left[1], right[1]) < least:
            return -math.inf
        penalty = (rules.reg_lambda + extra_lambda) / rules.hess_scale
        gl, gr = shrunk(left[2], rules), shrunk(right[2], rules)
        hl, hr = left[1] + penalty, right[1] + penalty
        return (gl * gl * hr + gr * gr * hl) / (hl * hr)
    if min(sum(left[1:]), sum(right[1:])) * rules.hess_scale < least:
        return -math.inf
    score = 0.0
    for on_left, on_right in zip(left[1:], right[1:], strict=True):
        score += rules.x_log_x(on_left) + rules.x_log_x(on_right)
    return score - (rules.x_log_x(sum(left[1:])) + rules.x_log_x(sum(right[1:])))


def gain_of(score: float, total: Sequence[int], rules: Rules) -> float:
    """What a split of that score brings, -inf if it is not worth making."""
    if score == -math.inf:
        return score
    own = own_score(total, rules)
    gain = score - own
    if not gain > NOISE * (own if rules.x_log_x is None else rules.x_log_x(total[0])):
        return -math.inf
    if rules.x_log_x is None:
        gain *= rules.grad_scale * rules.grad_scale / rules.hess_scale
    gain *= rules.gain_scale
    return gain if gain > rules.min_gain else -math.inf


def category_order(histogram: Histogram, total: Sequence[int], rules: Rules) -> list[int]:
    """Categories with rows here, missing among them, by G / (H + smoothing) or the share of the major class."""

    def key(b: int) -> float:
        sums = histogram[b]
        if rules.x_log_x is None:
            return sums[2] * rules.grad_scale / max(sums[1] * rules.hess_scale + rules.cat_smooth, 1e-300)
        major = 1 + int(np.argmax(total[1:]))
        return sums[major] / sum(sums[1:]) if sum(sums[1:]) else 0.0

    return sorted(histogram, key=key)  # stable: equal ones stay in the order of their bins


def best_split_of(
    histogram: Histogram, attribute: int, is_categorical: bool, n_bins: int, every: int, rules: Rules
) -> Split | None:
    """Algorithm 2 for one attribute; the first of equals stays: missing right before left, then the lower bin."""
    total = [0] * len(next(iter(histogram.values())))
    for sums in histogram.values():
        total = add(total, sums)
    nothing = [0] * len(total)
    orders = [[b for b in histogram if b > 0]]
    starts = [nothing]
    if is_categorical:
        orders = [category_order(histogram, total, rules)]
    elif 0 in histogram:
        orders, starts = orders * 2, [nothing, histogram[0]]
    best_score, best_left, best_bins, best_start = -math.inf, nothing, [0], 0
    for number, (order, start) in enumerate(zip(orders, starts, strict=True)):
        left = start
        for place, b in enumerate(order):
            left = add(left, histogram[b])
            if not is_categorical and rules.x_log_x is None and not is_looked_at(b, histogram, n_bins, every):
                continue
            score = split_score(left, subtract(total, left), rules, rules.cat_l2 if is_categorical else 0.0)
            if score > best_score:
                best_score, best_left, best_bins, best_start = score, left, order[: place + 1], number
    gain = gain_of(best_score, total, rules)
    if gain == -math.inf:
        return None
    larger_is_left = 2 * best_left[0] >= total[0]  # who has no rows here follows the larger child
    if is_categorical:
        goes_left = set(best_bins) | (set(range(256)) - set(histogram) if larger_is_left else set())
        return Split(gain, attribute, 0, frozenset(goes_left), 0 in goes_left)
    default_left = best_start == 1 if 0 in histogram else larger_is_left
    goes_left = set(range(1, best_bins[-1] + 1)) | ({0} if default_left else set())
    return Split(gain, attribute, best_bins[-1], frozenset(goes_left), default_left)


def is_looked_at(b: int, histogram: Histogram, n_bins: int, every: int) -> bool:
    """Whether a boundary that is looked at lies after bin ``b`` and before the next one that has rows.

    That is the last of each group of ``every`` bins, and all of a group that has more than 1/8 of the rows.
    """
    following = next((other for other in histogram if other > b), n_bins + 1)
    return any(end % every == 0 or end == n_bins or is_heavy(end, histogram, every) for end in range(b, following))


def is_heavy(b: int, histogram: Histogram, every: int) -> bool:
    """Whether the group of bin ``b`` has more than 1/8 of the rows."""
    first = (b - 1) // every * every + 1
    in_group = sum(sums[0] for other, sums in histogram.items() if first <= other < first + every)
    return 8 * in_group > sum(sums[0] for sums in histogram.values())


def bins_at_a_time(histograms: list[Histogram], n_bins: list[int], rules: Rules) -> list[int]:
    """For each attribute, the size of the groups of bins after which boundaries are looked at."""
    every = [max(1, math.ceil(n / rules.most_boundaries)) for n in n_bins]
    if rules.block > 1:
        for first in range(0, len(every), rules.block):
            some = range(first, min(first + rules.block, len(every)))
            alike = min(8, *(every[i] for i in some))
            is_any_heavy = any(is_heavy(b, histograms[i], alike) for i in some for b in histograms[i] if b > 0)
            if is_any_heavy or max(n_bins[i] for i in some) > 64 * alike:
                alike = 1  # as for more groups than are searched at once, or frequent values
            every[first : first + rules.block] = [alike] * len(some)
    return every


def best_splits(rows: Rows, here: np.ndarray, attributes: Collection[int], rules: Rules) -> list[Split]:
    """The best split of each attribute on these rows, of those that have one."""
    if len(here) == 0:
        return []
    histograms = [construct_histogram(rows, here, attribute) for attribute in range(rows.bins.shape[1])]
    n_bins = rows.bins.max(axis=0).tolist() if rows.n_bins is None else rows.n_bins
    every = bins_at_a_time(histograms, n_bins, rules)
    splits = [
        best_split_of(histograms[of], of, of in rows.categorical, n_bins[of], every[of], rules)
        for of in sorted(attributes)
    ]
    return [split for split in splits if split]


def local_voting(rows: Rows, here: np.ndarray, attributes: Collection[int], rules: Rules) -> list[list[int]]:
    """localTop of every worker: its best attributes by local gain, ties to the lower index."""
    # Whoever votes alone names all that are elected.
    k = rules.top_k if rows.n_workers > 1 else int(rules.election_size * rules.top_k)
    k = min(k, rows.bins.shape[1])
    return [
        ballot_of(worker, rows, here[rows.worker[here] == worker], len(here), attributes, k, rules)
        for worker in range(rows.n_workers)
    ]


def ballot_of(
    worker: int, rows: Rows, own: np.ndarray, n_here: int, attributes: Collection[int], k: int, rules: Rules
) -> list[int]:
    """The k best attributes of one worker, by its rows at a node or a sample of them."""
    local, sample = rules.of_one_worker(rows.n_workers), rules.sample
    if sample is None:
        return ranking(best_splits(rows, own, attributes, local))[:k]
    voting = sample(own, n_here, False)
    if rules.candidates is None or 2 * rules.candidates * k > len(attributes):
        return ranking(best_splits(rows, voting, attributes, local.of_sample(len(voting), len(own))))[:k]
    grouped, first = in_groups(rows, worker), sample(own, n_here, True)
    candidates = ranking(best_splits(grouped, first, attributes, local.of_sample(len(first), len(own))))
    candidates = candidates[: rules.candidates * k]
    return ranking(best_splits(grouped, voting, candidates, local.of_sample(len(voting), len(own))))[:k]


def ranking(splits: list[Split]) -> list[int]:
    return [split.attribute for split in sorted(splits, key=lambda split: (-split.gain, split.attribute))]


def in_groups(rows: Rows, worker: int) -> Rows:
    """The data with groups of bins for bins: the groups of one worker, by all its rows."""
    own = rows.bins[rows.worker == worker]
    groups = rows.bins.copy()
    for attribute in range(rows.bins.shape[1]):
        n_bins = int(rows.bins[:, attribute].max()) if rows.n_bins is None else rows.n_bins[attribute]
        counts = [int((own[:, attribute] == b).sum()) for b in range(n_bins + 1)]
        groups[:, attribute] = np.array(groups_of_bins(counts))[rows.bins[:, attribute]]
    return replace(rows, bins=groups, n_bins=[15] * rows.bins.shape[1])


def groups_of_bins(counts: list[int]) -> list[int]:
    """The group of each bin: 0 for missing values, up to 15 for others.

    A group ends once so many per cent of the rows with a value are in it or before it, and before and after a bin
    that has an eighth of them.
    """
    if len(counts) - 1 <= 15:
        return list(range(len(counts)))
    ends = [1, 3, 7, 13, 20, 30, 40, 50, 60, 70, 80, 87, 93, 97]
    n_rows, groups, before, is_begun = sum(counts[1:]), [0], 0, False
    group = 1
    for count in counts[1:]:
        if is_begun and 8 * count >= n_rows:
            group = min(15, group + 1)
        groups.append(group)
        # Shares as the package writes them: 0.07 * n_rows in floating point.
        passed = any(end / 100 * n_rows <= before + count for end in ends if not end / 100 * n_rows <= before)
        if n_rows == 0:
            passed = len(groups) == 2  # all ends are at the first bin
        is_begun = True
        before += count
        if passed and group < 15:
            group, is_begun = group + 1, False
    return groups


def global_voting(ballots: list[list[int]], n_elected: int) -> list[int]:
    """globalTop: the attributes on most ballots, ties to those nearer to the top, then to the lower index."""
    votes, places = Counter[int](), Counter[int]()
    for ballot in ballots:
        for place, attribute in enumerate(ballot):
            votes[attribute] += 1
            places[attribute] += place
    return sorted(votes, key=lambda attribute: (-votes[attribute], places[attribute], attribute))[:n_elected]


def find_best_split(node: Node, rows: Rows, attributes: Collection[int], rules: Rules) -> None:
    """Algorithm 3, PV-Tree_FindBestSplit, on one node."""
    too_deep = 0 <= rules.max_depth <= len(node.path)
    if too_deep or len(node.rows) < 2 * rules.min_count:
        return
    n_elected = int(rules.election_size * rules.top_k)
    node.elected = sorted(attributes)
    if len(attributes) > n_elected:
        node.ballots = local_voting(rows, node.rows, attributes, rules)
        node.elected = sorted(global_voting(node.ballots, n_elected))
    for split in best_splits(rows, node.rows, node.elected, rules):
        if node.split is None or split.gain > node.split.gain:
            node.split = split


def build_tree(rows: Rows, rules: Rules, attributes_of: Callable[[Path], Collection[int]] | None = None) -> list[Node]:
    """Algorithm 1, its nodes in level order: the open leaf of the largest gain is split next, of equals the oldest.

    ``attributes_of`` tells what the node at a path may use, by default everything.
    """

    def make(here: np.ndarray, path: Path) -> Node:
        node = Node(here, rows.values[here].sum(axis=0).tolist(), path)
        attributes = range(rows.bins.shape[1]) if attributes_of is None else attributes_of(path)
        find_best_split(node, rows, attributes, rules)
        return node

    root = make(np.arange(len(rows.bins)), ())
    leaves = [root]  # in the order of their making
    while len(leaves) != rules.max_leaves and any(leaf.split for leaf in leaves):
        leaf = max(leaves, key=lambda node: node.split.gain if node.split else -math.inf)
        assert leaf.split is not None
        is_left = np.isin(rows.bins[leaf.rows, leaf.split.attribute], list(leaf.split.goes_left))
        leaf.children = [make(leaf.rows[is_left], (*leaf.path, 0)), make(leaf.rows[~is_left], (*leaf.path, 1))]
        leaves.remove(leaf)
        leaves += leaf.children
        for child in leaf.children:
            child.is_last = len(leaves) == rules.max_leaves
    nodes = [root]
    for node in nodes:  # grows while it is walked: level by level
        nodes += node.children
    return nodes
