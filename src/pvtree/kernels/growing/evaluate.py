"""One item of FindBestSplit: a block of features, or a few single ones, of the nodes under evaluation."""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.bounds.local import bound_feature, bound_lanes, can_bound_lanes
from pvtree.kernels.constants import BLOCK, ENTROPY, LANE_STRIDE, N_BINS, NONE, ONE, ZERO
from pvtree.kernels.growing.bundles import begin_expansion, expand_alone, expand_lanes, expanded_layout, place_of
from pvtree.kernels.growing.constraints import set_limits
from pvtree.kernels.growing.few_bins import is_few, least_score, may_split
from pvtree.kernels.growing.histogram import histogram_of_block, histogram_of_feature, pack_fields, unpack_add
from pvtree.kernels.growing.lanes import best_of_lanes
from pvtree.kernels.growing.records import WANT_GAINS, WANT_HISTOGRAMS
from pvtree.kernels.growing.split import best_split_of_feature, complete_split, gain_of_score, node_score
from pvtree.kernels.intrinsics import float64_at, int64_at, uint8_at, uint32_at, uint64_at
from pvtree.kernels.jit import njit

# Rows of a node from which on its features are searched side by side. With fewer, most bins are empty: then one feature
# after another is faster, which skips those.
LEAST_AT_ONCE = np.int64(192)
GROUP = np.int64(8)  # features that one thread takes at a time where features are looked at singly


@njit
def search_feature(hist, base, step, is_wide, feature, node, own_score, row, group, tree, best, scratch):
    """Keep the feature's best split if it beats the group's; ties go to the lower feature."""
    n_bins = int64_at(tree.n_bins, tree.n_features)[feature]
    is_categorical = uint8_at(tree.is_categorical, tree.n_features)[feature]
    sums = int64_at(tree.sums, (tree.n_nodes, tree.n_fields))[node]
    if tree.is_monotone:
        set_limits(node, tree, scratch)
        scratch.sign = float64_at(tree.monotone, tree.n_all_features)[tree.first_feature + feature]
    gain = best_split_of_feature(
        hist, base, step, is_wide, n_bins, is_categorical, sums, own_score, tree, scratch
    )  # fmt: skip
    if tree.wanted == WANT_GAINS:
        float64_at(tree.gains, (tree.n_evaluated, tree.n_features))[row, feature] = gain
    elif gain > best[row, group].gain or (
        gain == best[row, group].gain and gain > -math.inf and feature < best[row, group].feature
    ):
        complete_split(hist, base, step, is_wide, n_bins, is_categorical, sums, tree, scratch)
        best[row, group].gain = gain
        best[row, group].feature = feature
        best[row, group].split_bin = scratch.split_bin
        best[row, group].default_left = scratch.default_left
        at = row * tree.n_groups + group
        best_sums = int64_at(tree.best_sums, (tree.n_evaluated * tree.n_groups, tree.n_fields))
        best_set = uint64_at(tree.best_set, (tree.n_evaluated * tree.n_groups, 4))
        best_sums[at, :] = int64_at(scratch.found_sums, tree.n_fields)
        best_set[at, :] = uint64_at(scratch.found_set, 4)


@njit
def is_lower(feature, lane, features):
    return lane < 0 or feature < features[lane]


@njit
def search_lanes(hist, base, lane_step, features, n_lanes, node, own_score, least, row, tree, scratch):
    """All ordered features of some lanes at once. Returns the lane with the largest gain, of equals the lowest feature.

    -1 if none has at least ``least``.

    Where every feature's gain is wanted they are stored, and no lane needs a second look.
    """
    sums = int64_at(tree.sums, (tree.n_nodes, tree.n_fields))[node]
    in_tree = uint8_at(tree.in_tree, tree.n_features)
    allowed = uint8_at(tree.allowed, (tree.n_evaluated, tree.n_features))[row]
    is_categorical = uint8_at(tree.is_categorical, tree.n_features)
    if tree.is_monotone:
        set_limits(node, tree, scratch)
        monotone, sign = float64_at(tree.monotone, tree.n_all_features), float64_at(scratch.lane_sign, BLOCK)
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
            float64_at(tree.gains, (tree.n_evaluated, tree.n_features))[row, feature] = gain
        elif gain > best_gain or (gain == best_gain and gain > -math.inf and is_lower(feature, best_lane, features)):
            best_lane, best_gain = lane, gain
    return best_lane


@njit
def copy_bins(target, to, source, at, n_bins):
    target, source = target[to:][: n_bins + 1], source[at:][: n_bins + 1]
    for b in range(n_bins + 1):
        target[b] = source[b]


@njit
def subtract_bins(target, to, source, at, n_bins):
    target, source = target[to:][: n_bins + 1], source[at:][: n_bins + 1]
    for b in range(n_bins + 1):
        target[b] -= source[b]


@njit
def narrow_slot(slot, tree):
    """A kept histogram of packed words, (bundle, plane, kept_stride)."""
    return int64_at(tree.narrow_pool, (tree.n_narrow_slots, tree.n_bundles * tree.n_planes * tree.kept_stride))[slot]


@njit
def wide_slot(slot, tree):
    """A kept histogram of one int64 per field, (bundle, field, kept_stride)."""
    return int64_at(tree.wide_pool, (tree.n_wide_slots, tree.n_bundles * tree.n_fields * tree.kept_stride))[slot]


@njit
def store_histogram(lane, bundle, is_wide, slot, n_bins, tree, scratch):
    """Keep the node's histogram for its own children's subtraction."""
    if is_wide:
        pool = wide_slot(slot, tree)
        wide = int64_at(scratch.wide, BLOCK * tree.n_fields * N_BINS)
        for j in range(tree.n_fields):
            to = (bundle * tree.n_fields + j) * tree.kept_stride
            copy_bins(pool, to, wide, (lane * tree.n_fields + j) * N_BINS, n_bins)
    else:
        pool = narrow_slot(slot, tree)
        packed = int64_at(scratch.packed, tree.n_planes * BLOCK * LANE_STRIDE)
        for plane in range(tree.n_planes):
            to = (bundle * tree.n_planes + plane) * tree.kept_stride
            copy_bins(pool, to, packed, (plane * BLOCK + lane) * LANE_STRIDE, n_bins)


@njit
def subtract_narrow(lane, bundle, slot, n_bins, tree, scratch):
    """sibling = parent - node on packed words, in the parent's own place; returns (pool, base)."""
    pool = narrow_slot(slot, tree)
    packed = int64_at(scratch.packed, tree.n_planes * BLOCK * LANE_STRIDE)
    base = bundle * tree.n_planes * tree.kept_stride
    for plane in range(tree.n_planes):
        subtract_bins(pool, base + plane * tree.kept_stride, packed, (plane * BLOCK + lane) * LANE_STRIDE, n_bins)
    return pool, base


@njit
def subtract_wide(lane, bundle, is_wide, slot, n_bins, tree, scratch):
    """The same where the parent keeps one sum per field."""
    pool = wide_slot(slot, tree)
    base = bundle * tree.n_fields * tree.kept_stride
    if is_wide:
        wide = int64_at(scratch.wide, BLOCK * tree.n_fields * N_BINS)
        for j in range(tree.n_fields):
            subtract_bins(pool, base + j * tree.kept_stride, wide, (lane * tree.n_fields + j) * N_BINS, n_bins)
    else:
        packed = int64_at(scratch.packed, tree.n_planes * BLOCK * LANE_STRIDE)
        unpack_add(
            packed, lane * LANE_STRIDE, BLOCK * LANE_STRIDE, n_bins + 1, tree, pool, base, tree.kept_stride, NONE
        )
    return pool, base


@njit
def sibling_histogram(lane, bundle, is_wide, n_bins, family, tree, nodes, scratch):
    """The larger child's histogram by subtraction; returns (histogram, base, whether it is wide)."""
    if family.slot_wide == 0:
        hist, base = subtract_narrow(lane, bundle, family.slot, n_bins, tree, scratch)
        return hist, base, ZERO
    hist, base = subtract_wide(lane, bundle, is_wide, family.slot, n_bins, tree, scratch)
    own_slot = nodes[family.sibling].slot
    if own_slot < 0 or nodes[family.sibling].is_wide:
        return hist, base, ONE
    narrow = narrow_slot(own_slot, tree)
    narrow_base = bundle * tree.n_planes * tree.kept_stride
    pack_fields(hist, base, tree.kept_stride, n_bins + 1, tree, narrow, narrow_base, tree.kept_stride)
    return narrow, narrow_base, ZERO


@njit
def can_split(node, tree, nodes):
    """The opposite of the paper's StoppingCriteria, as far as rows and depth decide."""
    return nodes[node].n_rows >= 2 * tree.min_count and (tree.max_depth < 0 or nodes[node].depth < tree.max_depth)


@njit
def is_worth_keeping(node, tree, nodes):
    """Whether getting the node's histogram by subtraction, or keeping it for its children's, beats adding up rows.

    Histograms of many features go to memory and back, which takes as long as adding up some rows for every bin.
    """
    return nodes[node].stop - nodes[node].start >= tree.least_kept


@njit
def count_groups(tree):
    """Into how many groups of features the search at one node is divided."""
    return (tree.n_sampled + GROUP - 1) // GROUP if tree.singly else tree.n_blocks


@njit
def bound_group(
    hist, base, step, lane_step, is_wide, at_once, features, n_lanes, node, row, tree, scratch, values, aims
):
    """Store how much this worker's rows could contribute to the gain of each of some features."""
    in_tree, is_categorical = uint8_at(tree.in_tree, tree.n_features), uint8_at(tree.is_categorical, tree.n_features)
    allowed = uint8_at(tree.allowed, (tree.n_evaluated, tree.n_features))[row]
    at_once &= can_bound_lanes(tree)
    if at_once:
        bound_lanes(hist, base, lane_step, features, n_lanes, node, row, tree, scratch, values, aims)
    for lane in range(n_lanes):
        feature = features[lane]
        if in_tree[feature] and allowed[feature] and not (at_once and not is_categorical[feature]):
            bound_feature(
                hist, base + lane * lane_step, step, is_wide, feature, node, row, tree, scratch, values, aims
            )  # fmt: skip


@njit
def evaluate_group(item, tree, families, nodes, best, scratch, bounds):
    """One group of features for one family: add up a node's histograms, subtract for its sibling, search both.

    A group is a block; or, where so few features are looked at that subtraction does not pay, a few single ones.
    One function for both, because the search inside is large and would be compiled for each. ``bounds`` is None, or
    (values, aims) where the features' bounds are wanted too: see bounds.py.
    """
    family, group = families[item // count_groups(tree)], item % count_groups(tree)
    node, sibling = family.node, family.sibling
    best[family.row, group].gain = -math.inf
    if sibling >= 0:
        best[family.sibling_row, group].gain = -math.inf
    block_start = int64_at(tree.block_start, tree.n_blocks + 1)
    feature_start = int64_at(tree.feature_start, tree.n_blocks + 1)
    bins = uint8_at(tree.bins, (tree.n_blocks, tree.n_all_rows * BLOCK))
    in_tree = uint8_at(tree.in_tree, tree.n_features)
    is_categorical = uint8_at(tree.is_categorical, tree.n_features)
    last_code = int64_at(tree.last_code, tree.n_bundles)
    allowed = uint8_at(tree.allowed, (tree.n_evaluated, tree.n_features))
    features = int64_at(scratch.lane_feature, BLOCK)
    chosen = int64_at(tree.chosen, (tree.n_evaluated, tree.n_sampled))
    sums = int64_at(tree.sums, (tree.n_nodes, tree.n_fields))
    packed = int64_at(scratch.packed, tree.n_planes * BLOCK * LANE_STRIDE)
    wide = int64_at(scratch.wide, BLOCK * tree.n_fields * N_BINS)
    buffer, start, stop = nodes[node].buffer, nodes[node].start, nodes[node].stop
    rows, words = uint32_at(tree.rows, (2, tree.n_places))[buffer], int64_at(tree.words, (2, tree.n_places))[buffer]
    planes = uint8_at(tree.planes, (2, tree.n_places if tree.n_planes > 1 else 0))[buffer]
    searches = tree.wanted != WANT_HISTOGRAMS
    search_node = searches and nodes[node].is_open
    search_sibling = searches and sibling >= 0 and nodes[sibling].is_open
    own_score = node_score(sums[node], tree)
    sibling_score = node_score(sums[sibling], tree) if search_sibling else 0.0
    if tree.singly:
        first, n_lanes, is_wide = group * GROUP, min(GROUP, tree.n_sampled - group * GROUP), ZERO
    else:
        first = block_start[group]
        n_lanes = block_start[group + 1] - first
        is_wide = histogram_of_block(bins[group], n_lanes, rows, words, planes, start, stop, tree, packed, wide)
    for turn in range(2):  # the node itself, then its sibling
        if turn == 0:
            who, row, score, search, wide_now = node, family.row, own_score, search_node, is_wide
            hist, base, step, lane_step = packed, ZERO, BLOCK * LANE_STRIDE, LANE_STRIDE
            if tree.singly:
                step, lane_step = N_BINS, ZERO
            elif is_wide:
                hist, step, lane_step = wide, N_BINS, tree.n_fields * N_BINS
            if nodes[node].slot >= 0:
                for lane in range(n_lanes):
                    if tree.bundled or in_tree[first + lane]:
                        store_histogram(
                            lane, first + lane, is_wide, nodes[node].slot, last_code[first + lane], tree, scratch
                        )
        elif search_sibling:
            who, row, score, search = sibling, family.sibling_row, sibling_score, True
            for lane in range(n_lanes):
                if tree.bundled or in_tree[first + lane]:
                    hist, base, wide_now = sibling_histogram(
                        lane, first + lane, is_wide, last_code[first + lane], family, tree, nodes, scratch
                    )
                    step, lane_step = (
                        tree.kept_stride,
                        (tree.n_fields if wide_now else tree.n_planes) * tree.kept_stride,
                    )
                    base -= lane * lane_step
        else:
            break
        if not search:
            continue
        takes_apart, place, n_places, n_found = tree.bundled == 1 and tree.singly == 0, ZERO, ONE, n_lanes
        of_bundles, of_base, of_step, of_lane_step = hist, base, step, lane_step
        if takes_apart:
            place, n_places = feature_start[group], feature_start[group + 1]
            begin_expansion(hist, base, step, wide_now, last_code[first] + 1, tree, scratch)
            hist, base = int64_at(scratch.expanded, BLOCK * tree.n_fields * LANE_STRIDE), ZERO
            step, lane_step = expanded_layout(wide_now, tree)
        else:
            for lane in range(n_lanes):
                features[lane] = chosen[family.row, first + lane] if tree.singly else first + lane
        while place < n_places:  # 16 features at a time
            place += 1
            if takes_apart:
                takes_all = bounds is not None  # what has no split may have a bound
                place, n_found = expand_lanes(
                    place - 1, group, of_bundles, of_base, of_step, of_lane_step, wide_now, who, row, score,
                    best[row, group].gain, takes_all, tree, scratch,
                )  # fmt: skip
            at_once = not tree.singly and tree.criterion != ENTROPY and not wide_now
            if tree.wanted != WANT_GAINS:  # both ways find the same; ballots are only cast by this one
                at_once &= n_found > 12 and nodes[who].stop - nodes[who].start >= LEAST_AT_ONCE
            best_lane = NONE
            if at_once:
                best_lane = search_lanes(
                    hist, base, lane_step, features, n_found, who, score, best[row, group].gain, row, tree, scratch
                )
            for lane in range(n_found):
                feature = features[lane]
                if tree.singly:
                    if feature < 0:  # interaction constraints left fewer to draw
                        break
                    block, own_lane = place_of(feature, tree)
                    wide_now = histogram_of_feature(
                        bins[block], own_lane, rows, words, planes, start, stop, tree, packed, wide
                    )
                    hist = wide if wide_now else packed
                    if tree.bundled:
                        hist = expand_alone(hist, ZERO, N_BINS, wide_now, feature, tree, scratch)
                if not (in_tree[feature] and allowed[row, feature]):
                    continue
                if at_once and lane != best_lane and not is_categorical[feature]:
                    continue
                if takes_apart and not at_once and is_few(feature, tree):
                    # Most features of sparse data are not the best ones: a quick look spares them a close one.
                    least = least_score(score, best[row, group].gain, tree)
                    if not may_split(hist, base + lane * lane_step, step, wide_now, feature, sums[who], least, tree):
                        continue
                search_feature(
                    hist, base + lane * lane_step, step, wide_now, feature, who, score, row, group, tree, best, scratch
                )
            if bounds is not None:
                values, aims = bounds
                bound_group(
                    hist, base, step, lane_step, wide_now, at_once, features, n_found, who, row, tree, scratch, values,
                    aims,
                )  # fmt: skip
