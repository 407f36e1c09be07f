"""What a report is about: an estimator, its model, and rows to try it on if there are any."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.model.model import Model
from pvtree.parameters.loss_table import losses_of
from pvtree.reading import targets
from pvtree.reading.sparse_rows import SparseRows

N_EXPLAINED = 2000  # rows that SHAP values, permutations and partial dependence are taken from
MOST_DENSE = 50_000_000  # values of a table that may be made dense for it


@dataclass(frozen=True)
class Rows:
    """Labelled rows: columns as numbers, categories as bin numbers; labels of classes as class numbers."""

    X: Any
    y: np.ndarray  # float64 (n,)
    weight: np.ndarray  # float64 (n,)
    group: np.ndarray | None  # rows of each query

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Subject:
    """A fitted estimator and the rows it is tried on."""

    estimator: Any
    rows: Rows | None = None

    @property
    def model(self) -> Model:
        model: Model = self.estimator.model_
        return model

    @property
    def names(self) -> list[str]:
        return self.model.column_names()

    @property
    def task(self) -> str:
        """classes | ranking | values"""
        if self.estimator._target_kind == "class":
            return "classes"
        return "ranking" if self.model.objective in losses_of("relevance") else "values"

    @property
    def classes(self) -> list[str]:
        return [str(each) for each in self.estimator.classes_] if self.task == "classes" else []

    @cached_property
    def raw(self) -> np.ndarray:
        """Raw scores of the rows, (n, n_outputs)."""
        assert self.rows is not None
        return self.model.predict_raw(self.rows.X)

    @cached_property
    def predicted(self) -> np.ndarray:
        """Probabilities (n, classes), or values or scores (n,)."""
        return self.predict(self.raw)

    def predict(self, raw: np.ndarray) -> np.ndarray:
        estimator = self.estimator
        found: np.ndarray = (estimator._probabilities if self.task == "classes" else estimator._values_of)(raw)
        return found

    @cached_property
    def sample(self) -> np.ndarray:
        """Some of the rows, dense: evenly spaced ones, so that the same report comes out each time."""
        assert self.rows is not None
        at = sampled(len(self.rows))
        if len(at) * self.model.n_features > MOST_DENSE:
            at = at[: max(1, MOST_DENSE // self.model.n_features)]
        X = self.rows.X
        picked = X.take(at).dense(slice(None)) if isinstance(X, SparseRows) else X[at]
        return np.asarray(picked, np.float64)

    def sampled_labels(self) -> np.ndarray:
        assert self.rows is not None
        return self.rows.y[sampled(len(self.rows))[: len(self.sample)]]


def sampled(n_rows: int) -> np.ndarray:
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, N_EXPLAINED)).astype(np.int64))


def read_rows(estimator: Any, X: Any, y: Any, weight: Any, group: Any, qid: Any) -> Rows | None:
    """The rows that the user gave, checked like those of ``score``; None if there are none."""
    if X is None:
        if y is not None:
            raise InvalidParameterError("y is given without X; pass both, or neither.")
        return None
    if y is None:
        raise InvalidParameterError("X is given without y; pass the labels of its rows as y.")
    rows = estimator._matrix(X)
    n_rows = rows.shape[0]
    if n_rows == 0:
        raise InvalidDataError("X has no rows; pass rows to try the model on, or leave X and y out.")
    labels = {
        "class": lambda: targets.read_labels(y, n_rows, np.asarray(estimator.classes_), "y"),
        "relevance": lambda: targets.read_relevance(y, n_rows, "y"),
        "value": lambda: targets.read_values(y, n_rows, "y"),
    }[estimator._target_kind]()
    given = targets.read_weight(weight, n_rows, "sample_weight")
    queries = targets.read_queries(group, qid, n_rows)
    return Rows(
        rows,
        np.asarray(labels, np.float64),
        np.ones(n_rows) if given is None else np.asarray(given, np.float64),
        None if queries is None else queries.sizes,
    )
