"""One tree from binned rows and their packed statistics: memory for the kernel, then a flat tree from its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pvtree.dtypes import BLOCK, LANE_STRIDE, N_BINS, BinnedRows, Layout
from pvtree.kernels.evaluate import GROUP
from pvtree.kernels.grow import grow_tree, walk_levels
from pvtree.kernels.memory import CANDIDATE, NODE, SCRATCH, TREE, fill_record
from pvtree.kernels.quantize import sum_words
from pvtree.kernels.route import CHUNK
from pvtree.kernels.split import TABLE_SIZE, fill_x_log_x
from pvtree.kernels.work_sharing import SYNC_SIZE
from pvtree.team import Team

_POOL_BYTES = 2**30  # histograms kept for subtraction; beyond it nodes are added up anew
# With fewer than this share of features looked at per node, adding them up singly beats subtraction: a single
# feature costs about three times as much a row as one of a block, and both children are added up, not the smaller.
# Trees without a leaf budget consist of small nodes, where rows cost little and every feature's bins much.
_SINGLY_BELOW = 1 / 6
_SINGLY_BELOW_UNLIMITED = 1 / 2


@dataclass(frozen=True)
class Rules:
    """What decides about splits, the same on every worker; names as in kernels.memory.TREE."""

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
    cat_smooth: float
    cat_l2: float
    max_leaves: int
    max_depth: int
    key: int
    n_sampled: int


@dataclass(frozen=True)
class GrownTree:
    """A tree in level order, in terms of bins; the last three say where its rows ended up."""

    feature: np.ndarray  # int64 (n_nodes,): -1 for a leaf
    split_bin: np.ndarray
    default_left: np.ndarray
    left_set: np.ndarray  # uint64 (n_nodes, 4)
    left_child: np.ndarray  # 0 for a leaf
    gain: np.ndarray
    sums: np.ndarray  # int64 (n_nodes, n_fields)
    leaf_order: np.ndarray  # leaves in the order of their rows' places
    leaf_stop: np.ndarray
    leaf_buffer: np.ndarray


class Grower:
    """Grows trees one after another on the same rows, reusing its memory."""

    def __init__(
        self, data: BinnedRows, layout: Layout, n_places: int, max_leaves: int, n_sampled: int, team: Team
    ) -> None:
        self.data, self.layout, self.team = data, layout, team
        n_features, n_fields = data.n_features, layout.n_fields
        n_groups = max(len(data.block_start) - 1, -(-n_sampled // int(GROUP)))
        singly = 0 < n_sampled < (_SINGLY_BELOW if max_leaves else _SINGLY_BELOW_UNLIMITED) * n_features
        table = np.empty(TABLE_SIZE)
        fill_x_log_x(table)
        self.rows = np.empty((2, n_places), np.uint32)
        self.words = np.empty((2, n_places), np.int64)
        self.planes = np.empty((2, n_places if layout.n_planes > 1 else 0), np.uint8)
        self.best = np.empty((2, n_groups), CANDIDATE)
        self.nodes = np.empty(0, NODE)
        # Held here because the records below only know addresses.
        self.arrays: dict[str, Any] = {
            **data._asdict(), "plane": layout.plane, "shift": layout.shift, "mask": layout.mask,
            "rows": self.rows, "words": self.words, "planes": self.planes,
            "side": np.empty(n_places, np.uint8), "goes_left": np.empty(N_BINS, np.uint8),
            "chunk_left": np.empty(n_places // CHUNK + 2, np.int64),
            "allowed": np.empty((2, n_features), np.uint8), "chosen": np.empty((2, n_sampled), np.int64),
            "best_sums": np.empty((2 * n_groups, n_fields), np.int64),
            "best_set": np.zeros((2 * n_groups, 4), np.uint64), "table": table,
            "n_blocks": len(data.block_start) - 1, "n_features": n_features, "n_all_rows": data.n_rows,
            "n_places": n_places, "capacity": layout.capacity, "n_planes": layout.n_planes,
            "n_values": len(layout.shift), "n_fields": n_fields,
            "stride": int(data.n_bins.max()) + 1, "n_groups": n_groups, "singly": int(singly),
            "tree_features": np.empty(n_features, np.int64), "in_tree": np.empty(n_features, np.uint8),
        }  # fmt: skip
        self.record: np.ndarray | None = None
        self._make_pools(n_places, max_leaves)
        self.scratch_arrays = [self._scratch_arrays() for _ in range(team.n_threads)]
        self.scratch = [fill_record(SCRATCH, arrays) for arrays in self.scratch_arrays]

    def _make_pools(self, n_places: int, max_leaves: int) -> None:
        """Room for the histograms of half the leaf budget; memory is only touched when used."""
        a, layout = self.arrays, self.layout
        slots = 0 if a["singly"] else max_leaves // 2 + 2 if max_leaves else 64
        narrow = a["n_features"] * layout.n_planes * a["stride"]
        wide = a["n_features"] * layout.n_fields * a["stride"]
        a["n_narrow_slots"] = min(slots, max(4, _POOL_BYTES // (8 * narrow)))
        a["n_wide_slots"] = min(slots, n_places // layout.capacity + 1, max(4, _POOL_BYTES // (8 * wide)))
        a["narrow_pool"] = np.empty((a["n_narrow_slots"], narrow), np.int64)
        a["wide_pool"] = np.empty((a["n_wide_slots"], wide), np.int64)
        a["free_slots"] = np.empty((2, max(a["n_narrow_slots"], a["n_wide_slots"]) + 1), np.int64)

    def _scratch_arrays(self) -> dict[str, np.ndarray]:
        n_fields = self.layout.n_fields
        return {
            "packed": np.empty(self.layout.n_planes * BLOCK * LANE_STRIDE, np.int64),
            "wide": np.empty(BLOCK * n_fields * N_BINS, np.int64),
            "fields": np.empty(n_fields * N_BINS, np.int64),
            "left": np.empty((n_fields, N_BINS), np.int64),
            **{name: np.empty(N_BINS, np.int64) for name in ("words", "boundary", "order", "place")},
            "natural_order": np.arange(1, N_BINS + 1),
            **{name: np.empty(N_BINS) for name in ("hess_left", "grad_left", "scores")},
            "found_sums": np.zeros(n_fields, np.int64),
            "found_set": np.zeros(4, np.uint64),
        }

    def _make_room(self, n_rows: int, rules: Rules) -> None:
        """Node arrays for the largest tree these rules allow, made once and again only if they must grow."""
        most_leaves = max(1, n_rows // rules.min_count)
        if rules.max_leaves:
            most_leaves = min(most_leaves, rules.max_leaves)
        if 0 <= rules.max_depth < 40:
            most_leaves = min(most_leaves, 2**rules.max_depth)
        n = 2 * most_leaves + 1
        if len(self.nodes) < n:
            n_fields = self.layout.n_fields
            self.nodes = np.zeros(n, NODE)
            self.arrays |= {
                "n_nodes": n, "open_leaves": np.empty(n, np.int64), "left_set": np.zeros((n, 4), np.uint64),
                "sums": np.empty((n, n_fields), np.int64), "left_sums": np.empty((n, n_fields), np.int64),
            }  # fmt: skip
            self.record = None

    def _tree_record(self, rules: Rules, tree_features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The shared record of one tree, with this grower's arrays and what is new for the tree, and its sync."""
        a = self.arrays
        if self.record is None:
            self.record = fill_record(TREE, a)
        a["tree_features"][: len(tree_features)] = tree_features
        a["in_tree"][:] = 0
        a["in_tree"][tree_features] = 1
        a["allowed"][:] = a["in_tree"]
        top = max(a["n_narrow_slots"], a["n_wide_slots"])
        a["free_slots"][:, :top] = np.arange(top)
        a["free_slots"][:, top] = a["n_narrow_slots"], a["n_wide_slots"]
        sync = np.zeros(SYNC_SIZE, np.int64)
        tree = self.record.copy()
        record = tree[0]
        record["sync"] = sync.ctypes.data
        record["n_tree_features"] = len(tree_features)
        for name, value in vars(rules).items():
            record[name] = value
        return tree, sync

    def add_up(self, n_rows: int) -> np.ndarray:
        """Sums by field over the first ``n_rows`` places of buffer 0."""
        layout = self.layout
        self.root_sums = np.zeros(layout.n_fields, np.int64)
        sum_words(
            self.words[0, :n_rows], self.planes[0, :n_rows], layout.capacity, layout.n_planes, layout.plane,
            layout.shift, layout.mask, self.root_sums,
        )  # fmt: skip
        return self.root_sums

    def grow(self, n_rows: int, rules: Rules, tree_features: np.ndarray) -> GrownTree:
        """Grow a tree on the first ``n_rows`` places of buffer 0 of ``rows``, ``words`` and ``planes``."""
        self._make_room(n_rows, rules)
        nodes = self.nodes
        self.arrays["sums"][0] = self.root_sums
        nodes[0] = (0, n_rows, 0, 0, 1, -1, 0, 0, -np.inf, 0, 0, 0)
        tree, sync = self._tree_record(rules, tree_features)

        held = (tree, sync)  # a thread that comes too late finds here that its tree is finished

        def help_growing(thread: int) -> None:
            grow_tree(held[0], nodes, self.best, self.scratch[thread], False)

        self.team.start_others(help_growing, work=n_rows * (rules.n_sampled or len(tree_features)))
        grow_tree(tree, nodes, self.best, self.scratch[0], True)
        return _in_level_order(nodes[: int(tree["n_made"][0])], self.arrays)


def _in_level_order(nodes: np.ndarray, arrays: dict[str, Any]) -> GrownTree:
    """Renumber nodes level by level: the same tree gets the same numbers whatever order it was grown in."""
    old = np.empty(len(nodes), np.int64)  # old[i]: the node that becomes i
    left_child = np.empty(len(nodes), np.int64)
    walk_levels(nodes, old, left_child)
    is_leaf = left_child == 0
    ordered = nodes[old]
    # No two leaves share a start: no split leaves a child empty.
    leaf_order = np.flatnonzero(is_leaf)
    leaf_order = leaf_order[np.argsort(ordered["start"][leaf_order])]
    leaves = ordered[leaf_order]
    return GrownTree(
        feature=np.where(is_leaf, -1, ordered["feature"]),
        split_bin=np.where(is_leaf, 0, ordered["split_bin"]),
        default_left=np.where(is_leaf, 0, ordered["default_left"]),
        left_set=arrays["left_set"][old],
        left_child=left_child,
        gain=np.where(is_leaf, 0.0, ordered["gain"]),
        sums=arrays["sums"][old],
        leaf_order=leaf_order,
        leaf_stop=leaves["stop"].copy(),
        leaf_buffer=leaves["buffer"].copy(),
    )
