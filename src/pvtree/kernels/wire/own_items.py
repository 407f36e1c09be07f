"""Histograms that would travel, on a worker that is alone: added up where they are kept."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import BLOCK, N_BINS, ZERO
from pvtree.kernels.growing.collect import decode_feature
from pvtree.kernels.growing.few_features import add_up_few, can_add_few
from pvtree.kernels.growing.kept_histograms import copy_bins
from pvtree.kernels.growing.records import n_bins_of, packed_of, wide_of
from pvtree.kernels.jit import njit
from pvtree.kernels.wire.messages import TRAVELS, keep_item, local_histogram


@njit
def add_own_items(start, stop, item_node, item_feature, item_parent, item_place, trees, nodes, arena, scratches):
    """Add up the items start:stop that would travel, where one worker has all rows."""
    tree, scratch = trees[0], scratches[0]
    n_bins = n_bins_of(tree)
    items, features = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    item = start
    while item < stop:
        node, n = item_node[item], 0  # up to sixteen items of the same node, for which a scratch has room
        while n < BLOCK and item < stop and item_node[item] == node:
            if item_parent[item] == TRAVELS:
                items[n], features[n] = item, item_feature[item]
                n += 1
            item += 1
        if n == 0:
            continue
        at_once, is_large = can_add_few(node, tree, nodes), nodes[node].n_rows > tree.capacity
        if at_once:
            some, apart, is_wide = add_up_few(
                node, features[:n], tree, nodes, packed_of(scratch), wide_of(scratch)
            )  # fmt: skip
        for i in range(n):
            feature, place = features[i], item_place[items[i]]
            if at_once:
                hist, base, step = some, i * apart, N_BINS
            else:
                hist, base, step, is_wide = local_histogram(node, feature, tree, nodes, scratch)
            if at_once and not is_wide:  # as it is kept
                copy_bins(arena, place, hist, base, n_bins[feature])
                continue
            fields = decode_feature(hist, base, step, is_wide, n_bins[feature], tree, scratch)
            keep_item(fields, ZERO, is_large, n_bins[feature], tree, arena, place)
