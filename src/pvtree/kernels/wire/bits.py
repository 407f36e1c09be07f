"""Bits on the wire: writing and reading them in bulk, and the code for the lists of integers in messages."""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pvtree.kernels.constants import ONE, ZERO
from pvtree.kernels.jit import njit

# Both sides know how many rows each value of a list sums over. The value is about proportional to that number, and its
# noise to the square root of it. So a value is coded as the difference from ``rows * slope``, in a Rice code whose
# parameter grows by one for every four times as many rows. Slope and parameter are chosen per list.

_U0, _U1, _U6, _U63 = np.uint64(0), np.uint64(1), np.uint64(6), np.uint64(63)
# This many one-bits in a row announce a value written out in full, which bounds the length of an outlier.
_ESCAPE = np.int64(24)
_ESCAPED_BITS = np.int64(24 + 64)
_MOST_RICE = np.int64(62)

# How a list is written. EXACT: every value is its prediction. PLAIN: no prediction, no sign. AROUND: differences from
# the prediction, with sign. FIXED: the difference from the least value in a fixed width; best for evenly spread values.
_EXACT, _PLAIN, _AROUND, _FIXED = (np.int64(mode) for mode in range(4))
_MODE_BITS, _RICE_BITS, _WIDTH_BITS = np.int64(2), np.int64(7), np.int64(7)
# A slope is mantissa * 2**exponent with 12 significant bits, of which the first is always one. So the hessian of a
# single row is always a slope.
_MANTISSA_BITS, _EXPONENT_BITS = np.int64(11), np.int64(6)
_LEAST_MANTISSA, _LEAST_EXPONENT = np.int64(2048), np.int64(-24)
_SLOPE_BITS = np.int64(1 + 11 + 6)

# Places in a list's plan.
_MODE, _MANTISSA, _EXPONENT, _RICE, _BASE, _WIDTH = (np.int64(place) for place in range(6))
PLAN_SIZE = np.int64(6)
# A list's worst case, beside 64 bits per value: mode, base with its width, width.
LIST_HEADER = np.int64(2 + 7 + 64 + 7)


@intrinsic
def _trailing_zeros(typingctx, value):
    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.IntType(1)(0))

    return types.int64(types.uint64), codegen


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


# A Rice code is the quotient by 2**parameter in unary, and the remainder in ``parameter`` bits. All unary parts of a
# list come before all remainders. So the reader knows where each remainder is without reading the one before, and finds
# several unary parts in each word that it loads: twice as fast as one value after another.


@njit
def rice_parameter(rice, root):
    return min((rice + root) >> ONE, _MOST_RICE)


@njit
def put_rice_list(coded, n, roots, rice, out, bit):
    """Write n coded values, each with the parameter (rice + root) / 2."""
    escape = np.uint64(_ESCAPE)
    word, filled = _U0, ZERO
    for i in range(n):
        unary = min(coded[i] >> np.uint64(rice_parameter(rice, roots[i])), escape)
        width = min(np.int64(unary) + ONE, _ESCAPE)
        if filled + width > 64:
            bit = put_bits(out, bit, word, filled)
            word, filled = _U0, ZERO
        word |= ((_U1 << unary) - _U1) << np.uint64(filled)
        filled += width
    bit = put_bits(out, bit, word, filled)
    word, filled = _U0, ZERO
    for i in range(n):
        parameter = rice_parameter(rice, roots[i])
        is_escaped = coded[i] >> np.uint64(parameter) >= escape
        width = np.int64(64) if is_escaped else parameter
        if filled + width > 64:
            bit = put_bits(out, bit, word, filled)
            word, filled = _U0, ZERO
        rest = coded[i] if is_escaped else coded[i] & ((_U1 << np.uint64(parameter)) - _U1)
        word |= rest << np.uint64(filled & 63)  # a full word has been written before
        filled += width
    return put_bits(out, bit, word, filled)


@njit
def get_rice_list(data, bit, coded, n, roots, rice):
    """Read what ``put_rice_list`` wrote."""
    stop_bit = _U1 << np.uint64(_ESCAPE)
    word, used = peek(data, bit), ZERO
    for i in range(n):
        if used > 64 - _ESCAPE:
            bit += used
            word, used = peek(data, bit), ZERO
        unary = _trailing_zeros(~word | stop_bit)
        width = min(unary + ONE, _ESCAPE)
        word >>= np.uint64(width)
        used += width
        coded[i] = np.uint64(unary)
    bit += used
    for i in range(n):
        parameter = rice_parameter(rice, roots[i])
        rest = peek(data, bit)
        if coded[i] >= np.uint64(_ESCAPE):
            coded[i] = rest
            bit += np.int64(64)
        else:
            coded[i] = (coded[i] << np.uint64(parameter)) | low_bits(rest, parameter)
            bit += parameter
    return bit


@njit
def rice_bits(coded, n, roots, rice):
    """Bits that n coded values take."""
    total = ZERO
    for i in range(n):
        parameter = rice_parameter(rice, roots[i])
        unary = coded[i] >> np.uint64(parameter)
        total += np.int64(unary) + ONE + parameter if unary < np.uint64(_ESCAPE) else _ESCAPED_BITS
    return total


@njit
def predict(rows, mantissa, exponent):
    """``rows * slope`` in integers, so that both sides agree; products may wrap around."""
    product = rows * mantissa
    return product << exponent if exponent >= 0 else product >> -exponent


@njit
def root_of(rows):
    """log2(rows) to the nearest integer; half of it is added to the Rice parameter."""
    count = np.uint64(rows)
    return np.int64(63) - _leading_zeros(count + (count >> _U1))


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
def code_list(values, n, rows, mode, mantissa, exponent, coded):
    """coded = the values as unsigned numbers, small where the prediction is good."""
    if mode == _PLAIN:
        for i in range(n):
            coded[i] = np.uint64(values[i])
    elif exponent >= 0:  # as ``predict``; a shift in one direction vectorises
        for i in range(n):
            coded[i] = zigzag(values[i] - ((rows[i] * mantissa) << exponent))
    else:
        for i in range(n):
            coded[i] = zigzag(values[i] - ((rows[i] * mantissa) >> -exponent))


@njit
def plan_list(values, n, rows, roots, coded, plan):
    """Choose how n values of so many ``rows`` each are written, leave that in ``plan``, and return the bits.

    ``roots`` is ``root_of`` the rows. ``coded`` is scratch.
    """
    # Sums of huge values may wrap around. Then the choice is poor, but never worse than the fixed width.
    least, most, total, n_rows = values[0], values[0], ZERO, ZERO
    for i in range(n):
        least, most = min(least, values[i]), max(most, values[i])
        total += values[i]
        n_rows += rows[i]
    plan[_MANTISSA], plan[_EXPONENT] = ZERO, ZERO
    if least == 0 and most == 0:
        plan[_MODE] = _EXACT
        return _MODE_BITS + ONE
    mantissa, exponent = round_slope(np.float64(total) / np.float64(n_rows))
    # The typical sizes with and without a prediction decide between the two.
    plain_sum, around_sum, differs = _U0, _U0, _U0
    for i in range(n):
        by = np.uint64(roots[i] >> ONE)
        plain_sum += zigzag(values[i]) >> by
    code_list(values, n, rows, _AROUND, mantissa, exponent, coded)
    for i in range(n):
        differs |= coded[i]
        around_sum += coded[i] >> np.uint64(roots[i] >> ONE)
    if mantissa != 0 and differs == 0:
        plan[_MODE], plan[_MANTISSA], plan[_EXPONENT] = _EXACT, mantissa, exponent
        return _MODE_BITS + ONE + _SLOPE_BITS
    plain, around = np.float64(plain_sum), np.float64(around_sum)
    mode, header, typical = _AROUND, _MODE_BITS + _RICE_BITS + ONE, plain / n
    if least >= 0:
        mode, header, typical = _PLAIN, _MODE_BITS + _RICE_BITS, 0.5 * plain / n
    if mantissa != 0 and n * math.log2((typical + 1.0) / (around / n + 1.0)) > _SLOPE_BITS:
        mode, header, typical = _AROUND, _MODE_BITS + _RICE_BITS + ONE + _SLOPE_BITS, around / n
    else:
        mantissa, exponent = ZERO, ZERO
        code_list(values, n, rows, mode, mantissa, exponent, coded)
    # The best Rice parameter is near the typical size; neighbours are tried until they are no better.
    rice = min(max(np.int64(2.0 * math.log2(0.69 * typical + 1e-9)), ZERO), np.int64(127))
    bits = rice_bits(coded, n, roots, rice)
    for step in (-ONE, ONE):
        while 0 <= rice + step <= 127:
            more = rice_bits(coded, n, roots, rice + step)
            if more >= bits:
                break
            rice, bits = rice + step, more
    bits += header
    width = bit_length(np.uint64(most) - np.uint64(least))
    fixed = _MODE_BITS + 2 * _WIDTH_BITS + bit_length(zigzag(least)) + n * width
    plan[_MODE], plan[_MANTISSA], plan[_EXPONENT], plan[_RICE] = mode, mantissa, exponent, rice
    if fixed <= bits:
        plan[_MODE], plan[_BASE], plan[_WIDTH] = _FIXED, least, width
        return fixed
    return bits


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
def put_list(values, n, rows, roots, coded, plan, out, bit):
    """Write n values as ``plan_list`` planned; returns the next bit."""
    mode, mantissa, exponent, rice = plan[_MODE], plan[_MANTISSA], plan[_EXPONENT], plan[_RICE]
    bit = put_bits(out, bit, mode, _MODE_BITS)
    if mode == _FIXED:
        base, width = plan[_BASE], plan[_WIDTH]
        coded_base = zigzag(base)
        bit = put_bits(out, bit, bit_length(coded_base), _WIDTH_BITS)
        bit = put_bits(out, bit, coded_base, bit_length(coded_base))
        bit = put_bits(out, bit, width, _WIDTH_BITS)
        for i in range(n):
            bit = put_bits(out, bit, np.uint64(values[i]) - np.uint64(base), width)
        return bit
    if mode != _PLAIN:
        bit = put_slope(out, bit, mantissa, exponent)
    if mode == _EXACT:
        return bit
    bit = put_bits(out, bit, rice, _RICE_BITS)
    code_list(values, n, rows, mode, mantissa, exponent, coded)
    return put_rice_list(coded, n, roots, rice, out, bit)


@njit
def get_list(data, bit, values, n, rows, roots):
    """Read what ``put_list`` wrote for the same rows."""
    mode = get_bits(data, bit, _MODE_BITS)
    bit += _MODE_BITS
    if mode == _FIXED:
        base_width = min(get_bits(data, bit, _WIDTH_BITS), np.int64(64))
        bit += _WIDTH_BITS
        base = np.uint64(unzigzag(low_bits(peek(data, bit), base_width)))
        bit += base_width
        width = min(get_bits(data, bit, _WIDTH_BITS), np.int64(64))
        bit += _WIDTH_BITS
        for i in range(n):
            values[i] = np.int64(base + low_bits(peek(data, bit), width))
            bit += width
        return bit
    mantissa, exponent = ZERO, ZERO
    if mode != _PLAIN:
        mantissa, exponent, bit = get_slope(data, bit)
    if mode == _EXACT:
        for i in range(n):
            values[i] = predict(rows[i], mantissa, exponent)
        return bit
    rice = get_bits(data, bit, _RICE_BITS)
    bit += _RICE_BITS
    coded = values.view(np.uint64)
    bit = get_rice_list(data, bit, coded, n, roots, rice)
    if mode == _AROUND:
        for i in range(n):
            values[i] = unzigzag(coded[i]) + predict(rows[i], mantissa, exponent)
    return bit
