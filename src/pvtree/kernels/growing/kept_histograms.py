"""Histograms that a node keeps for its children: stored block by block, and turned into the sibling's by subtraction.

A kept histogram has all bundles of a node; without bundles every feature counts as one.
"""

from __future__ import annotations

from pvtree.kernels.constants import NONE, ZERO
from pvtree.kernels.growing.histogram import pack_fields, unpack_add
from pvtree.kernels.growing.records import narrow_pool_of, wide_pool_of
from pvtree.kernels.jit import njit


@njit
def kept_histogram(slot, is_wide, tree):
    """(histogram, words per bin): word j of bin b of a bundle is at (bundle * n_words + j) * kept_stride + b."""
    if is_wide:
        return wide_pool_of(tree)[slot], tree.n_fields
    return narrow_pool_of(tree)[slot], tree.n_planes


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
def store_bundle(hist, base, step, bundle, is_wide, slot, n_bins, tree):
    """Keep a bundle's histogram, which has word j of bin b at hist[base + j * step + b]."""
    kept, n_words = kept_histogram(slot, is_wide, tree)
    for j in range(n_words):
        copy_bins(kept, (bundle * n_words + j) * tree.kept_stride, hist, base + j * step, n_bins)


@njit
def subtract_bundle(hist, base, step, is_wide, bundle, n_bins, family, tree, nodes):
    """Turn the parent's kept histogram of a bundle into the sibling's, by subtracting the node's own at ``base``."""
    kept, n_words = kept_histogram(family.slot, family.slot_wide, tree)
    to = bundle * n_words * tree.kept_stride
    if is_wide == family.slot_wide:
        for j in range(n_words):
            subtract_bins(kept, to + j * tree.kept_stride, hist, base + j * step, n_bins)
    else:  # the node is small enough for packed words, but its parent was not
        unpack_add(hist, base, step, n_bins + 1, tree, kept, to, tree.kept_stride, NONE)
    slot, slot_wide = sibling_slot(family, nodes)
    if slot_wide != family.slot_wide:
        narrow, _ = kept_histogram(slot, slot_wide, tree)
        to_narrow = bundle * tree.n_planes * tree.kept_stride
        pack_fields(kept, to, tree.kept_stride, n_bins + 1, tree, narrow, to_narrow, tree.kept_stride)


@njit
def sibling_slot(family, nodes):
    """Where the sibling's histogram is after subtraction: (slot, whether it is wide).

    That is its parent's slot, unless the parent was wide and the sibling keeps packed words in a slot of its own.
    """
    own_slot = nodes[family.sibling].slot
    if family.slot_wide and own_slot >= 0 and not nodes[family.sibling].is_wide:
        return own_slot, ZERO
    return family.slot, family.slot_wide
