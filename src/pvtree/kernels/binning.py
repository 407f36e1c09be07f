"""Floats to bins: thresholds from a sorted sample, and a branch-free search of them for every value."""

from __future__ import annotations

import numpy as np

from pvtree.dtypes import BLOCK, MISSING_BIN
from pvtree.kernels.jit import njit

_TILE = 512  # rows looked up together, so that the search's steps run over vectors


@njit
def gather_columns(X, rows, first, n_columns, columns, n_values):
    """Copy a sample of neighbouring columns, leaving out missing values; n_values[c] says how many are left."""
    n_values[:] = 0
    for i in range(len(rows)):
        row = rows[i]
        for c in range(n_columns):
            value = np.float64(X[row, first + c])
            if value == value:
                columns[c, n_values[c]] = value
                n_values[c] += 1


@njit
def midpoint(low, high):
    """A number t with low <= t < high, halfway where floats allow it."""
    middle = low + (high - low) / 2.0
    if not (low <= middle < high):
        middle = low / 2.0 + high / 2.0
    return middle if low <= middle < high else low


@njit
def choose_thresholds(values, max_bins, thresholds):
    """Thresholds of about equal mass from sorted values; returns how many (bins less one).

    A value that fills a bin on its own gets one of its own; the others share what remains.
    """
    n = len(values)
    n_distinct = 1 if n > 0 else 0
    for i in range(1, n):
        if values[i] != values[i - 1]:
            n_distinct += 1
            if n_distinct > max_bins:
                break
    few = n_distinct <= max_bins
    n_thresholds = 0
    in_bin = 0
    left, bins_left = n, max_bins
    i = 0
    while i < n and n_thresholds < max_bins - 1:
        value = values[i]
        run = i
        while run < n and values[run] == value:
            run += 1
        in_bin += run - i
        if run == n:
            break
        next_run = run
        target = left / bins_left
        while next_run < n and values[next_run] == values[run] and next_run - run <= target:
            next_run += 1
        next_is_heavy = next_run - run > target
        if few or in_bin >= target or next_is_heavy or in_bin + (next_run - run) / 2.0 > target:
            thresholds[n_thresholds] = midpoint(value, values[run])
            n_thresholds += 1
            left -= in_bin
            bins_left -= 1
            in_bin = 0
        i = run
    return n_thresholds


@njit
def search_tile(values, n, thresholds, place):
    """place = 1 + how many thresholds are below the value; NaN is MISSING_BIN. Thresholds are padded with +inf.

    Eight steps for every value, and no branch that depends on the data: a mispredicted one costs more than all.
    """
    for i in range(n):
        value = values[i]
        at = 0
        for k in range(8):
            step = 128 >> k
            at += step * (thresholds[at + step - 1] < value)
        place[i] = (at + 1) * (value == value)


@njit
def bin_columns(X, first, is_categorical, n_bins, thresholds, block_bins):
    """One block: all rows of its columns, a tile of rows at a time so that rows are read once."""
    n_columns = len(n_bins)
    values = np.empty((n_columns, _TILE))
    place = np.empty(_TILE, np.int32)
    for tile in range(0, X.shape[0], _TILE):
        n = min(_TILE, X.shape[0] - tile)
        for i in range(n):
            for c in range(n_columns):
                values[c, i] = X[tile + i, first + c]
        for c in range(n_columns):
            column = values[c]
            if is_categorical[c]:
                for i in range(n):
                    known = column[i] >= 1.0 and column[i] <= n_bins[c]
                    place[i] = np.int32(column[i]) if known else MISSING_BIN
            else:
                search_tile(column, n, thresholds[c], place)
            for i in range(n):
                block_bins[(tile + i) * BLOCK + c] = np.uint8(place[i])
