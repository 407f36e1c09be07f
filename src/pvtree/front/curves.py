"""Curves that plots and reports share: partial dependence, and calibration of probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pvtree.reading.sparse_rows import SparseRows

N_SAMPLED = 2000  # rows that SHAP values, permutations and partial dependence are taken from
N_AVERAGED = 500  # of them, for each value of a partial dependence
MOST_DENSE = 50_000_000  # values of a table that may be made dense for it
N_BARS = 20  # of a column's distribution

Predict = Callable[[np.ndarray], np.ndarray]  # rows -> probabilities (n, classes), or values (n,)


class Dependence(NamedTuple):
    """The mean prediction if a column had a given value in all rows."""

    grid: np.ndarray  # values of the column
    mean: np.ndarray
    names: list[str] | None  # of the values, if they are categories
    edges: np.ndarray  # of the bars that show where the column's values lie
    counts: np.ndarray


class Calibration(NamedTuple):
    """Groups of rows with similar probabilities."""

    predicted: np.ndarray  # mean probability
    share: np.ndarray  # of rows that are of the class
    n_rows: np.ndarray


def sampled(n_rows: int, most: int = N_SAMPLED) -> np.ndarray:
    """Evenly spaced rows, so that the same picture comes out each time."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, most)).astype(np.int64))


def sampled_rows(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Some rows of a matrix as float64, and which ones."""
    n_rows, n_columns = X.shape
    at = sampled(n_rows, max(1, min(N_SAMPLED, MOST_DENSE // max(1, n_columns))))
    picked = X.take(at).dense(slice(None)) if isinstance(X, SparseRows) else X[at]
    return np.asarray(picked, np.float64), at


def partial_dependence(
    predict: Predict, rows: np.ndarray, feature: int, labels: Any, n_points: int, output: int = -1
) -> Dependence | None:
    """Of the column ``feature``, whose categories are ``labels``; None if it has no value in the rows."""
    column = rows[:, feature]
    known = column[np.isfinite(column)]
    if not len(known):
        return None
    if labels is None:
        grid = np.unique(np.quantile(known, np.linspace(0.02, 0.98, n_points), method="nearest"))
    else:  # the most frequent categories
        values, counts = np.unique(known, return_counts=True)
        grid = values[np.argsort(-counts, kind="stable")[:n_points]]
    changed, mean = rows[sampled(len(rows), N_AVERAGED)], []
    for value in grid:
        changed[:, feature] = value
        predicted = predict(changed)
        mean.append(float((predicted if predicted.ndim == 1 else predicted[:, output]).mean()))
    names = None if labels is None else [category_name(labels, value) for value in grid]
    within = known[(known >= grid[0]) & (known <= grid[-1])] if labels is None else known
    counts, edges = np.histogram(within, bins=N_BARS)
    return Dependence(grid, np.array(mean), names, edges, counts)


def category_name(labels: Any, value: float) -> str:
    """The label of a category's bin."""
    return str(labels[int(value) - 1]) if 0 < value <= len(labels) else "other"


def calibration(score: np.ndarray, is_class: np.ndarray, weight: np.ndarray, n_groups: int) -> Calibration:
    """Groups of equally many rows, in the order of their probabilities."""
    groups = np.array_split(np.argsort(score, kind="stable"), min(n_groups, len(score)))
    predicted, share = (
        np.array([np.average(values[at], weights=weight[at]) for at in groups]) for values in (score, is_class)
    )
    return Calibration(predicted, share, np.array([len(at) for at in groups]))
