"""Tunnels: intervals that follow a worker's sums from one boundary to the next, listed as events (range_code.py).

rounded_sums.py sends them. A tunnel stays at one place for a run of positions.
"""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.bounds.rounding_grid import PLACES_H, PLACES_X
from pvtree.kernels.constants import ONE, ZERO
from pvtree.kernels.elementary import inlined
from pvtree.kernels.jit import njit
from pvtree.kernels.wire.bits import bit_length
from pvtree.kernels.wire.range_code import (
    TOP_BYTE,
    divide,
    get_bytes,
    get_event,
    get_number,
    learnt,
    list_number,
    shrunk,
)

# Rows of the scratch. By position: the course of the tunnel of h, and the distance to the nearer end. By run of each
# tunnel: where it stops, and its place (by position when reading).
COURSE, NEARNESS, H_STOPS, X_STOPS, H_PLACES, X_PLACES = (np.int64(row) for row in range(6))

# Of both tunnels of a feature together. With more, merging the feature is cheaper.
MOST_RUNS = np.int64(128)
SMALL_LENGTHS = np.int64(16)  # of moves: lengths that have their own kinds of events
_FARTHEST = np.int64(1 << 20)  # places from the course
_X_ERROR = 2.0**-50  # relative, of float64: x may be wrong by as many times |g| + |slope| h


@njit
def set_course(n_bins, levels, scratch):
    """course[p] = the level of h at position p if all bins had equally many rows."""
    course, nearness = scratch[COURSE], scratch[NEARNESS]
    i, last = ZERO, levels.shape[1] - ONE
    for p in range(1, n_bins):
        fraction = p / n_bins
        while i < last and levels[0, i + 1] <= fraction:
            i += ONE
        course[p] = i - (PLACES_H >> ONE)
        nearness[p] = min(p, n_bins - p)


@inlined
def _kind_of_move(moves, near, age):
    recent = np.int64(4 * age >= near) + np.int64(2 * age >= near) + np.int64(age >= near)
    return moves + 4 * min(bit_length(near), np.int64(8)) + recent


@inlined
def _stretch(near, rest):
    """How many positions one event covers: more in the middle, where one more bin hardly changes the sums."""
    return min(max(near >> ONE, ONE), rest)


@inlined
def _half_of(p, n, is_first):
    half = n >> ONE
    return p + (half & (is_first - ONE)), half + ((n & ONE) & (is_first - ONE))


# Events of a tunnel: does it move within a stretch of positions? If so, in the first half, and so on down to one
# position; then, where to. That takes a third of the events that one per position would take.


@njit
def list_tunnel(n_bins, stops, places, nearness, kinds, events, n_events):
    moves, halves, up, by = kinds
    now, moved, p, run = ZERO, ZERO, ONE, ZERO
    to = ONE  # where the next move is, to the place of ``run``
    if places[0] == now:
        to, run = stops[0], ONE
    while p < n_bins:
        n = _stretch(nearness[p], n_bins - p)
        events[n_events] = 2 * _kind_of_move(moves, nearness[p], p - moved) + np.int64(to < p + n)
        n_events += ONE
        if to >= p + n:
            p += n
            continue
        while n > 1:
            half = n >> ONE
            is_first = np.int64(to < p + half)
            events[n_events] = 2 * (halves + bit_length(n)) + is_first
            n_events += ONE
            p, n = _half_of(p, n, is_first)
        by_how_much = places[run] - now
        events[n_events] = 2 * up + np.int64(by_how_much > 0)
        n_events = list_number(abs(by_how_much) - ONE, by, SMALL_LENGTHS, events, n_events + ONE)
        now, moved, to = places[run], p, stops[run]
        run += ONE
        p += ONE
    return n_events


@njit
def get_tunnel(n_bins, place, nearness, kinds, chances, data, bit, low, high, code):
    moves, halves, up, by = kinds
    now, moved, p, done = ZERO, ZERO, ONE, ONE
    while p < n_bins:
        n = _stretch(nearness[p], n_bins - p)
        kind = _kind_of_move(moves, nearness[p], p - moved)
        state = chances[kind]
        middle = divide(low, high, state)
        is_moved = np.int64(code <= middle)
        low, high = shrunk(low, high, middle, is_moved)
        chances[kind] = learnt(state, is_moved)
        if (low ^ high) & TOP_BYTE == 0:
            bit, low, high, code = get_bytes(data, bit, low, high, code)
        if is_moved == 0:
            p += n
            continue
        while n > 1:
            kind = halves + bit_length(n)
            state = chances[kind]
            middle = divide(low, high, state)
            is_first = np.int64(code <= middle)
            low, high = shrunk(low, high, middle, is_first)
            chances[kind] = learnt(state, is_first)
            if (low ^ high) & TOP_BYTE == 0:
                bit, low, high, code = get_bytes(data, bit, low, high, code)
            p, n = _half_of(p, n, is_first)
        is_up, bit, low, high, code = get_event(up, chances, data, bit, low, high, code)
        number, bit, low, high, code = get_number(by, SMALL_LENGTHS, chances, data, bit, low, high, code)
        for i in range(done, p):
            place[i] = now
        now += number + ONE if is_up else -number - ONE
        now, moved, done = min(max(now, -_FARTHEST), _FARTHEST), p, p  # a broken message may say anything
        p += ONE
    for i in range(done, n_bins):
        place[i] = now
    return bit, low, high, code


@inlined
def clip(level, last):
    """A tunnel may reach past the ends of the table."""
    return min(max(level, ZERO), last)


@inlined
def x_ends(middle, width, place):
    low = middle + (place * (1.0 / PLACES_X) - 0.5) * width
    return low, low + width


@inlined
def x_of(g, h, slope):
    """(g - slope h, its largest possible error)."""
    product = slope * np.float64(h)
    return np.float64(g) - product, _X_ERROR * (abs(np.float64(g)) + abs(product))


# A run of positions goes on as long as one place suits all of them. The next place is the nearest that suits the next
# run, because the shortest move is the cheapest. The last run stops at n_bins.


@njit
def plan_h(h, j, n_bins, levels, scratch):
    """List the runs of the tunnel of h; returns their number, more than allowed if these are no sums of hessians."""
    course, stops, places = scratch[COURSE], scratch[H_STOPS], scratch[H_PLACES]
    fractions, last = levels[0], levels.shape[1] - ONE
    all_h, before, n_odd = np.float64(h[j, n_bins]), 0.0, ZERO
    n, now, lowest, highest = ZERO, ZERO, -_FARTHEST, _FARTHEST
    below = ZERO  # the last level that is not above h
    for p in range(1, n_bins):
        value = np.float64(h[j, p])
        n_odd += np.int64(value < before)
        before = value
        while below < last and all_h * fractions[below + 1] <= value:
            below += ONE
        above = below + np.int64(all_h * fractions[below] < value)
        low = above - PLACES_H - course[p] if above > 0 else -_FARTHEST
        high = below - course[p] if below < last else _FARTHEST
        if max(low, lowest) > min(high, highest):
            now = min(max(now, lowest), highest)
            stops[n], places[n] = p, now
            n, lowest, highest = n + ONE, low, high
        lowest, highest = max(low, lowest), min(high, highest)
    stops[n], places[n] = n_bins, min(max(now, lowest), highest)
    return n + ONE if n_odd == 0 and before <= all_h else MOST_RUNS + ONE


@njit
def plan_x(g, h, j, n_bins, slope, all_x, scale, levels, scratch):
    """As ``plan_h``, for x; more runs than allowed if x is too far off, or the tunnel too narrow for its precision.

    x keeps a millionth away from the ends. So it is inside although ``at`` and the ends that the reader computes are
    rounded, by less than 2^-50 of the largest number involved: ``at`` is below 2^20, and the margin covers the rest.
    """
    course, h_stops, h_places = scratch[COURSE], scratch[H_STOPS], scratch[H_PLACES]
    stops, places = scratch[X_STOPS], scratch[X_PLACES]
    fractions, roots, last = levels[0], levels[1], levels.shape[1] - ONE
    to_middle, inverse_scale, half = PLACES_H >> ONE, PLACES_X / scale, 0.5 * PLACES_X
    n, now, lowest, highest, n_odd, k = ZERO, 0.0, -math.inf, math.inf, ZERO, ZERO
    for p in range(1, n_bins):
        k += np.int64(p == h_stops[k])
        i = clip(course[p] + h_places[k] + to_middle, last)
        x, error = x_of(g[j, p], h[j, p], slope)
        inverse, middle = inverse_scale / roots[i], all_x * fractions[i]
        at, margin = (x - middle) * inverse, (error + _X_ERROR * abs(middle)) * inverse + 1e-6
        n_odd += np.int64(not (abs(at) < 0.5 * _FARTHEST and margin < 0.5))
        low, high = math.ceil(at + (margin - half)), math.floor(at - (margin - half))
        if max(low, lowest) > min(high, highest):
            now = min(max(now, lowest), highest)
            stops[n], places[n] = p, np.int64(now)
            n, lowest, highest = n + ONE, low, high
        lowest, highest = max(low, lowest), min(high, highest)
    stops[n], places[n] = n_bins, np.int64(min(max(now, lowest), highest))
    return n + ONE if n_odd == 0 else MOST_RUNS + ONE
