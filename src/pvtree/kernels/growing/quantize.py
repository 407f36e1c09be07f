"""Gradients to packed integers: once per tree, scaled by the global maximum, rounded by a hash of the row."""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.constants import COUNT_BITS, ONE
from pvtree.kernels.hashing import hash_pair
from pvtree.kernels.jit import njit


@njit
def largest_magnitude(values, row_ids):
    """max |value| over the given rows, or all if none are given, in any order; 0 without rows."""
    if len(row_ids) > 0:
        most = 0.0
        for i in range(len(row_ids)):
            most = max(most, abs(values[row_ids[i]]))
        return most
    lanes = np.zeros(8)  # independent maxima let the compiler use vector registers
    n_full = len(values) // 8 * 8
    for i in range(0, n_full, 8):
        for lane in range(8):
            lanes[lane] = max(lanes[lane], abs(values[i + lane]))
    for i in range(n_full, len(values)):
        lanes[0] = max(lanes[0], abs(values[i]))
    most = lanes[0]
    for lane in range(1, 8):
        most = max(most, lanes[lane])
    return most


@njit
def pack_gradients(
    start, stop, row_ids, grad, hess, copies, inverse_scale, shift, nearest, key, first_row, rows, words
):
    """rows[i], words[i] = the i-th row in the tree and its packed (count, hessian, gradient).

    Rounding is stochastic, up with the probability of the remainder, so that sums are unbiased; or to the nearest,
    so that equal labels stay equal. ``shift`` is (of the hessian, -1 if it is the count itself; of the gradient). A
    row that is in the sample several times adds its rounded values as often.
    """
    hess_shift, grad_shift = shift[0], shift[1]
    for i in range(start, stop):
        row = np.int64(row_ids[i]) if len(row_ids) > 0 else i
        noise = hash_pair(key, first_row + row)
        times = np.int64(copies[row]) if len(copies) > 0 else ONE
        up = 0.5 if nearest else np.float64(noise >> np.uint64(32)) * (1.0 / 4294967296.0)
        word = (times * np.int64(math.floor(grad[row] * inverse_scale[1] + up))) << grad_shift
        if hess_shift >= 0:
            up = 0.5 if nearest else np.float64(noise & np.uint64(0xFFFFFFFF)) * (1.0 / 4294967296.0)
            weight = hess[row] if len(hess) > 0 else 1.0
            word += (times * np.int64(math.floor(weight * inverse_scale[0] + up))) << hess_shift
        rows[i] = row
        words[i] = word + 1


@njit
def pack_classes(
    start, stop, row_ids, label, weight, copies, inverse_scale, plane, shift, key, first_row, rows, words, planes
):
    """As ``pack_gradients``, for class counts: each row has its weight in the field of its class."""
    for i in range(start, stop):
        row = np.int64(row_ids[i]) if len(row_ids) > 0 else i
        value = np.int64(copies[row]) if len(copies) > 0 else ONE
        if len(weight) > 0:
            up = np.float64(hash_pair(key, first_row + row) >> np.uint64(32)) * (1.0 / 4294967296.0)
            value *= np.int64(math.floor(weight[row] * inverse_scale + up))
        k = np.int64(label[row])
        rows[i] = row
        words[i] = (value << shift[k]) + 1
        if len(planes) > 0:
            planes[i] = plane[k]


@njit
def sum_words(words, planes, capacity, n_planes, plane, shift, mask, sums):
    """Totals of all words by field, decoded before any field can overflow."""
    count_mask = (1 << COUNT_BITS) - 1
    packed = np.zeros(n_planes, np.int64)
    sums[:] = 0
    for chunk in range(0, len(words), capacity):
        packed[:] = 0
        stop = min(chunk + capacity, len(words))
        if len(planes) > 0:
            for i in range(chunk, stop):
                packed[planes[i]] += words[i]
        else:
            for i in range(chunk, stop):
                packed[0] += words[i]
        for p in range(n_planes):
            sums[p] += packed[p] & count_mask
        for j in range(len(shift)):
            sums[n_planes + j] += (packed[plane[j]] >> shift[j]) & mask[j]
