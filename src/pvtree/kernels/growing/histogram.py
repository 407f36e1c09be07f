"""Histograms of a node's rows: one 64-bit addition per (row, feature), exact in any order of the rows."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import BLOCK, COUNT_BITS, LANE_STRIDE, N_BINS, ONE, ZERO
from pvtree.kernels.growing.records import mask_of, plane_of, shift_of
from pvtree.kernels.intrinsics import prefetch
from pvtree.kernels.jit import njit

_AHEAD = 32  # rows between the prefetch of a row's block and its use


def _adder(n_lanes):
    """A loop over rows with a constant number of lanes, so that the compiler unrolls the loop over lanes."""

    @njit
    def add_lanes(block_bins, rows, words, start, stop, packed):
        last = len(rows) - 1
        for i in range(start, stop):
            prefetch(block_bins, np.intp(rows[min(i + _AHEAD, last)]) * BLOCK)
            at = np.intp(rows[i]) * BLOCK
            word = words[i]
            for lane in range(n_lanes):
                packed[lane * LANE_STRIDE + block_bins[at + lane]] += word

    return add_lanes


_add_4, _add_8, _add_12, _add_16 = (_adder(np.int64(n_lanes)) for n_lanes in (4, 8, 12, 16))


@njit
def accumulate_block(block_bins, n_lanes, rows, words, planes, start, stop, packed):
    """Add the words of ``rows[start:stop]`` to ``packed``, laid out (plane, lane, LANE_STRIDE), for one block.

    Lanes past ``n_lanes`` hold bin 0; adding up some of them costs less than leaving them out.
    """
    if len(planes) > 0:  # several planes of classes
        last = len(rows) - 1
        for i in range(start, stop):
            prefetch(block_bins, np.intp(rows[min(i + _AHEAD, last)]) * BLOCK)
            at = np.intp(rows[i]) * BLOCK
            base = np.intp(planes[i]) * (BLOCK * LANE_STRIDE)
            for lane in range(n_lanes):
                packed[base + lane * LANE_STRIDE + block_bins[at + lane]] += words[i]
    elif n_lanes > 12:
        _add_16(block_bins, rows, words, start, stop, packed)
    elif n_lanes > 8:
        _add_12(block_bins, rows, words, start, stop, packed)
    elif n_lanes > 4:
        _add_8(block_bins, rows, words, start, stop, packed)
    else:
        _add_4(block_bins, rows, words, start, stop, packed)


@njit
def accumulate_feature(bins, step, lane, rows, words, planes, start, stop, packed):
    """The histogram of a single feature, laid out (plane, bin); for when few features are wanted.

    Row r's bin is bins[r * step + lane]: the lane of a block, or a column by itself.
    """
    last = len(rows) - 1
    if len(planes) > 0:
        for i in range(start, stop):
            prefetch(bins, np.intp(rows[min(i + _AHEAD, last)]) * step)
            bin_idx = bins[np.intp(rows[i]) * step + lane]
            packed[np.intp(planes[i]) * N_BINS + bin_idx] += words[i]
    else:
        for i in range(start, stop):
            prefetch(bins, np.intp(rows[min(i + _AHEAD, last)]) * step)
            packed[bins[np.intp(rows[i]) * step + lane]] += words[i]


# Loops over bins run on slices that begin at 0: with an offset inside the index, the compiler cannot rule out a
# negative one and does not vectorise.


@njit
def unpack_add(packed, base, step, n_bins, tree, wide, wide_base, wide_step, sign):
    """Decode ``n_bins`` packed bins and add them, times ``sign``, to one int64 sum per field."""
    count_mask = (1 << COUNT_BITS) - 1
    for p in range(tree.n_planes):
        words = packed[base + p * step :][:n_bins]
        sums = wide[wide_base + p * wide_step :][:n_bins]
        for b in range(n_bins):
            sums[b] += sign * (words[b] & count_mask)
    plane = plane_of(tree)
    shift = shift_of(tree)
    mask = mask_of(tree)
    for j in range(tree.n_values):
        words = packed[base + plane[j] * step :][:n_bins]
        sums = wide[wide_base + (tree.n_planes + j) * wide_step :][:n_bins]
        by, keep = shift[j], mask[j]
        for b in range(n_bins):
            sums[b] += sign * ((words[b] >> by) & keep)


@njit
def pack_fields(wide, wide_base, wide_step, n_bins, tree, packed, base, step):
    """The inverse of decoding, for a node that is small enough for packed words."""
    for p in range(tree.n_planes):
        words = packed[base + p * step :][:n_bins]
        sums = wide[wide_base + p * wide_step :][:n_bins]
        for b in range(n_bins):
            words[b] = sums[b]
    plane = plane_of(tree)
    shift = shift_of(tree)
    for j in range(tree.n_values):
        words = packed[base + plane[j] * step :][:n_bins]
        sums = wide[wide_base + (tree.n_planes + j) * wide_step :][:n_bins]
        by = shift[j]
        for b in range(n_bins):
            words[b] += sums[b] << by


@njit
def histogram_of_block(block_bins, n_lanes, rows, words, planes, start, stop, tree, packed, wide):
    """Histogram of a node in one block: packed if it fits, else flushed chunk by chunk into ``wide``.

    Returns 1 if the result is wide. ``wide`` is laid out (lane, field, bin).
    """
    used = tree.n_planes * BLOCK * LANE_STRIDE
    is_wide = np.int64(stop - start > tree.capacity)
    if is_wide:
        wide[: n_lanes * tree.n_fields * N_BINS] = 0
    if start == stop:  # one of several workers may have no rows in a node
        packed[:used] = 0
    for chunk in range(start, stop, tree.capacity):
        packed[:used] = 0
        accumulate_block(block_bins, n_lanes, rows, words, planes, chunk, min(chunk + tree.capacity, stop), packed)
        if is_wide:
            for lane in range(n_lanes):
                to = lane * tree.n_fields * N_BINS
                unpack_add(packed, lane * LANE_STRIDE, BLOCK * LANE_STRIDE, N_BINS, tree, wide, to, N_BINS, ONE)
    return is_wide


@njit
def histogram_of_feature(bins, step, lane, rows, words, planes, start, stop, tree, packed, wide):
    """As ``histogram_of_block`` for one feature: ``packed`` is (plane, bin), ``wide`` is (field, bin)."""
    is_wide = np.int64(stop - start > tree.capacity)
    if is_wide:
        wide[: tree.n_fields * N_BINS] = 0
    for chunk in range(start, stop, tree.capacity):
        packed[: tree.n_planes * N_BINS] = 0
        accumulate_feature(bins, step, lane, rows, words, planes, chunk, min(chunk + tree.capacity, stop), packed)
        if is_wide:
            unpack_add(packed, ZERO, N_BINS, N_BINS, tree, wide, ZERO, N_BINS, ONE)
    return is_wide
