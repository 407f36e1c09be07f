"""What a report is about: an estimator, its model, and rows to try it on if there are any."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.front.curves import sampled_rows
from pvtree.model.model import Model
from pvtree.parameters.loss_table import losses_of
from pvtree.reading import targets


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

    def predict_rows(self, X: np.ndarray) -> np.ndarray:
        return self.predict(self.model.predict_raw(X))

    @cached_property
    def _sampled(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.rows is not None
        return sampled_rows(self.rows.X)

    @property
    def sample(self) -> np.ndarray:
        """Some of the rows, dense."""
        return self._sampled[0]

    @property
    def sampled_at(self) -> np.ndarray:
        """The numbers of these rows."""
        return self._sampled[1]


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
