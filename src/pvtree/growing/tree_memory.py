"""The memory in which a worker grows one tree after another: its rows, its nodes and kept histograms."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from operator import is_not
from typing import Any

import numpy as np

from pvtree.binning.binned_rows import BinnedRows
from pvtree.growing.constraints import NO_CONSTRAINTS, Constraints
from pvtree.growing.layouts import Layout
from pvtree.kernels.constants import BLOCK, LANE_STRIDE, N_BINS
from pvtree.kernels.growing.children import list_tree
from pvtree.kernels.growing.few_features import LINE
from pvtree.kernels.growing.quantize import sum_words
from pvtree.kernels.growing.records import (
    CANDIDATE,
    NODE,
    SCRATCH,
    TABLE_SIZE,
    TILE_BOUNDARIES,
    TREE,
    fill_record,
    set_fields,
)
from pvtree.kernels.growing.split import fill_x_log_x
from pvtree.kernels.team import Team

# Histograms larger than a processor's second-level cache go through memory when they are kept. For each feature that
# takes about as long as adding up this many rows.
_CACHED_BYTES = 2**20
_LEAST_KEPT = 768
# Lines of columns that take as long as a line of a row: some of them have the bins of several rows of a node.
_COLUMN_LINES = 3
POOL_BYTES = 2**30  # per machine, of histograms kept for subtraction; nodes beyond it are added up anew


@dataclass(frozen=True)
class Rules:
    """What decides about splits, the same on every worker; the names are those of kernels.memory.TREE."""

    criterion: int
    hess_field: int
    grad_scale: float
    hess_scale: float
    reg_lambda: float
    reg_alpha: float
    min_count: int
    min_hess: float
    min_gain: float
    gain_scale: float
    noise: float
    max_output: float  # in steps of the quantized gradients and hessians
    cat_smooth: float
    cat_l2: float
    max_leaves: int
    max_depth: int
    key: int
    n_sampled: int
    n_level: int = 0
    depthwise: int = 0
    is_extra: int = 0
    extra_key: int = 0
    path_smooth: float = 0.0
    monotone_base: float = 0.0
    row_cost: float = 0.0
    cost_share: float = 1.0
    max_onehot: int = 0
    max_cat_threshold: int = int(N_BINS)
    min_group: int = 1


@dataclass(frozen=True)
class GrownTree:
    """A tree in level order, in terms of bins; the last three fields say where this worker's rows ended up."""

    feature: np.ndarray  # int64 (n_nodes,): -1 for a leaf
    split_bin: np.ndarray
    default_left: np.ndarray
    left_set: np.ndarray  # uint64 (n_nodes, 4)
    left_child: np.ndarray  # 0 for a leaf
    gain: np.ndarray
    sums: np.ndarray  # int64 (n_nodes, n_fields)
    # Runs of places whose rows are in the same leaf, in the order of places. A leaf may have several runs, because it
    # was split in advance while the tree grew, or none, because a worker need not have rows in every leaf.
    run_leaf: np.ndarray
    run_stop: np.ndarray
    run_buffer: np.ndarray


class TreeMemory:
    """The arrays whose addresses are in the kernels' record, and a scratch for each thread."""

    def __init__(
        self, data: BinnedRows, layout: Layout, n_places: int, n_sampled: int, n_groups: int, team: Team,
        constraints: Constraints = NO_CONSTRAINTS,
    ) -> None:  # fmt: skip
        self.data, self.layout, self.team = data, layout, team
        self.n_sampled, self.n_groups, self.smooths = n_sampled, n_groups, constraints.smooths
        n_features = data.n_features
        table = np.empty(TABLE_SIZE)
        fill_x_log_x(table)
        self.rows = np.empty((2, n_places), np.uint32)
        self.words = np.empty((2, n_places), np.int64)
        self.planes = np.empty((2, n_places if layout.n_planes > 1 else 0), np.uint8)
        self.nodes = np.empty(0, NODE)
        self._held: list[Any] = []
        self._filled = np.zeros(1, TREE)
        # Held here, because records only hold addresses.
        self.arrays: dict[str, Any] = {
            **_binned(data), "plane": layout.plane, "shift": layout.shift, "mask": layout.mask,
            "rows": self.rows, "words": self.words, "planes": self.planes, "side": np.empty(n_places, np.uint8),
            "table": table, "n_blocks": len(data.block_start) - 1, "n_features": n_features,
            "n_all_rows": data.n_rows, "n_places": n_places, "n_plane_places": self.planes.shape[1],
            "capacity": layout.capacity,
            "n_planes": layout.n_planes, "n_values": len(layout.shift), "n_fields": layout.n_fields,
            "stride": int(data.n_bins.max(initial=1)) + 1, "n_groups": n_groups, "most_boundaries": int(N_BINS),
            "tree_features": np.empty(n_features, np.int64), "in_tree": np.empty(n_features, np.uint8),
            "columns": np.empty((0, data.n_rows), np.uint8), "n_columns": 0,
            "row_bins": np.empty((data.n_rows, 0), np.uint8), "row_bytes": 0,
            "monotone": constraints.monotone, "sets_of": constraints.sets_of, "first_feature": 0,
            "is_monotone": int(constraints.is_monotone), "n_set_words": constraints.sets_of.shape[1],
            "n_all_features": max(len(constraints.monotone), len(constraints.sets_of)),
            "factor": constraints.factor, "cost": constraints.cost, "n_option_features": len(constraints.factor),
            "has_options": int(constraints.has_options),
        }  # fmt: skip
        a = self.arrays
        a["least_kept"] = self._least_kept(a["n_bundles"] * layout.n_planes * a["kept_stride"])
        self.scratch_arrays = [self._scratch_arrays() for _ in range(team.n_threads)]
        sizes = {"n_planes": layout.n_planes, "n_fields": layout.n_fields}
        self.scratch = [fill_record(SCRATCH, arrays | sizes) for arrays in self.scratch_arrays]

    @staticmethod
    def _least_kept(n_words: int) -> int:
        """The least number of rows from which a node's histogram of this many words is worth keeping."""
        return _LEAST_KEPT if 8 * n_words > _CACHED_BYTES else 1

    def make_pools(self, n_slots: int, n_bytes: int) -> None:
        """Room for the histograms of up to ``n_slots`` nodes; memory is only touched when used."""
        a, layout = self.arrays, self.layout
        narrow, wide = (a["n_bundles"] * n * a["kept_stride"] for n in (layout.n_planes, layout.n_fields))
        a["n_narrow_slots"] = min(n_slots, max(4, n_bytes // (8 * max(1, narrow))))
        a["n_wide_slots"] = min(n_slots, a["n_places"] // layout.capacity + 1, max(4, n_bytes // (8 * max(1, wide))))
        a["n_slots"] = max(a["n_narrow_slots"], a["n_wide_slots"])
        a["narrow_pool"] = np.empty((a["n_narrow_slots"], narrow), np.int64)
        a["wide_pool"] = np.empty((a["n_wide_slots"], wide), np.int64)
        a["free_slots"], a["n_free"] = np.empty((2, a["n_slots"]), np.int64), np.empty(2, np.int64)
        self.all_slots, self.n_slots = np.arange(a["n_slots"]), np.array([a["n_narrow_slots"], a["n_wide_slots"]])

    def copy_bins(self, n_wanted: int) -> None:
        """Copy all bins, so that about ``n_wanted`` features of a node are added up fast: see few_features.py.

        By rows if that reads fewer lines of the cache: nodes deep in a tree take a line of a column for every row.
        """
        n_lines = -(-self.arrays["n_bundles"] // int(LINE))
        if _COLUMN_LINES * n_lines < n_wanted and self.data.bundles is None and self.layout.n_planes == 1:
            self.arrays |= {"row_bins": self._by_rows(n_lines * int(LINE)), "row_bytes": n_lines * int(LINE)}
        else:
            columns = self.columns()
            self.arrays |= {"columns": columns, "n_columns": len(columns)}

    def columns(self) -> np.ndarray:
        """uint8 (n_bundles, n_rows): all bins column by column, copied unless they are kept."""
        if self.arrays["n_columns"] > 0:
            kept: np.ndarray = self.arrays["columns"]
            return kept
        columns = np.empty((self.arrays["n_bundles"], self.data.n_rows), np.uint8)
        for block, (first, stop) in enumerate(pairwise(self.data.block_start.tolist())):
            columns[first:stop] = self.data.bins[block].reshape(-1, BLOCK)[:, : stop - first].T
        return columns

    def _by_rows(self, n_bytes: int) -> np.ndarray:
        row_bins = lines_of_rows(self.data.n_rows, n_bytes)
        for block, (first, stop) in enumerate(pairwise(self.data.block_start.tolist())):
            row_bins[:, first:stop] = self.data.bins[block].reshape(-1, BLOCK)[:, : stop - first]
        return row_bins

    def free_all_slots(self) -> None:
        a = self.arrays
        a["free_slots"][:] = self.all_slots
        a["n_free"][:] = self.n_slots

    def make_evaluation_room(self, n_nodes: int) -> None:
        """Room to evaluate this many nodes at once."""
        n_candidates = n_nodes * self.n_groups
        self.best = np.empty((n_nodes, self.n_groups), CANDIDATE)
        self.arrays |= {
            "n_evaluated": n_nodes,
            "allowed": np.empty((n_nodes, self.data.n_features), np.uint8),
            "chosen": np.empty((n_nodes, self.n_sampled), np.int64),
            "best_sums": np.empty((n_candidates, self.layout.n_fields), np.int64),
            "best_set": np.zeros((n_candidates, 4), np.uint64),
        }

    def make_node_room(self, n_nodes: int) -> None:
        """Room for this many nodes, keeping those that exist."""
        names = ("left_set", "sums", "left_sums", "limits", "live_sets", "smooth")
        old = {name: self.arrays.get(name) for name in names}
        n_fields = self.layout.n_fields
        nodes = np.zeros(n_nodes, NODE)
        nodes[: len(self.nodes)] = self.nodes
        self.nodes = nodes
        self.arrays |= {
            "n_nodes": n_nodes, "open_leaves": np.empty(n_nodes, np.int64),
            "left_set": np.zeros((n_nodes, 4), np.uint64), "sums": np.zeros((n_nodes, n_fields), np.int64),
            "left_sums": np.zeros((n_nodes, n_fields), np.int64),
            "limits": np.zeros((n_nodes if self.arrays["is_monotone"] else 0, 2)),
            "live_sets": np.zeros((n_nodes, self.arrays["n_set_words"]), np.uint64),
            "smooth": np.zeros((n_nodes if self.smooths else 0, 2)),
        }  # fmt: skip
        for name, array in old.items():
            if array is not None:
                self.arrays[name][: len(array)] = array

    def begin_root(self, sums: np.ndarray, rules: Rules) -> None:
        """Node 0 has these sums; its features are not limited, and its output is not smoothed."""
        self.arrays["sums"][0] = sums
        self.arrays["limits"][:1] = -rules.max_output, rules.max_output
        if self.smooths:
            g, h = float(sums[-1]), float(sums[rules.hess_field]) + rules.reg_lambda / rules.hess_scale
            size = min(max(abs(g) - rules.reg_alpha / rules.grad_scale, 0.0) / h, rules.max_output) if h > 0 else 0.0
            self.arrays["smooth"][0] = -size if g > 0.0 else size, 0.0
        self.arrays["live_sets"][0] = np.iinfo(np.uint64).max

    def use_features(self, tree_features: np.ndarray) -> None:
        """Set the features that the next tree may use, by their numbers on this worker."""
        a = self.arrays
        if len(tree_features) == self.data.n_features == a.get("n_tree_features"):
            return  # all, as in the last tree
        a["tree_features"][: len(tree_features)] = tree_features
        a["in_tree"][:] = 0
        a["in_tree"][tree_features] = 1
        a["n_tree_features"] = len(tree_features)

    def record(self, rules: Rules, **others: Any) -> np.ndarray:
        """A record for kernels of all arrays as they are now, and of ``others`` in place of some."""
        held = [rules.n_sampled, *self.arrays.values()]  # the shape of an array may depend on n_sampled
        if len(held) != len(self._held) or any(map(is_not, held, self._held)):
            # Kept until an array is replaced: most trees differ in their rules only. The list keeps old arrays alive,
            # so that no new one can be taken for them.
            self._held, self._filled = held, fill_record(TREE, self.arrays | vars(rules))
        record = self._filled.view(np.uint8).copy().view(TREE)  # numpy would copy the record field by field
        set_fields(record, vars(rules) | others, self.arrays | vars(rules) | others)
        return record

    def add_up(self, n_rows: int) -> np.ndarray:
        """Sums by field over the first ``n_rows`` places of buffer 0."""
        layout = self.layout

        def of_block(start: int, stop: int) -> np.ndarray:
            sums = np.zeros(layout.n_fields, np.int64)
            sum_words(
                self.words[0, start:stop], self.planes[0, start:stop], layout.capacity, layout.n_planes, layout.plane,
                layout.shift, layout.mask, sums,
            )  # fmt: skip
            return sums

        first, *others = self.team.results(of_block, n_rows)
        return sum(others, first)

    def list_tree(self, is_split: np.ndarray, n_made: int) -> tuple[GrownTree, np.ndarray]:
        """The finished tree in level order, so that equal trees have equal numbers, still without its rows; and the
        places of its nodes among the ``n_made`` that were made."""
        order, numbers = np.empty(n_made, np.int64), np.empty((4, n_made), np.int64)
        gain, sums = np.empty(n_made), np.empty((n_made, self.layout.n_fields), np.int64)
        left_set = np.empty((n_made, 4), np.uint64)
        n = list_tree(
            is_split, self.nodes, self.arrays["sums"], self.arrays["left_set"], order, numbers, gain, sums, left_set
        )
        feature, split_bin, default_left, left_child = numbers[:, :n]
        none = order[:0]
        tree = GrownTree(
            feature, split_bin, default_left, left_set[:n], left_child, gain[:n], sums[:n], none, none, none
        )
        return tree, order[:n]

    def _scratch_arrays(self) -> dict[str, np.ndarray]:
        n_fields = self.layout.n_fields
        return {
            "packed": np.empty(self.layout.n_planes * BLOCK * LANE_STRIDE, np.int64),
            "wide": np.empty(BLOCK * n_fields * N_BINS, np.int64),
            "fields": np.empty(n_fields * N_BINS, np.int64),
            "left": np.empty((n_fields, N_BINS), np.int64),
            **{name: np.empty(N_BINS, np.int64) for name in ("word_left", "boundary", "order", "bin_place")},
            "natural_order": np.arange(1, N_BINS + 1),
            **{name: np.empty(N_BINS) for name in ("hess_left", "grad_left", "scores")},
            "tile": np.empty(TILE_BOUNDARIES * BLOCK, np.int64),
            "tile_scores": np.empty(TILE_BOUNDARIES * BLOCK),
            "expanded": np.empty(BLOCK * n_fields * LANE_STRIDE if self.data.bundles else 0, np.int64),
            "totals": np.empty(n_fields, np.int64),
            **{name: np.empty(BLOCK, np.int64) for name in ("lane_feature", "lane_count", "lane_total", "lane_bin")},
            **{name: np.empty(BLOCK) for name in ("lane_best", "lane_below", "lane_sign")},
            "found_sums": np.zeros(n_fields, np.int64),
            "found_set": np.zeros(4, np.uint64),
        }


def lines_of_rows(n_rows: int, n_bytes: int) -> np.ndarray:
    """Uninitialised bytes, rows of whole lines of the cache, the first of which begins with a line."""
    room = np.empty(n_rows * n_bytes + int(LINE), np.uint8)
    first = -room.ctypes.data % int(LINE)
    return room[first : first + n_rows * n_bytes].reshape(n_rows, n_bytes)


def _binned(data: BinnedRows) -> dict[str, Any]:
    """The rows as kernels see them: without bundles every feature is a bundle of its own."""
    own = {name: value for name, value in data._asdict().items() if name != "bundles"}
    if data.bundles is None:
        own |= {"bundled": 0, "bundle_of": np.arange(data.n_features), "last_code": data.n_bins}
    else:
        plan, feature_start = data.bundles.plan(data.block_start, data.is_categorical)
        own |= {"bundled": 1, "plan": plan, "feature_start": feature_start, **data.bundles._asdict()}
        del own["n_unusual"]
    last = own["last_code"]
    return own | {"n_bundles": len(last), "kept_stride": int(last.max(initial=1)) + 1}


def most_nodes(n_rows: int, rules: Rules) -> int:
    """The number of nodes of the largest tree that these rules allow on ``n_rows`` rows."""
    most_leaves = max(1, n_rows // rules.min_count)
    if rules.max_leaves:
        most_leaves = min(most_leaves, rules.max_leaves)
    if 0 <= rules.max_depth < 40:
        most_leaves = min(most_leaves, 2**rules.max_depth)
    return 2 * most_leaves + 1
