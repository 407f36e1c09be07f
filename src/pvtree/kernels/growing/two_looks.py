"""Ballots about many features, at boundaries between groups of bins: all get a first look, the best a closer one."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import BLOCK, N_BINS, ONE, ZERO
from pvtree.kernels.growing.constraints import set_limits
from pvtree.kernels.growing.records import (
    gains_of,
    in_tree_of,
    lane_sign_of,
    monotone_of,
    packed_of,
    rows_of,
    sums_of,
    words_of,
)
from pvtree.kernels.growing.sampled_gains import best_of_block, scale_rules, set_signs
from pvtree.kernels.growing.split import gain_of_score, node_score
from pvtree.kernels.intrinsics import prefetch
from pvtree.kernels.jit import njit

# A feature's bins fall into at most 15 groups, and missing values into group 0, so a byte has the groups of two
# features: of the lanes of two successive blocks. The bytes of a row stand next to each other, as all of them are used:
# 64 bytes, a line of the cache, are the groups of 128 features, whose histograms, laid out (group, lane), take 16 KB.
MOST_GROUPS = np.int64(15)
PAIR = 2 * BLOCK  # features of 16 bytes
LINE = np.int64(64)
PAIRS = LINE // BLOCK  # of a line
_HALF = (MOST_GROUPS + 1) * BLOCK
_LOW = np.intp(15)
# Shares of the rows after which a group ends: narrow ones at both ends, where few rows may gain much.
_ENDS = np.array([0.01, 0.03, 0.07, 0.13, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 0.97, 2.0])
_FREQUENT = 8  # a bin with 1/8 of the rows is a group of its own
_CHUNK = 2048  # rows that are packed together
_AHEAD = 32


@njit
def group_bins(counts, n_bins, groups):
    """groups[bin] = the bin's group, by the number of rows in each bin."""
    n_rows = counts[1 : n_bins + 1].sum()
    group, so_far, end, is_empty = ONE, ZERO, 0, True
    groups[0] = 0
    for b in range(1, n_bins + 1):
        if n_bins <= MOST_GROUPS:
            groups[b] = b
            continue
        if _FREQUENT * counts[b] >= n_rows and not is_empty:
            group = min(group + 1, MOST_GROUPS)
        groups[b] = group
        is_empty = False
        so_far += counts[b]
        is_end = False
        while so_far >= _ENDS[end] * n_rows and _ENDS[end] < 1.0:
            end, is_end = end + 1, True
        if is_end and group < MOST_GROUPS:
            group, is_empty = group + 1, True


@njit
def make_groups(start, stop, columns, n_bins, groups):
    """groups[feature, bin] of the features start:stop, by all rows of this worker."""
    counts = np.empty(N_BINS, np.int64)
    for feature in range(start, stop):
        counts[:] = 0
        for b in columns[feature]:
            counts[b] += 1
        group_bins(counts, n_bins[feature], groups[feature])


@njit
def pack_groups(start, stop, columns, groups, packed):
    """packed[row, pair * BLOCK + lane] = the groups of two features, 16 apart, in four bits each; rows start:stop."""
    nothing = np.zeros(N_BINS, np.uint8)
    n_features, n_bytes = len(columns), packed.shape[1]
    for first in range(start, stop, _CHUNK):
        last = min(first + _CHUNK, stop)
        for byte in range(n_bytes):
            low = byte // BLOCK * PAIR + byte % BLOCK
            high = low + BLOCK
            has_low, has_high = low < n_features, high < n_features
            low_groups, high_groups = groups[low] if has_low else nothing, groups[high] if has_high else nothing
            low_bins, high_bins = columns[low if has_low else 0], columns[high if has_high else 0]
            for row in range(first, last):
                packed[row, byte] = low_groups[low_bins[row]] | (high_groups[high_bins[row]] << np.uint8(4))


@njit
def add_groups(packed, line, n_pairs, rows, words, start, stop, hist):
    """hist[pair, half, group, lane], flat, += the words of rows[start:stop], for the pairs of blocks in one line."""
    for i in range(start, stop):
        prefetch(packed[np.intp(rows[min(i + _AHEAD, stop - 1)])], np.intp(line * LINE))
        own = packed[np.intp(rows[i])][line * LINE :]
        word = words[i]
        for pair in range(n_pairs):
            some, its = own[pair * BLOCK :], hist[2 * pair * _HALF :]
            for lane in range(BLOCK):
                both = np.intp(some[lane])
                its[(both & _LOW) * BLOCK + lane] += word
                its[(both & ~_LOW) + _HALF + lane] += word


@njit
def add_candidates(packed, features, rows, words, start, stop, hist):
    """hist[group, lane], flat, += the words of rows[start:stop], for one feature a lane."""
    byte, shift = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.uint8)
    for lane in range(BLOCK):
        byte[lane] = features[lane] // PAIR * BLOCK + features[lane] % BLOCK
        shift[lane] = features[lane] // BLOCK % 2 * 4
    for i in range(start, stop):
        ahead = packed[np.intp(rows[min(i + _AHEAD, stop - 1)])]
        prefetch(ahead, np.intp(byte[0]))
        prefetch(ahead, np.intp(byte[BLOCK - 1]))
        own, word = packed[np.intp(rows[i])], words[i]
        for lane in range(BLOCK):
            hist[(np.intp(own[byte[lane]] >> shift[lane]) & _LOW) * BLOCK + lane] += word


@njit
def look_first(start, stop, trees, families, nodes, n_own, packed, scratches):
    """Items start:stop: the gains of 128 features at one node, at boundaries between groups of bins."""
    rules, scratch = trees.copy(), scratches[0]
    tree = rules[0]
    in_tree, gains, n_lines = in_tree_of(tree), gains_of(tree), packed.shape[1] // LINE
    hist = packed_of(scratch)[: 2 * PAIRS * _HALF]
    for item in range(start, stop):
        family, line = families[item // n_lines], item % n_lines
        node = nodes[family.node]
        scale_rules(trees, node.stop - node.start, n_own[family.row], rules)
        hist[:] = 0
        begin = line * PAIRS * PAIR
        n_blocks = min(2 * PAIRS, (tree.n_features - begin + BLOCK - 1) // BLOCK)
        rows, words = rows_of(tree)[node.buffer], words_of(tree)[node.buffer]
        add_groups(packed, line, (n_blocks + 1) // 2, rows, words, node.start, node.stop, hist)
        sums = sums_of(tree)[family.node]
        own_score = node_score(sums, tree)
        for block in range(n_blocks):
            first = begin + block * BLOCK
            n_lanes = min(BLOCK, tree.n_features - first)
            set_signs(family.node, first, n_lanes, tree, scratch)
            scores = best_of_block(hist[block * _HALF :][:_HALF], MOST_GROUPS, ONE, sums, tree, scratch)
            for lane in range(n_lanes):
                if in_tree[first + lane]:
                    gains[family.row, first + lane] = gain_of_score(scores[lane], own_score, sums[0], tree)


@njit
def look_closely(start, stop, trees, families, nodes, n_own, candidates, packed, scratches):
    """Families start:stop: the gains of a node's candidates by more rows; no other feature has one.

    ``candidates`` are listed by row, in rising order; numbers beyond the last feature stand for none.
    """
    rules, scratch = trees.copy(), scratches[0]
    tree = rules[0]
    features = np.zeros(BLOCK, np.int64)
    hist = packed_of(scratch)[:_HALF]
    for i in range(start, stop):
        family = families[i]
        node = nodes[family.node]
        scale_rules(trees, node.stop - node.start, n_own[family.row], rules)
        sums, gains = sums_of(tree)[family.node], gains_of(tree)[family.row]
        own_score = node_score(sums, tree)
        its = candidates[family.row]
        n_candidates = np.searchsorted(its, tree.n_features)
        for first in range(0, n_candidates, BLOCK):
            n_lanes = min(BLOCK, n_candidates - first)
            for lane in range(BLOCK):  # lanes to spare repeat the last candidate
                features[lane] = its[first + min(lane, n_lanes - 1)]
            hist[:] = 0
            add_candidates(
                packed, features, rows_of(tree)[node.buffer], words_of(tree)[node.buffer], node.start, node.stop, hist
            )
            if tree.is_monotone:
                set_limits(family.node, tree, scratch)
                for lane in range(BLOCK):
                    lane_sign_of(scratch)[lane] = monotone_of(tree)[tree.first_feature + features[lane]]
            scores = best_of_block(hist, MOST_GROUPS, ONE, sums, tree, scratch)
            for lane in range(n_lanes):
                gains[features[lane]] = gain_of_score(scores[lane], own_score, sums[0], tree)
