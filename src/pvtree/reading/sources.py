"""Rows that need not be in memory together: binning reads them part by part, and each part a few columns at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise

import numpy as np

from pvtree.errors import InvalidDataError
from pvtree.kernels.binning.dense import copy_columns
from pvtree.kernels.constants import BLOCK
from pvtree.kernels.team import LITTLE_WORK, Team

# Some columns of one part: a matrix of the part's rows, and where in it the columns asked for are.
ReadColumns = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
_COPIED = 4096  # rows of 16 columns that stay in the cache


def is_plain(matrix: np.ndarray) -> bool:
    """Whether kernels take the matrix as it is. For others, numpy converts a part at a time.

    For every other type and order of values the kernels would be compiled anew, which takes seconds.
    """
    return matrix.flags.carray and matrix.dtype in (np.float32, np.float64)


def as_plain(matrix: np.ndarray) -> np.ndarray:
    return np.array(matrix, np.float32 if matrix.dtype == np.float32 else np.float64, order="C")


class Source(ABC):
    """A worker's rows in consecutive parts, encoded: categorical columns hold bin numbers, 0 for missing."""

    def __init__(self, part_rows: Sequence[int], n_features: int, dtype: np.dtype) -> None:
        # Part p holds the rows bounds[p]:bounds[p + 1].
        self.bounds = np.concatenate(([0], np.cumsum(part_rows, dtype=np.int64)))
        self.shape = (int(self.bounds[-1]), n_features)
        self.dtype = dtype  # float32 or float64, of the values

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def reading(self, part: int) -> AbstractContextManager[ReadColumns]:
        """Opens a part. Several threads may have it open, each for itself."""

    @abstractmethod
    def __getitem__(self, rows: slice) -> Source:
        """Consecutive rows, which are not read yet."""

    def blocks(self) -> Iterator[np.ndarray]:
        """The parts one after the other, each as a matrix of all columns."""
        for part in range(len(self.bounds) - 1):
            yield self._whole(part)

    def matrix(self) -> np.ndarray:
        """All rows in memory."""
        blocks = self.blocks()
        if len(self.bounds) == 2:
            return next(blocks)
        matrix = np.empty(self.shape, self.dtype)
        for (start, stop), block in zip(pairwise(self.bounds), blocks, strict=True):
            matrix[start:stop] = block
        return matrix

    def sample_columns(self, rows: np.ndarray, features: np.ndarray, out: np.ndarray, team: Team) -> None:
        """out[c, i] = the value of column features[c] in row rows[i]; the rows ascend."""
        cuts = np.searchsorted(rows, self.bounds)
        for part, (first, last) in enumerate(pairwise(cuts.tolist())):
            if first < last:
                self._sample_part(part, rows[first:last] - self.bounds[part], features, out, first, team)

    def _sample_part(
        self, part: int, rows: np.ndarray, features: np.ndarray, out: np.ndarray, at: int, team: Team
    ) -> None:
        """out[:, at : at + len(rows)] of one part, a few columns at a time."""

        def copy(start: int, stop: int) -> None:
            with self.reading(part) as read:
                for first in range(start, stop, int(BLOCK)):  # one row of 16 columns is a cache line or two
                    last = min(first + int(BLOCK), stop)
                    matrix, columns = read(features[first:last])
                    if not is_plain(matrix):
                        for i in range(0, len(rows), _COPIED):
                            some = rows[i : i + _COPIED]
                            out[first:last, at + i : at + i + len(some)] = matrix.T[columns[:, None], some]
                    elif len(rows) == out.shape[1]:
                        copy_columns(matrix, rows, columns, out[first:last])
                    else:  # kernels are compiled for contiguous results only
                        values = np.empty((last - first, len(rows)), out.dtype)
                        copy_columns(matrix, rows, columns, values)
                        out[first:last, at : at + len(rows)] = values

        little = len(rows) * len(features) < LITTLE_WORK
        team.for_blocks(copy, len(features), min_block=max(1, len(features)) if little else 4)

    def _whole(self, part: int) -> np.ndarray:
        with self.reading(part) as read:
            return read(np.arange(self.shape[1]))[0]


class Matrices(Source):
    """Rows in memory, as one matrix or several (at least one, which may be empty); none of them is copied."""

    def __init__(self, matrices: Sequence[np.ndarray]) -> None:
        widths = sorted(matrix.shape[1] for matrix in matrices)
        if widths[0] != widths[-1]:
            raise InvalidDataError(
                f"The parts of X have from {widths[0]} to {widths[-1]} columns: give each all columns, in one order."
            )
        filled = [matrix for matrix in matrices if len(matrix)] or matrices  # who has no rows has no say
        is_narrow = all(matrix.dtype == np.float32 for matrix in filled)
        dtype = np.dtype(np.float32 if is_narrow else np.float64)
        super().__init__([len(matrix) for matrix in matrices], widths[0], dtype)
        self.matrices = list(matrices)

    def reading(self, part: int) -> AbstractContextManager[ReadColumns]:
        matrix = self.matrices[part]
        return nullcontext(lambda features: (matrix, features))

    def __getitem__(self, rows: slice) -> Matrices:
        start, stop, _ = rows.indices(len(self))
        inside = np.clip((start, stop), self.bounds[:-1, None], self.bounds[1:, None]) - self.bounds[:-1, None]
        cut = [matrix[first:last] for matrix, (first, last) in zip(self.matrices, inside, strict=True)]
        return Matrices([matrix for matrix in cut if len(matrix)] or cut[:1])


def as_source(X: np.ndarray | Source) -> Source:
    return X if isinstance(X, Source) else Matrices([X])
