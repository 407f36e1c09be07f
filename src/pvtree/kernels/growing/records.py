"""The records that kernels growing a tree share: numbers, and addresses of arrays that Python owns.

``sums_of(tree)`` and its like are the only views of these arrays: a wrong shape would be a wrong address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pvtree.kernels.constants import BLOCK, LANE_STRIDE, N_BINS
from pvtree.kernels.growing.record_arrays import RecordArrays
from pvtree.kernels.growing.work_sharing import SYNC_SIZE

_INT, _FLOAT, _BYTE, _BITS = np.int64, np.float64, np.uint8, np.uint64

# Boundaries of 16 lanes that are searched together: their sums and scores stay in the first-level cache. A group of
# bins that ballots may look into must not have more.
TILE_BOUNDARIES = np.int64(64)
TABLE_SIZE = np.int64(8193)  # x log x of counts up to MAX_CAPACITY is looked up

# ---- TREE: what all threads growing a tree see

_tree = RecordArrays(BLOCK=BLOCK, N_BINS=N_BINS, TABLE_SIZE=TABLE_SIZE, SYNC_SIZE=np.int64(SYNC_SIZE))

# The binned rows. The arrays from bundle_of to code_bin are described in dtypes.Bundles; without bundles every feature
# is a bundle of its own, and only bundle_of and last_code (which is then n_bins) are filled.
bins_of = _tree.declare("bins", _BYTE, "n_blocks", "n_all_rows * BLOCK")
block_start_of = _tree.declare("block_start", _INT, "n_blocks + 1")
bundles_of = _tree.declare("bundle_of", _INT, "n_features")
last_code_of = _tree.declare("last_code", _INT, "n_bundles")
first_code_of = _tree.declare("first_code", _INT, "n_features")
n_codes_of = _tree.declare("n_codes", _INT, "n_features")
usual_bin_of = _tree.declare("usual_bin", _INT, "n_features")
code_bin_of = _tree.declare("code_bin", _BYTE, "n_bundles", "N_BINS")
plan_of = _tree.declare("plan", _INT, "n_features", "6")  # columns: see bundles.py
feature_start_of = _tree.declare("feature_start", _INT, "n_blocks + 1")  # where a block's features begin in the plan
n_bins_of = _tree.declare("n_bins", _INT, "n_features")
is_categorical_of = _tree.declare("is_categorical", _BYTE, "n_features")
# The same bins once more, where a few features of a node are added up: by columns, or by rows; the other one is empty.
columns_of = _tree.declare("columns", _BYTE, "n_columns", "n_all_rows")
row_bins_of = _tree.declare("row_bins", _BYTE, "n_all_rows", "row_bytes")
# The layout of packed words: see dtypes.Layout.
plane_of = _tree.declare("plane", _INT, "n_values")
shift_of = _tree.declare("shift", _INT, "n_values")
mask_of = _tree.declare("mask", _INT, "n_values")
# The rows by place: a node's rows are next to each other. A split moves them from one buffer to the other.
rows_of = _tree.declare("rows", np.uint32, "2", "n_places")
words_of = _tree.declare("words", _INT, "2", "n_places")
planes_of = _tree.declare("planes", _BYTE, "2", "n_plane_places")  # n_places, or 0 with a single plane
side_of = _tree.declare("side", _BYTE, "n_places")  # 1: goes left
goes_left_of = _tree.declare("goes_left", _BYTE, "N_BINS")  # the split being applied, as a table
chunk_left_of = _tree.declare("chunk_left", _INT, "n_chunks")  # by chunk: rows that go left, then where they go
# Kept histograms, and a stack of free slots for each of the two pools (narrow, wide) with its height.
narrow_pool_of = _tree.declare("narrow_pool", _INT, "n_narrow_slots", "n_bundles * n_planes * kept_stride")
wide_pool_of = _tree.declare("wide_pool", _INT, "n_wide_slots", "n_bundles * n_fields * kept_stride")
free_slots_of = _tree.declare("free_slots", _INT, "2", "n_slots")
n_free_of = _tree.declare("n_free", _INT, "2")
# Features that the tree may use, as a list of n_tree_features and as flags; and those that the nodes under evaluation
# may use, as flags and, of drawn ones, as lists.
tree_features_of = _tree.declare("tree_features", _INT, "n_features")
in_tree_of = _tree.declare("in_tree", _BYTE, "n_features")
allowed_of = _tree.declare("allowed", _BYTE, "n_evaluated", "n_features")
chosen_of = _tree.declare("chosen", _INT, "n_evaluated", "n_sampled")
# Nodes: sums by field, and the left-hand sums and categories of the best split.
open_leaves_of = _tree.declare("open_leaves", _INT, "n_nodes")
sums_of = _tree.declare("sums", _INT, "n_nodes", "n_fields")
left_sums_of = _tree.declare("left_sums", _INT, "n_nodes", "n_fields")
left_set_of = _tree.declare("left_set", _BITS, "n_nodes", "4")
# Constraints: see constraints.py.
monotone_of = _tree.declare("monotone", _FLOAT, "n_all_features")  # 1, -1 or 0; empty where is_monotone is 0
limits_of = _tree.declare("limits", _FLOAT, "n_nodes", "2")  # the lowest and the highest output of each node
feature_sets_of = _tree.declare("sets_of", _BITS, "n_all_features", "n_set_words")  # sets with a feature, a bit each
live_sets_of = _tree.declare("live_sets", _BITS, "n_nodes", "n_set_words")  # sets with all features above a node
# Options of the search: see split_options.py. By feature, the factor of its gains and the cost of its first use.
factor_of = _tree.declare("factor", _FLOAT, "n_option_features")
cost_of = _tree.declare("cost", _FLOAT, "n_option_features")
smooth_of = _tree.declare("smooth", _FLOAT, "n_nodes", "2")  # a node's smoothed output, and what that costs its score
# What an evaluation finds: a candidate for each node and group of features, or every feature's gain.
best_sums_of = _tree.declare("best_sums", _INT, "n_evaluated * n_groups", "n_fields")
best_set_of = _tree.declare("best_set", _BITS, "n_evaluated * n_groups", "4")
gains_of = _tree.declare("gains", _FLOAT, "n_evaluated", "n_features")
table_of = _tree.declare("table", _FLOAT, "TABLE_SIZE")  # x log x of small counts
sync_of = _tree.declare("sync", _INT, "SYNC_SIZE")  # see work_sharing.py

TREE = np.dtype(
    [
        *_tree.addresses(),
        ("n_blocks", _INT), ("n_features", _INT), ("n_all_rows", _INT), ("n_places", _INT), ("n_plane_places", _INT),
        ("n_chunks", _INT), ("n_columns", _INT), ("row_bytes", _INT),
        ("capacity", _INT), ("n_planes", _INT), ("n_values", _INT), ("n_fields", _INT),
        ("stride", _INT), ("n_narrow_slots", _INT), ("n_wide_slots", _INT), ("n_slots", _INT),  # the larger of both
        ("n_tree_features", _INT), ("n_groups", _INT), ("n_nodes", _INT), ("n_evaluated", _INT),
        ("bundled", _INT), ("n_bundles", _INT), ("kept_stride", _INT),  # n_features and stride where nothing is bundled
        ("is_monotone", _INT), ("n_set_words", _INT), ("n_all_features", _INT),  # including those of other workers
        ("first_feature", _INT),  # the number of this worker's first feature among all
        ("singly", _INT),  # 1: search the chosen features one by one, keep no histograms
        ("keeps_leaves", _INT),  # 1: also keep histograms of nodes whose children cannot be split
        ("tiny_rows", _INT),  # nodes of up to this many rows are searched without histograms: see tiny_nodes.py
        ("least_kept", _INT),  # rows from which on a node's histogram is kept: see families.is_worth_keeping
        ("most_boundaries", _INT),  # a feature with more bins is searched at some of them: see collect.boundary_step
        ("wanted", _INT),  # what an evaluation leaves behind: WANT_BEST and its like, below
        # What decides about splits; the same numbers on every worker.
        ("criterion", _INT), ("hess_field", _INT),  # the field whose sum is the hessian; the count where it is constant
        ("grad_scale", _FLOAT), ("hess_scale", _FLOAT), ("reg_lambda", _FLOAT), ("reg_alpha", _FLOAT),
        ("min_count", _INT), ("min_hess", _FLOAT), ("min_gain", _FLOAT), ("gain_scale", _FLOAT),
        ("noise", _FLOAT),  # gains up to this, before scaling, may come from rounding alone
        ("max_output", _FLOAT),  # the largest magnitude of a leaf's output in steps; inf without a limit
        ("cat_smooth", _FLOAT), ("cat_l2", _FLOAT), ("max_leaves", _INT), ("max_depth", _INT), ("key", np.uint64),
        ("n_sampled", _INT),  # features drawn at each node; 0: all of its level's
        ("n_level", _INT),  # features drawn at each level; 0: all of the tree's
        ("depthwise", _INT),  # 1: of the open leaves the oldest is split first, not the one that gains most
        # Options of the search: see split_options.py.
        ("has_options", _INT), ("n_option_features", _INT),
        ("is_extra", _INT), ("extra_key", np.uint64), ("path_smooth", _FLOAT), ("monotone_base", _FLOAT),
        ("row_cost", _FLOAT), ("cost_share", _FLOAT),  # 1; on one of n workers alone 1 / n
        ("max_onehot", _INT), ("max_cat_threshold", _INT), ("min_group", _INT),
        # The state of growing: nodes made, leaves, leaves waiting to be split, and the family under evaluation.
        ("n_made", _INT), ("n_leaves", _INT), ("n_open", _INT), ("parent", _INT), ("left", _INT), ("right", _INT),
        ("n_families", _INT),
        # Operands of a partition.
        ("buffer", _INT), ("start", _INT), ("stop", _INT), ("block", _INT), ("lane", _INT), ("n_left", _INT),
    ],
    align=True,
)  # fmt: skip

# What an evaluation leaves behind for each node: the best split of each group of features, the gain of every feature,
# or only histograms, without any search.
WANT_BEST, WANT_GAINS, WANT_HISTOGRAMS, WANT_BOUNDS = (np.int64(what) for what in range(4))

# A node while the tree grows. Children are made in pairs, the left one first; rows are rows[buffer, start:stop].
NODE = np.dtype(
    [
        ("start", _INT), ("stop", _INT), ("buffer", _INT), ("depth", _INT),
        ("n_rows", _INT),  # on all workers together
        ("is_open", _INT),  # 1: rows and depth allow a split, so one is searched for
        ("path", np.uint64),  # names the node by its path from the root
        ("slot", _INT), ("is_wide", _INT),  # where its histogram is kept (-1: nowhere), and in which pool
        ("left_child", _INT),  # 0 for a leaf
        ("gain", _FLOAT),  # of its best split, -inf without one
        ("feature", _INT), ("split_bin", _INT), ("default_left", _INT),
    ],
    align=True,
)  # fmt: skip

# Nodes evaluated together: one whose rows are added up, and its sibling, which follows from their parent by
# subtraction (-1: none does). ``row`` is a node's place among all nodes under evaluation.
FAMILY = np.dtype(
    [
        ("node", _INT), ("row", _INT), ("sibling", _INT), ("sibling_row", _INT),
        ("slot", _INT), ("slot_wide", _INT),  # where the parent's histogram is kept, -1: nowhere
    ],
    align=True,
)  # fmt: skip

# The best split of a node within one block or group of features.
CANDIDATE = np.dtype([("gain", _FLOAT), ("feature", _INT), ("split_bin", _INT), ("default_left", _INT)], align=True)

# ---- SCRATCH: working memory of one thread

_scratch = RecordArrays(BLOCK=BLOCK, N_BINS=N_BINS, LANE_STRIDE=LANE_STRIDE, TILE=TILE_BOUNDARIES * BLOCK)

# The histograms of a block: packed words (plane, lane, bin), or one int64 per field (lane, field, bin).
packed_of = _scratch.declare("packed", _INT, "n_planes * BLOCK * LANE_STRIDE")
wide_of = _scratch.declare("wide", _INT, "n_fields * BLOCK * N_BINS")
expanded_of = _scratch.declare("expanded", _INT, "n_fields * BLOCK * LANE_STRIDE")  # see bundles.py; empty without
totals_of = _scratch.declare("totals", _INT, "n_fields")
fields_of = _scratch.declare("fields", _INT, "n_fields * N_BINS")  # a categorical or many-class feature, decoded
# The sums left of each boundary of a feature: by field, packed, and as hessians and gradients in quantized steps.
left_of = _scratch.declare("left", _INT, "n_fields", "N_BINS")
word_left_of = _scratch.declare("word_left", _INT, "N_BINS")
hess_left_of = _scratch.declare("hess_left", _FLOAT, "N_BINS")
grad_left_of = _scratch.declare("grad_left", _FLOAT, "N_BINS")
boundary_of = _scratch.declare("boundary", _INT, "N_BINS")
bin_place_of = _scratch.declare("bin_place", _INT, "N_BINS")  # where a bin's sums go in left
order_of = _scratch.declare("order", _INT, "N_BINS")  # categories by their statistics
natural_order_of = _scratch.declare("natural_order", _INT, "N_BINS")  # 1, 2, ...
scores_of = _scratch.declare("scores", _FLOAT, "N_BINS")
# Features that are searched together, one a lane: see lanes.py.
tile_of = _scratch.declare("tile", _INT, "TILE")
tile_scores_of = _scratch.declare("tile_scores", _FLOAT, "TILE")
lane_feature_of = _scratch.declare("lane_feature", _INT, "BLOCK")
lane_count_of = _scratch.declare("lane_count", _INT, "BLOCK")
lane_total_of = _scratch.declare("lane_total", _INT, "BLOCK")
lane_bin_of = _scratch.declare("lane_bin", _INT, "BLOCK")
lane_best_of = _scratch.declare("lane_best", _FLOAT, "BLOCK")
lane_below_of = _scratch.declare("lane_below", _FLOAT, "BLOCK")
lane_sign_of = _scratch.declare("lane_sign", _FLOAT, "BLOCK")  # the monotone constraint of each lane
# The split found last: its left-hand sums, its categories and, in SCRATCH, the rest of it.
found_sums_of = _scratch.declare("found_sums", _INT, "n_fields")
found_set_of = _scratch.declare("found_set", _BITS, "4")

SCRATCH = np.dtype(
    [
        *_scratch.addresses(),
        ("n_planes", _INT), ("n_fields", _INT), ("split_bin", _INT), ("default_left", _INT),
        # With monotone constraints: limits of the node under search, and the sign of the feature.
        ("low", _FLOAT), ("high", _FLOAT), ("sign", _FLOAT),
    ],
    align=True,
)  # fmt: skip


def fill_record(dtype: np.dtype, values: dict[str, Any]) -> np.ndarray:
    """A record with one entry; arrays become their addresses and must be kept alive by the caller."""
    record = np.zeros(1, dtype)
    set_fields(record, values, values)
    return record


def set_fields(record: np.ndarray, values: Mapping[str, Any], numbers: Mapping[str, Any]) -> None:
    """Set some fields of a record; ``numbers`` are those from which the shapes of arrays follow."""
    arrays = _tree if record.dtype == TREE else _scratch
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            arrays.check(name, value, numbers)
            value = value.ctypes.data
        record[name] = value
