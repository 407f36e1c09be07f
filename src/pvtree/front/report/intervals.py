"""Metrics of predictions with 95 % confidence intervals, by the delta method over rows or queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pvtree.front.report.subject import Rows, Subject

Z95 = 1.959964


class Estimate(NamedTuple):
    """A metric on the rows of a report."""

    name: str
    value: float
    low: float
    high: float


def estimates(subject: Subject) -> list[Estimate]:
    """The usual metrics of the task."""
    rows = subject.rows
    assert rows is not None
    if subject.task == "classes":
        return _of_classes(rows, subject.predicted)
    if subject.task == "ranking":
        return _of_queries(subject, rows)
    return _of_values(rows, subject.predicted) if subject.predicted.ndim == 1 else []


def _of_classes(rows: Rows, probability: np.ndarray) -> list[Estimate]:
    label = rows.y.astype(np.int64)
    chosen = np.clip(probability[np.arange(len(label)), label], 1e-15, None)
    found = [
        _mean("accuracy", (probability.argmax(axis=1) == label).astype(np.float64), rows.weight, 0.0, 1.0),
        _mean("log loss", -np.log(chosen), rows.weight, 0.0),
    ]
    if probability.shape[1] == 2 and 0.0 < label.mean() < 1.0:
        found.insert(0, area_under_curve(label, probability[:, 1], rows.weight))
    return found


def _of_values(rows: Rows, predicted: np.ndarray) -> list[Estimate]:
    error, weight = rows.y - predicted, rows.weight
    squares = error**2
    mse = float(np.average(squares, weights=weight))
    half = Z95 * _standard_error(squares, weight)
    root = Estimate("RMSE", mse**0.5, max(0.0, mse - half) ** 0.5, (mse + half) ** 0.5)
    found = [root, _mean("MAE", np.abs(error), weight, 0.0)]
    around = (rows.y - np.average(rows.y, weights=weight)) ** 2
    spread = float(np.average(around, weights=weight))
    if spread > 0:
        ratio = mse / spread
        half = Z95 * _standard_error((squares - ratio * around) / spread, weight)
        found.append(Estimate("R2", 1 - ratio, 1 - ratio - half, min(1.0, 1 - ratio + half)))
    return found


def _of_queries(subject: Subject, rows: Rows) -> list[Estimate]:
    values = ndcg_by_query(subject)
    return [] if rows.group is None else [_mean("NDCG@10 per query", values, np.ones(len(values)), 0.0, 1.0)]


def ndcg_by_query(subject: Subject, k: int = 10) -> np.ndarray:
    """NDCG@k of every query, 1 if no document is relevant."""
    rows = subject.rows
    assert rows is not None
    found = []
    start = 0
    discount = 1.0 / np.log2(np.arange(k) + 2.0)
    for size in [] if rows.group is None else rows.group.tolist():
        gains = 2.0 ** rows.y[start : start + size] - 1.0
        order = np.argsort(-subject.predicted[start : start + size], kind="stable")
        best = np.sort(gains)[::-1][:k] @ discount[:size]
        found.append(gains[order][:k] @ discount[:size] / best if best > 0 else 1.0)
        start += size
    return np.array(found)


def area_under_curve(label: np.ndarray, score: np.ndarray, weight: np.ndarray) -> Estimate:
    """AUC with DeLong's variance: the mean, over rows of one class, of each row's place among those of the other."""
    positive = label == 1
    place = np.empty(len(score))
    for own in (positive, ~positive):
        order = np.argsort(score[~own], kind="stable")
        others, before = score[~own][order], np.append(0.0, np.cumsum(weight[~own][order]))
        ends = (np.searchsorted(others, score[own], side) for side in ("left", "right"))
        place[own] = sum(before[end] for end in ends) / (2.0 * before[-1])  # ties count half
    place[~positive] = 1.0 - place[~positive]
    auc = float(np.average(place[positive], weights=weight[positive]))
    variance = sum(_standard_error(place[side], weight[side]) ** 2 for side in (positive, ~positive))
    half = Z95 * variance**0.5
    return Estimate("AUC", auc, max(0.0, auc - half), min(1.0, auc + half))


def _mean(name: str, values: np.ndarray, weight: np.ndarray, least: float, most: float = np.inf) -> Estimate:
    value = float(np.average(values, weights=weight))
    half = Z95 * _standard_error(values, weight)
    return Estimate(name, value, max(least, value - half), min(most, value + half))


def _standard_error(values: np.ndarray, weight: np.ndarray) -> float:
    """Of the weighted mean of independent values."""
    if len(values) < 2:
        return 0.0
    deviation = weight * (values - np.average(values, weights=weight))
    return float(np.sqrt(len(values) / (len(values) - 1) * (deviation**2).sum()) / weight.sum())
