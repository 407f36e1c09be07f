"""The quick wire form of a histogram: its bins that are not empty, in whole words.

Where histograms of all features travel, packing them tightly (wire.py) would take longer than adding them up.
"""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import N_BINS, ONE, ZERO
from pvtree.kernels.growing.histogram import unpack_add
from pvtree.kernels.jit import njit

# First come the bits of the bins in use. Bit 0 says whether there is a word per field, not a packed one per plane.
_N_BITMAP_WORDS = np.int64(5)  # 257 bits


@njit
def most_words(n_words, n_bins):
    """Room for a histogram of so many words a bin."""
    return _N_BITMAP_WORDS + n_words * (n_bins + 1)


@njit
def put_sparse(hist, base, step, is_wide, n_bins, tree, out, at):
    """Write plane or field j of bin b, hist[base + j * step + b], at word ``at`` of ``out``; returns the next."""
    n_words = tree.n_fields if is_wide else tree.n_planes
    bitmap = out[at : at + _N_BITMAP_WORDS]
    bitmap[:] = 0
    bitmap[0] = is_wide
    at += _N_BITMAP_WORDS
    counts = hist[base:][: n_bins + 1]
    if tree.n_planes == 1:
        for b in range(n_bins + 1):
            word = counts[b]
            out[at] = word
            is_used = np.int64(word != 0)
            bitmap[(b + 1) >> 6] |= is_used << ((b + 1) & 63)
            at += is_used
    else:
        for b in range(n_bins + 1):
            is_used = ZERO
            for plane in range(tree.n_planes):
                is_used |= np.int64(hist[base + plane * step + b] != 0)
            bitmap[(b + 1) >> 6] |= is_used << ((b + 1) & 63)
        at = put_used(counts, bitmap, n_bins, out, at)
    for j in range(1, n_words):
        at = put_used(hist[base + j * step :][: n_bins + 1], bitmap, n_bins, out, at)
    return at


@njit
def put_used(words, bitmap, n_bins, out, at):
    for b in range(n_bins + 1):
        out[at] = words[b]
        at += (bitmap[(b + 1) >> 6] >> ((b + 1) & 63)) & 1
    return at


@njit
def add_sparse(data, at, n_bins, tree, words, sums, base):
    """Add what ``put_sparse`` wrote to sums[base + field * N_BINS + bin], by way of ``words``; the next word."""
    bitmap = data[at : at + _N_BITMAP_WORDS]
    at += _N_BITMAP_WORDS
    is_wide = bitmap[0] & 1
    for j in range(tree.n_fields if is_wide else tree.n_planes):
        target = sums[base + j * N_BINS :][: n_bins + 1] if is_wide else words[j * N_BINS :][: n_bins + 1]
        for b in range(n_bins + 1):
            is_used = (bitmap[(b + 1) >> 6] >> ((b + 1) & 63)) & 1
            value = data[at] & -is_used
            target[b] = target[b] + value if is_wide else value
            at += is_used
    if not is_wide:
        unpack_add(words, ZERO, N_BINS, n_bins + 1, tree, sums, base, N_BINS, ONE)
    return at
