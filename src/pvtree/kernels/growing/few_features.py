"""Histograms of a few of many features, from a second copy of the bins: by columns, or by rows.

Blocks of sixteen features are made for adding up all of them. A few are added up from columns, a line of which has the
bins of 64 successive rows, or from whole rows, a line of which has the bins of 64 successive features.
"""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import BLOCK, N_BINS, ONE, ZERO
from pvtree.kernels.growing.histogram import unpack_add
from pvtree.kernels.growing.records import columns_of, row_bins_of, rows_of, words_of
from pvtree.kernels.intrinsics import prefetch
from pvtree.kernels.jit import njit

_FOUR = np.int64(4)
LINE = np.int64(64)
_CHUNK = np.int64(1024)  # rows whose lines stay in the second-level cache until all features are added up
_AHEAD = 16


@njit
def add_four(columns, features, rows, words, start, stop, hist):
    """hist[lane * N_BINS + bin] += the words of rows[start:stop], for the first four features."""
    one, two, three, four = columns[features[0]], columns[features[1]], columns[features[2]], columns[features[3]]
    first, second, third, fourth = hist[:N_BINS], hist[N_BINS:], hist[2 * N_BINS :], hist[3 * N_BINS :]
    for i in range(start, stop):
        row, word = np.intp(rows[i]), words[i]
        first[one[row]] += word
        second[two[row]] += word
        third[three[row]] += word
        fourth[four[row]] += word


@njit
def add_one(column, rows, words, start, stop, hist):
    for i in range(start, stop):
        hist[column[np.intp(rows[i])]] += words[i]


@njit
def add_by_columns(features, rows, words, start, stop, tree, packed):
    """packed[i * N_BINS + bin] += the words of rows[start:stop], for all features."""
    columns, n = columns_of(tree), len(features)
    whole = n // _FOUR * _FOUR
    for i in range(0, whole, _FOUR):
        add_four(columns, features[i:], rows, words, start, stop, packed[i * N_BINS :])
    for i in range(whole, n):
        add_one(columns[features[i]], rows, words, start, stop, packed[i * N_BINS :])


@njit
def add_sixteen(row_bins, features, n_lanes, rows, words, start, stop, hist):
    """The same from rows, for up to sixteen features in rising order."""
    lines = np.empty(BLOCK, np.intp)  # one feature of each line that is read
    n_lines = 0
    for lane in range(n_lanes):
        if lane == 0 or features[lane] // LINE != features[lane - 1] // LINE:
            lines[n_lines] = features[lane]
            n_lines += 1
    last = len(rows) - 1
    for i in range(start, stop):
        ahead = row_bins[np.intp(rows[min(i + _AHEAD, last)])]
        for line in range(n_lines):
            prefetch(ahead, lines[line])
        own, word = row_bins[np.intp(rows[i])], words[i]
        for lane in range(n_lanes):
            hist[lane * N_BINS + np.intp(own[features[lane]])] += word


@njit
def add_by_rows(features, rows, words, start, stop, tree, packed):
    """As ``add_by_columns``."""
    row_bins, n = row_bins_of(tree), np.int64(len(features))
    for first in range(start, stop, _CHUNK):
        last = min(first + _CHUNK, stop)
        for i in range(0, n, BLOCK):
            add_sixteen(row_bins, features[i:], min(BLOCK, n - i), rows, words, first, last, packed[i * N_BINS :])


@njit
def add_up_few(node, features, tree, nodes, packed, wide):
    """Histograms of some features, in rising order, at a node: (array, words from one to the next, is_wide).

    For words of one plane, and features that are no bundles. A wide histogram is (field, bin).
    """
    buffer, start, stop = nodes[node].buffer, nodes[node].start, nodes[node].stop
    rows, words, n = rows_of(tree)[buffer], words_of(tree)[buffer], np.int64(len(features))
    is_wide, step = np.int64(stop - start > tree.capacity), tree.n_fields * N_BINS
    if is_wide:
        wide[: n * step] = 0
    packed[: n * N_BINS] = 0
    for chunk in range(start, stop, tree.capacity):
        end = min(chunk + tree.capacity, stop)
        if tree.n_columns > 0:
            add_by_columns(features, rows, words, chunk, end, tree, packed)
        else:
            add_by_rows(features, rows, words, chunk, end, tree, packed)
        if is_wide:
            for i in range(n):
                unpack_add(packed, i * N_BINS, N_BINS, N_BINS, tree, wide, i * step, N_BINS, ONE)
            packed[: n * N_BINS] = 0
    return (wide, step, is_wide) if is_wide else (packed, N_BINS, is_wide)


@njit
def can_add_few(node, tree, nodes):
    """Whether ``add_up_few`` can add up a node's features, and nobody has kept their histograms."""
    is_copied = tree.n_columns > 0 or tree.row_bytes > 0
    return is_copied and not tree.bundled and tree.n_planes == 1 and nodes[node].slot < ZERO
