"""Columns of a table of predictions: values, classes, probabilities, raw scores, leaves or contributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.model.labels import Scalar
from pvtree.model.model import Model
from pvtree.model.prediction_kinds import most_probable
from pvtree.model.tree_text import NUMBERED

KINDS = ("prediction", "proba", "raw", "leaf", "contrib")


@dataclass(frozen=True)
class PredictionColumns:
    """The names of the columns, and the function that fills them."""

    names: list[str]
    predict: Callable[[np.ndarray], np.ndarray]  # encoded rows -> (n,) for one name, (n, n_names) for more


def prediction_columns(
    model: Model, kind: str, n_iterations: int | None = None, n_threads: int = 1
) -> PredictionColumns:
    """The columns of one of KINDS. "prediction" is a class if the model has classes, otherwise a value."""
    how: dict[str, Any] = {"n_iterations": n_iterations, "n_threads": n_threads}
    if kind == "leaf":
        step = model.trees_per_iteration
        n_trees = len(model.trees) if n_iterations is None else min(n_iterations * step, len(model.trees))
        return PredictionColumns([f"leaf_{t}" for t in range(n_trees)], lambda X: model.predict_leaf(X, **how))
    if kind == "contrib":
        columns = [*model.column_names(NUMBERED), "expected"]
        names = [f"{of}{column}" for of in _prefixes(model, model.n_outputs) for column in columns]
        return PredictionColumns(names, lambda X: model.predict_contrib(X, **how))
    if kind == "raw":
        names = [f"raw_{name}" for name in _output_names(model)] if model.n_outputs > 1 else ["raw"]
        return PredictionColumns(names, lambda X: _flat(model.predict_raw(X, **how)))
    classes = class_labels(model)
    if kind == "proba":
        if classes is None:
            raise InvalidParameterError(
                f"The model predicts values ({model.objective}), which have no probabilities; leave --proba out."
            )
        return PredictionColumns(
            [f"proba_{label}" for label in _output_names(model)],
            lambda X: probabilities(model, model.predict_raw(X, **how)),
        )
    if classes is None:
        return PredictionColumns(["prediction"], lambda X: _values(model, model.predict_raw(X, **how)))
    if model.target_sizes:
        names = [f"prediction_{column}" for column in range(len(model.target_sizes))]
        return PredictionColumns(names, lambda X: most_probable(model, model.predict_raw(X, **how)))
    labels = np.asarray(classes)
    if labels.dtype == np.object_:  # of integers beyond 64 bits, which no column of a file holds
        labels = np.array([str(label) for label in classes])
    return PredictionColumns(
        ["prediction"], lambda X: labels[probabilities(model, model.predict_raw(X, **how)).argmax(axis=1)]
    )


def _flat(raw: np.ndarray) -> np.ndarray:
    return raw[:, 0] if raw.shape[1] == 1 else raw


def _values(model: Model, raw: np.ndarray) -> np.ndarray:
    from pvtree.objectives.losses import predictions

    return predictions(model.objective, raw) if raw.shape[1] == 1 else raw[:, 0]


def class_labels(model: Model) -> Sequence[Scalar] | None:
    """The classes in the order of the probabilities, or None. LightGBM's models have only numbers for classes."""
    if model.classes is not None:
        return model.classes
    n_classes = {"binary": 2, "hinge": 2, "multiclass": model.n_outputs, "multiclassova": model.n_outputs}.get(
        model.objective
    )
    return None if n_classes is None else tuple(range(n_classes))


def probabilities(model: Model, raw: np.ndarray) -> np.ndarray:
    """Probabilities, (n_rows, n_classes). A custom objective gives log-odds or inputs of softmax, as in fit."""
    from pvtree.objectives.losses import class_probabilities

    if model.ensemble == "forest" and model.objective == "classification":
        return raw
    return class_probabilities(raw, model.objective)


def _output_names(model: Model) -> list[str]:
    classes = class_labels(model)
    if model.target_sizes and classes is not None:
        column = np.repeat(np.arange(len(model.target_sizes)), model.target_sizes)
        return [f"{column}_{label}" for column, label in zip(column.tolist(), classes, strict=True)]
    return [str(label) for label in (classes if classes is not None else range(model.n_outputs))]


def _prefixes(model: Model, n_outputs: int) -> list[str]:
    return [""] if n_outputs == 1 else [f"{name}: " for name in _output_names(model)]
