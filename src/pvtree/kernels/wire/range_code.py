"""Events as a range code: an event of probability p takes about -log2(p) bits."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.constants import ONE, ZERO
from pvtree.kernels.elementary import inlined
from pvtree.kernels.jit import njit
from pvtree.kernels.wire.bits import bit_length, get_bits, put_bits

# Both sides keep a range of 32-bit numbers. An event shrinks it to the event's share, and leading bytes that can no
# longer change are sent. Each kind of event has a probability of its own, its chance, learnt from the events before.

DIGIT = np.int64(77)  # the kind of the further digits of any number
MOST_LENGTH = np.int64(62)
TOP_BYTE, WHOLE_RANGE = np.int64(0xFF000000), np.int64(0xFFFFFFFF)
CERTAIN = np.int64(1 << 16)
_LEAST_CHANCE = np.int64(32)
# The first event of a kind moves its chance halfway to what happened; later ones less, in the end a 64th of the way.
_MOST_SEEN = np.int64(31)
SEEN_BITS, _SEEN_MASK = np.int64(6), np.int64(63)


# No function inside the loops below takes an array: counting references to it would take most of the time.


@inlined
def divide(low, high, state):
    """The last number of the range that means that the event happened."""
    return low + (((high - low) * (state >> SEEN_BITS)) >> np.int64(16))


@inlined
def shrunk(low, high, middle, happened):
    """What an event leaves of the range. Without a branch, here and below: random events are hard to predict."""
    return low + ((middle + ONE - low) & (happened - ONE)), high + ((middle - high) & -happened)


@inlined
def learnt(state, happened):
    seen, chance = state & _SEEN_MASK, state >> SEEN_BITS
    target = _LEAST_CHANCE + happened * (CERTAIN - 2 * _LEAST_CHANCE)  # never passed, as the rate is below 1
    chance += (target - chance) >> bit_length(seen + ONE)
    return (chance << SEEN_BITS) | min(seen + ONE, _MOST_SEEN)


@njit
def put_events(events, n, chances, out, bit, low, high):
    """Write n events, each listed as twice its kind, plus one if it happened.

    An event shrinks the range to 1 / 4096 of it at worst: no chance is below 1 / 2048, and a short range is divided to
    within one. So no event takes more than 12 bits.
    """
    for i in range(n):
        kind, happened = events[i] >> ONE, events[i] & ONE
        state = chances[kind]
        middle = divide(low, high, state)
        low, high = shrunk(low, high, middle, happened)
        chances[kind] = learnt(state, happened)
        while (low ^ high) & TOP_BYTE == 0:
            bit = put_bits(out, bit, high >> np.int64(24), np.int64(8))
            low, high = (low << np.int64(8)) & WHOLE_RANGE, ((high << np.int64(8)) & WHOLE_RANGE) | np.int64(255)
    return bit, low, high


@njit
def get_bytes(data, bit, low, high, code):
    while (low ^ high) & TOP_BYTE == 0:
        code = ((code << np.int64(8)) & WHOLE_RANGE) | get_bits(data, bit, np.int64(8))
        bit += np.int64(8)
        low, high = (low << np.int64(8)) & WHOLE_RANGE, ((high << np.int64(8)) & WHOLE_RANGE) | np.int64(255)
    return bit, low, high, code


@njit
def get_event(kind, chances, data, bit, low, high, code):
    state = chances[kind]
    middle = divide(low, high, state)
    happened = np.int64(code <= middle)
    low, high = shrunk(low, high, middle, happened)
    chances[kind] = learnt(state, happened)
    bit, low, high, code = get_bytes(data, bit, low, high, code)
    return happened == ONE, bit, low, high, code


@njit
def last_bytes(low, high):
    """(number of bytes, number): as many leading bytes of the number as keep it in the range, whatever follows."""
    for n_bytes in range(1, 4):
        free = (ONE << np.int64(32 - 8 * n_bytes)) - ONE
        number = (low + free) & ~free
        if number + free <= high:
            return np.int64(n_bytes), number
    return np.int64(4), low


@njit
def list_number(number, kind, n_lengths, events, n):
    """List a number from 0 to 2**62: how many digits number + 1 has, and all but the first. Returns the list's end."""
    digits = number + ONE
    length = bit_length(digits) - ONE
    for i in range(min(length + ONE, MOST_LENGTH)):
        events[n] = 2 * (kind + min(i, n_lengths - ONE)) + np.int64(i < length)
        n += ONE
    of = kind + n_lengths + min(length, n_lengths) - ONE
    for i in range(length - ONE, -ONE, -ONE):
        events[n] = 2 * of + ((digits >> np.int64(i)) & ONE)
        of = DIGIT
        n += ONE
    return n


@njit
def get_number(kind, n_lengths, chances, data, bit, low, high, code):
    length = ZERO
    while length < MOST_LENGTH:
        of = kind + min(length, n_lengths - ONE)
        more, bit, low, high, code = get_event(of, chances, data, bit, low, high, code)
        if not more:
            break
        length += ONE
    digits = ONE
    for i in range(length):
        of = kind + n_lengths + min(length, n_lengths) - ONE if i == 0 else DIGIT
        digit, bit, low, high, code = get_event(of, chances, data, bit, low, high, code)
        digits = (digits << ONE) | np.int64(digit)
    return digits - ONE, bit, low, high, code
