"""What a tree costs on the wire, in closed form: for a recorded growth, or for the complete tree of the paper's table.

The formulas count plain words; packing sends less. Bytes are summed over all workers and calls are those of one worker,
as in a ``TrafficReport``. Bytes divided by the number of workers are what the average worker sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2
from typing import NamedTuple

import numpy as np

from pvtree.comm.steps import n_choice_messages, n_sent, swap_radix
from pvtree.comm.traffic import PhaseTraffic
from pvtree.find_split.tellers import has_tellers
from pvtree.kernels.constants import MAX_CAPACITY

SEAL = 8  # a hash of all decisions so far, at the start of every message of a strategy
SEALS = 32  # the least and the greatest of all workers' seals and their owners, at the end of a choice
WORD = 8  # an int64 or a float64
SHORT_INDEX, LONG_INDEX = 2, 4  # a feature on a ballot
MOST_SHORT = 65_534  # features that a short index can name, with one value left for "no vote"
SPLIT = 14  # gain, feature, bin and side of missing values; the left sums are extra
LEAF, ROOT = 54, 26  # a tree on the wire takes 54 bytes per leaf, with the split above it, less 26 in total
CATEGORIES = 32  # one bit per category: whether it goes left


@dataclass(frozen=True)
class Wire:
    """The sizes that determine the messages of one training."""

    n_workers: int
    n_features: int
    top_k: int = 0  # names on a ballot; 0 without voting
    by_columns: bool = False  # attribute-parallel: every worker has all rows
    n_planes: int = 1  # words of a bin whose sums all fit into them
    n_fields: int = 3  # words of a bin of a large node: count, hessian and gradient
    has_categories: bool = False
    n_scales: int = 2  # the largest gradient and hessian, which scale the integers; class counts need none
    has_exact_sums: bool = True  # of the leaves, if hessians are real numbers
    packed: float = 1.0  # bytes of packed histograms, as a share of the plain ones

    @property
    def index_bytes(self) -> int:
        return SHORT_INDEX if self.n_features <= MOST_SHORT else LONG_INDEX

    @property
    def split_bytes(self) -> int:
        return SPLIT + WORD * self.n_fields + (CATEGORIES if self.has_categories else 0)


class Search(NamedTuple):
    """One search for the splits of a frontier."""

    n_open: int  # nodes that may be split
    # Bins, including those of missing values, of all histograms that a worker sent or kept as their owner.
    narrow_bins: int = 0  # of nodes whose rows fit packed words
    wide_bins: int = 0  # of larger ones


@dataclass(frozen=True)
class Growth:
    """How a tree grew; it is the same on every worker."""

    searches: Sequence[Search]
    n_nodes: int  # of the finished tree, leaves included
    moves: Sequence[Sequence[int]] = ()  # by columns: each time rows moved, how many by each owner's columns


def ballots(n_open: int, wire: Wire) -> PhaseTraffic:
    """Every worker sends k names per open node to all others; many workers only to the tellers, who tell the elected.

    A teller's answer has a number per node, and each elected feature with its votes, all in 4 bytes.
    """
    n_names = min(wire.top_k, wire.n_features)
    n_bytes = n_open * n_names * wire.index_bytes
    if not has_tellers(wire.n_workers, n_bytes):
        return PhaseTraffic(_gathered(n_bytes, wire), 1)
    n_elected = min(2 * n_names, wire.n_features)
    told = (wire.n_workers - 1) * n_open * 4 * (1 + 2 * n_elected) + _gathered(0, wire)
    return PhaseTraffic(_swapped((wire.n_workers - 1) * n_bytes, n_bytes, wire) + told, 2)


def histograms(search: Search, wire: Wire) -> int:
    """Every worker but the owner sends its part of a histogram to the owner; many workers pass these messages on."""
    words = wire.n_planes * search.narrow_bins + wire.n_fields * search.wide_bins
    n_bytes = wire.packed * WORD * words
    return _swapped(round((wire.n_workers - 1) * n_bytes), round(n_bytes), wire)


def splits(n_open: int, wire: Wire) -> int:
    """Every worker sends the best split that it knows of each open node, once per message of a choice."""
    return wire.n_workers * n_choice_messages(wire.n_workers) * (n_open * wire.split_bytes + SEALS)


def rows(by_owner: Iterable[int], wire: Wire) -> int:
    """The owner of a winning column sends one bit per row of the nodes that it splits to all others."""
    return (wire.n_workers - 1) * sum((n_rows + 7) // 8 for n_rows in by_owner) + _gathered(0, wire)


def scores(n_nodes: int, wire: Wire) -> int:
    """All-reduces of the scales, the root's sums and the leaves' exact sums; each costs 2 (M-1) times its bytes."""
    n_words = wire.n_scales + wire.n_fields + (2 * n_nodes if wire.has_exact_sums else 0)
    return 2 * (wire.n_workers - 1) * WORD * n_words


def _gathered(n_bytes: int, wire: Wire) -> int:
    """An all-gather of ``n_bytes`` per worker; with 0, the cost of the seals of one exchange."""
    return wire.n_workers * (wire.n_workers - 1) * (n_bytes + SEAL)


def _swapped(n_bytes: int, about: int, wire: Wire) -> int:
    """An all-to-all of ``n_bytes`` by all workers together, equally many to each, and its seals."""
    n_workers = wire.n_workers
    radix = swap_radix(n_workers, 1 << about.bit_length())
    n_messages = n_sent(n_workers, radix)
    return round(n_bytes * n_messages / max(1, n_workers - 1)) + n_workers * n_messages * SEAL


def of_tree(growth: Growth, wire: Wire) -> dict[str, PhaseTraffic]:
    """The traffic of one tree by phase."""
    n_searches = len(growth.searches)
    cost = {"splits": PhaseTraffic(sum(splits(search.n_open, wire) for search in growth.searches), n_searches)}
    if wire.by_columns:
        cost["rows"] = PhaseTraffic(sum(rows(by_owner, wire) for by_owner in growth.moves), len(growth.moves))
        return cost  # every worker has all rows and sums them itself
    cost["histograms"] = PhaseTraffic(sum(histograms(search, wire) for search in growth.searches), n_searches)
    cost["scores"] = PhaseTraffic(scores(growth.n_nodes, wire), (wire.n_scales > 0) + 1 + wire.has_exact_sums)
    if wire.top_k:
        voted = [ballots(search.n_open, wire) for search in growth.searches]
        cost["ballots"] = PhaseTraffic(sum(each.bytes for each in voted), sum(each.calls for each in voted))
    return cost


def of_separate_trees(n_leaves: Sequence[int], wire: Wire, keeps_best: bool) -> dict[str, PhaseTraffic]:
    """The traffic of an iteration in which workers exchange whole trees without categories.

    ``n_leaves`` is the number of leaves per worker, 0 for a worker without rows. With ``keeps_best`` workers add up the
    losses of all trees and keep the best (Svore); otherwise they take the mean of the trees (Yu).
    """
    others, sending = wire.n_workers - 1, [count for count in n_leaves if count]
    cost = {"trees": PhaseTraffic(others * sum(LEAF * count - ROOT for count in sending), 1)}
    if keeps_best and len(sending) > 1:
        cost["scores"] = PhaseTraffic(2 * others * WORD * len(sending), 1)
    return cost


def of_training(trees: Sequence[Growth], wire: Wire, n_draws: int = 0) -> dict[str, PhaseTraffic]:
    """The traffic of all trees by phase. Workers compare their seals once more at the end.

    Each of ``n_draws`` samples of rows (subsample or bootstrap) costs the sum of one integer.
    """
    total: dict[str, PhaseTraffic] = {"splits": PhaseTraffic(_gathered(0, wire), 1)}
    if n_draws and not wire.by_columns:
        total["scores"] = PhaseTraffic(2 * (wire.n_workers - 1) * WORD * n_draws, n_draws)
    for growth in trees:
        for phase, cost in of_tree(growth, wire).items():
            before = total.get(phase, PhaseTraffic())
            total[phase] = PhaseTraffic(before.bytes + cost.bytes, before.calls + cost.calls)
    return total


def complete_tree(
    n_rows: int, depth: int, n_merged: int = 0, n_bins: int = 255, subtracts: bool = False, by_columns: bool = False
) -> Growth:
    """The growth of a tree whose leaves are all ``depth`` splits below the root, and whose splits halve the rows.

    ``n_merged`` features of every node are merged. With ``subtracts`` only one child of every pair sends them. That is
    always so if all features are merged, and in voting if children elect what their parent elected.
    """
    searches = []
    for level in range(depth):
        n_sending = 2**level // 2 if subtracts and level else 2**level
        bins = n_sending * n_merged * (n_bins + 1)
        is_wide = n_rows // 2**level > MAX_CAPACITY
        searches.append(Search(2**level, 0 if is_wide else bins, bins if is_wide else 0))
    return Growth(searches, 2 ** (depth + 1) - 1, [(n_rows,)] * depth if by_columns else ())


def paper_setting(
    n_rows: int,
    n_features: int,
    n_workers: int,
    *,
    top_k: int = 15,
    election_size: float = 2.0,
    n_bins: int = 255,
    depth: int = 6,
    subtracts: bool = False,
) -> dict[str, float]:
    """Bytes that the average worker sends for one complete tree by strategy: the paper's table of communication cost.

    By default without subtraction, as in the paper: every node sends whole histograms, in words of 8 bytes.
    """
    n_elected = min(n_features, int(election_size * top_k))
    wires = {
        "attribute": Wire(n_workers, n_features, by_columns=True),
        "data": Wire(n_workers, n_features),
        "voting": Wire(n_workers, n_features, top_k=top_k if n_elected < n_features else 0),
    }
    merged = {"attribute": 0, "data": n_features, "voting": n_elected}
    result = {}
    for name, wire in wires.items():
        growth = complete_tree(n_rows, depth, merged[name], n_bins, subtracts, wire.by_columns)
        result[name] = sum(cost.bytes for cost in of_tree(growth, wire).values()) / n_workers
    return result


# How leaf-wise trees usually grow. Fitted to recorded trainings with 15 to 255 leaves; docs/plan.md has the errors.

_SMALLER_CHILD = 0.515  # share of all histograms: one of each pair, and the root's
_KEPT_ELECTIONS = 0.6  # exponent: the wider the data, the fewer attributes children elect again after their parent
_BITMAP = 40  # bytes that mark which bins of a histogram are in use
_SIZES = (np.arange(32) + 0.5) / 32  # quantiles of the nodes' sizes


@dataclass(frozen=True)
class Course:
    """The total work of growing a leaf-wise tree, including splits made in advance."""

    n_searches: float  # frontiers
    n_open: float  # nodes searched
    rows_added: float  # into histograms, in passes over all rows: the root's, then those of smaller children
    rows_looked_at: float  # of all nodes searched, in the same unit


def usual_course(n_leaves: int, waits: bool = False) -> Course:
    """The course that the leaf budget alone predicts. ``waits``: unlikely nodes wait (voting), which saves searches."""
    depth = log2(n_leaves)
    n_open = 2.22 * n_leaves - 5 if waits else 2.8 * n_leaves - 9
    return Course(1.0 + 1.45 * depth, max(n_open, n_leaves - 1.0), 1.0 + 0.366 * depth, 1.0 + 1.05 * depth)


def n_travelling(n_merged: int, n_features: int) -> float:
    """The attributes of a searched node whose histograms are sent, after subtraction."""
    share: float = (n_merged / n_features) ** _KEPT_ELECTIONS
    return n_merged * (1.0 - (1.0 - _SMALLER_CHILD) * share)


def leaf_wise_tree(n_rows: int, n_leaves: int, wire: Wire, n_merged: int = 0, n_bins: float = 255) -> Growth:
    """The expected growth of a best-first tree if ``n_merged`` attributes of each node are merged."""
    course = usual_course(n_leaves, waits=wire.top_k > 0)
    n_searches = round(course.n_searches)
    bins = course.n_open * n_travelling(n_merged, wire.n_features) * (n_bins + 1)
    wide = bins * float((_node_rows(n_rows, n_leaves) > MAX_CAPACITY).mean())
    searches = [
        Search(round(course.n_open / n_searches), round((bins - wide) / n_searches), round(wide / n_searches))
    ] * n_searches
    moved = round((course.rows_looked_at - 1.0) * n_rows / max(1, n_searches - 1))
    return Growth(searches, 2 * n_leaves - 1, [(moved,)] * (n_searches - 1) if wire.by_columns else ())


def packed_share(n_rows: int, n_leaves: int, wire: Wire, n_bins: float = 255) -> float:
    """The ratio of packed to plain bytes of histograms, by the rows that a machine has per bin of a node."""
    rows = _node_rows(n_rows, n_leaves)
    plain = WORD * np.where(rows > MAX_CAPACITY, wire.n_fields, wire.n_planes)
    local = rows / wire.n_workers
    by_bin = local / (n_bins + 1)
    if wire.top_k:  # few rows are sent one by one, many as the digits of their counts
        packed = np.minimum(1.55 * by_bin, 1.65 + 0.325 * np.log2(np.maximum(by_bin, 0.1)))
    else:  # up to one row per bin, rows are sent one by one; above, the bins in use, fewer than of evenly spread rows
        of_row = log2(n_bins + 1) / 8 + 4.0 * wire.n_workers / wire.n_features
        words = WORD * np.where(local > MAX_CAPACITY, wire.n_fields, wire.n_planes)
        packed = np.where(by_bin <= 1.0, of_row * by_bin, _BITMAP / (n_bins + 1) + words * -np.expm1(-0.6 * by_bin))
    return float(np.minimum(packed, plain).sum() / plain.sum())


def _node_rows(n_rows: int, n_leaves: int) -> np.ndarray:
    """The sizes of nodes that send histograms, at quantiles: smaller children, about as large as the average leaf."""
    odds = (1.0 - _SIZES) / _SIZES
    rows: np.ndarray = np.minimum(0.8 * odds ** (1 / 1.4), n_leaves / 2) * n_rows / n_leaves
    return rows
