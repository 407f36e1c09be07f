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
from typing import NamedTuple

import numpy as np

from pvtree.dtypes import N_BINS, ONE, ZERO
from pvtree.kernels.jit import njit
from pvtree.kernels.wire_bits import bit_length, get_bits, low_bits, peek, put_bits, unzigzag, zigzag


class Grid(NamedTuple):
    """One precision. Level i of h is ``fractions[i] * A``; the tunnel at i reaches from there ``width`` levels up."""

    fractions: np.ndarray  # float64 (n_levels,), from 0 to 1
    roots: np.ndarray  # float64 (n_levels,): sqrt(f (1 - f)), but never 0
    width: np.int64
    step: float


# Tunnels of h are placed on a grid so many times as fine as they are wide, those of x likewise: a finer one costs as
# much in larger numbers as it saves in moves.
_PLACES_H, _PLACES_X = 8, 4
# Below this share of a worker's hessian, and as near to all of it, h is one level: hardly any feature's best split is
# there, and the interval is still short beside the sum over all workers.
_LEAST_FRACTION = 1e-3
# f (1 - f) hardly depends on f around 1/2, so levels may be up to so many times as wide there.
_WIDEST = 2.0


def make_grid(step: float, spread: float) -> Grid:
    """``step``: width of x's tunnel in units of sqrt(threshold / n_workers) and of its standard width, see above.
    ``spread``: width of h's tunnel, as the logarithm of the ratio of h / (A - h) at both ends."""
    odds = [1.0]
    while odds[-1] > _LEAST_FRACTION:
        f = odds[-1] / (1.0 + odds[-1])
        ratio = 1.0 + spread / _PLACES_H / max(1.0 - 2.0 * f, 1.0 / _WIDEST) / 64.0
        for _ in range(6):  # (1 + t / 64)^64 instead of e^t, whose last bit depends on the machine
            ratio *= ratio
        odds.append(odds[-1] / ratio)
    left = [o / (1.0 + o) for o in odds[:0:-1]]
    fractions = np.array([0.0, *left, 0.5, *(1.0 - f for f in reversed(left)), 1.0])
    roots = np.sqrt(np.maximum(fractions * (1.0 - fractions), 0.5 * fractions[1]))
    return Grid(fractions, roots, np.int64(_PLACES_H), float(step))


# A coarse round for all, a fine one for what it leaves open.
ROUNDS: tuple[Grid, ...] = (make_grid(0.75, 0.5), make_grid(0.4, 0.35))

# Rows of the scratch. By position: the level of h if all bins had equally many rows, how near the ends it is, the lowest
# and highest place that a tunnel may have, and where the two tunnels are. By kind of event: its chance, how often seen.
_COURSE, _NEARNESS, _LOWEST, _HIGHEST, _H_PLACES, _X_PLACES, _CHANCES, _SEEN = (np.int64(row) for row in range(8))

# Kinds of events. For each there is a chance, learnt from the message itself. Whether a tunnel moves depends on how
# near the end of the bins it is (9 kinds), where one bin more is a large part of the rows, and on its last move (4).
_H_MOVES, _X_MOVES = np.int64(0), np.int64(36)
_H_UP, _X_UP, _IS_SKIPPED, _HAS_MISSING, _G_IS_NEGATIVE, _EVEN = (np.int64(kind) for kind in range(72, 78))
# Numbers: a kind for every digit that tells their length, and for every length for the first digit behind the one.
_H_BY, _X_BY, _H_MISSING, _G_MISSING = (np.int64(kind) for kind in (78, 110, 142, 192))
_SMALL_LENGTHS, _LARGE_LENGTHS = np.int64(16), np.int64(25)
_MOST_LENGTH = np.int64(62)

# A feature with more moves is cheaper to merge.
_MOST_MOVES = np.int64(192)
_FARTHEST = np.int64(1 << 20)  # places from the course
# Once the features so far took more bits than this each, which full histograms hardly do, further ones are skipped.
_BITS_EACH = np.int64(2720)
# Of one feature: no event takes more than 12 bits, see put_event; moves of 21 digits, and two large numbers.
_BITS_OF_ONE = np.int64(12 * (2 * 256 + 8 + 192 * 44 + 4 * 64))
_HEADER_BITS = np.int64(2 * (7 + 64) + 64)

# Relative errors of float64. x may be wrong by as many times |g| + |slope| h, a sum of two terms by as many times it.
_X_ERROR, _SUM_ERROR = 2.0**-50, 2.0**-51


def rounded_scratch() -> np.ndarray:
    """What the kernels here need to work in; one per thread."""
    return np.zeros((8, N_BINS), np.int64)


@njit
def most_bits(n_features):
    """No message of one node takes more, whatever the sums."""
    return _HEADER_BITS + n_features * _BITS_EACH + _BITS_OF_ONE


@njit
def rounding_unit(threshold, n_workers, slope, is_entropy):
    """The ``unit`` of a node for which x of standard width in all workers gives a score near the threshold."""
    # Around pure chance, information gain is the second-order gain over twice the variance of the class.
    variance = 2.0 * slope * (1.0 - slope) if is_entropy else 1.0
    return math.sqrt(max(threshold * variance, 0.0) / n_workers)


# ---- Events as a range code. An event with chance p takes about -log2(p) bits: both sides keep a range of 32-bit
# numbers, an event leaves its share of it, and leading bytes that are settled are sent.

_TOP, _ALL = np.int64(0xFF000000), np.int64(0xFFFFFFFF)
_CERTAIN = np.int64(1 << 16)
_LEAST_CHANCE = np.int64(32)
# An n-th event of its kind moves the chance by 1 / (n + 1.5) towards what happened, at last by 1 / 64.
_RATES = np.array([np.int64(65536 / (n + 2.5)) for n in range(62)], np.int64)
_LAST_RATE = np.int64(61)


@njit
def _forget(scratch):
    """Chances before the first event, near what they become."""
    chances, seen = scratch[_CHANCES], scratch[_SEEN]
    for kind in range(N_BINS):
        chances[kind] = _CERTAIN >> ONE
        seen[kind] = ZERO
    for kind in range(2 * _X_MOVES):
        chances[kind] = _CERTAIN >> np.int64(3)
    chances[_IS_SKIPPED] = chances[_HAS_MISSING] = _CERTAIN >> np.int64(3)


@njit
def _learn(event, kind, scratch):
    chance, n = scratch[_CHANCES, kind], scratch[_SEEN, kind]
    target = _CERTAIN if event else ZERO
    chance += ((target - chance) * _RATES[n]) >> np.int64(16)
    scratch[_CHANCES, kind] = min(max(chance, _LEAST_CHANCE), _CERTAIN - _LEAST_CHANCE)
    scratch[_SEEN, kind] = min(n + ONE, _LAST_RATE)


@njit
def _put_event(event, kind, scratch, out, bit, low, high):
    """Write whether an event happened. The range shrinks to 1 / 4096 of it at worst, as no chance is below 1 / 2048
    and a short range is divided to within one; so it costs no more than 12 bits."""
    middle = low + (((high - low) * scratch[_CHANCES, kind]) >> np.int64(16))
    if event:
        high = middle
    else:
        low = middle + ONE
    if kind != _EVEN:
        _learn(event, kind, scratch)
    while (low ^ high) & _TOP == 0:
        bit = put_bits(out, bit, high >> np.int64(24), np.int64(8))
        low, high = (low << np.int64(8)) & _ALL, ((high << np.int64(8)) & _ALL) | np.int64(255)
    return bit, low, high


@njit
def _get_event(kind, scratch, data, bit, low, high, code):
    middle = low + (((high - low) * scratch[_CHANCES, kind]) >> np.int64(16))
    event = code <= middle
    if event:
        high = middle
    else:
        low = middle + ONE
    if kind != _EVEN:
        _learn(event, kind, scratch)
    while (low ^ high) & _TOP == 0:
        code = ((code << np.int64(8)) & _ALL) | get_bits(data, bit, np.int64(8))
        bit += np.int64(8)
        low, high = (low << np.int64(8)) & _ALL, ((high << np.int64(8)) & _ALL) | np.int64(255)
    return event, bit, low, high, code


@njit
def _last_bytes(low, high):
    """How many bytes settle a number inside the range whatever follows, and that number."""
    for n_bytes in range(1, 4):
        free = (ONE << np.int64(32 - 8 * n_bytes)) - ONE
        number = (low + free) & ~free
        if number + free <= high:
            return np.int64(n_bytes), number
    return np.int64(4), low


@njit
def _put_number(number, kind, n_lengths, scratch, out, bit, low, high):
    """A number from 0 to 2**62: how many digits number + 1 has, and all but the first."""
    digits = number + ONE
    length = bit_length(digits) - ONE
    for i in range(length):
        bit, low, high = _put_event(True, kind + min(i, n_lengths - ONE), scratch, out, bit, low, high)
    if length < _MOST_LENGTH:
        bit, low, high = _put_event(False, kind + min(length, n_lengths - ONE), scratch, out, bit, low, high)
    for i in range(length - ONE, -ONE, -ONE):
        of = kind + n_lengths + min(length, n_lengths) - ONE if i == length - ONE else _EVEN
        bit, low, high = _put_event((digits >> np.int64(i)) & ONE == ONE, of, scratch, out, bit, low, high)
    return bit, low, high


@njit
def _get_number(kind, n_lengths, scratch, data, bit, low, high, code):
    length = ZERO
    while length < _MOST_LENGTH:
        of = kind + min(length, n_lengths - ONE)
        more, bit, low, high, code = _get_event(of, scratch, data, bit, low, high, code)
        if not more:
            break
        length += ONE
    digits = ONE
    for i in range(length):
        of = kind + n_lengths + min(length, n_lengths) - ONE if i == 0 else _EVEN
        digit, bit, low, high, code = _get_event(of, scratch, data, bit, low, high, code)
        digits = (digits << ONE) | np.int64(digit)
    return digits - ONE, bit, low, high, code


# ---- Tunnels


@njit
def _set_course(n_bins, grid, scratch):
    """The level of h at each position if all bins had equally many rows."""
    course, nearness = scratch[_COURSE], scratch[_NEARNESS]
    i, last = ZERO, len(grid.fractions) - ONE
    for p in range(1, n_bins):
        fraction = p / n_bins
        while i < last and grid.fractions[i + 1] <= fraction:
            i += ONE
        course[p] = i - grid.width // 2
        nearness[p] = min(p, n_bins - p)


@njit
def _place_tunnel(n_bins, place, scratch):
    """Choose places between the lowest and the highest of each position; returns the number of moves."""
    lowest, highest = scratch[_LOWEST], scratch[_HIGHEST]
    now, n_moves, p = ZERO, ZERO, ONE
    while p < n_bins:
        low, high, stop = lowest[p], highest[p], p + ONE
        while stop < n_bins and max(low, lowest[stop]) <= min(high, highest[stop]):
            low, high = max(low, lowest[stop]), min(high, highest[stop])
            stop += ONE
        to = min(max(now, low), high)  # the shortest move is the cheapest
        n_moves += np.int64(to != now)
        now = to
        for i in range(p, stop):
            place[i] = now
        p = stop
    return n_moves


@njit
def _put_tunnel(n_bins, place, moves, up, by, scratch, out, bit, low, high):
    nearness = scratch[_NEARNESS]
    now, age = ZERO, ZERO
    for p in range(1, n_bins):
        near = nearness[p]
        kind = moves + 4 * min(bit_length(near), np.int64(8))
        kind += np.int64(4 * age >= near) + np.int64(2 * age >= near) + np.int64(age >= near)
        difference = place[p] - now
        bit, low, high = _put_event(difference != 0, kind, scratch, out, bit, low, high)
        age += ONE
        if difference != 0:
            bit, low, high = _put_event(difference > 0, up, scratch, out, bit, low, high)
            bit, low, high = _put_number(abs(difference) - ONE, by, _SMALL_LENGTHS, scratch, out, bit, low, high)
            now, age = place[p], ZERO
    return bit, low, high


@njit
def _get_tunnel(n_bins, place, moves, up, by, scratch, data, bit, low, high, code):
    nearness = scratch[_NEARNESS]
    now, age = ZERO, ZERO
    for p in range(1, n_bins):
        near = nearness[p]
        kind = moves + 4 * min(bit_length(near), np.int64(8))
        kind += np.int64(4 * age >= near) + np.int64(2 * age >= near) + np.int64(age >= near)
        event, bit, low, high, code = _get_event(kind, scratch, data, bit, low, high, code)
        age += ONE
        if event:
            is_up, bit, low, high, code = _get_event(up, scratch, data, bit, low, high, code)
            n, bit, low, high, code = _get_number(by, _SMALL_LENGTHS, scratch, data, bit, low, high, code)
            n = min(n, 2 * _FARTHEST) + ONE
            now = min(max(now + n if is_up else now - n, -_FARTHEST), _FARTHEST)  # a broken message may say anything
            age = ZERO
        place[p] = now
    return bit, low, high, code


@njit
def _h_at(level, grid, all_h):
    """Both ends of the tunnel of h at a level, which may lie outside the table."""
    last = len(grid.fractions) - ONE
    low, high = min(max(level, ZERO), last), min(max(level + grid.width, ZERO), last)
    return all_h * grid.fractions[low], all_h * grid.fractions[high]


@njit
def _x_at(level, grid, all_x, scale):
    """The middle and the width of the tunnel of x, of which 0 is the place, for the level of h."""
    middle = min(max(level + (grid.width >> ONE), ZERO), len(grid.fractions) - ONE)
    return all_x * grid.fractions[middle], scale * grid.roots[middle]


@njit
def _x_ends(middle, width, place):
    low = middle + (place * (1.0 / _PLACES_X) - 0.5) * width
    return low, low + width


@njit
def _x_of(g, h, slope):
    """g - slope h, and how far from the exact value that may be."""
    product = slope * np.float64(h)
    return np.float64(g) - product, _X_ERROR * (abs(np.float64(g)) + abs(product))


@njit
def _plan_h(h, j, n_bins, all_h, grid, scratch):
    """Place the tunnel of h; returns the moves, more than allowed if it cannot be placed."""
    course, lowest, highest, place = scratch[_COURSE], scratch[_LOWEST], scratch[_HIGHEST], scratch[_H_PLACES]
    fractions, last = grid.fractions, len(grid.fractions) - ONE
    below, above = ZERO, ZERO  # the last level that is not above h, and the first that is not below
    for p in range(1, n_bins):
        value = np.float64(h[j, p])
        while below < last and all_h * fractions[below + 1] <= value:
            below += ONE
        while above < last and all_h * fractions[above] < value:
            above += ONE
        lowest[p] = above - grid.width - course[p] if above > 0 else -_FARTHEST
        highest[p] = below - course[p] if below < last else _FARTHEST
    n_moves = _place_tunnel(n_bins, place, scratch)
    for p in range(1, n_bins):  # sums that are no sums of hessians fit nowhere
        low, high = _h_at(course[p] + place[p], grid, all_h)
        if not low <= h[j, p] <= high:
            return _MOST_MOVES + ONE
    return n_moves


@njit
def _plan_x(g, h, j, n_bins, slope, all_x, scale, grid, scratch):
    """As ``_plan_h`` for x."""
    course, h_place = scratch[_COURSE], scratch[_H_PLACES]
    lowest, highest, place = scratch[_LOWEST], scratch[_HIGHEST], scratch[_X_PLACES]
    for p in range(1, n_bins):
        middle, width = _x_at(course[p] + h_place[p], grid, all_x, scale)
        x, error = _x_of(g[j, p], h[j, p], slope)
        inverse = _PLACES_X / width
        at, margin = (x - middle) * inverse, error * inverse + 1e-6
        if not (abs(at) < 0.5 * _FARTHEST and margin < 0.5):
            return _MOST_MOVES + ONE
        lowest[p] = np.int64(math.ceil(at + margin - 0.5 * _PLACES_X))
        highest[p] = np.int64(math.floor(at - margin + 0.5 * _PLACES_X))
    n_moves = _place_tunnel(n_bins, place, scratch)
    for p in range(1, n_bins):
        middle, width = _x_at(course[p] + h_place[p], grid, all_x, scale)
        x, error = _x_of(g[j, p], h[j, p], slope)
        low, high = _x_ends(middle, width, place[p])
        if not low + error <= x <= high - error:
            return _MOST_MOVES + ONE
    return n_moves


@njit
def _can_be_sent(g, h, j, n, g_total, h_total, slope, unit, grid, scratch):
    """Plan both tunnels of a feature; whether that is possible, and cheap enough."""
    all_g, all_h = (g[j, n], h[j, n]) if n > 0 else (ZERO, ZERO)
    most = ONE << _MOST_LENGTH
    if all_h < 0 or h[j, 0] + all_h != h_total or g[j, 0] + all_g != g_total:
        return False
    if not (0 <= h[j, 0] < most and -most < g[j, 0] < most):
        return False
    if all_h == 0:
        for p in range(1, n + 1):
            if g[j, p] != 0 or h[j, p] != 0:
                return False
        return True
    all_x, _ = _x_of(all_g, all_h, slope)
    n_moves = _plan_h(h, j, n, np.float64(all_h), grid, scratch)
    if n_moves > _MOST_MOVES:
        return False
    scale = grid.step * unit * math.sqrt(np.float64(all_h))
    return n_moves + _plan_x(g, h, j, n, slope, all_x, scale, grid, scratch) <= _MOST_MOVES


@njit
def put_rounded(g, h, n_bins, n_features, slope, unit, grid, out, bit, scratch):
    """Write the sums of a node's features at ``bit`` of ``out``, which has ``most_bits`` and a word more to there.

    g, h: int64 (n_features, N_BINS). Position 0 has the sums of missing values, p those of bins 1 to p.
    """
    if n_features == 0:
        return bit
    start, n = bit, n_bins[0]
    g_total, h_total = g[0, 0] + (g[0, n] if n > 0 else ZERO), h[0, 0] + (h[0, n] if n > 0 else ZERO)
    for total in (h_total, g_total):
        coded = zigzag(total)
        bit = put_bits(out, bit, bit_length(coded), np.int64(7))
        bit = put_bits(out, bit, coded, bit_length(coded))
    _forget(scratch)
    low, high, known = ZERO, _ALL, ZERO
    for j in range(n_features):
        n = n_bins[j]
        if n != known:
            _set_course(n, grid, scratch)
            known = n
        is_sent = bit - start <= (j + 1) * _BITS_EACH and _can_be_sent(
            g, h, j, n, g_total, h_total, slope, unit, grid, scratch
        )
        bit, low, high = _put_event(not is_sent, _IS_SKIPPED, scratch, out, bit, low, high)
        if not is_sent:
            continue
        has_missing = g[j, 0] != 0 or h[j, 0] != 0
        bit, low, high = _put_event(has_missing, _HAS_MISSING, scratch, out, bit, low, high)
        if has_missing:
            bit, low, high = _put_number(h[j, 0], _H_MISSING, _LARGE_LENGTHS, scratch, out, bit, low, high)
            bit, low, high = _put_event(g[j, 0] < 0, _G_IS_NEGATIVE, scratch, out, bit, low, high)
            bit, low, high = _put_number(abs(g[j, 0]), _G_MISSING, _LARGE_LENGTHS, scratch, out, bit, low, high)
        if h[j, 0] < h_total:
            h_places, x_places = scratch[_H_PLACES], scratch[_X_PLACES]
            bit, low, high = _put_tunnel(n, h_places, _H_MOVES, _H_UP, _H_BY, scratch, out, bit, low, high)
            bit, low, high = _put_tunnel(n, x_places, _X_MOVES, _X_UP, _X_BY, scratch, out, bit, low, high)
    n_bytes, number = _last_bytes(low, high)
    for i in range(n_bytes):
        bit = put_bits(out, bit, (number >> np.int64(24 - 8 * i)) & np.int64(255), np.int64(8))
    return bit


@njit
def _add_interval(x, error, low, high, j, p, sums):
    return ZERO
