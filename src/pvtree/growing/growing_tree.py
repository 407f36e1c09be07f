"""All nodes of a tree that is grown a frontier at a time: which to split next, their children, the finished tree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.binning.mapped_bins import is_mapped
from pvtree.comm.partition import column_bounds
from pvtree.growing.constraints import Constraints
from pvtree.growing.tree_memory import GrownTree, Rules, TreeMemory
from pvtree.kernels.growing import frontier as kernels

if TYPE_CHECKING:
    from pvtree.binning.shard import Shard
    from pvtree.growing.layouts import Layout
    from pvtree.kernels.team import Team


class GrowingTree:
    """Whole frontiers are split at once, some nodes in advance: in the end only some of these splits are kept."""

    def __init__(
        self, shard: Shard, layout: Layout, n_sampled: int, n_workers: int, pool: tuple[int, int], team: Team,
        constraints: Constraints,
    ) -> None:  # fmt: skip
        data = shard.data
        n_groups = max(1, len(data.block_start) - 1)
        self.memory = TreeMemory(data, layout, data.n_rows, n_sampled, n_groups, team, constraints)
        self.memory.arrays |= {"first_feature": shard.first_feature, "singly": 0, "keeps_leaves": 1}
        self.memory.make_pools(*pool)
        self.memory.make_evaluation_room(2)
        self.memory.make_node_room(64)
        self.layout, self.n_workers, self.team = layout, n_workers, team
        self.first_feature, self.n_all_features = shard.first_feature, shard.n_all_features
        self.record: Any = None  # for kernels

    @property
    def nodes(self) -> np.ndarray:
        """kernels.memory.NODE: all nodes made so far, and room for more."""
        return self.memory.nodes

    @property
    def n_features(self) -> int:
        """This worker's own features; all of them where rows are spread."""
        return self.memory.data.n_features

    def _begin_root(self, n_rows: int, root_sums: np.ndarray, rules: Rules, tree_features: np.ndarray) -> None:
        memory = self.memory
        own = tree_features[tree_features >= self.first_feature] - self.first_feature
        memory.use_features(own[own < self.n_features])
        memory.free_all_slots()
        # Copied, because drawing features shuffles them for a moment.
        self.tree_features, self.n_rows_here, self.rules = tree_features.copy(), n_rows, rules
        memory.begin_root(root_sums, rules)
        n_all = int(root_sums[: self.layout.n_planes].sum())
        is_open = n_all >= 2 * rules.min_count and rules.max_depth != 0
        memory.nodes[0] = (0, n_rows, 0, 0, n_all, is_open, 1, -1, 0, 0, -np.inf, 0, 0, 0)
        self.n_made = 1
        self._make_records()

    def _make_records(self) -> None:
        """Kernels know arrays by address: new arrays, new records."""
        self.record = self.memory.record(self.rules)

    def _local_rules(self) -> Rules:
        """A worker's own rows are about 1/n of all: what the rules measure is too."""
        n, rules = self.n_workers, self.rules
        return replace(
            rules, min_count=-(-rules.min_count // n), min_hess=rules.min_hess / n, reg_lambda=rules.reg_lambda / n,
            reg_alpha=rules.reg_alpha / n, cat_smooth=rules.cat_smooth / n, cat_l2=rules.cat_l2 / n, min_gain=0.0,
            path_smooth=rules.path_smooth / n, cost_share=1.0 / n, min_group=-(-rules.min_group // n),
        )  # fmt: skip

    # Which nodes to split

    def next_to_split(self) -> np.ndarray:
        """Nodes that best-first growth over all nodes known so far would split, and that are not split yet.

        The splits of the finished tree are among these, so no other need be made in advance. The one that uses up the
        leaf budget is left out: nobody will ask for its children's splits.
        """
        is_split, last = self.best_first()
        if last >= 0:
            is_split[last] = 0
        return self._unsplit(is_split)

    def last_to_split(self) -> np.ndarray:
        """What is left to split when nothing else is: at most one node."""
        return self._unsplit(self.best_first()[0])

    def _unsplit(self, is_split: np.ndarray) -> np.ndarray:
        return np.flatnonzero(is_split & (self.nodes["left_child"][: self.n_made] == 0))

    def best_first(self) -> tuple[np.ndarray, int]:
        """uint8 by node: what best-first growth splits; and the node that uses up the leaf budget, -1 if none does."""
        is_split = np.empty(self.n_made, np.uint8)
        last = kernels.best_first(self.n_made, self.rules.max_leaves, self.rules.depthwise, self.nodes, is_split)
        return is_split, last

    def open_leaves(self) -> np.ndarray:
        """All nodes that rows and depth allow to split, and that are not split."""
        nodes = self.nodes[: self.n_made]
        return np.flatnonzero((nodes["is_open"] == 1) & (nodes["left_child"] == 0))

    def least_gain_split(self) -> float:
        """The least gain of the splits that best-first growth makes, if they use up the leaf budget; else -inf.

        A node whose splits all gain less will never be split, whatever is found later: until the budget is used up
        there is always a better node to take. Depth-wise growth does not ask for gains.
        """
        is_split, last = self.best_first()
        if self.rules.depthwise:
            return -np.inf
        return float(self.nodes["gain"][: self.n_made][is_split == 1].min()) if last >= 0 else -np.inf

    def gains_of(self, nodes: np.ndarray) -> np.ndarray:
        """The gains of these nodes' splits as known so far, -inf without one."""
        gains: np.ndarray = self.nodes["gain"][nodes]
        return gains

    def features_of(self, nodes: np.ndarray) -> np.ndarray:
        """The features of these nodes' splits as known so far, numbered over all workers."""
        features: np.ndarray = self.nodes["feature"][nodes]
        return features

    # Splitting them

    def make_children(self, parents: np.ndarray) -> None:
        n_nodes = self.n_made + 2 * len(parents)
        if n_nodes > len(self.nodes):
            self.memory.make_node_room(2 * n_nodes)
            self._make_records()
        kernels.make_children(parents, self.n_made, self.record, self.nodes)
        self.n_made = n_nodes

    def mark_sides(self, parents: np.ndarray) -> None:
        """Mark which rows go left, by the bins that this worker has."""
        if is_mapped(self.memory.data.bins):
            parents = parents[np.argsort(self.features_of(parents))]  # a block of the file after the other
        self.team.for_blocks(kernels.mark_rows, len(parents), parents, self.record, self.nodes, min_block=1)

    def owner_of_split(self, parents: np.ndarray) -> np.ndarray:
        """Where columns are spread: the worker whose column splits each node."""
        bounds = column_bounds(self.n_all_features, self.n_workers)
        return np.searchsorted(bounds[1:], self.features_of(parents), side="right")

    def pack_sides(self, parents: np.ndarray) -> np.ndarray:
        """The sides of the parents' rows, a bit each."""
        bits = np.empty((int((self.nodes["stop"] - self.nodes["start"])[parents].sum()) + 7) // 8, np.uint8)
        kernels.pack_sides(parents, self.nodes, self.memory.arrays["side"], bits)
        return bits

    def unpack_sides(self, parents: np.ndarray, bits: np.ndarray) -> None:
        kernels.unpack_sides(parents, self.nodes, self.memory.arrays["side"], bits)

    def move_rows(self, parents: np.ndarray) -> None:
        """Move rows to their children, once their sides are marked."""
        self.team.for_blocks(kernels.scatter_rows, len(parents), parents, self.record, self.nodes, min_block=1)

    def undo_splits(self, parents: np.ndarray) -> None:
        """Make these nodes leaves again. Their children, none of which is split, become nodes without rows.

        The rows of a node stay where they are until its grandchildren are made.
        """
        children, nodes = self.children_of(parents), self.nodes
        self.give_up_histograms(children)
        nodes["left_child"][parents] = 0
        nodes["is_open"][children], nodes["gain"][children] = 0, -np.inf
        nodes["stop"][children] = nodes["start"][children]

    def children_of(self, parents: np.ndarray) -> np.ndarray:
        """The left and the right child of each."""
        left = self.nodes["left_child"][parents]
        return np.stack((left, left + 1), axis=1).reshape(-1)

    def with_open_children(self, parents: np.ndarray) -> np.ndarray:
        """Parents with a child that may be split."""
        return parents[self.nodes["is_open"][self.children_of(parents)].reshape(-1, 2).any(axis=1)]

    # Kept histograms of this worker's rows

    def free_histograms(self, evaluated: np.ndarray) -> None:
        """Free the local histograms of those of the nodes that are not split."""
        self.give_up_histograms(evaluated[self.nodes["left_child"][evaluated] == 0])

    def give_up_histograms(self, nodes: np.ndarray) -> None:
        """Free these nodes' local histograms: nobody will subtract from them any more."""
        kernels.free_histograms(nodes, self.record, self.nodes)

    def finish(self) -> tuple[GrownTree, np.ndarray]:
        """The tree that best-first growth makes, and which nodes it splits."""
        n_made, nodes = self.n_made, self.nodes
        is_split, _ = self.best_first()
        tree, order = self.memory.list_tree(is_split, n_made)
        run_leaf, run_stop, run_buffer = (np.empty(n_made, np.int64) for _ in range(3))
        n_runs = kernels.find_runs(
            n_made, self.n_rows_here, order, len(order), nodes, np.empty(n_made, np.int64), run_leaf, run_stop,
            run_buffer,
        )  # fmt: skip
        runs = {"run_leaf": run_leaf[:n_runs], "run_stop": run_stop[:n_runs], "run_buffer": run_buffer[:n_runs]}
        return replace(tree, **runs), is_split
