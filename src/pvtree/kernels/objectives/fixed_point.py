"""Sums of float64 as integers, in two limbs; fixed_point.py chooses the scale."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.elementary import float_bits
from pvtree.kernels.jit import njit

MAGNITUDE_MASK = np.int64(0x7FFFFFFFFFFFFFFF)
# Adding this leaves the nearest integer of |x| <= 2^51 in the low bits: AVX2 has no conversion to int64.
ROUNDER = 1.5 * 2.0**52
ROUNDER_BITS = np.int64(0x4338000000000000)


@njit
def largest_magnitude_bits(values):
    """The bits of max |v|. Magnitudes compare like their bits, which vectorises, and NaN is above inf."""
    largest = np.int64(0)
    for i in range(values.size):
        largest = max(largest, float_bits(values[i]) & MAGNITUDE_MASK)
    return largest


@njit
def sum_limbs(values, scale, low_scale):
    """Exact integer sums (high, low) of the parts of v * scale = high + low / low_scale, to half a unit."""
    high = np.int64(0)
    low = np.int64(0)
    for i in range(values.size):
        scaled = values[i] * scale
        rounded = scaled + ROUNDER
        high += float_bits(rounded) - ROUNDER_BITS
        rest = scaled - (rounded - ROUNDER)  # exact
        low += float_bits(rest * low_scale + ROUNDER) - ROUNDER_BITS
    return high, low
