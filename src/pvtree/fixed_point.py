"""Sums that do not depend on the order of the rows: values become integers, whose addition is associative.
Used for boost-from-average and metrics; several workers add up their integers and get the same bits."""

from __future__ import annotations

import math

import numpy as np

from pvtree.errors import InvalidDataError
from pvtree.kernels.fixed_point import largest_magnitude_bits, sum_limbs

SUM_BITS = 62  # an int64 sum with room for its sign and for rounding
LIMB_BITS = 51  # the widest integer that float64 arithmetic rounds to in one addition
MAX_SCALE_EXPONENT = 1023  # of a float64: sums of magnitudes below 2^-960 lose accuracy


def max_magnitude(values: np.ndarray) -> float:
    """Largest |value|, NaN if there is one; what workers agree on before ``integer_sum``."""
    return float(np.int64(largest_magnitude_bits(_flat(values))).view(np.float64))


def integer_sum(values: np.ndarray, max_abs: float, n: int) -> tuple[int, int]:
    """``(total, shift)`` with sum(values) = total / 2**shift.

    ``max_abs`` bounds every magnitude and ``n`` the number of values, over all workers: with the same two
    numbers every worker gets the same ``shift``; the totals may be added in any order before ``to_float``.
    A value is kept to 2^-102 of ``max_abs`` for few rows, to 2^-84 for a million, to 2^-62 for 2^31.
    """
    values = _flat(values)
    if not math.isfinite(max_abs):
        raise InvalidDataError(
            f"Values must be finite to be summed exactly, max_abs is {max_abs}: drop or replace them."
        )
    if n < values.size or not max_magnitude(values) <= max_abs:
        raise InvalidDataError(
            f"Got {values.size} values up to {max_magnitude(values)} where n={n} and max_abs={max_abs} were "
            "declared: give bounds that cover the values of all workers."
        )
    limb = min(LIMB_BITS, SUM_BITS - max(n - 1, 0).bit_length())
    exponent = math.frexp(max_abs)[1]  # max_abs < 2^exponent
    scale_exponent = min(limb - exponent, MAX_SCALE_EXPONENT)
    high, low = sum_limbs(values, math.ldexp(1.0, scale_exponent), math.ldexp(1.0, limb))
    return (int(high) << limb) + int(low), scale_exponent + limb


def to_float(total: int, shift: int) -> float:
    """The float64 nearest to total / 2**shift; infinite where float64 ends."""
    try:
        return total / (1 << shift) if shift >= 0 else float(total << -shift)
    except OverflowError:
        return math.copysign(math.inf, total)


def exact_sum(values: np.ndarray, max_abs: float | None = None, n: int | None = None) -> float:
    """The sum of ``values``, the same whatever their order or blocking.

    With NaN or infinities it is what float addition gives: NaN for a NaN or for both infinities, else inf.
    """
    values = _flat(values)
    largest = max_magnitude(values)
    if not math.isfinite(largest):
        with np.errstate(invalid="ignore"):
            return float(values[~np.isfinite(values)].sum())
    bound = largest if max_abs is None else max_abs
    return to_float(*integer_sum(values, bound, values.size if n is None else n))


def exact_mean(values: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean of ``values``, weighted where a weight is given, as a ratio of exact sums; NaN of nothing."""
    total = values.size if weight is None else exact_sum(weight)
    if not total:
        return math.nan
    return exact_sum(values if weight is None else values * weight) / total


def _flat(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.float64).ravel()
