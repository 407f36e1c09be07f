"""Sums that do not depend on the order of rows: values become integers, whose addition is associative.

Initial scores and metrics use them: workers add up their integers and get the same bits. A value is kept to 2^-102 of
the largest magnitude for few rows, to 2^-84 for a million and to 2^-62 for 2^31.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pvtree.kernels.objectives.fixed_point import largest_magnitude_bits, sum_limbs

if TYPE_CHECKING:
    from pvtree.comm import Communicator

SUM_BITS = 62  # an int64 sum with room for its sign and for rounding
LIMB_BITS = 51  # the widest integer to which one float64 addition rounds
MAX_SCALE_EXPONENT = 1023  # the largest of a float64; sums of magnitudes below 2^-960 lose accuracy

Arrays = Callable[[], Iterable[np.ndarray]]  # makes the arrays anew at each call, so they need not all be in memory
Term = tuple[np.ndarray, np.ndarray | None]  # values and their weights


def max_magnitude(values: np.ndarray) -> float:
    """The largest |value|, or NaN if there is one."""
    return float(np.int64(largest_magnitude_bits(_flat(values))).view(np.float64))


def to_float(total: int, shift: int) -> float:
    """The float64 nearest to total / 2**shift, or infinity if it is out of range."""
    try:
        return total / (1 << shift) if shift >= 0 else float(total << -shift)
    except OverflowError:
        return math.copysign(math.inf, total)


def exact_sum(values: np.ndarray, comm: Communicator | None = None, phase: str = "scores") -> float:
    """The sum of ``values`` over all workers, independent of their order, blocking and partition.

    NaN and infinities add as floats do: a NaN or both infinities give NaN, one infinity gives that infinity.
    """
    return exact_sums(lambda: [values], comm, phase)[0][0]


def exact_mean(
    values: np.ndarray, weight: np.ndarray | None = None, comm: Communicator | None = None, phase: str = "scores"
) -> float:
    """The mean of ``values`` over all workers, weighted if a weight is given; NaN if there are none."""
    return exact_means(lambda: [values], weight, comm, phase)[0]


def exact_means(
    arrays: Arrays, weight: np.ndarray | None = None, comm: Communicator | None = None, phase: str = "scores"
) -> list[float]:
    """The means of several arrays with one weight, as ratios of exact sums, in two exchanges for all."""
    if weight is None:
        return [_ratio(total, n) for total, n in exact_sums(arrays, comm, phase)]
    (total_weight, _), *sums = exact_sums(lambda: _weighted(arrays(), weight), comm, phase)
    return [_ratio(total, total_weight) for total, _ in sums]


def exact_means_of(terms: Sequence[Term], comm: Communicator | None = None, phase: str = "scores") -> list[float]:
    """``exact_mean`` of several arrays of any lengths, each with its own weight or none, in two exchanges for all.

    If an array has a weight on one worker, it must have one on every worker.
    """

    def arrays() -> Iterator[np.ndarray]:
        for values, weight in terms:
            if weight is None:
                yield values
            else:
                yield from _weighted([values], weight)

    sums = iter(exact_sums(arrays, comm, phase) if terms else [])
    means = []
    for _, weight in terms:
        total_weight = None if weight is None else next(sums)[0]
        total, n = next(sums)
        means.append(_ratio(total, n if total_weight is None else total_weight))
    return means


def _weighted(arrays: Iterable[np.ndarray], weight: np.ndarray) -> Iterator[np.ndarray]:
    yield weight
    for values in arrays:
        yield values * weight


def _ratio(total: float, by: float) -> float:
    return total / by if by else math.nan


def exact_sums(arrays: Arrays, comm: Communicator | None, phase: str) -> list[tuple[float, int]]:
    """For each array, its sum and its number of values over all workers."""
    # First exchange: each array's length and its largest magnitude, or the sum of its non-finite values.
    sizes, bounds = _bounds(arrays)
    if comm is not None and comm.size > 1:
        gathered = np.stack(comm.allgather(np.array([sizes, bounds], np.float64), phase))  # (n_workers, 2, n_arrays)
        sizes = gathered[:, 0].sum(axis=0).astype(np.int64).tolist()
        bounds = [_joint_bound(column) for column in gathered[:, 1].T]
    # Second exchange: the integers. All workers scale an array alike, so they may add them in any order.
    scales = [_scale(bound, n) if math.isfinite(bound) else None for bound, n in zip(bounds, sizes, strict=True)]
    limbs = np.array(
        [
            (0, 0) if scale is None else _limbs(_flat(values), *scale)
            for values, scale in zip(arrays(), scales, strict=True)
        ],
        np.int64,
    )
    if comm is not None and comm.size > 1:
        limbs = comm.allreduce(limbs, phase)
    sums = []
    for bound, scale, (high, low) in zip(bounds, scales, limbs, strict=True):
        sums.append(bound if scale is None else to_float(_join(high, low, scale[0]), sum(scale)))
    return list(zip(sums, sizes, strict=True))


def _bounds(arrays: Arrays) -> tuple[list[int], list[float]]:
    """Each array's length, and its largest magnitude or the float sum of its non-finite values."""
    sizes, bounds = [], []
    for array in arrays():
        values = _flat(array)
        bound = max_magnitude(values)
        if not math.isfinite(bound):
            bound = _float_sum(values[~np.isfinite(values)])
        sizes.append(values.size)
        bounds.append(bound)
    return sizes, bounds


def _joint_bound(bounds: np.ndarray) -> float:
    """Join the workers' bounds of one array: the largest, or the float sum of those that are not finite."""
    finite = np.isfinite(bounds)
    return float(bounds.max()) if finite.all() else _float_sum(bounds[~finite])


def _float_sum(values: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        return float(values.sum())


def _scale(max_abs: float, n: int) -> tuple[int, int]:
    """The bits of a limb, so that a sum of n limbs fits into an int64; and the power of 2 that scales max_abs to it."""
    limb = min(LIMB_BITS, SUM_BITS - max(n - 1, 0).bit_length())
    return limb, min(limb - math.frexp(max_abs)[1], MAX_SCALE_EXPONENT)  # max_abs < 2^frexp


def _limbs(values: np.ndarray, limb: int, scale_exponent: int) -> tuple[int, int]:
    high, low = sum_limbs(values, math.ldexp(1.0, scale_exponent), math.ldexp(1.0, limb))
    return int(high), int(low)


def _join(high: int, low: int, limb: int) -> int:
    return (int(high) << limb) + int(low)


def _flat(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.float64).ravel()
