"""Floats to bins: thresholds from a sorted sample, and a branch-free search of them for every value."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import BLOCK, MISSING_BIN, N_BINS
from pvtree.kernels.jit import njit

_TILE = 512  # rows searched together, so that each step of the search is vectorised
_COPIED = 64  # rows copied together: those of 16 columns take one line of the cache each, or two
_CELLS = 1024  # of the grid where each search starts


@njit
def copy_columns(X, rows, features, columns):
    """columns[c, i] = X[rows[i], features[c]], missing values included; a tile of rows stays in the cache."""
    for first in range(0, len(rows), _COPIED):
        last = min(first + _COPIED, len(rows))
        for c in range(len(features)):
            column, feature = columns[c], features[c]
            for i in range(first, last):
                column[i] = X[rows[i], feature]


@njit
def drop_missing(values):
    """Move all values but NaN to the front; returns their number. -0.0 becomes 0.0, which sorting would mix up."""
    n = 0
    for i in range(len(values)):
        value = values[i] + 0.0
        if value == value:
            values[n] = value
            n += 1
    return n


@njit
def midpoint(low, high):
    """A number t with low <= t < high, in the middle if floats allow it."""
    middle = low + (high - low) / 2.0
    if not (low <= middle < high):
        middle = low / 2.0 + high / 2.0
    return middle if low <= middle < high else low


@njit
def end_of_run(values, start, stop):
    """One past the last value equal to values[start], which is the first such value: by doubling, then halving."""
    step = 1
    while start + step < stop and values[start + step] == values[start]:
        step *= 2
    low, high = start + step // 2, min(start + step, stop)
    while low + 1 < high:
        middle = (low + high) // 2
        if values[middle] == values[start]:
            low = middle
        else:
            high = middle
    return low + 1


@njit
def start_of_run(values, start, stop):
    """The first value from ``start`` on that equals values[stop]."""
    low, high = start - 1, stop
    while low + 1 < high:
        middle = (low + high) // 2
        if values[middle] == values[stop]:
            high = middle
        else:
            low = middle
    return high


@njit
def has_few_values(values, most):
    at, n_distinct = 0, 0
    while at < len(values) and n_distinct <= most:
        at = end_of_run(values, at, len(values))
        n_distinct += 1
    return n_distinct <= most


@njit
def find_heavy_runs(values, max_bins, heavy):
    """heavy[i] = (start, stop) of each value with more than an even share of rows; returns their number."""
    n = len(values)
    share = n // max_bins + 1
    n_heavy, at = 0, 0
    while at < n:  # any run longer than the share covers one of these places
        start = start_of_run(values, heavy[n_heavy - 1, 1] if n_heavy > 0 else 0, at)
        stop = end_of_run(values, start, n)
        if stop - start > share:
            heavy[n_heavy, 0], heavy[n_heavy, 1] = start, stop
            n_heavy += 1
        at = max(at + share, stop if stop - start > share else at)
    return n_heavy


@njit
def choose_thresholds(values, max_bins, thresholds):
    """Choose thresholds that make bins of about equal mass from sorted values; returns their number (bins less one).

    A value with more than an even share of rows gets a bin of its own. The other values share the other bins evenly,
    cut after a run of equal values or before it, whichever is closer.
    """
    n = len(values)
    few = has_few_values(values, max_bins)
    heavy = np.empty((max_bins + 1, 2), np.int64)
    n_heavy = 0 if few else find_heavy_runs(values, max_bins, heavy)
    others, bins_left = n, max_bins - n_heavy
    for i in range(n_heavy):
        others -= heavy[i, 1] - heavy[i, 0]
    n_thresholds, start, next_heavy = 0, 0, 0
    while start < n and n_thresholds < max_bins - 1:
        stop = heavy[next_heavy, 0] if next_heavy < n_heavy else n
        if start == stop:
            cut = heavy[next_heavy, 1]
            next_heavy += 1
        else:
            share = 1.0 if few else others / max(bins_left, 1)
            before = start_of_run(values, start, min(stop - 1, start + max(0, int(share) - 1)))
            cut = end_of_run(values, before, stop)
            too_little, too_much = start + share - before, cut - start - share
            if before > start and too_little < too_much:
                cut = before
            others -= cut - start
            bins_left -= 1
        if cut >= n:
            break
        thresholds[n_thresholds] = midpoint(values[cut - 1], values[cut])
        n_thresholds += 1
        start = cut
    return n_thresholds


@njit
def merge_small_bins(values, n_thresholds, min_rows, thresholds):
    """Drop thresholds from the left until every bin has ``min_rows`` of the sorted values; returns their number."""
    n_kept, start = 0, 0
    for t in range(n_thresholds):
        stop = np.searchsorted(values, thresholds[t], side="right")
        if stop - start >= min_rows and len(values) - stop >= min_rows:
            thresholds[n_kept] = thresholds[t]
            n_kept += 1
            start = stop
    thresholds[n_kept:n_thresholds] = np.inf
    return n_kept


@njit
def choose_filled_bins(values, max_bins, min_rows, thresholds):
    """``choose_thresholds`` for bins of at least ``min_rows`` values, as far as there are so many."""
    few = has_few_values(values, max_bins)
    most = max_bins if few else max(1, min(max_bins, len(values) // min_rows))
    return merge_small_bins(values, choose_thresholds(values, most, thresholds), min_rows, thresholds)


@njit
def cell_of(value, low, scale):
    """The cell of an even grid that a value falls into. It never decreases as the value rises; NaN is in the first."""
    place = (value - low) * scale
    place = place if place > 0.0 else 0.0
    return np.int64(place if place < _CELLS - 1.0 else _CELLS - 1.0)


@njit
def make_grid(thresholds, n_thresholds, first_in_cell):
    """A grid over the thresholds: first_in_cell[c] = how many lie in cells before c. Returns (low, scale, steps).

    ``steps`` of halving find any threshold within its cell: one or two where thresholds are spread evenly.
    """
    first, last = 0, n_thresholds - 1
    while first <= last and thresholds[first] == -np.inf:
        first += 1
    while last >= first and thresholds[last] == np.inf:
        last -= 1
    low, scale = 0.0, 0.0
    if last > first:
        low = thresholds[first]
        scale = (_CELLS - 2.0) / (thresholds[last] - low)
        if not (scale > 0.0 and scale < np.inf):
            low, scale = 0.0, 0.0
    first_in_cell[:] = 0
    for t in range(n_thresholds):
        first_in_cell[cell_of(thresholds[t], low, scale) + 1] += 1
    most = 0
    for c in range(1, _CELLS + 1):
        most = max(most, first_in_cell[c])
        first_in_cell[c] += first_in_cell[c - 1]
    steps = 0
    while (1 << steps) <= most:
        steps += 1
    return low, scale, steps


@njit
def search_tile(values, n, thresholds, first_in_cell, low, scale, steps, place):
    """place = 1 + how many thresholds are below the value; NaN is MISSING_BIN. Thresholds are padded with +inf.

    No branch depends on the data: a mispredicted one costs more than the whole search.
    """
    for i in range(n):
        place[i] = first_in_cell[cell_of(values[i], low, scale)]
    for k in range(steps - 1, -1, -1):
        step = 1 << k
        for i in range(n):
            at = place[i] + step
            place[i] = at if thresholds[at - 1] < values[i] else place[i]
    for i in range(n):
        place[i] = place[i] + 1 if values[i] == values[i] else MISSING_BIN


@njit
def bin_columns(X, first, is_categorical, n_bins, thresholds, block_bins):
    """One block: all rows of its columns, from ``first`` on, a tile of rows at a time so that rows are read once."""
    n_columns = len(n_bins)
    values = np.empty((n_columns, _TILE))
    place = np.empty(_TILE, np.int64)
    padded = np.full((n_columns, 2 * N_BINS), np.inf)
    first_in_cell = np.empty((n_columns, _CELLS + 1), np.int64)
    low, scale, steps = np.empty(n_columns), np.empty(n_columns), np.empty(n_columns, np.int64)
    for c in range(n_columns):
        for t in range(n_bins[c] - 1):
            padded[c, t] = thresholds[c, t]
        low[c], scale[c], steps[c] = make_grid(padded[c], n_bins[c] - 1, first_in_cell[c])
    for tile in range(0, len(X), _TILE):
        n = min(_TILE, len(X) - tile)
        for i in range(n):
            for c in range(n_columns):
                values[c, i] = X[tile + i, first + c]
        for c in range(n_columns):
            column = values[c]
            if is_categorical[c]:
                for i in range(n):
                    known = column[i] >= 1.0 and column[i] <= n_bins[c]
                    place[i] = np.int64(column[i]) if known else MISSING_BIN
            else:
                search_tile(column, n, padded[c], first_in_cell[c], low[c], scale[c], steps[c], place)
            lane = block_bins[tile * BLOCK + c :]
            for i in range(n):
                lane[i * BLOCK] = np.uint8(place[i])


@njit
def count_bins(block_bins, rows, n_columns, counts):
    """counts[c, b] += how many of the rows are in bin b of the block's c-th column."""
    for i in range(len(rows)):
        lanes = block_bins[rows[i] * BLOCK :]
        for c in range(n_columns):
            counts[c, lanes[c]] += 1


@njit
def recode_bins(block_bins, n_columns, new_bin):
    """Replace bin b of the block's c-th column by new_bin[c, b], in place."""
    for at in range(0, len(block_bins), BLOCK):
        lanes = block_bins[at:]
        for c in range(n_columns):
            lanes[c] = new_bin[c, lanes[c]]
