"""The nodes of a growing tree that are evaluated together, on one worker: its rows in them, its own histograms, and
the splits found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.binning.mapped_bins import is_mapped, read_ahead
from pvtree.growing.ballot_sample import BallotSample
from pvtree.growing.constraints import NO_CONSTRAINTS, Constraints
from pvtree.growing.frontier_records import Elected, Items, split_dtype
from pvtree.growing.growing_tree import GrowingTree
from pvtree.kernels.bounds import local as bounds
from pvtree.kernels.bounds import wire as bound_wire
from pvtree.kernels.constants import ENTROPY, N_BINS
from pvtree.kernels.growing import frontier as kernels
from pvtree.kernels.growing.records import FAMILY, WANT_BEST, WANT_BOUNDS, WANT_GAINS, WANT_HISTOGRAMS
from pvtree.kernels.growing.split_options import adjust_bounds
from pvtree.kernels.wire.merge import search_items, subtract_items
from pvtree.kernels.wire.own_items import add_own_items

if TYPE_CHECKING:
    from pvtree.binning.shard import Shard
    from pvtree.growing.layouts import Layout
    from pvtree.growing.tree_memory import Rules
    from pvtree.kernels.team import Team

_NONE = np.empty(0, np.int64)
INTERRUPTIBLE_CELLS = 2**24  # rows of blocks that are evaluated before Python looks for Ctrl-C
# Histograms of single features cost about three times as much a row as those of whole blocks.
_SINGLY_BELOW = 1 / 3


class Frontier(GrowingTree):
    """Nodes are numbered by rows: 0 for the root, then 2 i and 2 i + 1 for the i-th pair of siblings."""

    def __init__(
        self, shard: Shard, layout: Layout, n_sampled: int, n_workers: int, pool: tuple[int, int], team: Team,
        constraints: Constraints = NO_CONSTRAINTS, ballot_rows: int = 0, n_merged: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(shard, layout, n_sampled, n_workers, pool, team, constraints)
        self.ballot_sample = None
        if ballot_rows:
            self.ballot_sample = BallotSample(shard, ballot_rows, n_workers, team)
            self.memory.copy_bins(n_merged)
        self.has_categories = bool(shard.thresholds.is_categorical.any())
        # What ``find_sampled_gains`` can do, and almost all data is.
        is_ordered = not self.has_categories and shard.data.bundles is None
        self.is_plain = is_ordered and layout.n_planes == 1 and layout.mask[-1] == -1
        self.families = np.empty(2, FAMILY)
        self.local_sums = np.empty((0, layout.n_fields), np.int64)
        self.gains = np.empty((0, self.n_features))
        # Of every feature where a proof is wanted: see kernels/bounds.py.
        self.bounds = np.empty((2, 0, 0))  # (above or below, n_evaluated, n_features)
        self.aims = np.empty((0, 0))  # (n_evaluated, classes; 1 where there are none)
        self.local_record: Any = None  # as ``record``, with the rules for this worker's rows alone

    def begin(self, n_rows: int, root_sums: np.ndarray, rules: Rules, tree_features: np.ndarray) -> None:
        """Stand at the root of a new tree, with this worker's rows in the first places of buffer 0."""
        self.n_allowed = rules.n_sampled or rules.n_level or len(tree_features)
        self._begin_root(n_rows, root_sums, rules, tree_features)
        if self.ballot_sample is not None:
            self.ballot_sample.order_rows(self.memory, n_rows, rules.key)
            self.nodes[0]["buffer"] = 1
        self._row_before = np.full(len(self.nodes), -1)
        self._look_at(np.zeros(1, np.int64), _NONE)

    def _make_records(self) -> None:
        super()._make_records()
        if len(self.local_sums) != len(self.nodes):  # too small by now: ``local_gains`` will make new ones
            self.local_sums = self.local_sums[:0]
        if len(self.gains) != self.memory.arrays["n_evaluated"]:
            self.gains = self.gains[:0]
        self.local_record = self.memory.record(self._local_rules(), sums=self.local_sums, gains=self.gains)

    # What the strategies ask about the nodes, row by row

    @property
    def n_nodes(self) -> int:
        """The nodes of this frontier; some of them may be closed, only their siblings are open."""
        return len(self.row_node)

    @property
    def n_node_room(self) -> int:
        """The number of nodes of the tree for which there is room now; no node has a higher number."""
        return len(self.nodes)

    @property
    def row_counts(self) -> np.ndarray:
        """int64 (n_nodes,): rows of each node on all workers together."""
        counts: np.ndarray = self.nodes["n_rows"][self.row_node]
        return counts

    @property
    def local_row_counts(self) -> np.ndarray:
        """int64 (n_nodes,): rows of each node on this worker."""
        nodes = self.nodes[self.row_node]
        counts: np.ndarray = nodes["stop"] - nodes["start"]
        return counts

    @property
    def n_classes(self) -> int:
        """Of class trees; 0 where gradients decide."""
        layout = self.layout
        return layout.n_fields - layout.n_planes if self.rules.criterion == ENTROPY else 0

    @property
    def stride(self) -> int:
        """Words between two fields or planes of a merged histogram: room for the bins of any feature."""
        stride: int = self.memory.arrays["stride"]
        return stride

    @property
    def n_bins(self) -> np.ndarray:
        return self.memory.data.n_bins

    @property
    def is_categorical(self) -> np.ndarray:
        return self.memory.data.is_categorical

    @property
    def allowed(self) -> np.ndarray:
        """uint8 (n_nodes, n_features): what each node may use."""
        allowed: np.ndarray = self.memory.arrays["allowed"]
        return allowed[: self.n_nodes]

    @property
    def kernel_arguments(self) -> tuple[Any, np.ndarray, Any]:
        """The record, the nodes and a scratch, as kernels take them one after another."""
        return self.record, self.nodes, self.memory.scratch[0]

    def run_on_blocks(self, kernel: Callable[..., Any], n: int, *args: Any, at_once: int = 4) -> None:
        """Call ``kernel(start, stop, *args, scratch)`` for disjoint blocks of n, on the threads of this worker."""
        self.team.for_blocks_with(self.memory.scratch, kernel, n, *args, at_once=at_once)

    # Which nodes are evaluated

    def _look_at(self, row_node: np.ndarray, pairs: np.ndarray) -> None:
        """Evaluate these nodes next; ``pairs`` are the parents of two successive rows each."""
        memory = self.memory
        n_nodes = len(row_node)
        if n_nodes > memory.arrays["n_evaluated"]:
            memory.make_evaluation_room(2 * n_nodes)
            self.families = np.empty(2 * n_nodes, FAMILY)
            self._make_records()
        self.row_node, self.pairs = row_node, pairs
        self.is_open = self.nodes["is_open"][row_node] == 1
        has_sets = memory.arrays["n_set_words"] > 0
        if self.rules.n_sampled or self.rules.n_level or has_sets:
            kernels.draw_features(row_node, self.tree_features, self.record, self.nodes)
        else:
            self.allowed[:] = memory.arrays["in_tree"]
        if has_sets:
            self.n_allowed = int(self.allowed[self.is_open].sum(axis=1).max(initial=0))

    def look_at_children(self, parents: np.ndarray) -> None:
        self._look_at(self.children_of(parents), parents)

    @contextmanager
    def looking_at(self, nodes: np.ndarray) -> Iterator[None]:
        """Turn to these nodes for a while, which may be of any earlier frontier, and then back."""
        row_node, pairs, row_before = self.row_node, self.pairs, self._row_before.copy()
        self._look_at(nodes, _NONE)
        try:
            yield
        finally:
            self._look_at(row_node, pairs)
            self._row_before = row_before

    def make_children(self, parents: np.ndarray) -> None:
        super().make_children(parents)
        n_more = len(self.nodes) - len(self._row_before)
        if n_more > 0:
            self._row_before = np.pad(self._row_before, (0, n_more), constant_values=-1)

    def pairs_before(self) -> np.ndarray:
        """By pair: the row of the parent in the frontier merged before this one, -1 if it was not there."""
        return self._row_before[self.pairs]

    # FindBestSplit on what this worker has

    def evaluate(
        self, record: Any, n_families: int, wanted: np.int64, bounds: tuple[np.ndarray, np.ndarray] | None = None
    ) -> None:
        record["n_families"], record["wanted"] = n_families, wanted
        if is_mapped(self.memory.data.bins):
            self._evaluate_by_blocks(record, int(n_families), bounds)
            return
        n_blocks, row_cells = self.memory.arrays["n_blocks"], self.memory.rows.shape[1]
        self.run_on_blocks(
            kernels.evaluate_items, n_blocks * int(n_families), record, self.families, self.nodes, self.memory.best,
            bounds, at_once=1 + INTERRUPTIBLE_CELLS // (1 + row_cells),
        )  # fmt: skip

    def _evaluate_by_blocks(self, record: Any, n_families: int, bounds: tuple[np.ndarray, np.ndarray] | None) -> None:
        """The same with bins in a file: each thread takes a block for all families, so that a block is read once."""
        bins, n_blocks, n_threads = self.memory.data.bins, self.memory.arrays["n_blocks"], self.team.n_threads

        def evaluate(start: int, stop: int, first_block: int, scratch: Any) -> None:
            for i in range(start, stop):
                item = i % n_families * n_blocks + first_block + i // n_families
                kernels.evaluate_items(
                    item, item + 1, record, self.families, self.nodes, self.memory.best, bounds, scratch
                )

        for first in range(0, n_blocks, n_threads):
            last = min(first + n_threads, n_blocks)
            read_ahead(bins, last, last + n_threads)
            self.run_on_blocks(evaluate, (last - first) * n_families, first, at_once=1)

    def _evaluate_families(
        self, record: Any, wanted: np.int64, bounds: tuple[np.ndarray, np.ndarray] | None = None
    ) -> None:
        n_families = kernels.plan_families(self.row_node, self.pairs, record, self.families, self.nodes)
        self.evaluate(record, n_families, wanted, bounds)
        kernels.free_parents(n_families, record, self.families, self.nodes)

    def search_own_features(self) -> None:
        """The best split of each node among this worker's features, where it has all rows of them."""
        memory = self.memory
        memory.best["gain"] = -np.inf  # a worker without columns has no group that would say so
        self._evaluate_families(self.record, WANT_BEST)
        kernels.take_best_groups(self.row_node, memory.n_groups, self.record, self.nodes, memory.best)

    def local_gains(self, rows: np.ndarray | None = None, with_bounds: bool = False) -> np.ndarray:
        """float64 (n_nodes, n_features): the gain of the best split by this worker's own rows, -inf without one.

        Only of these rows of the frontier, if given. ``with_bounds`` also finds ``bounds`` of what this worker's own
        rows could contribute to a gain.
        """
        self._evaluate_locally(self.is_open if rows is None else rows, WANT_GAINS, with_bounds)
        return self.gains[: self.n_nodes]

    def local_bounds(self, rows: np.ndarray) -> np.ndarray:
        """float64 (n_nodes, n_features): the larger bound of each feature, for these rows; finds ``bounds`` alone.

        It orders features much like their gains by this worker's own rows: it is what their best split saves,
        compared with what all workers' rows together make of the node.
        """
        self._evaluate_locally(rows, WANT_BOUNDS, True)
        above, below = self.bounds[:, : self.n_nodes]
        return np.maximum(above, below, out=self.gains[: self.n_nodes])

    def _evaluate_locally(self, rows: np.ndarray, wanted: np.int64, with_bounds: bool) -> None:
        nodes, row_node = self.nodes, self.row_node
        self.begin_local()
        is_open = nodes["is_open"][row_node]
        nodes["is_open"][row_node[~rows]] = 0  # others are not searched
        self.local_record["most_boundaries"] = N_BINS
        self._evaluate_families(self.local_record, wanted, self._room_for_bounds() if with_bounds else None)
        nodes["is_open"][row_node] = is_open

    def begin_local(self) -> None:
        """Sums of this worker's rows in each node, and room for the gains."""
        nodes, n_evaluated = self.nodes, self.memory.arrays["n_evaluated"]
        if len(self.local_sums) < len(nodes) or len(self.gains) < n_evaluated:
            self.local_sums = np.zeros((len(nodes), self.layout.n_fields), np.int64)
            self.gains = np.empty((n_evaluated, self.n_features))
            self._make_records()
        self.gains[: self.n_nodes] = -np.inf
        self.team.for_blocks(
            kernels.sum_locally, self.n_nodes, self.row_node, self.record, nodes, self.local_sums, min_block=1
        )

    def _room_for_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        if self.bounds.shape[1:] != self.gains.shape:
            self.bounds = np.empty((2, *self.gains.shape))
            self.aims = np.empty((len(self.gains), max(1, self.n_classes)))
        bounds.find_aims(0, self.n_nodes, self.row_node, self.record, self.aims)
        return self.bounds, self.aims

    def allowed_features(self) -> Elected:
        """All that every open node may use."""
        return Elected.of(self.allowed & self.is_open[:, None])

    def with_histograms(self, n_wanted: np.ndarray, write: Callable[[int, int], None]) -> None:
        """Call write(first_row, last_row) for all rows, some at a time.

        Meanwhile those rows that want many features, by their number, have a local histogram of all features.
        """
        has_none = self.nodes["slot"][self.row_node] < 0
        wanted = has_none & (n_wanted >= _SINGLY_BELOW * self.n_features)
        if not wanted.any():
            write(0, self.n_nodes)
            return
        first = 0
        while first < self.n_nodes:
            last, n_families = kernels.plan_additions(
                self.row_node, wanted, first, self.record, self.families, self.nodes
            )
            self.evaluate(self.record, n_families, WANT_HISTOGRAMS)
            if n_families == 0 and last == first:  # no room for even one: its features are added up singly
                last = first + 1
            write(first, last)
            self.give_up_histograms(self.row_node[first:last][wanted[first:last]])
            first = last

    # What other workers' rows could add: see kernels/bounds.py

    def smallest_hessians(self) -> np.ndarray:
        """int64 (n_nodes,): the smallest hessian, or weight, of this worker's rows in each node."""
        smallest = np.empty(self.n_nodes, np.int64)
        bounds.smallest_hessians(0, self.n_nodes, self.row_node, self.record, self.nodes, smallest)
        return smallest

    def least_gains(self) -> np.ndarray:
        """float64 (n_nodes,): the gain in steps that a feature must reach to matter; the same on every worker."""
        least = np.empty(self.n_nodes)
        bound_wire.least_gains(self.row_node, self.least_gain_split(), self.record, self.nodes, least)
        return least

    def most_with_options(self, upper: np.ndarray, row_node: np.ndarray, rank: int) -> np.ndarray:
        """The most that worker ``rank``'s features may gain, if they may gain ``upper`` without options."""
        if not self.memory.arrays["has_options"]:
            return upper
        reach = np.empty_like(upper)
        adjust_bounds(self.n_workers, rank, row_node, upper, self.record, self.nodes, reach)
        return reach

    # Merged histograms

    def add_own_items(self, items: Items) -> None:
        """Add up all items that would travel, on a worker that holds all rows of them."""
        row = np.repeat(np.arange(self.n_nodes), np.diff(items.start))
        self.run_on_blocks(
            add_own_items, len(row), self.row_node[row], items.feature, items.parent, items.place, self.record,
            self.nodes, items.arena,
        )  # fmt: skip

    def subtract_merged(self, items: Items, before: Items) -> None:
        """Items that did not travel: the parent's, merged in the frontier before, less the sibling's."""
        pair_before = self.pairs_before()
        parent_wide = np.repeat((pair_before >= 0) & before.is_wide[np.maximum(pair_before, 0)], 2)
        self.run_on_blocks(
            subtract_items, self.n_nodes, self.row_node, parent_wide, items.start, items.feature, items.parent,
            items.sibling, items.place, before.place, before.arena, self.record, self.nodes, items.arena,
        )  # fmt: skip

    def search_merged(self, elected: Elected, items: Items) -> None:
        """The best split of each node among the merged histograms that this worker owns."""
        memory = self.memory
        self.record["wanted"], self.record["n_groups"] = WANT_BEST, 1
        self.run_on_blocks(
            search_items, self.n_nodes, self.row_node, elected.start, elected.feature, items.start, items.feature,
            items.place, items.arena, self.record, self.nodes, memory.best,
        )  # fmt: skip
        kernels.take_best_groups(self.row_node, 1, self.record, self.nodes, memory.best)
        self.record["n_groups"] = memory.n_groups
        self._row_before[:] = -1
        self._row_before[self.row_node] = np.arange(self.n_nodes)

    # Splits that all workers agree on

    def own_splits(self) -> np.ndarray:
        """This worker's best split of every open node, as it goes over the wire."""
        a, nodes = self.memory.arrays, self.row_node[self.is_open]
        own = np.zeros(len(nodes), split_dtype(self.layout.n_fields, self.has_categories))
        for name in ("gain", "split_bin", "default_left"):
            own[name] = self.nodes[name][nodes]
        own["feature"] = self.nodes["feature"][nodes] + self.first_feature
        own["left_sums"] = a["left_sums"][nodes]
        if self.has_categories:
            own["left_set"] = a["left_set"][nodes]
        has_none = own["gain"] == -np.inf
        own[has_none] = np.zeros((), own.dtype)  # nothing is left over from other nodes
        own["gain"][has_none] = -np.inf
        return own

    def set_splits(self, splits: np.ndarray) -> None:
        """Give every open node its split; features are numbered over all workers."""
        a, nodes = self.memory.arrays, self.row_node[self.is_open]
        for name in ("gain", "feature", "split_bin", "default_left"):
            self.nodes[name][nodes] = splits[name]
        a["left_sums"][nodes] = splits["left_sums"]
        if self.has_categories:
            a["left_set"][nodes] = splits["left_set"]
