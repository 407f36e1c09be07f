"""A worker's sums left of each boundary, rounded outward: from a few bytes the owner of a feature learns an interval
for each, enough to prove that the feature cannot win (rounded_bound.py). Sent where plain bounds leave that open.

What counts of x = g - slope h is its size beside sqrt(h (A - h) / A), A being all hessian: the gain is the square of
such a number. So x is followed by a tunnel of that width times ``step``, and h by one between levels of h / A. The
tunnel of h moves on as if all bins had equally many rows, that of x with the tunnel of h, and a message says only where
they have to leave that course. The writer knows what comes, and moves them as seldom as possible.

Writer and reader evaluate the same expressions of + - * / and sqrt, so any two machines agree to the last bit.
"""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.bounds.rounding_grid import PLACES_H, PLACES_X
from pvtree.kernels.constants import N_BINS, ONE, ZERO
from pvtree.kernels.elementary import inlined
from pvtree.kernels.jit import njit
from pvtree.kernels.wire.bits import bit_length, get_bits, low_bits, peek, put_bits, unzigzag, zigzag
from pvtree.kernels.wire.range_code import (
    CERTAIN,
    MOST_LENGTH,
    SEEN_BITS,
    TOP_BYTE,
    WHOLE_RANGE,
    divide,
    get_bytes,
    get_event,
    get_number,
    last_bytes,
    learnt,
    list_number,
    put_events,
    shrunk,
)

# Rows of the scratch. By position: the course of the tunnel of h, and how near the ends it is. By run of each tunnel:
# where it stops, and its place (which has a value for each position when reading). By kind of event: its chance.
# The rest is a list of events.
_COURSE, _NEARNESS, _H_STOPS, _X_STOPS, _H_PLACES, _X_PLACES, _CHANCES, _EVENTS = (np.int64(row) for row in range(8))

# Kinds of events. For each there is a chance, learnt from the message itself. Whether a tunnel moves depends on how
# near the end of the bins it is (9 kinds), where one bin more is a large part of the rows, and on its last move (4).
_H_MOVES, _X_MOVES = np.int64(0), np.int64(36)
_H_UP, _X_UP, _IS_SKIPPED, _HAS_MISSING, _G_IS_NEGATIVE = (np.int64(kind) for kind in range(72, 77))
# Numbers: a kind for every digit that tells their length, and for every length for the first digit behind the one.
_H_BY, _X_BY, _H_MISSING, _G_MISSING = (np.int64(kind) for kind in (78, 110, 142, 192))
_H_HALVES, _X_HALVES = np.int64(240), np.int64(246)  # by the length of what is halved, of 2 to 7 binary digits
_H_KINDS, _X_KINDS = (_H_MOVES, _H_HALVES, _H_UP, _H_BY), (_X_MOVES, _X_HALVES, _X_UP, _X_BY)
_SMALL_LENGTHS, _LARGE_LENGTHS = np.int64(16), np.int64(25)

# Of both tunnels of a feature. With more it is cheaper to merge.
_MOST_RUNS = np.int64(128)
_FARTHEST = np.int64(1 << 20)  # places from the course
# Features are skipped while those before took more bits than this each, for which they could be merged.
_BITS_EACH = np.int64(2048)
# Of one feature: an event a position and tunnel, moves with 6 halvings, a sign and twice 21 digits, and two numbers.
_MOST_EVENTS = np.int64(2 * 256 + 128 * 50 + 4 * 64)
_BITS_OF_ONE = 12 * _MOST_EVENTS  # see put_events
_HEADER_BITS = np.int64(2 * (7 + 64) + 64)

# Relative errors of float64. x may be wrong by as many times |g| + |slope| h, a sum of two terms by as many times it.
_X_ERROR, _SUM_ERROR = 2.0**-50, 2.0**-51


SCRATCH_SHAPE = (int(_EVENTS) + -(-int(_MOST_EVENTS) // int(N_BINS)), int(N_BINS))


def rounded_scratch() -> np.ndarray:
    """What the kernels here need to work in; one per thread."""
    return np.zeros(SCRATCH_SHAPE, np.int64)


@njit
def most_bits(n_features):
    """No message of one node takes more, whatever the sums."""
    return _HEADER_BITS + n_features * _BITS_EACH + _BITS_OF_ONE


@njit
def _forget(chances):
    """Chances before the first event, near what they become; the low bits count the events seen."""
    for kind in range(N_BINS):
        chances[kind] = (CERTAIN >> ONE) << SEEN_BITS
    for kind in range(2 * _X_MOVES):
        chances[kind] = (CERTAIN >> np.int64(3)) << SEEN_BITS
    chances[_IS_SKIPPED] = chances[_HAS_MISSING] = (CERTAIN >> np.int64(3)) << SEEN_BITS


# ---- Tunnels


@njit
def _set_course(n_bins, levels, scratch):
    """The level of h at each position if all bins had equally many rows."""
    course, nearness = scratch[_COURSE], scratch[_NEARNESS]
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
    """How many positions one event speaks of: more in the middle, where a bin more hardly changes the sums."""
    return min(max(near >> ONE, ONE), rest)


@inlined
def _half_of(p, n, is_first):
    half = n >> ONE
    return p + (half & (is_first - ONE)), half + ((n & ONE) & (is_first - ONE))


# Events of a tunnel: does it move within a stretch of positions? If so, in its first half, and so on down to one
# position; then where to. That takes a third of the events that one for each position would take.


@njit
def _list_tunnel(n_bins, stops, places, nearness, kinds, events, n_events):
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
        n_events = list_number(abs(by_how_much) - ONE, by, _SMALL_LENGTHS, events, n_events + ONE)
        now, moved, to = places[run], p, stops[run]
        run += ONE
        p += ONE
    return n_events


@njit
def _get_tunnel(n_bins, place, nearness, kinds, chances, data, bit, low, high, code):
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
        number, bit, low, high, code = get_number(by, _SMALL_LENGTHS, chances, data, bit, low, high, code)
        for i in range(done, p):
            place[i] = now
        now += number + ONE if is_up else -number - ONE
        now, moved, done = min(max(now, -_FARTHEST), _FARTHEST), p, p  # a broken message may say anything
        p += ONE
    for i in range(done, n_bins):
        place[i] = now
    return bit, low, high, code


@inlined
def _clip(level, last):
    """A tunnel may reach over the ends of the table."""
    return min(max(level, ZERO), last)


@inlined
def _x_ends(middle, width, place):
    low = middle + (place * (1.0 / PLACES_X) - 0.5) * width
    return low, low + width


@inlined
def _x_of(g, h, slope):
    """g - slope h, and how far from the exact value that may be."""
    product = slope * np.float64(h)
    return np.float64(g) - product, _X_ERROR * (abs(np.float64(g)) + abs(product))


# A tunnel stays at one place for a run of positions, as long as there is a place that suits all of them. The next place
# is the nearest that suits the next run: the shortest move is the cheapest. The last run stops at n_bins.


@njit
def _plan_h(h, j, n_bins, levels, scratch):
    """List the runs of the tunnel of h; returns how many, more than allowed if these are no sums of hessians."""
    course, stops, places = scratch[_COURSE], scratch[_H_STOPS], scratch[_H_PLACES]
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
    return n + ONE if n_odd == 0 and before <= all_h else _MOST_RUNS + ONE


@njit
def _plan_x(g, h, j, n_bins, slope, all_x, scale, levels, scratch):
    """As ``_plan_h`` for x; more runs than allowed if x is too far off, or the tunnel too narrow for its precision.

    Places keep a millionth from the ends. So x is inside although ``at`` and the ends that the reader computes are
    rounded, by less than 2^-50 of the largest number involved: at is below 2^20, and the margin allows for the others.
    """
    course, h_stops, h_places = scratch[_COURSE], scratch[_H_STOPS], scratch[_H_PLACES]
    stops, places = scratch[_X_STOPS], scratch[_X_PLACES]
    fractions, roots, last = levels[0], levels[1], levels.shape[1] - ONE
    to_middle, inverse_scale, half = PLACES_H >> ONE, PLACES_X / scale, 0.5 * PLACES_X
    n, now, lowest, highest, n_odd, k = ZERO, 0.0, -math.inf, math.inf, ZERO, ZERO
    for p in range(1, n_bins):
        k += np.int64(p == h_stops[k])
        i = _clip(course[p] + h_places[k] + to_middle, last)
        x, error = _x_of(g[j, p], h[j, p], slope)
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
    return n + ONE if n_odd == 0 else _MOST_RUNS + ONE


@njit
def _can_be_sent(g, h, j, n, g_total, h_total, slope, unit, levels, scratch):
    """Plan both tunnels of a feature; whether that is possible, and cheap enough."""
    all_g, all_h = (g[j, n], h[j, n]) if n > 0 else (ZERO, ZERO)
    most = ONE << MOST_LENGTH
    if all_h < 0 or h[j, 0] + all_h != h_total or g[j, 0] + all_g != g_total:
        return False
    if not (0 <= h[j, 0] < most and -most < g[j, 0] < most):
        return False
    if all_h == 0:
        n_odd = ZERO
        for p in range(1, n + 1):
            n_odd += np.int64(g[j, p] != 0 or h[j, p] != 0)
        return n_odd == 0
    all_x, _ = _x_of(all_g, all_h, slope)
    n_runs = _plan_h(h, j, n, levels, scratch)
    scale = unit * math.sqrt(np.float64(all_h))
    if n_runs > _MOST_RUNS or not scale < 1e300:
        return False
    return n_runs + _plan_x(g, h, j, n, slope, all_x, scale, levels, scratch) <= _MOST_RUNS


@njit
def _list_feature(g_missing, h_missing, n_bins, h_total, scratch):
    """All events of a feature after the first; returns how many there are."""
    events, nearness = scratch[_EVENTS:].reshape(-1), scratch[_NEARNESS]
    has_missing = g_missing != 0 or h_missing != 0
    events[1] = 2 * _HAS_MISSING + np.int64(has_missing)
    n = np.int64(2)
    if has_missing:
        n = list_number(h_missing, _H_MISSING, _LARGE_LENGTHS, events, n)
        events[n] = 2 * _G_IS_NEGATIVE + np.int64(g_missing < 0)
        n = list_number(abs(g_missing), _G_MISSING, _LARGE_LENGTHS, events, n + ONE)
    if h_missing < h_total:
        n = _list_tunnel(n_bins, scratch[_H_STOPS], scratch[_H_PLACES], nearness, _H_KINDS, events, n)
        n = _list_tunnel(n_bins, scratch[_X_STOPS], scratch[_X_PLACES], nearness, _X_KINDS, events, n)
    return n


@njit
def put_rounded(g, h, n_bins, n_features, slope, unit, levels, out, bit, scratch):
    """Write the sums of a node's features at ``bit`` of ``out``, which has room for ``most_bits`` and a word more.

    g, h: int64 (n_features, N_BINS). Position 0 has the sums of missing values, p those of bins 1 to p. A feature that
    cannot be sent is skipped: its intervals are infinite.
    """
    if n_features == 0:
        return bit
    start, n = bit, n_bins[0]
    g_total, h_total = g[0, 0] + (g[0, n] if n > 0 else ZERO), h[0, 0] + (h[0, n] if n > 0 else ZERO)
    for total in (h_total, g_total):
        coded = zigzag(total)
        bit = put_bits(out, bit, bit_length(coded), np.int64(7))
        bit = put_bits(out, bit, coded, bit_length(coded))
    chances, events = scratch[_CHANCES], scratch[_EVENTS:].reshape(-1)
    _forget(chances)
    low, high, known = ZERO, WHOLE_RANGE, ZERO
    for j in range(n_features):
        n = n_bins[j]
        if n != known:
            _set_course(n, levels, scratch)
            known = n
        is_sent = bit - start <= (j + 1) * _BITS_EACH and _can_be_sent(
            g, h, j, n, g_total, h_total, slope, unit, levels, scratch
        )
        events[0] = 2 * _IS_SKIPPED + np.int64(not is_sent)
        n_events = _list_feature(g[j, 0], h[j, 0], n, h_total, scratch) if is_sent else ONE
        bit, low, high = put_events(events, n_events, chances, out, bit, low, high)
    n_bytes, number = last_bytes(low, high)
    for i in range(n_bytes):
        bit = put_bits(out, bit, (number >> np.int64(24 - 8 * i)) & np.int64(255), np.int64(8))
    return bit


@inlined
def _add(x0, x1, h0, h1, j, p, low_x, high_x, low_h, high_h):
    """Add an interval, with the rounding error of the sum."""
    sum_x0, sum_x1, sum_h0, sum_h1 = low_x[j, p] + x0, high_x[j, p] + x1, low_h[j, p] + h0, high_h[j, p] + h1
    low_x[j, p] = sum_x0 - _SUM_ERROR * abs(sum_x0)
    high_x[j, p] = sum_x1 + _SUM_ERROR * abs(sum_x1)
    low_h[j, p] = sum_h0 - _SUM_ERROR * sum_h0
    high_h[j, p] = sum_h1 + _SUM_ERROR * sum_h1


@inlined
def _add_point(g, h, slope, j, p, low_x, high_x, low_h, high_h):
    x, error = _x_of(g, h, slope)
    _add(x - error, x + error, np.float64(h), np.float64(h), j, p, low_x, high_x, low_h, high_h)


@njit
def add_exact(g, h, n_bins, n_features, slope, low_x, high_x, low_h, high_h):
    """The owner's own sums, laid out as for ``put_rounded``; the intervals are float64 (n_features, N_BINS)."""
    for j in range(n_features):
        for p in range(n_bins[j] + 1):
            _add_point(g[j, p], h[j, p], slope, j, p, low_x, high_x, low_h, high_h)


@njit
def _add_tunnels(all_g, all_h, j, n, slope, unit, levels, low_x, high_x, low_h, high_h, scratch):
    """Intervals of positions 1 to n of a feature from the places of its tunnels."""
    course, h_place, x_place = scratch[_COURSE], scratch[_H_PLACES], scratch[_X_PLACES]
    total, scale = np.float64(all_h), unit * math.sqrt(np.float64(all_h))
    all_x, _ = _x_of(all_g, all_h, slope)
    fractions, roots, last = levels[0], levels[1], levels.shape[1] - ONE
    for p in range(1, n):
        level = course[p] + h_place[p]
        h0, h1 = total * fractions[_clip(level, last)], total * fractions[_clip(level + PLACES_H, last)]
        i = _clip(level + (PLACES_H >> ONE), last)
        x0, x1 = _x_ends(all_x * fractions[i], scale * roots[i], x_place[p])
        _add(x0, x1, h0, h1, j, p, low_x, high_x, low_h, high_h)
    if n > 0:
        _add_point(all_g, all_h, slope, j, n, low_x, high_x, low_h, high_h)


@njit
def _get_total(data, bit):
    width = min(get_bits(data, bit, np.int64(7)), np.int64(64))
    return unzigzag(low_bits(peek(data, bit + 7), width)), bit + 7 + width


@njit
def add_rounded(data, bit, n_bins, n_features, slope, unit, levels, low_x, high_x, low_h, high_h, scratch):
    """Read what ``put_rounded`` wrote at ``bit`` and add the intervals; returns the next bit."""
    if n_features == 0:
        return bit
    h_total, bit = _get_total(data, bit)
    g_total, bit = _get_total(data, bit)
    chances, nearness = scratch[_CHANCES], scratch[_NEARNESS]
    h_places, x_places = scratch[_H_PLACES], scratch[_X_PLACES]
    _forget(chances)
    low, high, code, known = ZERO, WHOLE_RANGE, ZERO, ZERO
    for _ in range(4):
        code = (code << np.int64(8)) | get_bits(data, bit, np.int64(8))
        bit += np.int64(8)
    for j in range(n_features):
        n = n_bins[j]
        if n != known:
            _set_course(n, levels, scratch)
            known = n
        is_skipped, bit, low, high, code = get_event(_IS_SKIPPED, chances, data, bit, low, high, code)
        if is_skipped:
            for p in range(n + 1):
                _add(-np.inf, np.inf, 0.0, np.inf, j, p, low_x, high_x, low_h, high_h)
            continue
        g0, h0 = ZERO, ZERO
        has_missing, bit, low, high, code = get_event(_HAS_MISSING, chances, data, bit, low, high, code)
        if has_missing:
            h0, bit, low, high, code = get_number(_H_MISSING, _LARGE_LENGTHS, chances, data, bit, low, high, code)
            minus, bit, low, high, code = get_event(_G_IS_NEGATIVE, chances, data, bit, low, high, code)
            g0, bit, low, high, code = get_number(_G_MISSING, _LARGE_LENGTHS, chances, data, bit, low, high, code)
            g0 = -g0 if minus else g0
            _add_point(g0, h0, slope, j, ZERO, low_x, high_x, low_h, high_h)
        if h0 < h_total:
            bit, low, high, code = _get_tunnel(n, h_places, nearness, _H_KINDS, chances, data, bit, low, high, code)
            bit, low, high, code = _get_tunnel(n, x_places, nearness, _X_KINDS, chances, data, bit, low, high, code)
            _add_tunnels(g_total - g0, h_total - h0, j, n, slope, unit, levels, low_x, high_x, low_h, high_h, scratch)
    n_bytes, _ = last_bytes(low, high)
    return bit + np.int64(8) * (n_bytes - np.int64(4))
