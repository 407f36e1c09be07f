"""Histograms between workers: what one sends to the owner of some features, and how the owner adds it up."""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.constants import BLOCK, N_BINS, NONE, ONE, ZERO
from pvtree.kernels.growing.bundles import bins_of_codes, expand_alone, place_of
from pvtree.kernels.growing.collect import decode_feature
from pvtree.kernels.growing.few_features import add_up_few, can_add_few
from pvtree.kernels.growing.histogram import histogram_of_feature, pack_fields, unpack_add
from pvtree.kernels.growing.kept_histograms import copy_bins, kept_histogram
from pvtree.kernels.growing.records import (
    bins_of,
    bundles_of,
    columns_of,
    mask_of,
    n_bins_of,
    packed_of,
    plane_of,
    planes_of,
    rows_of,
    shift_of,
    wide_of,
    words_of,
)
from pvtree.kernels.jit import njit
from pvtree.kernels.wire.bits import get_bits, put_bits
from pvtree.kernels.wire.histograms import add_histogram, put_histogram
from pvtree.kernels.wire.rows import add_rows, arrange_rows, bits_of_rows, put_head, put_rows
from pvtree.kernels.wire.sparse_words import add_sparse, put_sparse

# A message has, node by node, the owner's features that travel. In plain form these are words. Else a bit says what
# follows: the node's rows (wire_rows.py: shorter where there are few), or its histograms, tightly packed (wire.py) or
# only their used bins (sparse_words.py). Both sides know the nodes and the features. Places in a message are bits.

TRAVELS = NONE  # as the parent of an item: every worker sends it; other items are differences
PLAIN, PACKED, SPARSE = (np.int64(form) for form in range(3))
WORD_BITS = np.int64(64)
# With more rows than this for every bin, histograms are always shorter than rows.
MOST_ROWS_PER_BIN = np.int64(4)
# About what gradients take: those of a row, and a bin of a histogram of some hundred rows.
_STATISTICS_BITS, _BIN_BITS = 22.0, 26.0


@njit
def find_features(row, to, owner, item_start, item_feature, item_parent, features, places):
    """List the features of a row that travel to worker ``to``, and the place of each among all that travel.

    Returns their number.
    """
    n, place = 0, ZERO
    for item in range(item_start[row], item_start[row + 1]):
        if item_parent[item] != TRAVELS:
            continue
        if owner[item_feature[item]] == to:
            features[n], places[n] = item_feature[item], place
            n += 1
        place += ONE
    return n


@njit
def find_all_features(row, item_start, item_feature, item_parent, features):
    """List the features of a row that travel to any worker; returns their number."""
    n = 0
    for item in range(item_start[row], item_start[row + 1]):
        if item_parent[item] == TRAVELS:
            features[n] = item_feature[item]
            n += 1
    return n


@njit
def local_histogram(node, feature, tree, nodes, scratch):
    """This worker's histogram of a feature at a node, kept or added up now: (array, base, step, is_wide)."""
    if nodes[node].slot >= 0:
        is_wide, step = nodes[node].is_wide, tree.kept_stride
        hist, n_words = kept_histogram(nodes[node].slot, is_wide, tree)
        base = bundles_of(tree)[feature] * n_words * step
        if tree.bundled:
            return expand_alone(hist, base, step, is_wide, feature, tree, scratch), ZERO, N_BINS, is_wide
        return hist, base, step, is_wide
    buffer, start, stop = nodes[node].buffer, nodes[node].start, nodes[node].stop
    rows, words = rows_of(tree)[buffer], words_of(tree)[buffer]
    planes = planes_of(tree)[buffer]
    packed = packed_of(scratch)
    wide = wide_of(scratch)
    packed[: tree.n_planes * N_BINS] = 0  # a node without rows here adds nothing up
    if tree.n_columns > 0:
        bins, bin_step, lane = columns_of(tree)[bundles_of(tree)[feature]], ONE, ZERO
    else:
        block, lane = place_of(feature, tree)
        bins, bin_step = bins_of(tree)[block], BLOCK
    is_wide = histogram_of_feature(bins, bin_step, lane, rows, words, planes, start, stop, tree, packed, wide)
    hist = wide if is_wide else packed
    if tree.bundled:
        hist = expand_alone(hist, ZERO, N_BINS, is_wide, feature, tree, scratch)
    return hist, ZERO, N_BINS, is_wide


@njit
def put_plain(fields, is_large, n_bins, tree, out, at):
    """Write a histogram as words, at word ``at``; returns the next word."""
    if is_large:
        for j in range(tree.n_fields):
            copy_bins(out, at + j * (n_bins + 1), fields, j * N_BINS, n_bins)
        return at + tree.n_fields * (n_bins + 1)
    pack_fields(fields, ZERO, N_BINS, n_bins + 1, tree, out, at, n_bins + 1)
    return at + tree.n_planes * (n_bins + 1)


@njit
def add_plain(data, at, is_large, n_bins, tree, sums, base):
    """Add what ``put_plain`` wrote to sums[base + field * N_BINS + bin]."""
    if is_large:
        for j in range(tree.n_fields):
            target, source = sums[base + j * N_BINS :][: n_bins + 1], data[at + j * (n_bins + 1) :][: n_bins + 1]
            for b in range(n_bins + 1):
                target[b] += source[b]
        return at + tree.n_fields * (n_bins + 1)
    unpack_add(data, at, n_bins + 1, n_bins + 1, tree, sums, base, N_BINS, ONE)
    return at + tree.n_planes * (n_bins + 1)


@njit
def write_histograms(node, features, places, added, form, at, tree, nodes, scratch, wire_scratch, words, bits):
    """Write the node's histograms of these features, in one of the three forms; returns the next bit.

    ``added`` is what ``add_up_few`` returned for all features that travel, or has no words if it was not called.
    """
    n_bins = n_bins_of(tree)
    if form != PACKED:
        at = (at + WORD_BITS - 1) // WORD_BITS
    all_of_node, apart, all_wide = added
    for i in range(len(features)):
        feature = features[i]
        if apart > 0:
            hist, base, step, is_wide = all_of_node, places[i] * apart, N_BINS, all_wide
        else:
            hist, base, step, is_wide = local_histogram(node, feature, tree, nodes, scratch)
        if form == SPARSE:
            at = put_sparse(hist, base, step, is_wide, n_bins[feature], tree, words, at)
            continue
        fields = decode_feature(hist, base, step, is_wide, n_bins[feature], tree, scratch)
        if form == PACKED:
            at = put_histogram(fields, tree.n_planes, tree.n_fields, n_bins[feature], bits, at, wire_scratch)
        else:
            at = put_plain(fields, nodes[node].n_rows > tree.capacity, n_bins[feature], tree, words, at)
    return at if form == PACKED else at * WORD_BITS


@njit
def gather_bins(node, features, tree, nodes, bins_of_rows):
    """bins_of_rows[f, i] = the bin of the node's i-th row in feature f."""
    bins = bins_of(tree)
    rows = rows_of(tree)[nodes[node].buffer, nodes[node].start : nodes[node].stop]
    bin_of = np.empty(N_BINS, np.uint8)
    for f in range(len(features)):
        block, lane = place_of(features[f], tree)
        block_bins = bins[block]
        for i in range(len(rows)):
            bins_of_rows[f, i] = block_bins[np.intp(rows[i]) * BLOCK + lane]
        if tree.bundled:
            bins_of_codes(features[f], tree, bin_of)
            for i in range(len(rows)):
                bins_of_rows[f, i] = bin_of[bins_of_rows[f, i]]


@njit
def are_rows_shorter(n_rows, n_features, n_bins):
    """Whether rows with gradients probably take fewer bits than their histograms."""
    n_used_bins = n_bins * (1.0 - math.exp(-n_rows / n_bins))
    return n_rows * (_STATISTICS_BITS + 8 * n_features) < n_features * n_used_bins * _BIN_BITS


@njit
def is_sent_as_rows(node, form, tree, nodes):
    """A row's gradient takes few bits more than its bin: shorter than a bin of a histogram."""
    are_gradients = mask_of(tree)[tree.n_values - 1] < 0
    return nodes[node].stop - nodes[node].start <= tree.stride and (are_gradients or form == SPARSE)


@njit
def write_node(
    node, features, places, added, form, at, tree, nodes, scratch, wire_scratch, rows_scratch, order, head, head_bits,
    words, bits,
):  # fmt: skip
    """Write one node's part of a message that is not plain: its rows or its histograms, whichever is shorter.

    ``order`` and ``head`` are the node's rows as ``arrange`` left them, if there are few enough. Returns the next bit.
    """
    n_rows = nodes[node].stop - nodes[node].start
    n_bins = n_bins_of(tree)[features]
    are_gradients = mask_of(tree)[tree.n_values - 1] < 0
    sends_rows = is_sent_as_rows(node, form, tree, nodes)
    may_send_rows = sends_rows or (form == PACKED and n_rows <= MOST_ROWS_PER_BIN * tree.stride)
    if are_gradients and may_send_rows and not sends_rows:
        # Writing both, to take the shorter one, would take twice as long.
        sends_rows = may_send_rows = are_rows_shorter(n_rows, len(features), np.float64(tree.stride))
    start = at
    if not sends_rows:
        at = put_bits(bits, start, ZERO, ONE)
        at = write_histograms(node, features, places, added, form, at, tree, nodes, scratch, wire_scratch, words, bits)
    if may_send_rows:
        bins_of_rows = np.empty((len(features), n_rows), np.uint8)
        gather_bins(node, features, tree, nodes, bins_of_rows)
        if sends_rows or bits_of_rows(head_bits, n_rows, bins_of_rows, n_bins, rows_scratch) < at - start - 1:
            at = put_bits(bits, start, ONE, ONE)
            at = put_rows(head, head_bits, order, n_rows, bins_of_rows, n_bins, bits, at, rows_scratch)
    return at


@njit
def arrange(node, tree, nodes, rows_scratch, arranged, head):
    """Prepare a node's rows for sending, once for all owners: arranged[0] is their order.

    ``head`` is what all of them get. Returns its bits.
    """
    start, stop, buffer = nodes[node].start, nodes[node].stop, nodes[node].buffer
    words = words_of(tree)[buffer, start:stop]
    planes = planes_of(tree)[buffer]
    if len(planes) > 0:
        planes = planes[start:stop]
    arrange_rows(
        words, planes, stop - start, plane_of(tree), shift_of(tree),
        mask_of(tree), arranged[0], arranged[1], arranged[2],
    )  # fmt: skip
    return put_head(arranged[1], arranged[2], stop - start, mask_of(tree), rows_scratch, head)


@njit
def write_messages(
    first_row, last_row, form, at, message_start, owner, row_node, item_start, item_feature, item_parent, trees, nodes,
    scratches, wire_scratch, rows_scratch, arranged, head, sums, words, bits,
):  # fmt: skip
    """Append the nodes of rows first_row:last_row to the messages for all workers.

    The message for worker m is at[m] bits long, of form[m], and begins at word message_start[m] of ``words`` and, the
    same memory, of ``bits``. ``sums`` has room for the histograms of a node that travel, packed and wide.
    """
    tree, scratch = trees[0], scratches[0]
    features, places = np.empty(tree.n_features, np.int64), np.empty(tree.n_features, np.int64)
    n_plain, own, packed_form = ZERO, ZERO, PLAIN
    for to in range(len(form)):
        if form[to] == PLAIN:
            n_plain, own = n_plain + ONE, np.int64(to)
        else:
            packed_form = form[to]
    for row in range(first_row, last_row):
        node = row_node[row]
        # Of a node whose rows travel instead, only this worker's own features are added up: their message is plain.
        only_own = n_plain == 1 and is_sent_as_rows(node, packed_form, tree, nodes)
        added = (sums, ZERO, ZERO)
        if can_add_few(node, tree, nodes):
            if only_own:
                n = find_features(row, own, owner, item_start, item_feature, item_parent, features, places)
            else:
                n = find_all_features(row, item_start, item_feature, item_parent, features)
            added = add_up_few(node, features[:n], tree, nodes, sums[: n * N_BINS], sums[n * N_BINS :])
        head_bits = ZERO
        if nodes[node].stop - nodes[node].start <= MOST_ROWS_PER_BIN * tree.stride:
            head_bits = arrange(node, tree, nodes, rows_scratch, arranged, head)
        for to in range(len(form)):
            n = find_features(row, to, owner, item_start, item_feature, item_parent, features, places)
            if n == 0:
                continue
            begin, end = message_start[to], message_start[to + 1]
            own_words, own_bits = words[begin:end], bits[begin:end]
            if only_own and to == own:
                for i in range(n):
                    places[i] = i
            if form[to] == PLAIN:
                at[to] = write_histograms(
                    node, features[:n], places, added, PLAIN, at[to], tree, nodes, scratch, wire_scratch, own_words,
                    own_bits,
                )  # fmt: skip
            else:
                at[to] = write_node(
                    node, features[:n], places, added, form[to], at[to], tree, nodes, scratch, wire_scratch,
                    rows_scratch, arranged[0], head, head_bits, own_words, own_bits,
                )  # fmt: skip


@njit
def add_node(form, at, features, is_large, tree, scratch, wire_scratch, rows_scratch, words, bits, sums):
    """Add one node's part of a message to sums[f, field, bin], flat; returns the next bit."""
    n_bins = n_bins_of(tree)
    step = tree.n_fields * N_BINS
    if form != PLAIN:
        are_rows = get_bits(bits, at, ONE)
        at += ONE
        if are_rows:
            return add_rows(
                bits, at, tree.n_planes, plane_of(tree), mask_of(tree),
                n_bins[features], sums, np.arange(len(features)) * step, N_BINS, rows_scratch,
            )  # fmt: skip
    if form != PACKED:
        at = (at + WORD_BITS - 1) // WORD_BITS
    packed = packed_of(scratch)
    for f in range(len(features)):
        most = n_bins[features[f]]
        if form == PACKED:
            at = add_histogram(bits, at, tree.n_planes, tree.n_fields, most, sums, f * step, N_BINS, wire_scratch)
        elif form == SPARSE:
            at = add_sparse(words, at, most, tree, packed, sums, f * step)
        else:
            at = add_plain(words, at, is_large, most, tree, sums, f * step)
    return at if form == PACKED else at * WORD_BITS


@njit
def to_plain(
    to, form, owner, row_node, item_start, item_feature, item_parent, trees, nodes, scratches, wire_scratch,
    rows_scratch, words, bits, sums, plain,
):  # fmt: skip
    """Rewrite a message of another form as plain words."""
    tree, scratch = trees[0], scratches[0]
    n_bins = n_bins_of(tree)
    features, places = np.empty(tree.n_features, np.int64), np.empty(tree.n_features, np.int64)
    step = tree.n_fields * N_BINS
    read, at = ZERO, ZERO
    for row in range(len(row_node)):
        n = find_features(row, to, owner, item_start, item_feature, item_parent, features, places)
        if n == 0:
            continue
        is_large = nodes[row_node[row]].n_rows > tree.capacity
        sums[: n * step] = 0
        read = add_node(
            form, read, features[:n], is_large, tree, scratch, wire_scratch, rows_scratch, words, bits, sums
        )  # fmt: skip
        for f in range(n):
            at = put_plain(sums[f * step :], is_large, n_bins[features[f]], tree, plain, at)


@njit
def keep_item(sums, base, is_wide, n_bins, tree, arena, place):
    """Store sums[base + field * N_BINS + bin] in the form of its node."""
    if is_wide:
        for j in range(tree.n_fields):
            copy_bins(arena, place + j * tree.stride, sums, base + j * N_BINS, n_bins)
    else:
        pack_fields(sums, base, N_BINS, n_bins + 1, tree, arena, place, tree.stride)


@njit
def read_messages(
    own, form, message_start, owner, row_node, item_start, item_feature, item_parent, item_place, trees, nodes,
    scratches, wire_scratch, rows_scratch, words, bits, sums, arena,
):  # fmt: skip
    """Add up the items of worker ``own`` that travelled: what all workers sent, itself included."""
    tree, scratch = trees[0], scratches[0]
    n_bins = n_bins_of(tree)
    features, places = np.empty(tree.n_features, np.int64), np.empty(tree.n_features, np.int64)
    step = tree.n_fields * N_BINS
    at = np.zeros(len(form), np.int64)
    for row in range(len(row_node)):
        n = find_features(row, own, owner, item_start, item_feature, item_parent, features, places)
        if n == 0:
            continue
        is_large = nodes[row_node[row]].n_rows > tree.capacity
        sums[: n * step] = 0
        for m in range(len(form)):
            begin, end = message_start[m], message_start[m + 1]
            at[m] = add_node(
                form[m], at[m], features[:n], is_large, tree, scratch, wire_scratch, rows_scratch, words[begin:end],
                bits[begin:end], sums,
            )  # fmt: skip
        f = 0
        for item in range(item_start[row], item_start[row + 1]):
            if item_place[item] >= 0 and item_parent[item] == TRAVELS:
                keep_item(sums, f * step, is_large, n_bins[item_feature[item]], tree, arena, item_place[item])
                f += 1
