"""What lies left of each boundary between a feature's bins: the sums from which split.py computes scores."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import COUNT_BITS, N_BINS, ONE, ZERO
from pvtree.kernels.elementary import TWO_52_BITS, float_from_bits, inlined
from pvtree.kernels.growing.histogram import unpack_add
from pvtree.kernels.growing.records import (
    bin_place_of,
    boundary_of,
    fields_of,
    grad_left_of,
    hess_left_of,
    left_of,
    mask_of,
    shift_of,
    word_left_of,
)
from pvtree.kernels.jit import njit

_COUNT_MASK = (1 << COUNT_BITS) - 1
_SIGN = np.uint64(1 << 63)


@njit
def decode_feature(hist, base, step, is_wide, n_bins, tree, scratch):
    """The feature's bins as one int64 per field, in the scratch: field j of bin b is fields[j * N_BINS + b]."""
    fields = fields_of(scratch)
    fields[:] = 0
    if is_wide:
        for j in range(tree.n_fields):
            for b in range(n_bins + 1):
                fields[j * N_BINS + b] = hist[base + j * step + b]
    else:
        unpack_add(hist, base, step, n_bins + 1, tree, fields, ZERO, N_BINS, ONE)
    return fields


@njit
def boundary_step(n_bins, tree):
    """An ordered feature is searched at the boundary after every so many bins, where gradients decide.

    Inside a group of bins that has many of the node's rows, all boundaries are searched: see ``heavy_from``.
    """
    return max(1, -(-n_bins // tree.most_boundaries))


@njit
def heavy_from(n_rows):
    """A group of bins with at least this many rows, over 1/8 of all, is searched at all its boundaries.

    That is far above what chance gives to one of 64 groups, even in small nodes, so few features have such a group.
    """
    return n_rows // 8 + 1


@njit
def gradient_bits(tree):
    """(shift and mask of the hessian, shift of the gradient) in a packed word."""
    hess_at = tree.hess_field - 1  # -1: the count, in the lowest bits
    shift, mask = shift_of(tree), mask_of(tree)
    h_shift, h_mask = (shift[hess_at], mask[hess_at]) if hess_at >= 0 else (ZERO, np.int64(_COUNT_MASK))
    return h_shift, h_mask, shift[tree.n_values - 1]


# Integers below 2^52 become floats by their bits: x is the mantissa of 2^52 + x. Processors with AVX2 convert 64-bit
# integers one by one, which takes longer than all the rest of a score.


@inlined
def hessian_in(word, h_shift, h_mask):
    """The hessian of a packed word, as a float64."""
    bits = (np.uint64(word) >> np.uint64(h_shift)) & np.uint64(h_mask)
    return float_from_bits(np.int64(bits | np.uint64(TWO_52_BITS))) - 2.0**52


@inlined
def gradient_in(word, g_shift):
    """The gradient of a packed word, as a float64; with its sign bit flipped, it is 2^(63 - g_shift) too large."""
    bits = (np.uint64(word) ^ _SIGN) >> np.uint64(g_shift)
    return float_from_bits(np.int64(bits | np.uint64(TWO_52_BITS))) - (
        2.0**52 + np.float64(_SIGN >> np.uint64(g_shift))
    )


# The next three functions walk a feature's bins and collect what lies left of each boundary that leaves enough rows on
# both sides. A boundary after an empty bin splits the rows like the one before it, so the first of such a run stands
# for all. Entries are written before it is known whether they count; the next entry overwrites one that does not.
# Afterwards entry i < n of ``boundary`` and of the left-hand sums describes the i-th boundary.


@njit
def collect_packed(packed, base, n_bins, start_word, n_rows, tree, scratch):
    """From packed words of one plane; returns the number of boundaries."""
    words = word_left_of(scratch)
    boundary = boundary_of(scratch)
    if n_rows < 2 * tree.min_count:  # one of several workers may have that few rows of a node
        return ZERO
    least, span = tree.min_count, np.uint64(n_rows - 2 * tree.min_count)
    n = ZERO
    total = start_word
    bins = packed[base + 1 :][:n_bins]
    for b in range(n_bins):
        word = bins[b]
        total += word
        words[n] = total
        boundary[n] = b + 1
        # Unsigned, a count below ``least`` is a huge number: one comparison checks both ends.
        n += (word != 0) & (np.uint64((total & _COUNT_MASK) - least) <= span)
    h_shift, h_mask, g_shift = gradient_bits(tree)
    hess_left, grad_left = hess_left_of(scratch), grad_left_of(scratch)
    for i in range(n):
        hess_left[i] = hessian_in(words[i], h_shift, h_mask)
        grad_left[i] = gradient_in(words[i], g_shift)
    return n


@njit
def collect_sums(sums, base, step, n_bins, with_missing, n_rows, tree, scratch):
    """From one int64 per field, (count, hessian, gradient) or (count, gradient); returns the number of boundaries."""
    boundary = boundary_of(scratch)
    hess_left, grad_left = hess_left_of(scratch), grad_left_of(scratch)
    counts = sums[base:][: n_bins + 1]
    hessians = sums[base + tree.hess_field * step :][: n_bins + 1]
    grads = sums[base + (tree.n_fields - 1) * step :][: n_bins + 1]
    least, most = tree.min_count, n_rows - tree.min_count
    count, h, g = ZERO, ZERO, ZERO
    if with_missing:
        count, h, g = counts[0], hessians[0], grads[0]
    every = boundary_step(n_bins, tree)
    is_heavy, n = False, 0
    for b in range(1, n_bins + 1):
        count += counts[b]
        h += hessians[b]
        g += grads[b]
        boundary[n] = b
        hess_left[n] = h
        grad_left[n] = g
        if every > 1 and (b - 1) % every == 0:
            is_heavy = counts[b:][:every].sum() >= heavy_from(n_rows)
        is_new = counts[b] != 0 if every == 1 else is_heavy or b % every == 0 or b == n_bins
        n += is_new & (count >= least) & (count <= most)
    return n


@njit
def collect_fields(fields, base, step, order, n_order, with_missing, n_rows, tree, scratch):
    """From one int64 per field, with any number of fields; returns the number of boundaries.

    The bins are walked in ``order``, and boundaries are places in it.
    """
    boundary = boundary_of(scratch)
    counts = word_left_of(scratch)
    place = bin_place_of(scratch)
    left = left_of(scratch)
    for i in range(n_order):
        counts[i] = fields[base + order[i]]
    for j in range(1, tree.n_planes):
        for i in range(n_order):
            counts[i] += fields[base + j * step + order[i]]
    total = 0
    for j in range(tree.n_planes):
        total += fields[base + j * step] if with_missing else 0
    n = 0
    for i in range(n_order):
        total += counts[i]
        boundary[n] = i
        place[i] = n
        n += (counts[i] != 0) & (total >= tree.min_count) & (total <= n_rows - tree.min_count)
    for j in range(tree.n_fields):
        values = left[j]
        sums = fields[base + j * step :]
        running = sums[0] if with_missing else 0
        for i in range(n_order):
            running += sums[order[i]]
            values[place[i]] = running
    return n
