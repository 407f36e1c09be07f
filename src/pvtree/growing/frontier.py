"""The open nodes of a growing tree on one worker: its rows in them, its own histograms, and the splits found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.comm.partition import column_bounds
from pvtree.find_split.merging import Elected
from pvtree.find_split.post import Items
from pvtree.find_split.splits import split_dtype
from pvtree.growing.constraints import NO_CONSTRAINTS, Constraints
from pvtree.growing.tree_memory import GrownTree, Rules, TreeMemory, in_level_order
from pvtree.kernels.bounds.local import find_aims
from pvtree.kernels.constants import ENTROPY
from pvtree.kernels.growing import frontier as kernels
from pvtree.kernels.growing.records import FAMILY, WANT_BEST, WANT_GAINS, WANT_HISTOGRAMS
from pvtree.kernels.wire.merge import search_items

if TYPE_CHECKING:
    from pvtree.binning.shard import Shard
    from pvtree.growing.layouts import Layout
    from pvtree.kernels.team import Team

_NONE = np.empty(0, np.int64)
# Ballots only rank features, so for them a feature of many bins is tried at about this many boundaries. What is merged,
# and where a node is split, is full-grained (docs/adr/0012-coarse-ballots.md). Not below 4: see lanes.CHUNK.
BALLOT_BOUNDARIES = 64
INTERRUPTIBLE_CELLS = 2**24  # rows of blocks that are evaluated before Python looks for Ctrl-C


class Frontier:
    """Nodes under evaluation are numbered by rows: 0 for the root, then 2 i and 2 i + 1 for the i-th pair of siblings.

    ``memory.nodes`` holds all nodes of the tree, those made in advance included.
    """

    def __init__(
        self, shard: Shard, layout: Layout, n_sampled: int, n_workers: int, pool: tuple[int, int], team: Team,
        constraints: Constraints = NO_CONSTRAINTS,
    ) -> None:  # fmt: skip
        data = shard.data
        n_groups = max(1, len(data.block_start) - 1)
        self.memory = TreeMemory(data, layout, data.n_rows, n_sampled, n_groups, team, constraints)
        self.memory.arrays["first_feature"] = shard.first_feature
        self.memory.make_pools(*pool)
        self.memory.make_evaluation_room(2)
        self.memory.make_node_room(64)
        self.n_workers, self.team = n_workers, team
        self.first_feature, self.n_all_features = shard.first_feature, shard.n_all_features
        self.has_categories = bool(shard.thresholds.is_categorical.any())
        self.families = np.empty(2, FAMILY)
        self.local_sums = np.zeros((64, layout.n_fields), np.int64)
        self.gains = np.empty((0, 0))
        # Of every feature where a proof is wanted: see kernels/bounds.py.
        self.bounds = np.empty((2, 0, 0))  # (above or below, n_evaluated, n_features)
        self.aims = np.empty((0, 0))  # (n_evaluated, classes; 1 where there are none)
        # Records of the rules for all rows and of those for this worker's alone.
        self.tree: Any = None
        self.local: Any = None

    # The tree as a whole

    def begin(self, n_rows: int, root_sums: np.ndarray, rules: Rules, tree_features: np.ndarray) -> None:
        """Stand at the root of a new tree, with this worker's rows in the first places of buffer 0."""
        memory = self.memory
        own = tree_features[(tree_features >= self.first_feature)] - self.first_feature
        memory.use_features(own[own < self.n_features])
        memory.free_all_slots()
        self.tree_features, self.n_rows_here, self.rules = tree_features, n_rows, rules
        self.n_allowed = rules.n_sampled or len(tree_features)
        memory.begin_root(root_sums)
        n_all = int(root_sums[: memory.layout.n_planes].sum())
        is_open = n_all >= 2 * rules.min_count and rules.max_depth != 0
        memory.nodes[0] = (0, n_rows, 0, 0, n_all, is_open, 1, -1, 0, 0, -np.inf, 0, 0, 0)
        self.n_made = 1
        self._row_before = np.full(len(memory.nodes), -1)
        self._make_records()
        self._look_at(np.zeros(1, np.int64), _NONE)

    def _make_records(self) -> None:
        """Kernels know arrays by address: new arrays, new records."""
        n = self.n_workers
        rules = self.rules
        # A worker's own rows are about 1/n of all: what the rules measure is too.
        local = replace(
            rules, min_count=-(-rules.min_count // n), min_hess=rules.min_hess / n, reg_lambda=rules.reg_lambda / n,
            reg_alpha=rules.reg_alpha / n, cat_smooth=rules.cat_smooth / n, cat_l2=rules.cat_l2 / n, min_gain=0.0,
        )  # fmt: skip
        self.tree = self.memory.record(rules, singly=0)
        self.local = self.memory.record(
            local, singly=0, sums=self.local_sums, gains=self.gains, most_boundaries=BALLOT_BOUNDARIES
        )

    @property
    def n_rows(self) -> int:
        return len(self.row_node)

    @property
    def n_features(self) -> int:
        """This worker's own features; all of them where rows are spread."""
        return self.memory.data.n_features

    @property
    def n_classes(self) -> int:
        """Of class trees; 0 where gradients decide."""
        layout = self.memory.layout
        return layout.n_fields - layout.n_planes if self.rules.criterion == ENTROPY else 0

    @property
    def allowed(self) -> np.ndarray:
        """uint8 (n_rows, n_features): what each node may use."""
        allowed: np.ndarray = self.memory.arrays["allowed"]
        return allowed[: self.n_rows]

    def _look_at(self, row_node: np.ndarray, pairs: np.ndarray) -> None:
        """Evaluate these nodes next; ``pairs`` are the parents of two successive rows each."""
        memory = self.memory
        n_rows = len(row_node)
        if n_rows > memory.arrays["n_evaluated"]:
            memory.make_evaluation_room(2 * n_rows)
            self.families = np.empty(2 * n_rows, FAMILY)
            self._make_records()
        self.row_node, self.pairs = row_node, pairs
        self.is_open = memory.nodes["is_open"][row_node] == 1
        a = memory.arrays
        if self.rules.n_sampled or a["n_set_words"]:
            kernels.draw_features(
                0, n_rows, row_node, self.first_feature, self.tree_features, self.rules.n_sampled,
                np.uint64(self.rules.key), memory.nodes, a["live_sets"], a["sets_of"], a["allowed"],
            )  # fmt: skip
        else:
            a["allowed"][:n_rows] = a["in_tree"]
        if a["n_set_words"]:
            self.n_allowed = int(self.allowed[self.is_open].sum(axis=1).max(initial=0))

    @contextmanager
    def looking_at(self, nodes: np.ndarray) -> Iterator[None]:
        """Turn to these nodes for a while, which may be of any frontier before, and then back."""
        row_node, pairs, row_before = self.row_node, self.pairs, self._row_before.copy()
        self._look_at(nodes, _NONE)
        try:
            yield
        finally:
            self._look_at(row_node, pairs)
            self._row_before = row_before

    def pairs_before(self) -> np.ndarray:
        """By pair: the row of the parent in the frontier merged before this one, -1 if it was not there."""
        return self._row_before[self.pairs]

    # FindBestSplit on what this worker has

    def _evaluate(
        self, record: Any, n_families: int, wanted: np.int64, bounds: tuple[np.ndarray, np.ndarray] | None = None
    ) -> None:
        record["n_families"], record["wanted"] = n_families, wanted
        memory = self.memory
        self.team.for_blocks_with(
            memory.scratch, kernels.evaluate_items, memory.arrays["n_blocks"] * int(n_families), record, self.families,
            memory.nodes, memory.best, bounds, at_once=1 + INTERRUPTIBLE_CELLS // (1 + memory.rows.shape[1]),
        )  # fmt: skip

    def _evaluate_families(
        self, record: Any, wanted: np.int64, bounds: tuple[np.ndarray, np.ndarray] | None = None
    ) -> None:
        n_families = kernels.plan_families(self.row_node, self.pairs, record, self.families, self.memory.nodes)
        self._evaluate(record, n_families, wanted, bounds)
        kernels.free_parents(n_families, record, self.families, self.memory.nodes)

    def search_own_features(self) -> None:
        """The best split of each node among this worker's features, where it has all rows of them."""
        memory = self.memory
        memory.best["gain"] = -np.inf  # a worker without columns has no group that would say so
        self._evaluate_families(self.tree, WANT_BEST)
        kernels.take_best_groups(self.row_node, memory.n_groups, self.tree, memory.nodes, memory.best)

    def local_gains(self, rows: np.ndarray | None = None, with_bounds: bool = False) -> np.ndarray:
        """float64 (n_rows, n_features): of the best split by this worker's own rows, -inf where there is none.

        Only of these rows of the frontier, if given. ``with_bounds`` also finds ``bounds`` of what this worker's own
        rows could contribute to a gain.
        """
        memory = self.memory
        if len(self.local_sums) < len(memory.nodes) or len(self.gains) < memory.arrays["n_evaluated"]:
            self.local_sums = np.zeros((len(memory.nodes), memory.layout.n_fields), np.int64)
            self.gains = np.empty((memory.arrays["n_evaluated"], self.n_features))
            self._make_records()
        self.gains[: self.n_rows] = -np.inf
        self.team.for_blocks(
            kernels.sum_locally, self.n_rows, self.row_node, self.tree, memory.nodes, self.local_sums, min_block=1
        )
        is_open = memory.nodes["is_open"][self.row_node]
        if rows is not None:
            memory.nodes["is_open"][self.row_node[~rows]] = 0  # others are not searched
        self._evaluate_families(self.local, WANT_GAINS, self._room_for_bounds() if with_bounds else None)
        memory.nodes["is_open"][self.row_node] = is_open
        return self.gains[: self.n_rows]

    def _room_for_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        if self.bounds.shape[1:] != self.gains.shape:
            self.bounds = np.empty((2, *self.gains.shape))
            self.aims = np.empty((len(self.gains), max(1, self.n_classes)))
        find_aims(0, self.n_rows, self.row_node, self.tree, self.aims)
        return self.bounds, self.aims

    def allowed_features(self) -> Elected:
        """All that every open node may use."""
        return Elected.of(self.allowed & self.is_open[:, None])

    def with_histograms(self, wanted: np.ndarray, write: Callable[[int, int], None]) -> None:
        """Call write(first_row, last_row) for all rows, some at a time, while the wanted ones' histograms are kept."""
        first = 0
        while first < self.n_rows:
            last, n_families = kernels.plan_additions(
                self.row_node, wanted, first, self.tree, self.families, self.memory.nodes
            )
            self._evaluate(self.tree, n_families, WANT_HISTOGRAMS)
            if n_families == 0 and last == first:  # no room for even one: it is added up singly
                last = first + 1
            write(first, last)
            self.give_up_histograms(self.row_node[first:last][wanted[first:last]])
            first = last

    def search_merged(self, elected: Elected, items: Items) -> None:
        """The best split of each node among the merged histograms that this worker owns."""
        memory = self.memory
        self.tree["wanted"] = WANT_BEST
        self.tree["n_groups"] = 1
        self.team.for_blocks_with(
            memory.scratch, search_items, self.n_rows, self.row_node, elected.start, elected.feature, items.start,
            items.feature, items.place, items.arena, self.tree, memory.nodes, memory.best,
        )  # fmt: skip
        kernels.take_best_groups(self.row_node, 1, self.tree, memory.nodes, memory.best)
        self.tree["n_groups"] = memory.n_groups
        self._row_before[:] = -1
        self._row_before[self.row_node] = np.arange(self.n_rows)

    # Splits that all workers agree on

    def own_splits(self) -> np.ndarray:
        """This worker's best split of every open node, as it goes over the wire."""
        a, nodes = self.memory.arrays, self.row_node[self.is_open]
        own = np.zeros(len(nodes), split_dtype(self.memory.layout.n_fields, self.has_categories))
        for name in ("gain", "split_bin", "default_left"):
            own[name] = self.memory.nodes[name][nodes]
        own["feature"] = self.memory.nodes["feature"][nodes] + self.first_feature
        own["left_sums"] = a["left_sums"][nodes]
        if self.has_categories:
            own["left_set"] = a["left_set"][nodes]
        has_none = own["gain"] == -np.inf
        own[has_none] = np.zeros((), own.dtype)  # no left-overs of other nodes
        own["gain"][has_none] = -np.inf
        return own

    def set_splits(self, splits: np.ndarray) -> None:
        """Every open node gets its split; features are numbered over all workers."""
        a, nodes = self.memory.arrays, self.row_node[self.is_open]
        for name in ("gain", "feature", "split_bin", "default_left"):
            self.memory.nodes[name][nodes] = splits[name]
        a["left_sums"][nodes] = splits["left_sums"]
        if self.has_categories:
            a["left_set"][nodes] = splits["left_set"]

    # From one frontier to the next

    def next_to_split(self) -> np.ndarray:
        """Nodes that best-first growth over all nodes known so far would split, and that are not split yet.

        Those that it splits when all is known are among them, so nothing else need be split in advance; nor what it
        splits last, because nobody will ask for the children's splits.
        """
        is_split, last = self.best_first()
        if last >= 0:
            is_split[last] = 0
        return self._unsplit(is_split)

    def last_to_split(self) -> np.ndarray:
        """What is left to split when nothing else is: at most one node."""
        return self._unsplit(self.best_first()[0])

    def _unsplit(self, is_split: np.ndarray) -> np.ndarray:
        return np.flatnonzero(is_split & (self.memory.nodes["left_child"][: self.n_made] == 0))

    def best_first(self) -> tuple[np.ndarray, int]:
        """uint8 by node: what best-first growth splits; and what it splits last if that takes up the leaf budget."""
        is_split = np.empty(self.n_made, np.uint8)
        last = kernels.best_first(self.n_made, self.rules.max_leaves, self.memory.nodes, is_split)
        return is_split, last

    def open_leaves(self) -> np.ndarray:
        """All nodes that rows and depth allow to split, and that are not split."""
        nodes = self.memory.nodes[: self.n_made]
        return np.flatnonzero((nodes["is_open"] == 1) & (nodes["left_child"] == 0))

    def least_gain_split(self) -> float:
        """What best-first growth over all nodes known so far gains least by a split, if it takes up the leaf budget.

        A node of which no split gains as much will never be split, whatever comes to be known: until the budget is used
        up there is always a better node to take. -inf as long as the budget is not used up.
        """
        is_split, last = self.best_first()
        return float(self.memory.nodes["gain"][: self.n_made][is_split == 1].min()) if last >= 0 else -np.inf

    def make_children(self, parents: np.ndarray) -> None:
        memory = self.memory
        n_nodes = self.n_made + 2 * len(parents)
        if n_nodes > len(memory.nodes):
            row_before = self._row_before
            memory.make_node_room(2 * n_nodes)
            self._row_before = np.full(2 * n_nodes, -1)
            self._row_before[: len(row_before)] = row_before
            self._make_records()
        a = memory.arrays
        kernels.make_children(parents, self.n_made, self.tree, memory.nodes, a["sums"], a["left_sums"])
        self.n_made = n_nodes

    def mark_sides(self, parents: np.ndarray) -> None:
        """Which rows go left, by the bins that this worker has."""
        self.team.for_blocks(
            kernels.mark_rows, len(parents), parents, self.first_feature, self.tree, self.memory.nodes, min_block=1
        )

    def owner_of_split(self, parents: np.ndarray) -> np.ndarray:
        """Where columns are spread: the worker whose column splits each node."""
        bounds = column_bounds(self.n_all_features, self.n_workers)
        return np.searchsorted(bounds[1:], self.memory.nodes["feature"][parents], side="right")

    def pack_sides(self, parents: np.ndarray) -> np.ndarray:
        """Sides of the parents' rows, a bit each."""
        nodes = self.memory.nodes
        bits = np.empty((int((nodes["stop"] - nodes["start"])[parents].sum()) + 7) // 8, np.uint8)
        kernels.pack_sides(parents, nodes, self.memory.arrays["side"], bits)
        return bits

    def unpack_sides(self, parents: np.ndarray, bits: np.ndarray) -> None:
        kernels.unpack_sides(parents, self.memory.nodes, self.memory.arrays["side"], bits)

    def move_rows(self, parents: np.ndarray) -> None:
        """Rows to their children, once their sides are marked."""
        self.team.for_blocks(kernels.scatter_rows, len(parents), parents, self.tree, self.memory.nodes, min_block=1)

    def look_at_children(self, parents: np.ndarray) -> None:
        left = self.memory.nodes["left_child"][parents]
        self._look_at(np.stack((left, left + 1), axis=1).reshape(-1), parents)

    def with_open_children(self, parents: np.ndarray) -> np.ndarray:
        """Parents with a child that may be split."""
        nodes = self.memory.nodes
        left = nodes["left_child"][parents]
        return parents[(nodes["is_open"][left] | nodes["is_open"][left + 1]) == 1]

    def free_histograms(self, evaluated: np.ndarray) -> None:
        """Give back the local histograms of those of the nodes that are not split."""
        self.give_up_histograms(evaluated[self.memory.nodes["left_child"][evaluated] == 0])

    def give_up_histograms(self, nodes: np.ndarray) -> None:
        """Nobody will subtract from these nodes' local histograms any more."""
        kernels.free_histograms(nodes, self.tree, self.memory.nodes)

    def finish(self) -> tuple[GrownTree, np.ndarray]:
        """The tree that best-first growth makes, and which nodes it splits."""
        memory, n_made = self.memory, self.n_made
        is_split, _ = self.best_first()
        order, left_child = np.empty(n_made, np.int64), np.empty(n_made, np.int64)
        n_nodes = kernels.walk_split(is_split, memory.nodes, order, left_child)
        run_leaf, run_stop, run_buffer = (np.empty(n_made, np.int64) for _ in range(3))
        n_runs = kernels.find_runs(
            n_made, self.n_rows_here, order, n_nodes, memory.nodes, np.empty(n_made, np.int64), run_leaf, run_stop,
            run_buffer,
        )  # fmt: skip
        runs = (run_leaf[:n_runs], run_stop[:n_runs], run_buffer[:n_runs])
        return in_level_order(memory.nodes, order[:n_nodes], left_child[:n_nodes], memory.arrays, runs), is_split
