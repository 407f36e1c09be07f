"""The records that kernels growing a tree share: numbers, and addresses of arrays that Python owns."""

from __future__ import annotations

from typing import Any

import numpy as np

_ADDRESS, _INT, _FLOAT = np.uint64, np.int64, np.float64

# What all threads growing a tree see. Addresses first, each with the shape of its array.
TREE = np.dtype(
    [
        ("bins", _ADDRESS),  # uint8 (n_blocks, n_all_rows * BLOCK)
        ("block_start", _ADDRESS),  # int64 (n_blocks + 1,)
        ("bundle_of", _ADDRESS),  # int64 (n_features,): this and the next five: see dtypes.Bundles; itself if none
        ("last_code", _ADDRESS),  # int64 (n_bundles,): n_bins where there are no bundles
        ("first_code", _ADDRESS),  # int64 (n_features,)
        ("n_codes", _ADDRESS),  # int64 (n_features,)
        ("usual_bin", _ADDRESS),  # int64 (n_features,)
        ("code_bin", _ADDRESS),  # uint8 (n_bundles, N_BINS)
        ("plan", _ADDRESS),  # int64 (n_features, 6): see bundles.py
        ("feature_start", _ADDRESS),  # int64 (n_blocks + 1,): where in the plan a block's features begin
        ("n_bins", _ADDRESS),  # int64 (n_features,)
        ("is_categorical", _ADDRESS),  # uint8 (n_features,)
        ("plane", _ADDRESS),  # int64 (n_values,): see dtypes.Layout
        ("shift", _ADDRESS),  # int64 (n_values,)
        ("mask", _ADDRESS),  # int64 (n_values,)
        ("rows", _ADDRESS),  # uint32 (2, n_places)
        ("words", _ADDRESS),  # int64 (2, n_places)
        ("planes", _ADDRESS),  # uint8 (2, n_places), or (2, 0) with a single plane
        ("side", _ADDRESS),  # uint8 (n_places,)
        ("goes_left", _ADDRESS),  # uint8 (N_BINS,): the split being applied, as a table
        ("chunk_left", _ADDRESS),  # int64 (n_chunks,): rows that go left, by chunk; then where they go
        ("narrow_pool", _ADDRESS),  # int64 (slots, n_bundles * n_planes * kept_stride): kept histograms
        ("wide_pool", _ADDRESS),  # int64 (slots, n_bundles * n_fields * kept_stride)
        ("free_slots", _ADDRESS),  # int64 (2, slots + 1): stacks of free slots, their heights in the last column
        ("tree_features", _ADDRESS),  # int64 (n_tree_features,): what this tree may use
        ("in_tree", _ADDRESS),  # uint8 (n_features,): the same as flags
        ("allowed", _ADDRESS),  # uint8 (n_evaluated, n_features): what the nodes under evaluation may use
        ("chosen", _ADDRESS),  # int64 (n_evaluated, n_sampled): the same as lists
        ("open_leaves", _ADDRESS),  # int64 (n_nodes,)
        ("sums", _ADDRESS),  # int64 (n_nodes, n_fields)
        # Constraints: see constraints.py.
        ("monotone", _ADDRESS),  # float64 (n_all_features,): 1, -1 or 0; empty where is_monotone is 0
        ("limits", _ADDRESS),  # float64 (n_nodes, 2): the lowest and the highest output of each node
        ("sets_of", _ADDRESS),  # uint64 (n_all_features, n_set_words): the sets that a feature is in, a bit each
        ("live_sets", _ADDRESS),  # uint64 (n_nodes, n_set_words): the sets with all features above a node
        ("left_sums", _ADDRESS),  # int64 (n_nodes, n_fields)
        ("left_set", _ADDRESS),  # uint64 (n_nodes, 4)
        ("best_sums", _ADDRESS),  # int64 (n_evaluated * n_groups, n_fields): of the candidates
        ("best_set", _ADDRESS),  # uint64 (n_evaluated * n_groups, 4)
        ("gains", _ADDRESS),  # float64 (n_evaluated, n_features): where every feature's gain is wanted
        ("table", _ADDRESS),  # float64: x log x of small counts
        ("sync", _ADDRESS),  # int64 (SYNC_SIZE,): see work_sharing
        ("n_blocks", _INT), ("n_features", _INT), ("n_all_rows", _INT), ("n_places", _INT),
        ("capacity", _INT), ("n_planes", _INT), ("n_values", _INT), ("n_fields", _INT), ("stride", _INT),
        ("n_narrow_slots", _INT), ("n_wide_slots", _INT), ("n_tree_features", _INT), ("n_groups", _INT),
        ("n_nodes", _INT), ("n_evaluated", _INT),
        ("bundled", _INT), ("n_bundles", _INT), ("kept_stride", _INT),  # n_features and stride where nothing is bundled
        ("is_monotone", _INT), ("n_set_words", _INT), ("n_all_features", _INT),  # those of other workers included
        ("first_feature", _INT),  # the number among all of this worker's own first one
        ("singly", _INT),  # 1: look at the chosen features one by one, keep no histograms
        ("least_kept", _INT),  # rows from which on a node's histogram is kept: see evaluate.is_worth_keeping
        ("most_boundaries", _INT),  # of a feature with more bins, some boundaries are left out: see split.boundary_step
        ("wanted", _INT),  # what an evaluation is to leave behind: see WANT_BEST and its like below
        # What decides about splits; the same numbers on every worker.
        ("criterion", _INT), ("hess_field", _INT),  # the field whose sum is the hessian; the count where it is constant
        ("grad_scale", _FLOAT), ("hess_scale", _FLOAT), ("reg_lambda", _FLOAT), ("reg_alpha", _FLOAT),
        ("min_count", _INT), ("min_hess", _FLOAT), ("min_gain", _FLOAT), ("gain_scale", _FLOAT),
        ("noise", _FLOAT),  # gains up to this, before scaling, may come from rounding alone
        ("cat_smooth", _FLOAT), ("cat_l2", _FLOAT), ("max_leaves", _INT), ("max_depth", _INT), ("key", np.uint64),
        ("n_sampled", _INT),  # features drawn anew at each node; 0: all of the tree's
        # Where growing stands: nodes made so far, leaves, leaves waiting to be split, the family under evaluation
        ("n_made", _INT), ("n_leaves", _INT), ("n_open", _INT), ("parent", _INT), ("left", _INT), ("right", _INT),
        ("n_families", _INT),
        # Operands of a partition.
        ("buffer", _INT), ("start", _INT), ("stop", _INT), ("block", _INT), ("lane", _INT), ("n_left", _INT),
    ],
    align=True,
)  # fmt: skip

# Of the features of a node under evaluation: the best split in each group, every feature's gain, or no search at
# all, only histograms.
WANT_BEST, WANT_GAINS, WANT_HISTOGRAMS = (np.int64(what) for what in range(3))

# A node while the tree grows. Children are made in pairs, the left one first; rows are rows[buffer, start:stop].
NODE = np.dtype(
    [
        ("start", _INT), ("stop", _INT), ("buffer", _INT), ("depth", _INT),
        ("n_rows", _INT),  # on all workers together
        ("is_open", _INT),  # 1: rows and depth allow a split, so one is searched for
        ("path", np.uint64),  # names the node by its way from the root
        ("slot", _INT), ("is_wide", _INT),  # where its histogram is kept (-1: nowhere), and in which pool
        ("left_child", _INT),  # 0 for a leaf
        ("gain", _FLOAT),  # of its best split, -inf without one
        ("feature", _INT), ("split_bin", _INT), ("default_left", _INT),
    ],
    align=True,
)  # fmt: skip

# Nodes evaluated together: one whose rows are added up, and its sibling, which follows from their parent by
# subtraction (-1 where it does not). ``row`` is a node's place among all nodes under evaluation.
FAMILY = np.dtype(
    [
        ("node", _INT), ("row", _INT), ("sibling", _INT), ("sibling_row", _INT),
        ("slot", _INT), ("slot_wide", _INT),  # where the parent's histogram is kept, -1: nowhere
    ],
    align=True,
)  # fmt: skip

# The best split of a node within one block or group of features.
CANDIDATE = np.dtype([("gain", _FLOAT), ("feature", _INT), ("split_bin", _INT), ("default_left", _INT)], align=True)

# Scratch of one thread.
SCRATCH = np.dtype(
    [
        ("packed", _ADDRESS),  # int64 (n_planes * BLOCK * LANE_STRIDE,)
        ("wide", _ADDRESS),  # int64 (BLOCK * n_fields * N_BINS,)
        ("fields", _ADDRESS),  # int64 (n_fields * N_BINS,): a categorical or many-class feature, decoded
        ("left", _ADDRESS),  # int64 (n_fields, N_BINS): left-hand sums at each boundary
        ("words", _ADDRESS),  # int64 (N_BINS,): the same, packed
        ("hess_left", _ADDRESS),  # float64 (N_BINS,): the same of hessians and of gradients, in quantized steps
        ("grad_left", _ADDRESS),
        ("place", _ADDRESS),  # int64 (N_BINS,): where a bin's sums go in left
        ("boundary", _ADDRESS),  # int64 (N_BINS,)
        ("order", _ADDRESS),  # int64 (N_BINS,): categories by their statistics
        ("natural_order", _ADDRESS),  # int64 (N_BINS,): 1, 2, ...
        ("scores", _ADDRESS),  # float64 (N_BINS,)
        ("tile", _ADDRESS),  # int64 (CHUNK * BLOCK,): see lanes.py
        ("tile_scores", _ADDRESS),  # float64 (CHUNK * BLOCK,)
        ("expanded", _ADDRESS),  # int64 (BLOCK * n_fields * LANE_STRIDE,): see bundles.py; empty without bundles
        ("totals", _ADDRESS),  # int64 (n_fields,)
        ("lane_feature", _ADDRESS),  # int64 (BLOCK,): the features that are looked at together
        ("lane_count", _ADDRESS),  # int64 (BLOCK,)
        ("lane_total", _ADDRESS),  # int64 (BLOCK,)
        ("lane_bin", _ADDRESS),  # int64 (BLOCK,)
        ("lane_best", _ADDRESS),  # float64 (BLOCK,)
        ("lane_below", _ADDRESS),  # float64 (BLOCK,)
        ("lane_sign", _ADDRESS),  # float64 (BLOCK,): the monotone constraint of each lane
        ("found_sums", _ADDRESS),  # int64 (n_fields,): left-hand sums of the split found last, ...
        ("found_set", _ADDRESS),  # uint64 (4,): ... its categories, ...
        ("split_bin", _INT), ("default_left", _INT),  # ... and the rest of it
        # With monotone constraints: limits of the node under search, and the sign of the feature.
        ("low", _FLOAT), ("high", _FLOAT), ("sign", _FLOAT),
    ],
    align=True,
)  # fmt: skip


def fill_record(dtype: np.dtype, values: dict[str, Any]) -> np.ndarray:
    """A record with one entry; arrays become their addresses and must be kept alive by the caller."""
    record = np.zeros(1, dtype)
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            if not value.flags.c_contiguous:
                raise AssertionError(f"kernel array {name} must be C-contiguous")
            value = value.ctypes.data
        record[name] = value
    return record
