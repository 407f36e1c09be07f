"""What estimators and boosters share: trees of some iterations, and results under XGBoost's names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from pvtree.front.estimators.eval_arguments import listed_metrics
from pvtree.model.model import Model

# XGBoost's names of our metrics.
METRIC_NAMES = {
    "binary_logloss": "logloss",
    "multi_logloss": "mlogloss",
    "binary_error": "error",
    "multi_error": "merror",
    "l1": "mae",
    "l2": "mse",
    "average_precision": "aucpr",
    "poisson": "poisson-nloglik",
    "gamma": "gamma-nloglik",
    "gamma_deviance": "gamma-deviance",
}


def trees_of(model: Model, first: int, stop: int) -> Model:
    """The model with the trees of some iterations only. Unlike LightGBM, XGBoost always adds the initial score."""
    if first <= 0 and stop <= 0:
        return model
    per = model.trees_per_iteration
    return replace(model, trees=model.trees[max(first, 0) * per : stop * per if stop > 0 else None])


def as_margin(base_margin: Any, n_rows: int) -> np.ndarray:
    """Base margins as (n_rows, n_outputs)."""
    margin = np.asarray(base_margin, np.float64).reshape(n_rows, -1) if n_rows else np.zeros((0, 1))
    return margin


def names_of(asked: Any) -> dict[str, str]:
    """XGBoost's names of our metrics; "ndcg" means the rank 32, but is called as it was asked for."""
    return METRIC_NAMES | {f"{name}@32": name for name in listed_metrics(asked) or () if name in ("ndcg", "map", "pre")}


def renamed(results: Mapping[str, Mapping[str, list[float]]], asked: Any) -> dict[str, dict[str, list[float]]]:
    names = names_of(asked)
    return {name: {names.get(metric, metric): values for metric, values in by.items()} for name, by in results.items()}


def best_iteration(n_iterations: int) -> int:
    if not n_iterations:
        raise AttributeError("best_iteration exists only after early stopping; set early_stopping_rounds.")
    return n_iterations - 1


def last_score(scores: Mapping[str, Mapping[str, float]]) -> float:
    """The last metric of the last set, which decides when to stop."""
    if not scores:
        raise AttributeError("best_score exists only after early stopping; set early_stopping_rounds.")
    return list(list(scores.values())[-1].values())[-1]


def of_number(metric: Callable[..., Any]) -> Callable[..., Any]:
    """Make our kind of metric of XGBoost's, such as scikit-learn's log_loss: it returns a number; lower is better."""

    @functools.wraps(metric)  # keeps its signature, which shows whether it accepts weights
    def named(*given: Any, **more: Any) -> Any:
        result = metric(*given, **more)
        return (metric.__name__, result, False) if isinstance(result, Real) else result

    return named


def of_class(metric: Callable[..., Any]) -> Callable[..., Any]:
    """As ``of_number``, with the predictions of multi:softmax: classes in place of probabilities."""

    @functools.wraps(metric)
    def of_classes(y_true: np.ndarray, y_pred: np.ndarray, *given: Any, **more: Any) -> Any:
        return metric(y_true, y_pred.argmax(axis=1) if y_pred.ndim == 2 else y_pred, *given, **more)

    return of_number(of_classes)
