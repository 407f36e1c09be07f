"""Bits on the wire: writing and reading them in bulk, and the code for the lists of integers in messages."""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pvtree.kernels.constants import ONE, ZERO
from pvtree.kernels.jit import njit

# Both sides know how many rows each value of a list sums over. The value is about proportional to that number, so it
# is coded as the difference from ``rows * slope``. Neighbouring values are about equally large: sixteen of them share
# a width, that of the largest, and are written in it one after another (docs/adr/0070-lists-in-blocks.md).

_U0, _U1, _U6, _U63 = np.uint64(0), np.uint64(1), np.uint64(6), np.uint64(63)
BLOCK_VALUES = np.int64(16)
_BLOCK_BITS = np.int64(6)  # for a block's width; the largest one means 64
_LARGEST = np.int64(63)

# How a list is written. EXACT: every value is its prediction. AROUND: differences from the prediction, with sign.
# ABOVE: differences from the least value.
_EXACT, _AROUND, _ABOVE = (np.int64(mode) for mode in range(3))
_MODE_BITS, _WIDTH_BITS = np.int64(2), np.int64(7)
# A slope is mantissa * 2**exponent with 12 significant bits, of which the first is always one. So the hessian of a
# single row is always a slope.
_MANTISSA_BITS, _EXPONENT_BITS = np.int64(11), np.int64(6)
_LEAST_MANTISSA, _LEAST_EXPONENT = np.int64(2048), np.int64(-24)
_SLOPE_BITS = np.int64(1 + 11 + 6)

# Places in a list's plan.
_MODE, _MANTISSA, _EXPONENT, _BASE = (np.int64(place) for place in range(4))
PLAN_SIZE = np.int64(4)
# A list's worst case: this many bits, and for each value 64 and its share of the block's width.
LIST_HEADER, VALUE_BITS = np.int64(2 + 7 + 64 + 6), np.int64(65)


@intrinsic
def _leading_zeros(typingctx, value):
    def codegen(context, builder, signature, args):
        return builder.ctlz(args[0], ir.IntType(1)(0))

    return types.int64(types.uint64), codegen


@njit
def bit_length(value):
    return np.int64(64) - _leading_zeros(np.uint64(value))


# A value may begin at any bit of the array and straddle two words. Shifting by 64 is undefined, hence the shifts in two
# steps.


@njit
def put_bits(out, bit, value, width):
    """Write ``value`` (below 2**width) at ``bit``; returns the next bit. Later bits of its word and the next vanish."""
    word, shift = np.uint64(bit) >> _U6, np.uint64(bit) & _U63
    bits = np.uint64(value)
    out[word] = (out[word] & ((_U1 << shift) - _U1)) | (bits << shift)
    out[word + _U1] = (bits >> _U1) >> (_U63 - shift)
    return bit + width


@njit
def copy_bits(source, n_bits, out, bit):
    """Write the first ``n_bits`` of ``source`` at ``bit``; returns the next bit."""
    n_words = n_bits >> np.int64(6)
    for i in range(n_words):
        bit = put_bits(out, bit, source[i], np.int64(64))
    rest = n_bits & np.int64(63)
    return put_bits(out, bit, source[n_words] & ((_U1 << np.uint64(rest)) - _U1), rest) if rest else bit


@njit
def peek(data, bit):
    """The 64 bits at ``bit``. A broken message may point anywhere, so the position is clipped to the array."""
    word = min(np.uint64(bit) >> _U6, np.uint64(len(data) - 2))
    shift = np.uint64(bit) & _U63
    return (data[word] >> shift) | ((data[word + _U1] << _U1) << (_U63 - shift))


@njit
def low_bits(bits, width):
    half = np.uint64(width >> ONE)
    return bits & (((_U1 << half) << (np.uint64(width) - half)) - _U1)


@njit
def get_bits(data, bit, width):
    return np.int64(low_bits(peek(data, bit), width))


@njit
def zigzag(value):
    """0, -1, 1, -2, ... as 0, 1, 2, 3, ...; every int64 has a place among the 64-bit numbers."""
    return np.uint64((value << ONE) ^ (value >> np.int64(63)))


@njit
def unzigzag(coded):
    return np.int64(coded >> _U1) ^ -np.int64(coded & _U1)


@njit
def width_of_block(coded, first):
    """The width of sixteen values from ``first`` on: that of the largest, but 64 instead of 63."""
    block = coded[first:][:BLOCK_VALUES]
    any_bit = _U0
    for i in range(BLOCK_VALUES):
        any_bit |= block[i]
    width = bit_length(any_bit)
    return np.int64(64) if width == _LARGEST else width


@njit
def bits_of_blocks(coded, n):
    """Bits that ``put_blocks`` writes."""
    total = ZERO
    for first in range(0, n, BLOCK_VALUES):
        total += _BLOCK_BITS + min(BLOCK_VALUES, n - first) * width_of_block(coded, first)
    return total


@njit
def put_blocks(coded, n, out, bit):
    """Write n coded values, sixteen in one width each. Zeros must follow them up to a whole block."""
    at, filled = np.uint64(bit) >> _U6, np.uint64(bit) & _U63
    word = out[at] & ((_U1 << filled) - _U1)
    for first in range(0, n, BLOCK_VALUES):
        width = np.uint64(width_of_block(coded, first))
        # The width itself comes before the block as if it were a value, in six bits.
        value, size = min(width, np.uint64(_LARGEST)), np.uint64(_BLOCK_BITS)
        for i in range(first - 1, min(first + BLOCK_VALUES, n)):
            if i >= first:
                value, size = coded[i], width
            word |= value << filled
            filled += size
            if filled > _U63:
                out[at] = word
                at, filled = at + _U1, filled - np.uint64(64)
                word = (value >> _U1) >> (size - filled - _U1)  # what did not fit
    out[at], out[at + _U1] = word, _U0
    return np.int64((at << _U6) + filled)


@njit
def get_blocks(data, bit, coded, n):
    """Read what ``put_blocks`` wrote."""
    for first in range(0, n, BLOCK_VALUES):
        width = get_bits(data, bit, _BLOCK_BITS)
        width = np.int64(64) if width == _LARGEST else width
        bit += _BLOCK_BITS
        keep = low_bits(~_U0, width)
        for i in range(first, min(first + BLOCK_VALUES, n)):
            coded[i] = peek(data, bit) & keep
            bit += width
    return bit


@njit
def predict(rows, mantissa, exponent):
    """``rows * slope`` in integers, so that both sides agree; products may wrap around."""
    product = rows * mantissa
    return product << exponent if exponent >= 0 else product >> -exponent


@njit
def round_slope(slope):
    """(mantissa, exponent); mantissa 0 for a slope that has no code."""
    if not 0.0 < abs(slope) < 1e15:  # sums that wrapped around may give any slope
        return ZERO, ZERO
    fraction, power = math.frexp(abs(slope))
    mantissa, exponent = np.int64(fraction * 4096.0 + 0.5), np.int64(power) - 12
    if mantissa == 4096:
        mantissa, exponent = _LEAST_MANTISSA, exponent + ONE
    if exponent < _LEAST_EXPONENT or exponent >= _LEAST_EXPONENT + (ONE << _EXPONENT_BITS):
        return ZERO, ZERO
    return (mantissa if slope > 0 else -mantissa), exponent


@njit
def code_list(values, n, rows, mode, base, mantissa, exponent, coded):
    """coded = the values as unsigned numbers, small where the prediction is good, with zeros up to a whole block."""
    if mode == _ABOVE:
        for i in range(n):
            coded[i] = np.uint64(values[i]) - np.uint64(base)
    elif mantissa == 0:
        for i in range(n):
            coded[i] = zigzag(values[i])
    elif exponent >= 0:  # as ``predict``; a shift in one direction vectorises
        for i in range(n):
            coded[i] = zigzag(values[i] - ((rows[i] * mantissa) << exponent))
    else:
        for i in range(n):
            coded[i] = zigzag(values[i] - ((rows[i] * mantissa) >> -exponent))
    for i in range(n, (n + BLOCK_VALUES - 1) // BLOCK_VALUES * BLOCK_VALUES):
        coded[i] = _U0


@njit
def plan_list(values, n, rows, coded, plan):
    """Choose how n values of so many ``rows`` each are written, leave that in ``plan``, and return the bits.

    ``coded`` is scratch, with room for n values rounded up to a whole block.
    """
    # Sums of huge values may wrap around. Then the choice is poor, but never wrong.
    least, most, total, n_rows = values[0], values[0], ZERO, ZERO
    for i in range(n):
        least, most = min(least, values[i]), max(most, values[i])
        total += values[i]
        n_rows += rows[i]
    plan[_MODE], plan[_MANTISSA], plan[_EXPONENT], plan[_BASE] = _EXACT, ZERO, ZERO, least
    if least == 0 and most == 0:
        return _MODE_BITS + ONE
    mantissa, exponent = round_slope(np.float64(total) / np.float64(n_rows))
    plan[_MANTISSA], plan[_EXPONENT] = mantissa, exponent
    code_list(values, n, rows, _AROUND, least, mantissa, exponent, coded)
    around = bits_of_blocks(coded, n)
    n_blocks = (n + BLOCK_VALUES - 1) // BLOCK_VALUES
    if around == n_blocks * _BLOCK_BITS:
        return _MODE_BITS + slope_bits(mantissa)
    around += _MODE_BITS + slope_bits(mantissa)
    code_list(values, n, rows, _ABOVE, least, mantissa, exponent, coded)
    above = _MODE_BITS + _WIDTH_BITS + bit_length(zigzag(least)) + bits_of_blocks(coded, n)
    plan[_MODE] = _ABOVE if above < around else _AROUND
    return min(above, around)


@njit
def slope_bits(mantissa):
    return ONE if mantissa == 0 else ONE + _SLOPE_BITS


@njit
def put_slope(out, bit, mantissa, exponent):
    if mantissa == 0:
        return put_bits(out, bit, _U0, ONE)
    negative = np.int64(mantissa < 0)
    word = ONE | (negative << ONE) | ((abs(mantissa) - _LEAST_MANTISSA) << np.int64(2))
    word |= (exponent - _LEAST_EXPONENT) << np.int64(2 + _MANTISSA_BITS)
    return put_bits(out, bit, word, ONE + _SLOPE_BITS)


@njit
def get_slope(data, bit):
    if get_bits(data, bit, ONE) == 0:
        return ZERO, ZERO, bit + ONE
    negative = get_bits(data, bit + ONE, ONE)
    mantissa = get_bits(data, bit + 2, _MANTISSA_BITS) + _LEAST_MANTISSA
    exponent = get_bits(data, bit + 2 + _MANTISSA_BITS, _EXPONENT_BITS) + _LEAST_EXPONENT
    return (-mantissa if negative else mantissa), exponent, bit + ONE + _SLOPE_BITS


@njit
def put_list(values, n, rows, coded, plan, out, bit):
    """Write n values as ``plan_list`` planned; returns the next bit."""
    mode, mantissa, exponent, base = plan[_MODE], plan[_MANTISSA], plan[_EXPONENT], plan[_BASE]
    bit = put_bits(out, bit, mode, _MODE_BITS)
    if mode == _ABOVE:
        coded_base = zigzag(base)
        bit = put_bits(out, bit, bit_length(coded_base), _WIDTH_BITS)
        bit = put_bits(out, bit, coded_base, bit_length(coded_base))
    else:
        bit = put_slope(out, bit, mantissa, exponent)
    if mode == _EXACT:
        return bit
    code_list(values, n, rows, mode, base, mantissa, exponent, coded)
    return put_blocks(coded, n, out, bit)


@njit
def get_list(data, bit, values, n, rows):
    """Read what ``put_list`` wrote for the same rows."""
    mode = get_bits(data, bit, _MODE_BITS)
    bit += _MODE_BITS
    coded, base, mantissa, exponent = values.view(np.uint64), _U0, ZERO, ZERO
    if mode == _ABOVE:
        base_width = min(get_bits(data, bit, _WIDTH_BITS), np.int64(64))
        bit += _WIDTH_BITS
        base = np.uint64(unzigzag(low_bits(peek(data, bit), base_width)))
        bit += base_width
    else:
        mantissa, exponent, bit = get_slope(data, bit)
    if mode == _EXACT:
        for i in range(n):
            values[i] = predict(rows[i], mantissa, exponent)
        return bit
    bit = get_blocks(data, bit, coded, n)
    if mode == _ABOVE:
        for i in range(n):
            coded[i] += base
    else:
        for i in range(n):
            values[i] = unzigzag(coded[i]) + predict(rows[i], mantissa, exponent)
    return bit
