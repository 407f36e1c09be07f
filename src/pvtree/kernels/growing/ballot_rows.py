"""Which rows of a node vote: rows stand in the order of a hash, so that the first of a node are a sample of it."""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.hashing import hash_pair
from pvtree.kernels.jit import njit

# A row of level j or above is drawn with probability 2^(-j/2). Levels, not whole hashes, order the rows: within a level
# they keep their order in memory, which adding them up depends on.
N_LEVELS = np.int64(64)
_TOP_BIT = np.uint64(2**63)
_ROOT_HALF = np.uint64(round(2**63 * math.sqrt(2.0)))


@njit
def draw_levels(start, stop, key, first_row, level):
    """level[row] = the largest j with u < 2^(-j/2), for the hash u in [0, 1) of the row's number."""
    for row in range(start, stop):
        u = hash_pair(key, first_row + row)
        drawn = np.uint8(0)
        while u < _TOP_BIT and drawn < N_LEVELS - 2:
            u <<= np.uint64(1)
            drawn += np.uint8(2)
        level[row] = drawn + np.uint8(1) if u < _ROOT_HALF else drawn


@njit
def order_by_level(n_rows, level, rows, words, planes):
    """Move the first n_rows places of buffer 0 to buffer 1, highest level first; within a level the order stays."""
    next_place = np.zeros(N_LEVELS, np.int64)
    for i in range(n_rows):
        next_place[level[rows[0, i]]] += 1
    place = np.int64(0)
    for j in range(N_LEVELS - 1, -1, -1):
        n = next_place[j]
        next_place[j] = place
        place += n
    has_planes = planes.shape[1] > 0
    for i in range(n_rows):
        row = rows[0, i]
        to = next_place[level[row]]
        next_place[level[row]] += 1
        rows[1, to] = row
        words[1, to] = words[0, i]
        if has_planes:
            planes[1, to] = planes[0, i]


@njit
def sample_stops(row_node, wanted, level, rows, nodes, stops):
    """stops[i] = where the sample of a node's rows ends: about wanted[i] of them, and no level in part."""
    for i in range(len(row_node)):
        node = nodes[row_node[i]]
        own = rows[node.buffer]
        start, stop = node.start, node.stop
        stops[i] = stop
        if stop - start <= wanted[i]:
            continue
        last = level[own[start + wanted[i] - 1]]
        # The sample ends before or after this level, whichever comes closer to what is wanted, as a ratio.
        ends = (first_below(own, level, start, stop, last + 1), first_below(own, level, start, stop, np.int64(last)))
        fewer, more = ends[0] - start, ends[1] - start
        stops[i] = ends[0] if fewer * more >= wanted[i] * wanted[i] else ends[1]


@njit
def first_below(own, level, start, stop, least):
    """The first place in start:stop whose row has a level below ``least``; ``stop`` if none has."""
    while start < stop:
        middle = (start + stop) // 2
        if level[own[middle]] >= least:
            start = middle + 1
        else:
            stop = middle
    return start
