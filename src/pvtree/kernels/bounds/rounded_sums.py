"""A worker's sums left of each boundary, rounded outward: from a few bytes the owner of a feature learns an interval
for each sum, often enough to prove that the feature cannot win (rounded_bound.py). Sent where plain bounds do not."""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.bounds.rounding_grid import PLACES_H
from pvtree.kernels.bounds.tunnels import (
    COURSE,
    H_PLACES,
    H_STOPS,
    MOST_RUNS,
    NEARNESS,
    X_PLACES,
    X_STOPS,
    clip,
    get_tunnel,
    list_tunnel,
    plan_h,
    plan_x,
    set_course,
    x_ends,
    x_of,
)
from pvtree.kernels.constants import N_BINS, ONE, ZERO
from pvtree.kernels.elementary import inlined
from pvtree.kernels.jit import njit
from pvtree.kernels.wire.bits import bit_length, get_bits, low_bits, peek, put_bits, unzigzag, zigzag
from pvtree.kernels.wire.range_code import (
    CERTAIN,
    MOST_LENGTH,
    SEEN_BITS,
    WHOLE_RANGE,
    get_event,
    get_number,
    last_bytes,
    list_number,
    put_events,
)

# Relative to sqrt(h (A - h) / A), where A is all hessian, x = g - slope h is a number whose square is the gain. So x is
# followed by a tunnel of that width times ``step``, and h by one between levels of h / A. By default the tunnel of h
# moves on as if all bins had equally many rows, and that of x follows it; a message says only where they leave this
# course. The writer knows what comes, and moves them as seldom as possible.
#
# Writer and reader evaluate the same expressions of + - * / and sqrt, so any two machines agree to the last bit.

# Rows of the scratch, after those of the tunnels. By kind of event: its chance. The rest is a list of events.
_CHANCES, _EVENTS = np.int64(6), np.int64(7)

# Kinds of events. Each has a chance, learnt from the message itself. Whether a tunnel moves depends on how near the end
# of the bins it is (9 kinds), where one more bin is a large part of the rows, and on its last move (4 kinds).
_H_MOVES, _X_MOVES = np.int64(0), np.int64(36)
_H_UP, _X_UP, _IS_SKIPPED, _HAS_MISSING, _G_IS_NEGATIVE = (np.int64(kind) for kind in range(72, 77))
# Numbers: a kind for every digit of their length in unary, and one per length for the first digit after the leading 1.
_H_BY, _X_BY, _H_MISSING, _G_MISSING = (np.int64(kind) for kind in (78, 110, 142, 192))
_H_HALVES, _X_HALVES = np.int64(240), np.int64(246)  # by the number of binary digits, 2 to 7, of what is halved
_H_KINDS, _X_KINDS = (_H_MOVES, _H_HALVES, _H_UP, _H_BY), (_X_MOVES, _X_HALVES, _X_UP, _X_BY)
_LARGE_LENGTHS = np.int64(25)

# A feature is skipped while those before it took more bits than this each: for as many, they could be merged.
_BITS_EACH = np.int64(2048)
# One feature: an event per position and tunnel, moves with 6 halvings, a sign and twice 21 digits, and two numbers.
_MOST_EVENTS = np.int64(2 * 256 + 128 * 50 + 4 * 64)
_BITS_OF_ONE = 12 * _MOST_EVENTS  # see put_events
_HEADER_BITS = np.int64(2 * (7 + 64) + 64)
_SUM_ERROR = 2.0**-51  # relative, of float64: a sum of two terms may be wrong by as many times it

# What the kernels here need to work in, int64; one per thread.
SCRATCH_SHAPE = (int(_EVENTS) + -(-int(_MOST_EVENTS) // int(N_BINS)), int(N_BINS))


@njit
def most_bits(n_features):
    """The message of one node never takes more, whatever the sums."""
    return _HEADER_BITS + n_features * _BITS_EACH + _BITS_OF_ONE


@njit
def _forget(chances):
    """Set chances to typical values, with no events seen (which the low bits count)."""
    for kind in range(N_BINS):
        chances[kind] = (CERTAIN >> ONE) << SEEN_BITS
    for kind in range(2 * _X_MOVES):
        chances[kind] = (CERTAIN >> np.int64(3)) << SEEN_BITS
    chances[_IS_SKIPPED] = chances[_HAS_MISSING] = (CERTAIN >> np.int64(3)) << SEEN_BITS


@njit
def _can_be_sent(g, h, j, n, g_total, h_total, slope, unit, levels, scratch):
    """Plan both tunnels of a feature; returns whether that is possible, and cheap enough."""
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
    all_x, _ = x_of(all_g, all_h, slope)
    n_runs = plan_h(h, j, n, levels, scratch)
    scale = unit * math.sqrt(np.float64(all_h))
    if n_runs > MOST_RUNS or not scale < 1e300:
        return False
    return n_runs + plan_x(g, h, j, n, slope, all_x, scale, levels, scratch) <= MOST_RUNS


@njit
def _list_feature(g_missing, h_missing, n_bins, h_total, scratch):
    """List all events of a feature after the first; returns their number."""
    events, nearness = scratch[_EVENTS:].reshape(-1), scratch[NEARNESS]
    has_missing = g_missing != 0 or h_missing != 0
    events[1] = 2 * _HAS_MISSING + np.int64(has_missing)
    n = np.int64(2)
    if has_missing:
        n = list_number(h_missing, _H_MISSING, _LARGE_LENGTHS, events, n)
        events[n] = 2 * _G_IS_NEGATIVE + np.int64(g_missing < 0)
        n = list_number(abs(g_missing), _G_MISSING, _LARGE_LENGTHS, events, n + ONE)
    if h_missing < h_total:
        n = list_tunnel(n_bins, scratch[H_STOPS], scratch[H_PLACES], nearness, _H_KINDS, events, n)
        n = list_tunnel(n_bins, scratch[X_STOPS], scratch[X_PLACES], nearness, _X_KINDS, events, n)
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
            set_course(n, levels, scratch)
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
    x, error = x_of(g, h, slope)
    _add(x - error, x + error, np.float64(h), np.float64(h), j, p, low_x, high_x, low_h, high_h)


@njit
def add_exact(g, h, n_bins, n_features, slope, low_x, high_x, low_h, high_h):
    """Add the owner's own sums, laid out as for ``put_rounded``; intervals are float64 (n_features, N_BINS)."""
    for j in range(n_features):
        for p in range(n_bins[j] + 1):
            _add_point(g[j, p], h[j, p], slope, j, p, low_x, high_x, low_h, high_h)


@njit
def _add_tunnels(all_g, all_h, j, n, slope, unit, levels, low_x, high_x, low_h, high_h, scratch):
    """Add the intervals of positions 1 to n of a feature, from the places of its tunnels."""
    course, h_place, x_place = scratch[COURSE], scratch[H_PLACES], scratch[X_PLACES]
    total, scale = np.float64(all_h), unit * math.sqrt(np.float64(all_h))
    all_x, _ = x_of(all_g, all_h, slope)
    fractions, roots, last = levels[0], levels[1], levels.shape[1] - ONE
    for p in range(1, n):
        level = course[p] + h_place[p]
        h0, h1 = total * fractions[clip(level, last)], total * fractions[clip(level + PLACES_H, last)]
        i = clip(level + (PLACES_H >> ONE), last)
        x0, x1 = x_ends(all_x * fractions[i], scale * roots[i], x_place[p])
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
    chances, nearness = scratch[_CHANCES], scratch[NEARNESS]
    h_places, x_places = scratch[H_PLACES], scratch[X_PLACES]
    _forget(chances)
    low, high, code, known = ZERO, WHOLE_RANGE, ZERO, ZERO
    for _ in range(4):
        code = (code << np.int64(8)) | get_bits(data, bit, np.int64(8))
        bit += np.int64(8)
    for j in range(n_features):
        n = n_bins[j]
        if n != known:
            set_course(n, levels, scratch)
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
            bit, low, high, code = get_tunnel(n, h_places, nearness, _H_KINDS, chances, data, bit, low, high, code)
            bit, low, high, code = get_tunnel(n, x_places, nearness, _X_KINDS, chances, data, bit, low, high, code)
            _add_tunnels(g_total - g0, h_total - h0, j, n, slope, unit, levels, low_x, high_x, low_h, high_h, scratch)
    n_bytes, _ = last_bytes(low, high)
    return bit + np.int64(8) * (n_bytes - np.int64(4))
