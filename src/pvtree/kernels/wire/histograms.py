"""Histograms on their way to the worker that owns the feature: in as few bits as hold them exactly."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import N_BINS, ONE, ZERO
from pvtree.kernels.jit import njit
from pvtree.kernels.wire.bits import (
    LIST_HEADER,
    PLAN_SIZE,
    VALUE_BITS,
    bit_length,
    get_bits,
    get_list,
    plan_list,
    put_bits,
    put_list,
)

# First come the cells with rows and their counts, then each field's values in those cells (wire_bits.py codes a list of
# values). Items follow each other without a gap; both sides know n_planes, n_fields and n_bins of each. Counts must not
# be negative, and a bin without rows in any plane must be 0 in all fields.

# Rows of the scratch. A cell is a bin of a plane, and has the number plane * (n_bins + 1) + bin.
_CELLS, _COUNTS, _VALUES, _REST, _SOME_ROWS, _CODED, _PLANS, _ONES = (np.int64(row) for row in range(8))
_N_SCRATCH_ROWS = 8
_GROUP_BITS = np.int64(3)  # for the number of values that share a plane, if there are several planes
_MOST_GROUP = np.int64(7)


def wire_scratch(n_planes: int) -> np.ndarray:
    """Working memory for the kernels here; one per thread."""
    scratch = np.zeros((_N_SCRATCH_ROWS, (n_planes + 1) * N_BINS), np.int64)
    scratch[_ONES] = 1
    return scratch


def to_bytes(words: np.ndarray, n_bits: int) -> np.ndarray:
    """The first ``n_bits`` as a uint8 message, rounded up to whole bytes; a view."""
    return words.astype("<u8", copy=False).view(np.uint8)[: (n_bits + 7) // 8]


def from_bytes(message: np.ndarray) -> np.ndarray:
    """A message as words to read from, with a spare word behind it."""
    words = np.zeros(len(message) // 8 + 2, "<u8")
    words.view(np.uint8)[: len(message)] = message
    return words.astype(np.uint64, copy=False)


@njit
def max_bits(n_fields, n_bins):
    """A histogram never takes more bits."""
    return np.int64(64) + n_fields * (LIST_HEADER + VALUE_BITS * (n_bins + 1))


@njit
def _find_cells(fields, n_planes, n_bins, cells, counts):
    """List the cells with rows; returns their number."""
    n = ZERO
    for p in range(n_planes):
        rows = fields[p * N_BINS :][: n_bins + 1]
        for b in range(n_bins + 1):
            cells[n] = p * (n_bins + 1) + b
            counts[n] = rows[b]
            n += np.int64(rows[b] != 0)
    return n


@njit
def _join_planes(n, n_bins, cells, counts, of_bin):
    """Behind the n listed cells, list the bins with rows in any plane; returns the end of that list."""
    for b in range(n_bins + 1):
        of_bin[b] = 0
    for i in range(n):
        of_bin[cells[i] % (n_bins + 1)] += counts[i]
    stop = n
    for b in range(n_bins + 1):
        cells[stop] = b
        counts[stop] = of_bin[b]
        stop += np.int64(of_bin[b] != 0)
    return stop


@njit
def _stop_of_plane(cells, start, n, limit):
    stop = start
    while stop < n and cells[stop] < limit:
        stop += ONE
    return stop


@njit
def _group_of_values(fields, n_planes, n_fields, n_bins):
    """How many values share a plane, if values are 0 where their plane has no rows; 0 if no number fits."""
    n_values = n_fields - n_planes
    if n_planes == 1:
        return n_values
    for group in range(ONE, _MOST_GROUP + 1):
        if (n_values + group - 1) // group != n_planes:
            continue
        fits = True
        for j in range(n_values):
            rows = fields[(j // group) * N_BINS :][: n_bins + 1]
            values = fields[(n_planes + j) * N_BINS :][: n_bins + 1]
            for b in range(n_bins + 1):
                fits = fits and (rows[b] != 0 or values[b] == 0)
        if fits:
            return group
    return ZERO


@njit
def _values_are_counts(fields, n_planes, n_fields, n_bins, group):
    """Whether the values of a plane are parts of its count, as class counts without weights are."""
    if group == 0:
        return False
    for p in range(n_planes):
        first, stop = n_planes + p * group, min(n_planes + (p + 1) * group, n_fields)
        for b in range(n_bins + 1):
            rest = fields[p * N_BINS + b]
            for j in range(first, stop):
                value = fields[j * N_BINS + b]
                if value < 0 or value > rest:
                    return False
                rest -= value
            if rest != 0:
                return False
    return True


@njit
def _put_cells(fields, n_planes, n_bins, n, scratch, out, bit):
    """Write which cells have rows, and how many: as gaps between cells or, if most have rows, as all cells' counts."""
    n_cells = n_planes * (n_bins + 1)
    cells, counts, coded = scratch[_CELLS], scratch[_COUNTS], scratch[_CODED].view(np.uint64)
    ones, gaps, more = scratch[_ONES], scratch[_VALUES], scratch[_REST]
    gap_plan, more_plan, all_plan = scratch[_PLANS], scratch[_PLANS][PLAN_SIZE:], scratch[_PLANS][2 * PLAN_SIZE :]
    number_bits = bit_length(n_cells)
    sparse, dense = max_bits(n_planes + 1, n_cells), max_bits(n_planes + 1, n_cells)
    if 4 * n < 3 * n_cells:
        previous = -ONE
        for i in range(n):
            gaps[i] = cells[i] - previous - 1
            more[i] = counts[i] - 1
            previous = cells[i]
        sparse = number_bits + plan_list(gaps, n, ones, coded, gap_plan)
        sparse += plan_list(more, n, ones, coded, more_plan)
    if 4 * n > n_cells:
        every = scratch[_SOME_ROWS]
        for p in range(n_planes):
            rows = fields[p * N_BINS :]
            for b in range(n_bins + 1):
                every[p * (n_bins + 1) + b] = rows[b]
        dense = plan_list(every, n_cells, ones, coded, all_plan)
    if dense < sparse:
        bit = put_bits(out, bit, ONE, ONE)
        return put_list(scratch[_SOME_ROWS], n_cells, ones, coded, all_plan, out, bit)
    bit = put_bits(out, bit, ZERO, ONE)
    bit = put_bits(out, bit, n, number_bits)
    bit = put_list(gaps, n, ones, coded, gap_plan, out, bit)
    return put_list(more, n, ones, coded, more_plan, out, bit)


@njit
def _get_cells(data, bit, n_planes, n_bins, scratch):
    """Read what ``_put_cells`` wrote; cells stay inside the histogram even if the message is broken."""
    n_cells = n_planes * (n_bins + 1)
    cells, counts = scratch[_CELLS], scratch[_COUNTS]
    ones, gaps, more = scratch[_ONES], scratch[_VALUES], scratch[_REST]
    is_dense = get_bits(data, bit, ONE)
    bit += ONE
    if is_dense:
        bit = get_list(data, bit, more, n_cells, ones)
        n = ZERO
        for cell in range(n_cells):
            cells[n] = cell
            counts[n] = more[cell]
            n += np.int64(more[cell] != 0)
    else:
        n = min(get_bits(data, bit, bit_length(n_cells)), n_cells)
        bit = get_list(data, bit + bit_length(n_cells), gaps, n, ones)
        bit = get_list(data, bit, more, n, ones)
        previous = -ONE
        for i in range(n):
            previous = min(max(previous + gaps[i] + 1, ZERO), n_cells - 1)
            cells[i] = previous
            counts[i] = more[i] + 1
    return n, bit


@njit
def _put_parts(values, rest, n, scratch, out, bit):
    """Write parts of the ``rest`` of each cell, and subtract them from it. A rest of 0 needs no bits."""
    rows, coded = scratch[_SOME_ROWS], scratch[_CODED].view(np.uint64)
    n_some = ZERO
    for i in range(n):
        if rest[i] == 1:
            bit = put_bits(out, bit, values[i], ONE)
        elif rest[i] > 1:
            rows[n_some] = rest[i]
            rest[i] -= values[i]
            values[n_some] = values[i]
            n_some += ONE
            continue
        rest[i] -= values[i]
    if n_some == 0:
        return bit
    plan_list(values, n_some, rows, coded, scratch[_PLANS])
    return put_list(values, n_some, rows, coded, scratch[_PLANS], out, bit)


@njit
def _get_parts(data, bit, rest, n, scratch, merged, at, cells, first_cell):
    """Read what ``_put_parts`` wrote, and add it to the merged sums at ``at``."""
    rows, values = scratch[_SOME_ROWS], scratch[_VALUES]
    n_some = ZERO
    for i in range(n):
        if rest[i] == 1:
            value = get_bits(data, bit, ONE)
            bit += ONE
            merged[at + cells[i] - first_cell] += value
            rest[i] -= value
        elif rest[i] > 1:
            rows[n_some] = rest[i]
            rest[i] = -rest[i] - 1  # marks the cell: its part comes below
            n_some += ONE
    if n_some == 0:
        return bit
    bit = get_list(data, bit, values, n_some, rows)
    k = ZERO
    for i in range(n):
        if rest[i] < 0:
            merged[at + cells[i] - first_cell] += values[k]
            rest[i] = -(rest[i] + 1) - values[k]
            k += ONE
    return bit


@njit
def put_histogram(fields, n_planes, n_fields, n_bins, out, bit, scratch):
    """Write the fields (fields[j * N_BINS + b], bins 0..n_bins) at ``bit`` of ``out``; returns the next free bit.

    ``out`` needs room for ``max_bits`` and a word more, and need not be cleared.
    """
    cells, counts, coded = scratch[_CELLS], scratch[_COUNTS], scratch[_CODED].view(np.uint64)
    n = _find_cells(fields, n_planes, n_bins, cells, counts)
    bit = put_bits(out, bit, np.int64(n > 0), ONE)
    if n == 0:
        return bit
    bit = _put_cells(fields, n_planes, n_bins, n, scratch, out, bit)
    group = _group_of_values(fields, n_planes, n_fields, n_bins)
    if n_planes > 1:
        bit = put_bits(out, bit, group, _GROUP_BITS)
    are_counts = _values_are_counts(fields, n_planes, n_fields, n_bins, group)
    bit = put_bits(out, bit, np.int64(are_counts), ONE)
    values, rest, plan = scratch[_VALUES], scratch[_REST], scratch[_PLANS]
    n_lists, start, stop = n_planes, ZERO, ZERO
    if group == 0:  # then every value is sent for every bin with rows
        n_lists, group, stop = ONE, n_fields - n_planes, n
        n = _join_planes(n, n_bins, cells, counts, scratch[_VALUES])
    for p in range(n_lists):
        first_cell = p * (n_bins + 1)
        start, stop = stop, _stop_of_plane(cells, stop, n, first_cell + n_bins + 1)
        size = stop - start
        if size == 0:
            continue
        for i in range(size):
            rest[i] = counts[start + i]
        last = min((p + 1) * group, n_fields - n_planes)
        for j in range(p * group, last - np.int64(are_counts)):
            of_field = fields[(n_planes + j) * N_BINS :]
            for i in range(size):
                values[i] = of_field[cells[start + i] - first_cell]
            if are_counts:
                bit = _put_parts(values, rest, size, scratch, out, bit)
                continue
            plan_list(values, size, rest, coded, plan)
            bit = put_list(values, size, rest, coded, plan, out, bit)
    return bit


@njit
def add_histogram(data, bit, n_planes, n_fields, n_bins, merged, base, step, scratch):
    """Read one histogram at ``bit`` and add field j of bin b to merged[base + j * step + b]; returns the next bit."""
    cells, counts = scratch[_CELLS], scratch[_COUNTS]
    some = get_bits(data, bit, ONE)
    bit += ONE
    if some == 0:
        return bit
    n, bit = _get_cells(data, bit, n_planes, n_bins, scratch)
    stop = ZERO
    for p in range(n_planes):
        start, first_cell = stop, p * (n_bins + 1)
        stop = _stop_of_plane(cells, stop, n, first_cell + n_bins + 1)
        for i in range(start, stop):
            merged[base + p * step + cells[i] - first_cell] += counts[i]
    group = n_fields - n_planes
    if n_planes > 1:
        group = get_bits(data, bit, _GROUP_BITS)
        bit += _GROUP_BITS
    are_counts = get_bits(data, bit, ONE)
    bit += ONE
    values, rest = scratch[_VALUES], scratch[_REST]
    n_lists, stop = n_planes, ZERO
    if group == 0:
        n_lists, group, stop = ONE, n_fields - n_planes, n
        n = _join_planes(n, n_bins, cells, counts, scratch[_VALUES])
    for p in range(n_lists):
        first_cell = p * (n_bins + 1)
        start, stop = stop, _stop_of_plane(cells, stop, n, first_cell + n_bins + 1)
        size = stop - start
        if size == 0:
            continue
        for i in range(size):
            rest[i] = counts[start + i]
        last = min((p + 1) * group, n_fields - n_planes)
        for j in range(p * group, last):
            at = base + (n_planes + j) * step
            if are_counts and j < last - 1:
                bit = _get_parts(data, bit, rest, size, scratch, merged, at, cells[start:], first_cell)
                continue
            source = rest
            if not are_counts:
                source = values
                bit = get_list(data, bit, values, size, rest)
            for i in range(size):
                merged[at + cells[start + i] - first_cell] += source[i]
    return bit
