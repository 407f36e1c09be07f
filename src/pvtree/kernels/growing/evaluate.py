"""One item of FindBestSplit: a block of features, or a few single ones, of the nodes under evaluation."""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.bounds.local import bound_feature, bound_lanes, can_bound_lanes
from pvtree.kernels.constants import BLOCK, ENTROPY, LANE_STRIDE, N_BINS, NONE, ONE, ZERO
from pvtree.kernels.growing.bundles import begin_expansion, expand_alone, expand_lanes, expanded_layout, place_of
from pvtree.kernels.growing.constraints import set_limits
from pvtree.kernels.growing.few_bins import may_gain
from pvtree.kernels.growing.histogram import histogram_of_block, histogram_of_feature
from pvtree.kernels.growing.kept_histograms import kept_histogram, sibling_slot, store_bundle, subtract_bundle
from pvtree.kernels.growing.lanes import best_of_lanes
from pvtree.kernels.growing.records import (
    WANT_BOUNDS,
    WANT_GAINS,
    WANT_HISTOGRAMS,
    allowed_of,
    best_set_of,
    best_sums_of,
    bins_of,
    block_start_of,
    chosen_of,
    expanded_of,
    feature_start_of,
    found_set_of,
    found_sums_of,
    gains_of,
    in_tree_of,
    is_categorical_of,
    lane_feature_of,
    lane_sign_of,
    last_code_of,
    monotone_of,
    n_bins_of,
    packed_of,
    planes_of,
    rows_of,
    sums_of,
    wide_of,
    words_of,
)
from pvtree.kernels.growing.spliced import spliced
from pvtree.kernels.growing.split import (
    best_split_of_feature,
    complete_split,
    copy_row,
    gain_of_score,
    node_score,
)
from pvtree.kernels.growing.split_options import best_split_with_options
from pvtree.kernels.growing.tiny_nodes import is_tiny, search_tiny_block, search_tiny_feature
from pvtree.kernels.jit import njit, shared
from pvtree.kernels.lazy import lazy

# Nodes with at least this many rows are searched side by side. In smaller ones most bins are empty, and searching one
# feature after another skips those.
LEAST_AT_ONCE = np.int64(192)
GROUP = np.int64(8)  # features that one thread takes at a time where they are searched singly


@shared
def search_feature(hist, base, step, is_wide, feature, node, own_score, row, group, tree, nodes, best, scratch):
    """Keep the feature's best split if it beats the group's; ties go to the lower feature."""
    n_bins = n_bins_of(tree)[feature]
    is_categorical = is_categorical_of(tree)[feature]
    sums = sums_of(tree)[node]
    if tree.is_monotone:
        set_limits(node, tree, scratch)
        scratch.sign = monotone_of(tree)[tree.first_feature + feature]
    if tree.has_options:
        gain = best_split_with_options(hist, base, step, is_wide, feature, node, own_score, tree, nodes, scratch)
    else:
        gain = best_split_of_feature(
            hist, base, step, is_wide, n_bins, is_categorical, sums, own_score, tree, scratch
        )  # fmt: skip
    if tree.wanted == WANT_GAINS:
        gains_of(tree)[row, feature] = gain
    elif gain > best[row, group].gain or (
        gain == best[row, group].gain and gain > -math.inf and feature < best[row, group].feature
    ):
        complete_split(hist, base, step, is_wide, n_bins, is_categorical, sums, tree, scratch)
        best[row, group].gain = gain
        best[row, group].feature = feature
        best[row, group].split_bin = scratch.split_bin
        best[row, group].default_left = scratch.default_left
        at = row * tree.n_groups + group
        copy_row(found_sums_of(scratch), best_sums_of(tree)[at])
        copy_row(found_set_of(scratch), best_set_of(tree)[at])


@njit
def is_lower(feature, lane, features):
    return lane < 0 or feature < features[lane]


@shared
def search_lanes(hist, base, lane_step, features, n_lanes, node, own_score, least, row, tree, scratch):
    """Search ordered features at once, one a lane; returns the lane of the largest gain, -1 if none reaches ``least``.

    Ties go to the lowest feature. Where every feature's gain is wanted, gains are stored and -1 is returned: no lane
    needs a closer look.
    """
    sums = sums_of(tree)[node]
    in_tree = in_tree_of(tree)
    allowed = allowed_of(tree)[row]
    is_categorical = is_categorical_of(tree)
    if tree.is_monotone:
        set_limits(node, tree, scratch)
        monotone, sign = monotone_of(tree), lane_sign_of(scratch)
        for lane in range(BLOCK):
            sign[lane] = monotone[tree.first_feature + features[lane]] if lane < n_lanes else 0.0
    scores = best_of_lanes(hist, base, lane_step, features, n_lanes, sums, tree, scratch)
    best_lane, best_gain = NONE, least
    for lane in range(n_lanes):
        feature = features[lane]
        if not in_tree[feature] or not allowed[feature] or is_categorical[feature]:
            continue
        gain = gain_of_score(scores[lane], own_score, sums[0], tree)
        if tree.wanted == WANT_GAINS:
            gains_of(tree)[row, feature] = gain
        elif gain > best_gain or (gain == best_gain and gain > -math.inf and is_lower(feature, best_lane, features)):
            best_lane, best_gain = lane, gain
    return best_lane


@njit
def count_groups(tree):
    """Into how many groups of features the search at one node is divided."""
    return (tree.n_sampled + GROUP - 1) // GROUP if tree.singly else tree.n_blocks


@njit
def bound_group(hist, base, step, lane_step, is_wide, at_once, features, n_lanes, node, row, tree, scratch, bounds):
    """Store how much this worker's rows could contribute to the gain of each of some features."""
    values, aims = bounds
    in_tree, is_categorical, allowed = in_tree_of(tree), is_categorical_of(tree), allowed_of(tree)[row]
    at_once &= can_bound_lanes(tree)
    if at_once:
        bound_lanes(hist, base, lane_step, features, n_lanes, node, row, tree, scratch, values, aims)
    for lane in range(n_lanes):
        feature = features[lane]
        if in_tree[feature] and allowed[feature] and not (at_once and not is_categorical[feature]):
            bound_feature(
                hist, base + lane * lane_step, step, is_wide, feature, node, row, tree, scratch, values, aims
            )  # fmt: skip


# ---- One item of an evaluation


@lazy()
def search_singly(node, row, group, tree, nodes, best, scratch):
    """Add up and search the group's drawn features one by one, where they are too few for subtraction to pay."""
    bins, chosen = bins_of(tree), chosen_of(tree)
    packed, wide = packed_of(scratch), wide_of(scratch)
    buffer, start, stop = nodes[node].buffer, nodes[node].start, nodes[node].stop
    rows, words, planes = rows_of(tree)[buffer], words_of(tree)[buffer], planes_of(tree)[buffer]
    own_score = node_score(sums_of(tree)[node], tree)
    for i in range(group * GROUP, min((group + 1) * GROUP, tree.n_sampled)):
        feature = chosen[row, i]
        if feature < 0:  # interaction constraints left fewer to draw
            break
        block, lane = place_of(feature, tree)
        if is_tiny(node, tree, nodes):
            search_tiny_feature(
                bins[block], BLOCK, lane, feature, node, own_score, row, group, tree, nodes, best, scratch
            )
            continue
        is_wide = histogram_of_feature(bins[block], BLOCK, lane, rows, words, planes, start, stop, tree, packed, wide)
        hist = wide if is_wide else packed
        if tree.bundled:
            hist = expand_alone(hist, ZERO, N_BINS, is_wide, feature, tree, scratch)
        search_feature(hist, ZERO, N_BINS, is_wide, feature, node, own_score, row, group, tree, nodes, best, scratch)


@spliced
def add_up_block(node, block, tree, nodes, scratch):
    """The node's histograms in one block, (histogram, step, lane_step, is_wide); they are kept if the node has a slot.

    Word j of bin b of lane l is hist[l * lane_step + j * step + b].
    """
    buffer, start, stop = nodes[node].buffer, nodes[node].start, nodes[node].stop
    rows, words, planes = rows_of(tree)[buffer], words_of(tree)[buffer], planes_of(tree)[buffer]
    packed, wide = packed_of(scratch), wide_of(scratch)
    block_start, last_code, in_tree = block_start_of(tree), last_code_of(tree), in_tree_of(tree)
    first, n_lanes = block_start[block], block_start[block + 1] - block_start[block]
    is_wide = histogram_of_block(bins_of(tree)[block], n_lanes, rows, words, planes, start, stop, tree, packed, wide)
    hist, step, lane_step = packed, BLOCK * LANE_STRIDE, LANE_STRIDE
    if is_wide:
        hist, step, lane_step = wide, N_BINS, tree.n_fields * N_BINS
    if nodes[node].slot >= 0:
        for lane in range(n_lanes):
            bundle = first + lane
            if tree.bundled or in_tree[bundle]:
                store_bundle(
                    hist, lane * lane_step, step, bundle, is_wide, nodes[node].slot, last_code[bundle], tree
                )  # fmt: skip
    return hist, step, lane_step, is_wide


@spliced
def subtract_block(hist, step, lane_step, is_wide, block, family, tree, nodes):
    """The sibling's histograms in one block, (histogram, base, step, lane_step, is_wide), where its parent's were."""
    block_start, last_code, in_tree = block_start_of(tree), last_code_of(tree), in_tree_of(tree)
    first, n_lanes = block_start[block], block_start[block + 1] - block_start[block]
    for lane in range(n_lanes):
        bundle = first + lane
        if tree.bundled or in_tree[bundle]:
            subtract_bundle(hist, lane * lane_step, step, is_wide, bundle, last_code[bundle], family, tree, nodes)
    slot, slot_wide = sibling_slot(family, nodes)
    kept, n_words = kept_histogram(slot, slot_wide, tree)
    return kept, first * n_words * tree.kept_stride, tree.kept_stride, n_words * tree.kept_stride, slot_wide


@spliced
def search_side_by_side(is_wide, n_found, node, tree, nodes):
    """Whether to search the features found at once, one a lane, and not one after another.

    Both ways find the same split, but only the first knows the boundaries of ballots.
    """
    is_possible = tree.criterion != ENTROPY and not is_wide and not tree.has_options
    if tree.wanted == WANT_GAINS or tree.wanted == WANT_BOUNDS:
        return is_possible
    return is_possible and n_found > 12 and nodes[node].stop - nodes[node].start >= LEAST_AT_ONCE


@spliced
def search_found(
    hist, base, step, lane_step, is_wide, at_once, n_found, node, own_score, row, group, tree, nodes, best, scratch
):
    """Search the ``n_found`` features of lane_feature, one a lane; their best split is kept if it beats the group's."""
    features, is_categorical = lane_feature_of(scratch), is_categorical_of(tree)
    in_tree, allowed, sums = in_tree_of(tree), allowed_of(tree)[row], sums_of(tree)[node]
    best_lane = NONE
    if at_once:
        best_lane = search_lanes(
            hist, base, lane_step, features, n_found, node, own_score, best[row, group].gain, row, tree, scratch
        )
    for lane in range(n_found):
        feature = features[lane]
        if not (in_tree[feature] and allowed[feature]):
            continue
        if at_once and lane != best_lane and not is_categorical[feature]:
            continue
        if tree.bundled and not at_once and not tree.has_options:
            # Most features of sparse data are not the best ones: a quick look spares them a close one.
            own, gain = base + lane * lane_step, best[row, group].gain
            if not may_gain(hist, own, step, is_wide, feature, sums, own_score, gain, tree):
                continue
        search_feature(
            hist, base + lane * lane_step, step, is_wide, feature, node, own_score, row, group, tree, nodes, best,
            scratch,
        )  # fmt: skip


@lazy()
def evaluate_group(item, tree, families, nodes, best, scratch, bounds):
    """One group of features for one family: add up a node's histograms, subtract for its sibling, search both.

    A group is a block; or, where so few features are drawn that subtraction does not pay, a few single ones.
    Apart from its callers, so that it is compiled once for all of them, by another process: see beside.py.
    ``bounds`` is None, or (values, aims) where the features' bounds are wanted too: see bounds.py.
    """
    family, group = families[item // count_groups(tree)], item % count_groups(tree)
    best[family.row, group].gain = -math.inf
    if family.sibling >= 0:
        best[family.sibling_row, group].gain = -math.inf
    if tree.singly:
        search_singly(family.node, family.row, group, tree, nodes, best, scratch)
        return
    if family.sibling < 0 and is_tiny(family.node, tree, nodes):
        search_tiny_block(family.node, family.row, group, tree, nodes, best, scratch)
        return
    features, first = lane_feature_of(scratch), block_start_of(tree)[group]
    own, own_step, own_lane_step, own_wide = add_up_block(family.node, group, tree, nodes, scratch)
    for turn in range(2):
        # The node itself, then its sibling. One loop, so that the search is compiled once for both.
        if turn == 0:
            node, row = family.node, family.row
            hist, base, step, lane_step, is_wide = own, ZERO, own_step, own_lane_step, own_wide
        else:
            node, row = family.sibling, family.sibling_row
        if tree.wanted == WANT_HISTOGRAMS or node < 0 or not nodes[node].is_open:
            continue
        if turn == 1:
            hist, base, step, lane_step, is_wide = subtract_block(
                own, own_step, own_lane_step, own_wide, group, family, tree, nodes
            )
        own_score = node_score(sums_of(tree)[node], tree)
        at, stop, n_found = ZERO, ONE, block_start_of(tree)[group + 1] - first
        bundled, bundled_base, bundled_step, bundled_lane_step = hist, base, step, lane_step
        if tree.bundled:
            at, stop = feature_start_of(tree)[group], feature_start_of(tree)[group + 1]
            begin_expansion(hist, base, step, is_wide, last_code_of(tree)[first] + 1, tree, scratch)
            hist, base = expanded_of(scratch), ZERO
            step, lane_step = expanded_layout(is_wide, tree)
        while at < stop:  # up to 16 features at a time
            if tree.bundled:
                at, n_found = expand_lanes(
                    at, group, bundled, bundled_base, bundled_step, bundled_lane_step, is_wide, node, row, own_score,
                    best[row, group].gain, bounds is not None or tree.has_options != 0, tree, scratch,
                )  # fmt: skip
            else:
                for lane in range(n_found):
                    features[lane] = first + lane
                at = stop
            at_once = search_side_by_side(is_wide, n_found, node, tree, nodes)
            if tree.wanted != WANT_BOUNDS:
                search_found(
                    hist, base, step, lane_step, is_wide, at_once, n_found, node, own_score, row, group, tree, nodes,
                    best, scratch,
                )  # fmt: skip
            if bounds is not None:
                bound_group(
                    hist, base, step, lane_step, is_wide, at_once, features, n_found, node, row, tree, scratch, bounds
                )
