"""The gain of every attribute on given rows, in plain numpy: the quantity of the theorems, apart from any training."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pvtree.binning.coarsening import merge_bins
from pvtree.binning.thresholds import Thresholds
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError
from pvtree.kernels.binning.dense import choose_thresholds
from pvtree.kernels.constants import N_BINS
from pvtree.parameters.rule_kinds import integer

CRITERIA = ("entropy", "variance")
MOST_BINS = int(N_BINS) - 1


class BestSplits(NamedTuple):
    """The best split of each attribute: arrays with one entry per attribute."""

    gain: np.ndarray  # impurity of all rows, less that of both sides weighted by their shares of rows
    left_impurity: np.ndarray
    right_impurity: np.ndarray
    last_left: np.ndarray  # the last bin that goes left

    @property
    def impurities(self) -> np.ndarray:
        """float64 (n_attributes, 2)."""
        return np.stack((self.left_impurity, self.right_impurity), axis=1)


class BinnedData(NamedTuple):
    """Rows as bin numbers, and what each row adds to the sums of its bins."""

    codes: np.ndarray  # int64 (n_rows, n_attributes), from 0
    n_bins: np.ndarray  # int64 (n_attributes,)
    values: np.ndarray  # float64 (n_rows, n_sums)
    criterion: str

    def histograms(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """float64 (n_attributes, bins, n_sums) over these rows; a row may occur several times."""
        codes, values = self.codes[rows], self.values[rows]
        n_attributes, width = codes.shape[1], int(self.n_bins.max(initial=1))
        place = (codes + width * np.arange(n_attributes)).ravel()
        sums = [
            np.bincount(place, np.repeat(column, n_attributes), n_attributes * width)
            for column in np.ascontiguousarray(values.T)
        ]
        return np.stack(sums, axis=-1).reshape(n_attributes, width, len(sums))

    def weighted_impurity(self, sums: np.ndarray) -> np.ndarray:
        """The number of rows times their impurity, from sums in the last axis."""
        weighted: np.ndarray
        if self.criterion == "entropy":
            total = sums.sum(axis=-1)
            weighted = _x_log_x(total) - _x_log_x(sums).sum(axis=-1)
        else:
            n, y, y_squared = np.moveaxis(sums, -1, 0)
            weighted = np.maximum(y_squared - y * y / np.maximum(n, 1.0), 0.0)
        return weighted

    def n_rows_of(self, sums: np.ndarray) -> np.ndarray:
        return sums.sum(axis=-1) if self.criterion == "entropy" else sums[..., 0]

    def node_impurity(self, sums: np.ndarray) -> np.ndarray:
        """Of all rows, from histograms: (n_attributes,), all equal."""
        node = sums.sum(axis=1)
        impurity: np.ndarray = self.weighted_impurity(node) / np.maximum(self.n_rows_of(node), 1.0)
        return impurity

    def sides(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sums left and right of every boundary between bins, from histograms."""
        left = np.cumsum(sums, axis=1)
        return left[:, :-1], left[:, -1:] - left[:, :-1]

    def best_splits(self, sums: np.ndarray) -> BestSplits:
        """The best splits, from histograms; an attribute with one bin gains nothing."""
        if sums.shape[1] < 2:
            sums = np.concatenate((sums, np.zeros_like(sums)), axis=1)
        left, right = self.sides(sums)
        below, above = self.weighted_impurity(left), self.weighted_impurity(right)
        at = np.argmin(below + above, axis=1)
        each = np.arange(len(sums))
        n_left, n_right = self.n_rows_of(left)[each, at], self.n_rows_of(right)[each, at]
        all_rows = np.maximum(n_left + n_right, 1.0)
        gain = (self.weighted_impurity(left[:, 0] + right[:, 0]) - below[each, at] - above[each, at]) / all_rows
        return BestSplits(
            np.maximum(gain, 0.0),
            below[each, at] / np.maximum(n_left, 1.0),
            above[each, at] / np.maximum(n_right, 1.0),
            at,
        )

    def coarser(self, n_bins: int) -> BinnedData:
        """The same rows with neighbouring bins merged to about equal mass, as tree_learner="quantized" does."""
        merged = np.flatnonzero(self.n_bins > n_bins)
        shape = (self.codes.shape[1], int(N_BINS))
        nowhere = Thresholds(np.full(shape, np.inf), self.n_bins.copy(), np.zeros(shape[0], np.uint8))
        mass = np.zeros((len(merged), shape[1]), np.int64)
        for place, attribute in enumerate(merged):
            mass[place, 1:] = np.bincount(self.codes[:, attribute], minlength=shape[1] - 1)
        coarse, new_bin = merge_bins(nowhere, merged, mass, n_bins)
        codes = new_bin[np.arange(shape[0]), self.codes + 1].astype(np.int64) - 1
        return self._replace(codes=codes, n_bins=coarse.n_bins)


def bin_data(X: np.ndarray, y: np.ndarray, criterion: str = "entropy", max_bin: int = MOST_BINS) -> BinnedData:
    """Bin all rows into bins of about equal mass, as training does."""
    X, y = _checked(X, y, criterion, max_bin)
    codes = np.empty(X.shape, np.int64)
    n_bins = np.empty(X.shape[1], np.int64)
    cuts = np.empty(int(N_BINS))
    for attribute, column in enumerate(X.T):
        n_cuts = choose_thresholds(np.sort(column + 0.0), max_bin, cuts)
        codes[:, attribute] = np.searchsorted(cuts[:n_cuts], column)
        n_bins[attribute] = n_cuts + 1
    return BinnedData(codes, n_bins, _summands(y, criterion), criterion)


def _summands(y: np.ndarray, criterion: str) -> np.ndarray:
    """What each row adds to its bins: 1 for its class; or 1, the label and its square."""
    if criterion == "entropy":
        try:
            classes, label = np.unique(y, return_inverse=True)
        except TypeError:
            raise InvalidTypeError("y must be labels of one kind, all numbers or all texts, without None.") from None
        return np.eye(len(classes))[label]
    y = y - y.mean()  # centred: squares lose fewer digits
    return np.stack((np.ones(len(y)), y, y * y), axis=1)


def _checked(X: np.ndarray, y: np.ndarray, criterion: str, max_bin: int) -> tuple[np.ndarray, np.ndarray]:
    if criterion not in CRITERIA:
        raise InvalidParameterError(f"criterion must be one of {', '.join(CRITERIA)}, got {criterion!r}.")
    integer("of an attribute", 2, MOST_BINS).check("max_bin", max_bin)
    X, y = numbers("X", X), np.asarray(y) if criterion == "entropy" else numbers("y", y)
    if X.ndim != 2 or y.shape != X.shape[:1] or len(y) == 0:
        raise InvalidDataError(
            f"X must be a matrix with at least one row and y a label for each, got shapes {X.shape} and {y.shape}."
        )
    if not np.isfinite(X).all() or (y.dtype.kind == "f" and not np.isfinite(y).all()):
        raise InvalidDataError("X and y must be finite here; leave out rows with missing values.")
    return X, y


def numbers(name: str, value: Any) -> np.ndarray:
    """float64 of what an argument holds."""
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name} must be numbers, got {type(value).__name__} with something else.") from None


def _x_log_x(x: np.ndarray) -> np.ndarray:
    """x log2(x), and 0 at 0."""
    return x * np.log2(np.where(x > 0.0, x, 1.0))
