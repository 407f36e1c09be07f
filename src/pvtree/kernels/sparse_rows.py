"""Compressed sparse rows and columns: to dense blocks, to thresholds, to bins."""

from __future__ import annotations

from pvtree.kernels.jit import njit


@njit
def fill_dense(start, column, values, slot, matrix):
    """matrix[row, slot[column]] = value for each stored value of the first rows; others stay as they are."""
    for row in range(len(matrix)):
        for i in range(start[row], start[row + 1]):
            to = slot[column[i]]
            if to >= 0:
                matrix[row, to] = values[i]
