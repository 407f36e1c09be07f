"""exp and log in plain arithmetic: libm's vector and scalar versions differ in the last bit, and a model must
not depend on which rows fall into a loop's remainder. No branches: LLVM vectorises the callers' loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pvtree.kernels.jit import njit

LN2_HIGH = 0.6931471805598903  # 42 bits of ln 2, so that k * LN2_HIGH is exact for every exponent k
LN2_LOW = 5.497923018708371e-14
LN2 = 0.6931471805599453
LOG2_E = 1.4426950408889634

# Adding ROUNDER rounds a float to an integer, which then stands in the low bits; the 2048 keeps it positive.
ROUNDER = 1.5 * 2.0**52 + 2048.0
TWO_52 = 2.0**52
MANTISSA_BITS = 52
ONE_BITS = np.int64(0x3FF0000000000000)
SQRT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
TWO_52_BITS = np.int64(0x4330000000000000)
SMALLEST_NORMAL = 2.0**-1022


def inlined(function: Callable[..., Any]) -> Any:
    """A loop that calls one of these is vectorised only if the call disappears, whatever LLVM thinks of its cost."""
    return njit(function, forceinline=True)


@intrinsic
def float_bits(_context: Any, x: Any) -> Any:
    """The 64 bits of a float64 as an int64."""

    def build(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), build


@intrinsic
def float_from_bits(_context: Any, bits: Any) -> Any:
    """The float64 that has these 64 bits."""

    def build(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), build


@intrinsic
def select(_context: Any, condition: Any, yes: Any, no: Any) -> Any:
    """``yes if condition else no``, both evaluated: an ``if`` may keep a loop from being vectorised."""

    def build(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.select(args[0], args[1], args[2])

    return types.float64(types.boolean, types.float64, types.float64), build


@intrinsic
def fma(_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once: the same bits with and without an instruction for it, and fast with one."""

    def build(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), build


@inlined
def exp(x):
    """e^x within 2 ulp; overflows to inf, underflows gradually to 0, NaN passes through."""
    x = select(x > 710.0, 710.0, x)
    x = select(x < -746.0, -746.0, x)
    rounded = fma(x, LOG2_E, ROUNDER)
    k = rounded - ROUNDER
    r = fma(k, -LN2_LOW, fma(k, -LN2_HIGH, x))  # |r| <= ln(2) / 2
    # e^r = 1 + r + r² P(r): P interpolates at the Chebyshev points, truncation error 1.3e-17.
    p = fma(r, 2.510038549551032e-08, 2.7620088445409746e-07)
    p = fma(r, p, 2.7557268459997064e-06)
    p = fma(r, p, 2.4801521295954376e-05)
    p = fma(r, p, 0.00019841269863053618)
    p = fma(r, p, 0.0013888888917213717)
    p = fma(r, p, 0.008333333333330062)
    p = fma(r, p, 0.04166666666662413)
    p = fma(r, p, 0.16666666666666669)
    p = fma(r, p, 0.5000000000000001)
    power = 1.0 + fma(r * r, p, r)
    # 2^k in two factors: one alone could not reach the subnormal results.
    biased = float_bits(rounded) & np.int64(4095)  # k + 2048
    half = biased >> np.int64(1)
    first = float_from_bits((half - np.int64(1)) << np.int64(MANTISSA_BITS))
    second = float_from_bits((biased - half - np.int64(1)) << np.int64(MANTISSA_BITS))
    return power * first * second


@inlined
def log(x):
    """Natural logarithm within 2 ulp; log(0) = -inf, NaN for negative x."""
    subnormal = x < SMALLEST_NORMAL
    normal = select(subnormal, x * 2.0**54, x)
    # x = 2^k m with m in [sqrt(1/2), sqrt(2)); the bits are kept positive to shift without a sign.
    shifted = float_bits(normal) - SQRT_HALF_BITS + ONE_BITS
    biased = (shifted >> np.int64(MANTISSA_BITS)) & np.int64(4095)  # k + 1023
    m = float_from_bits(float_bits(normal) - (biased << np.int64(MANTISSA_BITS)) + ONE_BITS)
    k = float_from_bits(TWO_52_BITS | biased) - (TWO_52 + select(subnormal, 1077.0, 1023.0))
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    # log m = 2 atanh(s) = 2s + s z P(z): P interpolates at the Chebyshev points, relative error 5e-18.
    p = fma(z, 0.14616585424888623, 0.15331710618210773)
    p = fma(z, p, 0.18182889455674947)
    p = fma(z, p, 0.22222211130259878)
    p = fma(z, p, 0.2857142862600327)
    p = fma(z, p, 0.39999999999899444)
    p = fma(z, p, 0.666666666666667)
    half_square = 0.5 * f * f
    # 2s = f - s f, and s f = f²/2 - s f²/2: the large term f enters the sum exactly.
    result = k * LN2_HIGH - ((half_square - (s * (half_square + z * p) + k * LN2_LOW)) - f)
    result = select(x == np.inf, np.inf, result)
    result = select(x == 0.0, -np.inf, result)
    return select(x >= 0.0, result, np.nan)


@inlined
def sigmoid(x):
    return 1.0 / (1.0 + exp(-x))


@inlined
def softplus(x):
    """log(1 + e^x) without overflow, accurate where the result is tiny."""
    u = exp(-abs(x))
    one_plus_u = 1.0 + u
    lost = u - (one_plus_u - 1.0)  # what rounding took from 1 + u
    return select(x > 0.0, x, 0.0) + (log(one_plus_u) + lost / one_plus_u)
