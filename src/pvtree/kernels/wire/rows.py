"""A node's few local rows on their way to the worker that owns some features: the other form of their histograms."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import COUNT_BITS, N_BINS, ONE, ZERO
from pvtree.kernels.jit import njit
from pvtree.kernels.wire.bits import (
    BLOCK_VALUES,
    LIST_HEADER,
    PLAN_SIZE,
    VALUE_BITS,
    bit_length,
    copy_bits,
    get_bits,
    get_list,
    get_slope,
    low_bits,
    peek,
    plan_list,
    predict,
    put_bits,
    put_list,
    put_slope,
    round_slope,
    slope_bits,
    unzigzag,
    zigzag,
)

# Each row's statistics are sent once, and its bin for each of the owner's features. With fewer rows than bins this
# takes a third of the histograms' bits (see wire.py). Sums do not depend on order, so rows are sorted by gradient, or
# by class, and only the steps between them are sent. The hessian of a logistic loss is |g| (1 - |g|), so it is sent as
# the difference from a curve ``a |g| + b g**2`` fitted to the rows; that of other losses is sent as it is.

# Rows of the scratch, and columns of its last row, where plans and counts of bins are.
_MAJOR, _MINOR, _VALUES, _CODED, _ONES, _NUMBERS = (np.int64(row) for row in range(6))
_N_SCRATCH_ROWS = 6
_SIZE_BITS = np.int64(4)  # of the bit length of n_rows
_LENGTH_BITS = np.int64(7)
_INDEX_MASK = np.int64((1 << COUNT_BITS) - 1)
_GAPS = np.array([1750, 701, 301, 132, 57, 23, 10, 4, 1])  # Ciura's steps for Shell's sort

# How a feature's bins are sent: in as many bits as all its bins need, or as its bins here need; or with a single bit
# for the most frequent bin, which helps where a column is mostly zero.
_ALL_BINS, _RANGE, _FREQUENT = (np.int64(mode) for mode in range(3))
_MODE_BITS, _RANGE_BITS = np.int64(2), np.int64(4)
_MOST_RANGE_BITS = np.int64(8)


def rows_scratch(n_rows: int) -> np.ndarray:
    """Working memory for the kernels here, for up to ``n_rows`` rows; one per thread."""
    scratch = np.zeros((_N_SCRATCH_ROWS, max(n_rows + int(BLOCK_VALUES), int(N_BINS) + 2 * int(PLAN_SIZE))), np.int64)
    scratch[_ONES] = 1
    return scratch


@njit
def max_bits_of_rows(n_rows, n_features):
    """A node with this many rows never takes more bits."""
    return np.int64(128) + 2 * (LIST_HEADER + VALUE_BITS * n_rows) + n_features * (32 + 9 * n_rows)


@njit
def _sort(keys, n):
    for gap in _GAPS:
        for i in range(gap, n):
            key, j = keys[i], i
            while j >= gap and keys[j - gap] > key:
                keys[j] = keys[j - gap]
                j -= gap
            keys[j] = key


@njit
def arrange_rows(words, planes, n_rows, plane, shift, mask, order, major, minor):
    """Decode and sort a node's words, once for all owners of features.

    OUT order[i]: the row that comes i-th; major[i], minor[i]: its gradient and hessian (0 without one), or its class
    and weight. ``planes`` is empty with a single plane; plane, shift, mask are the layout's.
    At most MAX_CAPACITY rows: the sort keeps a row's number in the bits of its count.
    """
    n_values = len(shift)
    keys = order
    for i in range(n_rows):
        if mask[n_values - 1] < 0:
            keys[i] = (words[i] & ~_INDEX_MASK) | i
        else:  # weights are below 2**25, so a class is above them
            row_plane = np.int64(planes[i]) if len(planes) > 0 else ZERO
            label, weight = -ONE, ZERO
            for k in range(n_values):
                if plane[k] == row_plane:
                    value = (words[i] >> shift[k]) & mask[k]
                    if label < 0 or value != 0:
                        label, weight = k, value
            keys[i] = (((label << np.int64(32)) | weight) << COUNT_BITS) | i
    _sort(keys, n_rows)
    for i in range(n_rows):
        key = keys[i]
        order[i] = key & _INDEX_MASK
        if mask[n_values - 1] < 0:
            major[i] = key >> shift[n_values - 1]
            minor[i] = (key >> shift[0]) & mask[0] if n_values > 1 else ZERO
        else:
            major[i] = key >> np.int64(32 + COUNT_BITS)
            minor[i] = (key >> COUNT_BITS) & np.int64(0xFFFFFFFF)


@njit
def _fit_curve(major, minor, n):
    """The least-squares a, b in ``minor = a |major| + b major**2``, each rounded to a slope; zeros without a fit."""
    s2, s3, s4, t1, t2 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        x, y = abs(np.float64(major[i])), np.float64(minor[i])
        s2 += x * x
        s3 += x * x * x
        s4 += x * x * x * x
        t1 += x * y
        t2 += x * x * y
    determinant = s2 * s4 - s3 * s3
    if not determinant > 1e-9 * s2 * s4:
        return ZERO, ZERO, ZERO, ZERO
    mantissa, exponent = round_slope((t1 * s4 - t2 * s3) / determinant)
    slope = np.float64(mantissa) * 2.0**exponent
    square_mantissa, square_exponent = round_slope((t2 - slope * s3) / s4)
    return mantissa, exponent, square_mantissa, square_exponent


@njit
def _on_curve(major, mantissa, exponent, square_mantissa, square_exponent):
    x = abs(major)
    return predict(x, mantissa, exponent) + predict(x * x, square_mantissa, square_exponent)


@njit
def put_head(major, minor, n, mask, scratch, out):
    """Write how many rows there are and their statistics, the same for all owners, from bit 0 on; returns the bits.

    The sorted majors are the first one and the steps from one to the next; then come the minors. ``out`` needs room
    for ``max_bits_of_rows`` without features and a word more, and need not be cleared.
    """
    values, coded, ones = scratch[_VALUES], scratch[_CODED].view(np.uint64), scratch[_ONES]
    plan, curve_plan = scratch[_NUMBERS], scratch[_NUMBERS][PLAN_SIZE:]
    bit = put_bits(out, ZERO, bit_length(n), _SIZE_BITS)
    bit = put_bits(out, bit, n, bit_length(n))
    if n == 0:
        return bit
    first = zigzag(major[0])
    bit = put_bits(out, put_bits(out, bit, bit_length(first), _LENGTH_BITS), first, bit_length(first))
    values[0] = 0
    for i in range(1, n):
        values[i] = major[i] - major[i - 1]
    plan_list(values, n, ones, coded, plan)
    bit = put_list(values, n, ones, coded, plan, out, bit)
    if mask[len(mask) - 1] < 0:
        if len(mask) == 1:  # a gradient without hessian
            return bit
        a, a_exponent, b, b_exponent = _fit_curve(major, minor, n)
        for i in range(n):
            values[i] = minor[i] - _on_curve(major[i], a, a_exponent, b, b_exponent)
        curve_bits = plan_list(values, n, ones, coded, curve_plan) + slope_bits(a) + slope_bits(b)
        bits = plan_list(minor, n, ones, coded, plan)
        if a != 0 and curve_bits < bits:
            bit = put_bits(out, bit, ONE, ONE)
            bit = put_slope(out, put_slope(out, bit, a, a_exponent), b, b_exponent)
            return put_list(values, n, ones, coded, curve_plan, out, bit)
        bit = put_bits(out, bit, ZERO, ONE)
    else:
        plan_list(minor, n, ones, coded, plan)
    return put_list(minor, n, ones, coded, plan, out, bit)


@njit
def _get_statistics(data, bit, n, mask, scratch):
    """Read the statistics that ``put_head`` wrote into the scratch."""
    major, minor, ones = scratch[_MAJOR], scratch[_MINOR], scratch[_ONES]
    length = min(get_bits(data, bit, _LENGTH_BITS), np.int64(64))
    first = unzigzag(low_bits(peek(data, bit + _LENGTH_BITS), length))
    bit = get_list(data, bit + _LENGTH_BITS + length, major, n, ones)
    major[0] = first
    for i in range(1, n):
        major[i] += major[i - 1]
    curved = False
    if mask[len(mask) - 1] < 0:
        if len(mask) == 1:
            return bit
        curved = get_bits(data, bit, ONE) == 1
        bit += ONE
    if not curved:
        return get_list(data, bit, minor, n, ones)
    a, a_exponent, bit = get_slope(data, bit)
    b, b_exponent, bit = get_slope(data, bit)
    bit = get_list(data, bit, minor, n, ones)
    for i in range(n):
        minor[i] += _on_curve(major[i], a, a_exponent, b, b_exponent)
    return bit


@njit
def _plan_bins(bins, n, n_bins, counts):
    """(bits, mode, least bin, bits of the range, most frequent bin) for one feature's bins."""
    for b in range(N_BINS):
        counts[b] = 0
    least, most, frequent, its_rows = n_bins, ZERO, ZERO, ZERO
    for i in range(n):
        b = np.int64(bins[i])
        counts[b] += 1
        least, most = min(least, b), max(most, b)
        if counts[b] > its_rows or (counts[b] == its_rows and b < frequent):
            frequent, its_rows = b, counts[b]
    width, range_bits = bit_length(n_bins), bit_length(most - least)
    bits, mode = n * width, _ALL_BINS
    ranged = width + _RANGE_BITS + n * range_bits
    if ranged < bits:
        bits, mode = ranged, _RANGE
    flagged = 2 * width + _RANGE_BITS + n + (n - its_rows) * range_bits
    if flagged < bits:
        bits, mode = flagged, _FREQUENT
    if mode == _ALL_BINS:
        least, range_bits = ZERO, width
    return _MODE_BITS + bits, mode, least, range_bits, frequent


@njit
def _put_bins(bins, order, n, n_bins, scratch, out, bit):
    width = bit_length(n_bins)
    _, mode, least, range_bits, frequent = _plan_bins(bins, n, n_bins, scratch[_NUMBERS])
    bit = put_bits(out, bit, mode, _MODE_BITS)
    if mode != _ALL_BINS:
        bit = put_bits(out, put_bits(out, bit, least, width), range_bits, _RANGE_BITS)
    if mode == _FREQUENT:
        bit = put_bits(out, bit, frequent, width)
    word, filled = np.uint64(0), ZERO
    for i in range(n):
        bin_idx = np.int64(bins[order[i]])
        value, size = bin_idx - least, range_bits
        if mode == _FREQUENT:
            is_frequent = bin_idx == frequent
            value, size = (ONE, ONE) if is_frequent else (value << ONE, range_bits + ONE)
        word |= np.uint64(value) << np.uint64(filled)
        filled += size
        if filled > 64 - 9:
            bit = put_bits(out, bit, word, filled)
            word, filled = np.uint64(0), ZERO
    return put_bits(out, bit, word, filled)


@njit
def bits_of_rows(head_bits, n_rows, bins, n_bins, scratch):
    """How many bits ``put_rows`` would write."""
    bits = head_bits
    for f in range(len(n_bins) if n_rows > 0 else 0):
        bits += _plan_bins(bins[f], n_rows, n_bins[f], scratch[_NUMBERS])[0]
    return bits


@njit
def put_rows(head, head_bits, order, n_rows, bins, n_bins, out, bit, scratch):
    """Write rows as ``put_head`` and ``arrange_rows`` left them, with bins[f, row] of the features.

    Returns the next free bit. ``n_bins`` has one number per feature. ``out`` needs room for ``max_bits_of_rows`` and
    a word more, and need not be cleared.
    """
    bit = copy_bits(head, head_bits, out, bit)
    for f in range(len(n_bins) if n_rows > 0 else 0):
        bit = _put_bins(bins[f], order, n_rows, n_bins[f], scratch, out, bit)
    return bit


@njit
def add_rows(data, bit, n_planes, plane, mask, n_bins, merged, bases, step, scratch):
    """Read rows at ``bit`` and add them to feature f's sums at merged[bases[f] + field * step + bin].

    Returns the next bit. A broken message never reaches outside the arrays.
    """
    size = get_bits(data, bit, _SIZE_BITS)
    n = min(get_bits(data, bit + _SIZE_BITS, size), np.int64(scratch.shape[1]) - BLOCK_VALUES)
    bit += _SIZE_BITS + size
    if n == 0:
        return bit
    major, minor = scratch[_MAJOR], scratch[_MINOR]
    bit = _get_statistics(data, bit, n, mask, scratch)
    n_values = len(mask)
    are_classes = mask[n_values - 1] >= 0
    for f in range(len(n_bins)):
        base, most = bases[f], n_bins[f]
        width = bit_length(most)
        mode, least, range_bits, frequent = get_bits(data, bit, _MODE_BITS), ZERO, width, -ONE
        bit += _MODE_BITS
        if mode != _ALL_BINS:
            least = get_bits(data, bit, width)
            range_bits = min(get_bits(data, bit + width, _RANGE_BITS), _MOST_RANGE_BITS)
            bit += width + _RANGE_BITS
        if mode == _FREQUENT:
            frequent = get_bits(data, bit, width)
            bit += width
        for i in range(n):
            if mode == _FREQUENT:
                bits = peek(data, bit)
                is_frequent = bits & np.uint64(1) == np.uint64(1)
                bin_idx = frequent if is_frequent else least + np.int64(low_bits(bits >> np.uint64(1), range_bits))
                bit += ONE if is_frequent else range_bits + ONE
            else:
                bin_idx = least + get_bits(data, bit, range_bits)
                bit += range_bits
            at = base + min(bin_idx, most)
            if are_classes:
                label = min(max(major[i], ZERO), n_values - 1)
                merged[at + plane[label] * step] += 1
                merged[at + (n_planes + label) * step] += minor[i]
            else:
                merged[at] += 1
                merged[at + n_values * step] += major[i]
                if n_values > 1:
                    merged[at + step] += minor[i]
    return bit
