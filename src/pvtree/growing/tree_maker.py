"""From row statistics to a finished tree: quantize, pack, grow, and compute the leaf values."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.binning.mapped_bins import is_mapped
from pvtree.binning.shard import Shard
from pvtree.binning.thresholds import Thresholds
from pvtree.comm.worker import Worker
from pvtree.growing.constraints import Constraints
from pvtree.growing.forced_splits import ForcedSplits
from pvtree.growing.frontier_grower import FrontierGrower
from pvtree.growing.grower import Grower
from pvtree.growing.layouts import MAX_COPIES, Layout, class_layout, gradient_layout
from pvtree.growing.sampling import n_level_features, n_node_features, node_key, threshold_key, tree_features, tree_key
from pvtree.growing.tree_memory import GrownTree, Rules
from pvtree.kernels.constants import ENTROPY, GRADIENT, N_BINS
from pvtree.kernels.growing.constraints import keep_in_order
from pvtree.kernels.growing.quantize import largest_magnitude, pack_classes, pack_gradients
from pvtree.kernels.growing.route import add_leaf_values, add_routed_values, sum_by_run, sum_upwards
from pvtree.kernels.growing.split_options import smooth_values
from pvtree.model.tree import Tree
from pvtree.parameters.params import Params

if TYPE_CHECKING:
    from pvtree.growing.strategy import Strategy

_NO_ROWS = np.empty(0, np.uint32)
_NO_COPIES = np.empty(0, np.uint8)
_NO_CODES = np.empty((0, N_BINS), np.uint8)
# A child's hessian must exceed zero, or its score would divide by it.
_LEAST_HESSIAN = sys.float_info.min


class TreeMaker:
    """Makes one tree after another on the same rows. Subclasses define what is summed and what a leaf returns."""

    def __init__(self, shard: Shard, layout: Layout, params: Params, worker: Worker, strategy: Strategy) -> None:
        self.data, self.thresholds, self.ids = shard.data, shard.thresholds, shard.ids
        self.n_all_features = shard.n_all_features
        self.layout, self.params, self.team, self.comm = layout, params, worker.team, worker.by_rows
        self.n_sampled = n_node_features(params, shard.n_all_features)
        self.strategy = strategy
        self.constraints = Constraints.of(params, shard.n_all_features)
        self.grower: Grower | FrontierGrower
        votes_by_sample = strategy.n_ballot_rows(self.n_sampled or shard.n_all_features, shard.ids.n_all) > 0
        # On one worker all strategies find what the sequential algorithm finds. Bins in a file are better read once for
        # all open nodes than once for each.
        forced = ForcedSplits(params.forced_splits[0], shard, worker.comm) if params.forced_splits else None
        if worker.comm.size == 1 and not (votes_by_sample or is_mapped(shard.data.bins) or forced):
            self.grower = Grower(
                self.data, layout, shard.n_rows, params.num_leaves, self.n_sampled, worker.team, self.constraints
            )
        else:
            self.grower = FrontierGrower(
                shard, layout, params.num_leaves, self.n_sampled, worker.team, worker.comm, self.strategy,
                self.constraints, forced,
            )  # fmt: skip
        self.memory = self.grower.memory

    def _largest(self, columns: list[np.ndarray], row_ids: np.ndarray) -> list[float]:
        """The largest magnitude of each column over all workers' rows: those given, or all if none are given."""

        def largest(values: np.ndarray) -> float:
            if len(values) == 0:
                return 0.0

            def of_block(start: int, stop: int) -> float:
                if len(row_ids):
                    return float(largest_magnitude(values, row_ids[start:stop]))
                return float(largest_magnitude(values[start:stop], row_ids))

            return max(self.team.results(of_block, len(row_ids) or len(values)))

        found = [largest(values) for values in columns]
        if self.comm.size > 1:
            found = [float(value) for value in self.comm.allreduce(np.array(found), "scores", "max")]
        return found

    def _add_up(self, n_rows: int, passengers: np.ndarray) -> np.ndarray:
        """Root sums of all workers' rows. Passengers are not counted; they only learn their leaf."""
        memory = self.memory
        memory.rows[0, n_rows : n_rows + len(passengers)] = passengers
        memory.words[0, n_rows : n_rows + len(passengers)] = 0
        sums = memory.add_up(n_rows)
        return self.comm.allreduce(sums, "scores") if self.comm.size > 1 else sums

    def _grow(self, n_rows: int, number: int, root_sums: np.ndarray, **scales: Any) -> GrownTree:
        """Grow a tree on the packed rows; ``number`` seeds the tree's random choices."""
        p, features = self.params, tree_features(self.params, number, self.n_all_features)
        rules = Rules(
            reg_lambda=p.reg_lambda, reg_alpha=p.reg_alpha, min_count=p.min_child_samples,
            min_hess=max(p.min_child_weight, _LEAST_HESSIAN), min_gain=p.min_split_gain,
            cat_smooth=p.cat_smooth, cat_l2=p.cat_l2, max_leaves=p.num_leaves, max_depth=p.max_depth,
            max_output=p.max_delta_step * scales["hess_scale"] / scales["grad_scale"] if p.max_delta_step else np.inf,
            key=node_key(p, number), n_sampled=self.n_sampled, n_level=n_level_features(p, len(features)),
            depthwise=int(p.grow_policy == "depthwise"), **_options(p, number), **scales,
        )  # fmt: skip
        grown = self.grower.grow(n_rows, root_sums, rules, features)
        self.pay_for(grown.feature)
        return grown

    def pay_for(self, features: np.ndarray) -> None:
        """A tree uses these features (-1: none), so later trees use them for free."""
        if self.constraints.has_options:
            self.constraints.cost[features[features >= 0]] = 0.0

    def _keep_in_order(self, grown: GrownTree, value: np.ndarray) -> None:
        """Clip all node values to what monotone constraints allow."""
        if self.constraints.is_monotone:
            keep_in_order(grown.feature, grown.left_child, self.constraints.monotone, value)

    def _finish(self, grown: GrownTree, value: np.ndarray, weight: np.ndarray) -> Tree:
        """Turn bins into thresholds, and put category sets into a table of their own."""
        threshold, cat_set = thresholds_and_sets(self.thresholds, grown.feature, grown.split_bin)
        default_left = grown.default_left
        if not self.params.use_missing:  # rows that lack a value go where 0 goes
            is_ordered = (grown.feature >= 0) & (cat_set < 0)
            default_left = np.where(is_ordered, threshold >= 0.0, default_left).astype(np.int64)
        return Tree(
            feature=grown.feature,
            threshold=threshold,
            left_child=grown.left_child,
            default_left=default_left,
            cat_set=cat_set,
            cat_sets=grown.left_set[cat_set >= 0],
            value=value,
            gain=grown.gain,
            count=grown.sums[:, 0] if self.layout.n_planes == 1 else grown.sums[:, : self.layout.n_planes].sum(axis=1),
            weight=weight,
        )

    def add_to_scores(self, grown: GrownTree, tree: Tree, out_of_sample: np.ndarray, scores: np.ndarray) -> None:
        """scores[row] += the tree's output, for the rows it grew on and for the ``out_of_sample`` ones."""
        value = tree.value[:, 0]
        n_rows = int(grown.run_stop[-1]) if len(grown.run_stop) else 0
        self.team.for_blocks(
            add_leaf_values, n_rows, self.memory.rows, grown.run_stop, grown.run_buffer,
            value[grown.run_leaf], scores,
        )  # fmt: skip
        if len(out_of_sample) > 0:
            self.add_walked(tree, grown.split_bin, out_of_sample, scores)

    def rows_of_leaves(self, grown: GrownTree) -> tuple[np.ndarray, np.ndarray]:
        """This worker's rows that the tree grew on, passengers included, and the leaf of each."""
        n_rows = int(grown.run_stop[-1]) if len(grown.run_stop) else 0
        lengths = np.diff(grown.run_stop, prepend=0)
        rows = self.memory.rows[np.repeat(grown.run_buffer, lengths), np.arange(n_rows)]
        return rows, np.repeat(grown.run_leaf, lengths)

    def add_walked(self, tree: Tree, split_bin: np.ndarray, rows: np.ndarray, scores: np.ndarray) -> None:
        """scores[row] += a tree's output, whoever grew it, for rows that walk down its splits by their bins."""
        starts, bundles = self.data.block_start, self.data.bundles
        feature = np.maximum(tree.feature, 0)
        column = feature if bundles is None else bundles.bundle_of[feature]
        block = np.searchsorted(starts, column, side="right") - 1
        bin_of_code = _NO_CODES if bundles is None else bundles.bins_of_codes(feature)
        # The same types as in a grown tree: others would compile the kernel once more.
        self.team.for_blocks(
            add_routed_values, len(rows), self.data.bins, rows, block, column - starts[block], bin_of_code, split_bin,
            tree.default_left.astype(np.int64), tree.cat_set, tree.cat_sets, tree.left_child.astype(np.int64),
            tree.value[:, 0], scores,
        )  # fmt: skip


class GradientTreeMaker(TreeMaker):
    """Trees by second-order gain; with unit hessians and no penalty this is variance gain."""

    def __init__(self, shard: Shard, hessian: str, params: Params, worker: Worker, strategy: Strategy) -> None:
        precise = params.criterion == "variance"
        super().__init__(shard, gradient_layout(shard.ids.n_all, hessian, precise), params, worker, strategy)
        self.hessian = hessian

    def make(
        self,
        grad: np.ndarray,
        hess: np.ndarray,
        number: int,
        rows: np.ndarray | None = None,
        copies: np.ndarray = _NO_COPIES,
        shrinkage: float = 1.0,
        passengers: np.ndarray = _NO_ROWS,
    ) -> tuple[GrownTree, Tree]:
        """``hess`` is empty if it is 1 for every row; ``passengers`` are rows that only learn their leaf."""
        layout, params = self.layout, self.params
        variance = params.criterion == "variance"
        n_rows = self.data.n_rows if rows is None else len(rows)
        row_ids = _NO_ROWS if rows is None else rows
        is_real = self.hessian == "real"
        # Without rows, a sample of none must not be taken for all.
        largest_grad, largest_hess = self._largest(
            [grad if n_rows else grad[:0], hess if n_rows and is_real else hess[:0]], row_ids
        )
        grad_scale = step_of(largest_grad, params.bootstrap, layout.limit[-1])
        hess_scale = step_of(largest_hess, params.bootstrap, layout.limit[0]) if is_real else 1.0
        has_field = self.hessian != "constant"
        inverse_scale = np.array([1.0 / hess_scale, 1.0 / grad_scale])
        field_shift = np.array([layout.shift[0] if has_field else -1, layout.shift[-1]])
        key = tree_key(params, number)

        def pack(start: int, stop: int, shift: int) -> None:
            pack_gradients(
                start, stop, row_ids, grad, hess, copies, inverse_scale, field_shift, variance, np.uint64(key), shift,
                self.memory.rows[0], self.memory.words[0],
            )  # fmt: skip

        self.ids.for_blocks(self.team, pack, rows)
        sums = self._add_up(n_rows, passengers)
        hess_field = 1 if has_field else 0
        total = float(sums[hess_field]) * hess_scale
        grown = self._grow(
            n_rows + len(passengers), number, sums, criterion=GRADIENT, hess_field=hess_field,
            grad_scale=grad_scale, hess_scale=hess_scale, gain_scale=1.0 / total if variance and total > 0.0 else 1.0,
            # With real weights the labels of a pure node differ by rounding alone: that is not a gain.
            noise=16.0 * grad_scale**2 * int(sums[0]) / max(total, _LEAST_HESSIAN) if variance and is_real else 0.0,
        )  # fmt: skip
        g = grown.sums[:, -1] * grad_scale
        h = grown.sums[:, hess_field] * hess_scale
        if is_real:
            if len(passengers):
                copies = np.ones(self.data.n_rows, np.uint8)
                copies[passengers] = 0
            g, h = self._exact_sums(grown, grad, hess, copies, (largest_grad, largest_hess))
        value = self._outputs(g, h, shrinkage)
        if params.path_smooth > 0.0:
            smooth_values(grown.left_child, grown.sums[:, 0], params.path_smooth, value)
        self._keep_in_order(grown, value)
        return grown, self._finish(grown, value[:, None], h)

    def _outputs(self, g: np.ndarray, h: np.ndarray, shrinkage: float) -> np.ndarray:
        """-G / (H + lambda) of every node, shrunk, after the penalty and within the limit."""
        alpha, limit = self.params.reg_alpha, shrinkage * self.params.max_delta_step
        step = np.sign(g) * np.maximum(np.abs(g) - alpha, 0.0) if alpha > 0.0 else g
        curvature = h + self.params.reg_lambda
        is_curved = curvature > 0.0
        if is_curved.all():
            value = -shrinkage * step / curvature
        else:
            value = np.where(is_curved, -shrinkage * step / np.where(is_curved, curvature, 1.0), 0.0)
        return np.clip(value, -limit, limit) if limit > 0.0 else value

    def _exact_sums(
        self, grown: GrownTree, grad: np.ndarray, hess: np.ndarray, copies: np.ndarray, largest: tuple[float, float]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(G, H) of every node in 62-bit fixed point: packed words suffice for splits, but not for leaf values."""
        room = 2.0**62 / (MAX_COPIES * self.ids.n_all)
        scale = np.array([max(value / room, _LEAST_HESSIAN) for value in largest])
        n_runs = len(grown.run_leaf)
        by_run = np.zeros((n_runs, 2), np.int64)
        self.team.for_blocks(
            sum_by_run, n_runs, self.memory.rows, grown.run_stop, grown.run_buffer, copies, grad, hess, 1.0 / scale,
            by_run, min_block=1 + 16384 * n_runs // max(1, self.data.n_rows),
        )  # fmt: skip
        sums = np.zeros((len(grown.feature), 2), np.int64)
        np.add.at(sums, grown.run_leaf, by_run)
        if self.comm.size > 1:
            sums = self.comm.allreduce(sums, "scores")
        sum_upwards(grown.left_child, sums)
        return sums[:, 0] * scale[0], sums[:, 1] * scale[1]


class ClassTreeMaker(TreeMaker):
    """Trees by information gain on class counts; leaves return class frequencies."""

    noise_share = 0.0  # gains up to this share of the root's largest term come from rounding alone

    def __init__(self, shard: Shard, weights: str, params: Params, worker: Worker, strategy: Strategy) -> None:
        super().__init__(shard, class_layout(params.n_classes, weights), params, worker, strategy)
        self.weights = weights

    def make(
        self,
        label: np.ndarray,
        weight: np.ndarray,
        number: int,
        rows: np.ndarray | None = None,
        copies: np.ndarray = _NO_COPIES,
    ) -> tuple[GrownTree, Tree]:
        """``weight`` is empty if all rows count the same."""
        layout, params = self.layout, self.params
        n_rows = self.data.n_rows if rows is None else len(rows)
        row_ids = _NO_ROWS if rows is None else rows
        scale = 1.0
        if self.weights == "real":
            (largest,) = self._largest([weight if n_rows else weight[:0]], row_ids)
            scale = step_of(largest, params.bootstrap, layout.limit[0])
        key = tree_key(params, number)

        def pack(start: int, stop: int, shift: int) -> None:
            pack_classes(
                start, stop, row_ids, label, weight, copies, 1.0 / scale, layout.plane, layout.shift, np.uint64(key),
                shift, self.memory.rows[0], self.memory.words[0], self.memory.planes[0],
            )  # fmt: skip

        self.ids.for_blocks(self.team, pack, rows)
        sums = self._add_up(n_rows, _NO_ROWS)
        total = sums[layout.n_planes :].sum()
        grown = self._grow(
            n_rows, number, sums, criterion=ENTROPY, hess_field=0, grad_scale=1.0, hess_scale=scale,
            gain_scale=1.0 / (float(total) * np.log(2.0)), noise=self.noise_share * float(total) * np.log(float(total)),
        )  # fmt: skip
        counts = grown.sums[:, layout.n_planes :]
        weight_sum = counts.sum(axis=1)
        shares = counts / weight_sum[:, None]
        if self.constraints.is_monotone:
            second = shares[:, 1].copy()
            self._keep_in_order(grown, second)
            shares = np.column_stack((1.0 - second, second))
        return grown, self._finish(grown, shares, weight_sum * scale)


def _options(params: Params, number: int) -> dict[str, Any]:
    """Rules that are options of the search: see kernels/growing/split_options.py."""
    if not params.has_split_options:
        return {}
    penalty = params.monotone_penalty if params.monotone_constraints else 0.0
    return {
        "is_extra": int(params.extra_trees), "extra_key": threshold_key(params, number),
        "path_smooth": params.path_smooth,
        # On level d, the gains of monotone features are multiplied by 1 - base / 2^d.
        "monotone_base": penalty if penalty <= 1.0 else 2.0 ** (penalty - 1.0),
        "row_cost": params.cegb_tradeoff * params.cegb_penalty_split, "max_onehot": params.max_cat_to_onehot,
        "max_cat_threshold": params.max_cat_threshold or int(N_BINS), "min_group": params.min_data_per_group,
    }  # fmt: skip


def thresholds_and_sets(
    thresholds: Thresholds, feature: np.ndarray, split_bin: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(threshold per node, 0 if none; index of its category set among those of the tree, -1 if none)."""
    is_leaf = feature < 0
    feature = np.maximum(feature, 0)
    threshold = np.where(is_leaf, 0.0, thresholds.of(feature, split_bin))
    is_categorical = (thresholds.is_categorical[feature] == 1) & ~is_leaf
    if not is_categorical.any():
        return threshold, np.full(len(feature), -1)
    return np.where(is_categorical, 0.0, threshold), np.where(is_categorical, np.cumsum(is_categorical) - 1, -1)


def step_of(largest: float, has_copies: bool, limit: int) -> float:
    """The real number that one integer step stands for: the largest value just fits its field."""
    if has_copies:
        largest *= MAX_COPIES  # not the most that were drawn, which no worker knows alone
    # Of numbers below 1e-300 the step would be no normal number, or 0.
    return max(largest / float(limit), sys.float_info.min) if largest > 0.0 else 1.0


def weight_kind(weight: np.ndarray | None, has_copies: bool) -> str:
    """How much room a row's weight needs in a packed word."""
    if weight is not None:
        return "real"
    return "copies" if has_copies else "constant"
