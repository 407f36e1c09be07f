"""Exact weighted quantiles over the rows of all workers, of many groups of rows at once: leaves and initial scores.

Weights are integers, and values are compared by their bits, so any order and partition of the rows gives the same bits.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pvtree.objectives.fixed_point import SUM_BITS, max_magnitude

if TYPE_CHECKING:
    from pvtree.comm import Communicator

_SIGN = np.uint64(1 << 63)
_DIGIT_BITS = 4  # of a key that one exchange decides: 16 exchanges of 15 sums per group and side


def group_quantiles(
    values: np.ndarray,
    group: np.ndarray,
    n_groups: int,
    level: float,
    weight: np.ndarray | None = None,
    comm: Communicator | None = None,
) -> np.ndarray:
    """(n_groups,): the middle of all q that minimise sum w ((v - q) (level - [v < q])) in each group; 0 without rows.

    It is the value at which the weights of the sorted values pass ``level`` of their sum, or the mean of two
    neighbours where they reach it exactly, as the median of an even number of rows.
    """
    comm = None if comm is None or comm.size == 1 else comm
    keys = _ordered_bits(values)
    order = np.lexsort((keys, group))
    keys, starts = keys[order], np.searchsorted(group[order], np.arange(n_groups + 1))
    sums = np.concatenate(([0], np.cumsum(integer_weights(weight, len(values), comm)[order])))
    totals = sums[starts[1:]] - sums[starts[:-1]]
    totals = totals if comm is None else comm.allreduce(totals, "scores")
    # The smallest value up to which the weights sum to at least, or to more than, level * total.
    exact = Fraction(repr(float(level)))  # 0.3 is meant to be 3 / 10
    reached = [max(1, math.ceil(exact * total)) for total in totals.tolist()]
    passed = [min(math.floor(exact * total) + 1, total) for total in totals.tolist()]
    targets = np.array([reached, passed], np.int64).T  # (n_groups, 2)
    found = _search(keys, starts, sums, targets, comm)
    low, high = _values(found[:, 0]), _values(found[:, 1])
    middle = np.where(low == high, low, 0.5 * low + 0.5 * high)
    return np.where(totals > 0, middle, 0.0)


def exact_quantile(
    values: np.ndarray, level: float, weight: np.ndarray | None = None, comm: Communicator | None = None
) -> float:
    """The quantile of all workers' values, as in ``group_quantiles``."""
    return float(group_quantiles(values, np.zeros(len(values), np.int64), 1, level, weight, comm)[0])


def ranked_value(values: np.ndarray, rank: int, comm: Communicator | None = None) -> float:
    """The value of this rank, from 0, among all workers' values in ascending order."""
    if comm is None or comm.size == 1:
        return float(np.partition(values, rank)[rank])
    ends = np.array([0, len(values)])
    found = _search(np.sort(_ordered_bits(values)), ends, np.arange(len(values) + 1), np.array([[rank + 1]]), comm)
    return float(_values(found[0])[0])


def integer_weights(weight: np.ndarray | None, n_rows: int, comm: Communicator | None) -> np.ndarray:
    """Weights scaled so that those of all workers sum to at most 2^62; 1 each without weights."""
    if weight is None:
        return np.ones(n_rows, np.int64)
    facts = [(float(n_rows), max_magnitude(weight))]
    if comm is not None:
        facts = [tuple(each) for each in comm.allgather(np.array(facts[0]), "scores")]
    n_all, largest = sum(int(n) for n, _ in facts), max(top for _, top in facts)
    exponent = SUM_BITS - max(n_all - 1, 0).bit_length() - math.frexp(largest)[1]
    scaled: np.ndarray = np.rint(np.ldexp(weight, exponent))
    return scaled.astype(np.int64)


def _ordered_bits(values: np.ndarray) -> np.ndarray:
    """uint64 keys in the order of the values; -0.0 counts as 0.0."""
    bits = (np.ascontiguousarray(values, np.float64) + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _values(keys: np.ndarray) -> np.ndarray:
    keys = np.ascontiguousarray(keys)
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)


def _search(
    keys: np.ndarray, starts: np.ndarray, sums: np.ndarray, targets: np.ndarray, comm: Communicator | None
) -> np.ndarray:
    """uint64, shaped like ``targets``: in each group the smallest key up to which the weights sum to the target.

    Keys ascend inside a group, whose rows are ``starts[g]`` to ``starts[g + 1]``; ``sums`` are those of the weights.
    """
    if comm is None:
        found = np.full(targets.shape, _SIGN)
        for g, (start, stop) in enumerate(pairwise(starts.tolist())):
            if stop > start:
                found[g] = keys[start + np.searchsorted(sums[start + 1 : stop + 1], sums[start] + targets[g])]
        return found
    # Digit by digit from the highest: the next digit is how many of its values leave less than the target below them.
    found = np.zeros(targets.shape, np.uint64)
    digits = np.arange(1, 1 << _DIGIT_BITS, dtype=np.uint64)
    below = np.empty((*targets.shape, digits.size), np.int64)
    for shift in range(64 - _DIGIT_BITS, -1, -_DIGIT_BITS):
        probes = found[..., None] + (digits << np.uint64(shift))
        for g, (start, stop) in enumerate(pairwise(starts.tolist())):
            below[g] = sums[start + np.searchsorted(keys[start:stop], probes[g])] - sums[start]
        n_less = (comm.allreduce(below, "scores") < targets[..., None]).sum(axis=-1)
        found += n_less.astype(np.uint64) << np.uint64(shift)
    return found
