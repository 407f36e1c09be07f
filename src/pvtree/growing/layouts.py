"""How a row's statistics are packed into words: gradients (with or without hessians) or class counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pvtree.kernels.constants import COUNT_BITS, MAX_CAPACITY


class Layout(NamedTuple):
    """Where a row's statistics sit inside one 64-bit word, so that one addition updates all of them.

    The count is in the lowest COUNT_BITS, then the values from low to high; only the topmost may be negative.
    Sums of words decode exactly while no field overflows, hence also differences: parent - child = sibling.
    Many classes take several planes of words; a row belongs to exactly one plane, which counts it.
    """

    # Rows that a word can take before one of its fields could overflow. Nodes up to this size keep their histogram
    # packed ("narrow", one word a bin); larger ones keep one int64 per field ("wide").
    capacity: int
    n_planes: int
    plane: np.ndarray  # int64 (n_values,)
    shift: np.ndarray  # int64 (n_values,)
    mask: np.ndarray  # int64 (n_values,); -1 keeps the sign of the topmost field
    limit: np.ndarray  # int64 (n_values,): the largest magnitude one row may contribute

    @property
    def n_fields(self) -> int:
        """Fields of a decoded ("wide") bin: the count of each plane, then the values."""
        return self.n_planes + len(self.shift)

    @property
    def has_gradients(self) -> bool:
        """Whether the topmost field is a gradient, the only value that may be negative."""
        return int(self.mask[-1]) == -1


MAX_COPIES = 8  # of one row in a bootstrap sample; Poisson(1) exceeds it once in a million rows
_WORD_BITS = 64
_REAL_BITS = 25  # of a real hessian or weight; as much is left for a gradient beside it
# Trees of weighted labels are grown to the last row, where steps must be small; fewer rows to a word buy four more
# bits for a weight and a label. Boosting takes many small steps, and speed.
_PRECISE_CAPACITY = 512


def gradient_layout(n_rows: int, hessian: str, precise: bool = False) -> Layout:
    """Words for (count, hessian, gradient). ``hessian`` is "constant", "copies" (small integers) or "real".

    A constant hessian is the count, which leaves all other bits to the gradient: then it is practically exact.
    A real one has 4095 steps and the gradient beside it 2047 on each side of zero; if ``precise``, 16 times as many.
    """
    capacity = _PRECISE_CAPACITY if precise and hessian == "real" else MAX_CAPACITY
    hess_bits = {"constant": 0, "copies": (capacity * MAX_COPIES).bit_length(), "real": _REAL_BITS}[hessian]
    grad_shift = COUNT_BITS + hess_bits
    # The sum over all rows must fit 62 bits, and that over a word's rows the field.
    grad_limit = min(2 ** (_WORD_BITS - 1 - grad_shift) // capacity, 2**62 // max(n_rows, 1)) - 1
    shifts, masks, limits = [grad_shift], [-1], [grad_limit]
    if hess_bits:
        hess_limit = MAX_COPIES if hessian == "copies" else 2**hess_bits // capacity - 1
        shifts, masks, limits = [COUNT_BITS, grad_shift], [2**hess_bits - 1, -1], [hess_limit, grad_limit]
    return _layout(capacity, 1, [0] * len(shifts), shifts, masks, limits)


def class_layout(n_classes: int, weights: str) -> Layout:
    """Words of (count, a few classes' sums): ``weights`` is "constant", "copies" or "real"."""
    capacity = _PRECISE_CAPACITY if weights == "real" else MAX_CAPACITY
    limit = {"constant": 1, "copies": MAX_COPIES, "real": 2**_REAL_BITS // capacity - 1}[weights]
    bits = (capacity * limit).bit_length()
    per_word = (_WORD_BITS - COUNT_BITS) // bits
    planes = [k // per_word for k in range(n_classes)]
    shifts = [COUNT_BITS + bits * (k % per_word) for k in range(n_classes)]
    # Sums of classes are never negative and never reach the sign bit, so a plain mask decodes every field.
    return _layout(capacity, planes[-1] + 1, planes, shifts, [2**bits - 1] * n_classes, [limit] * n_classes)


def _layout(
    capacity: int, n_planes: int, plane: list[int], shift: list[int], mask: list[int], limit: list[int]
) -> Layout:
    return Layout(capacity, n_planes, *(np.array(column, np.int64) for column in (plane, shift, mask, limit)))
