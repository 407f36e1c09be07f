"""Histograms of a few features from their columns: a row's word is read once for four of them."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import N_BINS, ONE, ZERO
from pvtree.kernels.growing.histogram import unpack_add
from pvtree.kernels.growing.records import columns_of, packed_of, rows_of, wide_of, words_of
from pvtree.kernels.jit import njit

AT_ONCE = np.int64(4)


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
def add_up_columns(node, features, tree, nodes, scratch):
    """Histograms of four features at a node: (array, words from one to the next, is_wide), each (field, bin) if wide.

    For words of one plane, and columns that are no bundles.
    """
    buffer, start, stop = nodes[node].buffer, nodes[node].start, nodes[node].stop
    rows, words = rows_of(tree)[buffer], words_of(tree)[buffer]
    packed, wide = packed_of(scratch)[: AT_ONCE * N_BINS], wide_of(scratch)
    is_wide, step = np.int64(stop - start > tree.capacity), tree.n_fields * N_BINS
    if is_wide:
        wide[: AT_ONCE * step] = 0
    packed[:] = 0
    for chunk in range(start, stop, tree.capacity):
        add_four(columns_of(tree), features, rows, words, chunk, min(chunk + tree.capacity, stop), packed)
        if is_wide:
            for lane in range(AT_ONCE):
                unpack_add(packed, lane * N_BINS, N_BINS, N_BINS, tree, wide, lane * step, N_BINS, ONE)
            packed[:] = 0
    return (wide, step, is_wide) if is_wide else (packed, N_BINS, is_wide)


@njit
def can_add_columns(node, tree, nodes):
    """Whether ``add_up_columns`` can add up a node's features, and nobody has kept their histograms."""
    return tree.n_columns > 0 and not tree.bundled and tree.n_planes == 1 and nodes[node].slot < ZERO
