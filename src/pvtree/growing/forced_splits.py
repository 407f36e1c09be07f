"""forcedsplits_filename: splits that every tree begins with, wherever its rows allow them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pvtree.kernels.constants import BLOCK
from pvtree.kernels.growing.quantize import sum_words

if TYPE_CHECKING:
    from pvtree.binning.shard import Shard
    from pvtree.comm import Communicator
    from pvtree.growing.frontier import Frontier
    from pvtree.growing.tree_memory import GrownTree, Rules
    from pvtree.parameters.params import ForcedSplit

# The gain of a forced split while the tree grows: it comes before all others, and nothing can be better.
_FIRST = 1e300


class ForcedSplits:
    """Puts forced splits in place of those that were found, once a node's best split is known to all workers."""

    def __init__(self, root: ForcedSplit, shard: Shard, comm: Communicator) -> None:
        self.root, self.comm, self.data = root, comm, shard.data
        self.thresholds, self.first_feature = shard.thresholds, shard.first_feature
        self.waiting: dict[int, ForcedSplit] = {}  # by node
        self.made: dict[int, ForcedSplit] = {}  # nodes that are split so; their children are not known yet

    def begin(self) -> None:
        """A new tree begins."""
        self.waiting, self.made = {0: self.root}, {}

    def put(self, frontier: Frontier) -> None:
        """Replace the splits of those nodes of the frontier that have forced ones."""
        nodes = [node for node in frontier.row_node[frontier.is_open].tolist() if node in self.waiting]
        if not nodes:
            return
        arrays, rules = frontier.memory.arrays, frontier.rules
        left_sums = np.stack([self._left_sums(frontier, node, self.waiting[node]) for node in nodes])
        if self.comm.size > 1:
            left_sums = self.comm.allreduce(left_sums, "scores")
        for node, left in zip(nodes, left_sums, strict=True):
            split = self.waiting.pop(node)
            sums = arrays["sums"][node]
            if not _is_possible(left, sums - left, rules) or not _gain(sums, left, rules) > rules.min_gain:
                continue  # as in LightGBM, the tree goes on here as usual
            values = {"feature": split.feature, "split_bin": self._bin_of(split), "default_left": 1}
            for name, value in values.items():
                frontier.nodes[name][node] = value
            frontier.nodes["gain"][node] = _FIRST * 2.0 ** -int(frontier.nodes["depth"][node])
            arrays["left_sums"][node] = left
            self.made[node] = split

    def follow(self, frontier: Frontier, parents: np.ndarray) -> None:
        """These nodes have children now."""
        for node in parents.tolist():
            split = self.made.pop(node, None)
            left = int(frontier.nodes["left_child"][node])
            for child, its in ((left, split and split.left), (left + 1, split and split.right)):
                if its is not None:
                    self.waiting[child] = its

    def with_real_gains(self, tree: GrownTree, rules: Rules) -> GrownTree:
        """The tree with the gains that its forced splits have."""
        gain = tree.gain.copy()
        for node in np.flatnonzero((tree.gain > 1e200) & (tree.feature >= 0)).tolist():
            gain[node] = _gain(tree.sums[node], tree.sums[tree.left_child[node]], rules)
        return replace(tree, gain=gain)

    def _bin_of(self, split: ForcedSplit) -> int:
        """The bin that holds the threshold: the last that goes left."""
        ends = self.thresholds.upper[split.feature, : self.thresholds.n_bins[split.feature] - 1]
        return 1 + int(np.searchsorted(ends, split.threshold))

    def _left_sums(self, frontier: Frontier, node: int, split: ForcedSplit) -> np.ndarray:
        """Of this worker's rows that go left, by field; 0 if it lacks the column. Missing values go left."""
        memory, layout = frontier.memory, frontier.layout
        sums = np.zeros(layout.n_fields, np.int64)
        feature = split.feature - self.first_feature
        if not 0 <= feature < self.data.n_features:
            return sums
        start, stop, buffer = (int(frontier.nodes[name][node]) for name in ("start", "stop", "buffer"))
        bins = self._bins(feature, memory.rows[buffer, start:stop])
        words = memory.words[buffer, start:stop][bins <= self._bin_of(split)]
        sum_words(
            words, memory.planes[0, :0], layout.capacity, layout.n_planes, layout.plane, layout.shift, layout.mask,
            sums,
        )  # fmt: skip
        return sums

    def _bins(self, feature: int, rows: np.ndarray) -> np.ndarray:
        bundles, starts = self.data.bundles, self.data.block_start
        column = feature if bundles is None else int(bundles.bundle_of[feature])
        block = int(np.searchsorted(starts, column, side="right")) - 1
        lane = column - int(starts[block])
        codes: np.ndarray = np.asarray(self.data.bins[block])[rows.astype(np.int64) * int(BLOCK) + lane]
        return codes if bundles is None else bundles.bins_of_codes(np.array([feature]))[0][codes]


def _is_possible(left: np.ndarray, right: np.ndarray, rules: Rules) -> bool:
    """Whether both children have enough rows and hessian."""
    least = min(int(left[0]), int(right[0])), float(min(left[rules.hess_field], right[rules.hess_field]))
    return least[0] >= max(rules.min_count, 1) and least[1] * rules.hess_scale >= rules.min_hess


def _gain(sums: np.ndarray, left: np.ndarray, rules: Rules) -> float:
    """What a split gains, as the search measures it."""
    scores = [_score(each, rules) for each in (left, sums - left, sums)]
    return (scores[0] + scores[1] - scores[2]) * rules.gain_scale


def _score(sums: np.ndarray, rules: Rules) -> float:
    g, h = float(sums[-1]) * rules.grad_scale, float(sums[rules.hess_field]) * rules.hess_scale + rules.reg_lambda
    g = np.sign(g) * max(abs(g) - rules.reg_alpha, 0.0)
    most = rules.max_output * rules.grad_scale / rules.hess_scale
    output = min(max(-g / h, -most), most) if h > 0.0 else 0.0
    return float(-(2.0 * g * output + h * output * output))
