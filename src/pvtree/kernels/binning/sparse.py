"""Compressed sparse rows and columns: to dense blocks, to thresholds, to bins."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.binning.dense import choose_thresholds, has_few_values
from pvtree.kernels.constants import BLOCK, MISSING_BIN, N_BINS
from pvtree.kernels.jit import njit

_MOST_WORDS = 16  # words of 64 bundles that a column is tried in: the newest ones, as old ones fill up


@njit
def fill_dense(start, column, values, slot, matrix):
    """matrix[row, slot[column]] = value for each stored value of the first rows; others stay as they are."""
    for row in range(len(matrix)):
        for i in range(start[row], start[row + 1]):
            to = slot[column[i]]
            if to >= 0:
                matrix[row, to] = values[i]


@njit
def choose_around_zero(values, n_zeros, max_bins, thresholds):
    """``choose_thresholds`` of sorted values and this many more zeros, which are written down only if they must be."""
    below = np.searchsorted(values, 0.0)
    for n in (min(n_zeros, 1), n_zeros):
        merged = np.zeros(len(values) + n)
        merged[:below] = values[:below]
        merged[below + n :] = values[below:]
        # Of few different values each gets a bin, however often it occurs.
        if n == n_zeros or has_few_values(merged, max_bins):
            break
    return choose_thresholds(merged, max_bins, thresholds)


@njit
def bin_of_value(value, is_categorical, n_bins, thresholds):
    """As binning.bin_columns has it."""
    if is_categorical:
        return np.int64(value) if value >= 1.0 and value <= n_bins else MISSING_BIN
    if value != value:
        return MISSING_BIN
    return np.int64(1 + np.searchsorted(thresholds[: n_bins - 1], value))


@njit
def bin_entries(
    first, stop, start, values, fill, is_categorical, n_bins, thresholds, entry_bin, usual_bin, n_codes, n_unusual
):
    """Bins of all stored values of some columns, and of the value that is not stored, the usual one.

    Counts the bins beside it that occur, which need a code each, and the entries in them.
    """
    for c in range(first, stop):
        own = thresholds[c]
        usual = bin_of_value(np.float64(fill[c]), is_categorical[c], n_bins[c], own)
        occurs = np.zeros(N_BINS, np.bool_)
        usual_bin[c], n_codes[c], n_unusual[c] = usual, 0, 0
        for i in range(start[c], start[c + 1]):
            bin_idx = bin_of_value(np.float64(values[i]), is_categorical[c], n_bins[c], own)
            entry_bin[i] = bin_idx
            if bin_idx != usual:
                n_unusual[c] += 1
                n_codes[c] += not occurs[bin_idx]
                occurs[bin_idx] = True


@njit
def has_room(first, n_bundles, room, need):
    """Which of the 64 bundles from ``first`` on have this many codes left, as bits."""
    bits = np.uint64(0)
    for lane in range(min(64, n_bundles - first)):
        if room[first + lane] >= need:
            bits |= np.uint64(1) << np.uint64(lane)
    return bits


@njit
def lowest_bit(bits):
    lane = 0
    while bits & np.uint64(1) == np.uint64(0):
        bits >>= np.uint64(1)
        lane += 1
    return lane


@njit
def choose_bundles(
    order, start, rows, entry_bin, usual_bin, n_codes, bundle_of, first_code, n_bundles, taken, room
):  # fmt: skip
    """First fit: each column goes to the first bundle none of whose columns is unusual in a row where it is.

    Returns the number of bundles, which codes of which rows they have taken, and how many they have left, to go on with
    other columns. 64 bundles are looked at together: taken[w, row] has a bit for each of them.
    """
    for column in order:
        if n_codes[column] == 0:  # usual in all rows: it takes no room in any bundle
            bundle_of[column], first_code[column] = 0, 1
            continue
        n_words = (n_bundles + 63) // 64
        chosen = -1
        for w in range(max(0, n_words - _MOST_WORDS), n_words):
            free = has_room(64 * w, n_bundles, room, n_codes[column])
            for i in range(start[column], start[column + 1]):
                if free == np.uint64(0):
                    break
                if entry_bin[i] != usual_bin[column]:
                    free &= ~taken[w, rows[i]]
            if free != np.uint64(0):
                chosen = 64 * w + lowest_bit(free)
                break
        if chosen < 0:
            chosen = n_bundles
            n_bundles += 1
            if n_bundles > len(room):
                more, more_room = (
                    np.zeros((2 * len(taken), taken.shape[1]), np.uint64),
                    np.full(2 * len(room), N_BINS - 1),
                )
                for w in range(len(taken)):
                    for row in range(taken.shape[1]):
                        more[w, row] = taken[w, row]
                for bundle in range(len(room)):
                    more_room[bundle] = room[bundle]
                taken, room = more, more_room
        bundle_of[column], first_code[column] = chosen, N_BINS - room[chosen]
        room[chosen] -= n_codes[column]
        bit = np.uint64(1) << np.uint64(chosen % 64)
        for i in range(start[column], start[column + 1]):
            if entry_bin[i] != usual_bin[column]:
                taken[chosen // 64, rows[i]] |= bit
    return n_bundles, taken, room


@njit
def write_codes(
    first, stop, columns, start, rows, entry_bin, usual_bin, bundle_of, first_code, block_start, bins, code_bin
):
    """Codes of all unusual entries of columns[first:stop]; bins in rising order have rising codes."""
    for c in columns[first:stop]:
        bundle = bundle_of[c]
        block = np.searchsorted(block_start, bundle, side="right") - 1
        lane = bundle - block_start[block]
        code_of = np.zeros(N_BINS, np.int64)
        for i in range(start[c], start[c + 1]):
            code_of[entry_bin[i]] = 1
        code_of[usual_bin[c]] = 0
        code = first_code[c]
        for bin_idx in range(N_BINS):
            if code_of[bin_idx] == 1:
                code_of[bin_idx] = code
                code_bin[bundle, code] = bin_idx
                code += 1
        for i in range(start[c], start[c + 1]):
            if entry_bin[i] != usual_bin[c]:
                bins[block, np.intp(rows[i]) * BLOCK + lane] = code_of[entry_bin[i]]


@njit
def write_bins(first, stop, start, rows, entry_bin, usual_bin, block_start, bins):
    """Bins of all rows of the columns of some blocks, each column in a lane of its own."""
    n_rows = bins.shape[1] // BLOCK
    for block in range(first, stop):
        for c in range(block_start[block], block_start[block + 1]):
            lane = c - block_start[block]
            for row in range(n_rows):
                bins[block, row * BLOCK + lane] = usual_bin[c]
            for i in range(start[c], start[c + 1]):
                bins[block, np.intp(rows[i]) * BLOCK + lane] = entry_bin[i]
