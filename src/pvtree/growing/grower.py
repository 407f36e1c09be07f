"""Grows whole trees on a worker that holds all rows: prepares the kernel's memory and reads the tree from its nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pvtree.binning.binned_rows import BinnedRows
from pvtree.growing.constraints import NO_CONSTRAINTS, Constraints
from pvtree.growing.layouts import Layout
from pvtree.growing.tree_memory import POOL_BYTES, GrownTree, Rules, TreeMemory, most_nodes
from pvtree.kernels.constants import N_BINS
from pvtree.kernels.growing.evaluate import GROUP
from pvtree.kernels.growing.grow import grow_tree
from pvtree.kernels.growing.records import FAMILY, TREE
from pvtree.kernels.growing.route import CHUNK
from pvtree.kernels.growing.work_sharing import SYNC_SIZE, abandon
from pvtree.kernels.team import Team

# If nodes search less than this share of the features, adding these up singly beats subtraction: a single feature
# costs about three times as much per row as one of a block, and both children are added up instead of the smaller.
# Trees without a leaf budget consist of small nodes, where rows cost little and the bins of every feature much.
_SINGLY_BELOW = 1 / 6
_SINGLY_BELOW_UNLIMITED = 1 / 2
# Up to this many rows, looking only at bins that have rows beats a histogram, most of whose bins would be empty.
_TINY_ROWS = 32


class Grower:
    """Grows trees one after another on the same rows, reusing its memory."""

    def __init__(
        self, data: BinnedRows, layout: Layout, n_places: int, max_leaves: int, n_sampled: int, team: Team,
        constraints: Constraints = NO_CONSTRAINTS,
    ) -> None:  # fmt: skip
        n_groups = max(len(data.block_start) - 1, -(-n_sampled // int(GROUP)))
        singly = 0 < n_sampled < (_SINGLY_BELOW if max_leaves else _SINGLY_BELOW_UNLIMITED) * data.n_features
        self.memory = TreeMemory(data, layout, n_places, n_sampled, n_groups, team, constraints)
        self.team = team
        self.families = np.empty(2, FAMILY)
        self.memory.make_evaluation_room(2)
        self.memory.arrays |= {
            "singly": int(singly), "goes_left": np.empty(N_BINS, np.uint8),
            "n_chunks": n_places // CHUNK + 2, "chunk_left": np.empty(n_places // CHUNK + 2, np.int64),
        }  # fmt: skip
        if (
            data.bundles is None
            and layout.has_gradients
            and not constraints.is_monotone
            and not constraints.has_options
            and not data.is_categorical.any()
        ):
            a = self.memory.arrays
            a["tiny_rows"], a["least_kept"] = _TINY_ROWS, max(a["least_kept"], _TINY_ROWS + 1)
        # Half the leaf budget is enough: of n open leaves only the best (budget - n) can still be split.
        most_leaves = min(max_leaves, n_places)  # each has a row
        self.memory.make_pools(0 if singly else most_leaves // 2 + 2 if max_leaves else 64, POOL_BYTES)
        self.record: np.ndarray | None = None  # of the arrays as they are, and of ``rules``
        self.rules: Rules | None = None

    def grow(self, n_rows: int, root_sums: np.ndarray, rules: Rules, tree_features: np.ndarray) -> GrownTree:
        """Grow a tree on the first ``n_rows`` places of buffer 0 of the memory's rows, words and planes."""
        memory = self.memory
        if len(memory.nodes) < most_nodes(n_rows, rules):
            memory.make_node_room(most_nodes(n_rows, rules))
            self.record = None
        nodes = memory.nodes
        memory.begin_root(root_sums, rules)
        nodes[0] = (0, n_rows, 0, 0, n_rows, 1, 1, -1, 0, 0, -np.inf, 0, 0, 0)
        tree, sync = self._tree_record(rules, tree_features)

        held = (tree, sync)  # keeps both alive for a thread that comes late, which finds its tree finished

        def help_growing(thread: int) -> None:
            grow_tree(held[0], self.families, nodes, memory.best, memory.scratch[thread], False)

        self.team.start_others(help_growing, work=n_rows * (rules.n_sampled or len(tree_features)))
        try:
            while not grow_tree(tree, self.families, nodes, memory.best, memory.scratch[0], True):
                self.team.check()
        except BaseException:  # Ctrl-C, as a rule
            abandon(sync)
            raise
        return self._finish(int(tree["n_made"][0]))

    def _tree_record(self, rules: Rules, tree_features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The record of one tree, of the memory's arrays and this tree's rules, and its sync array."""
        memory = self.memory
        memory.use_features(tree_features)
        memory.arrays["allowed"][:] = memory.arrays["in_tree"]
        memory.free_all_slots()
        if self.record is None:
            self.record, self.rules = memory.record(rules), rules
        assert self.rules is not None  # set together with the record
        last, self.rules = vars(self.rules), rules
        for name, value in vars(rules).items():
            if value != last[name]:
                self.record[name] = value
        sync = np.zeros(SYNC_SIZE, np.int64)
        tree = self.record.view(np.uint8).copy().view(TREE)  # numpy would copy the record field by field
        tree["sync"] = sync.ctypes.data
        tree["n_tree_features"] = len(tree_features)
        return tree, sync

    def _finish(self, n_made: int) -> GrownTree:
        nodes = self.memory.nodes[:n_made]
        tree, order = self.memory.list_tree(nodes["left_child"] > 0, n_made)
        # No two leaves share a start: no split leaves a child empty.
        leaves = np.flatnonzero(tree.left_child == 0)
        at = order[leaves]
        by_place = nodes["start"][at].argsort()
        leaves, at = leaves[by_place], at[by_place]
        return replace(tree, run_leaf=leaves, run_stop=nodes["stop"][at], run_buffer=nodes["buffer"][at])
