"""Weights by class: factors of the rows' weights, from counts over all workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pvtree.comm import Communicator
from pvtree.errors import InvalidParameterError
from pvtree.reading.training_rows import Target, TrainingRows


@dataclass(frozen=True)
class ClassWeights:
    """What the user asked for; the three multiply."""

    class_weight: Any = None  # a factor by class or for each class in order, or "balanced"
    scale_pos_weight: float = 1.0  # of the second of two classes
    is_unbalance: bool = False  # of two classes: the smaller one gets the weight of the larger
    name: str = "class_weight"  # in errors

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ClassWeights:
        """Those among an estimator's parameters."""
        names = ("class_weight", "scale_pos_weight", "is_unbalance")
        return cls(**{name: values[name] for name in names if name in values})

    def applied(self, rows: TrainingRows, target: Target, comm: Communicator) -> TrainingRows:
        """The rows with these factors in their weights."""
        if target.many_classes and (self.class_weight is not None or self.is_unbalance or self.scale_pos_weight != 1):
            raise InvalidParameterError(
                f"{self.name} is for one column of classes, but y has {target.n_targets}; pass sample_weight instead."
            )
        if target.classes is None:
            return rows
        factors = self._factors(rows.y, target.classes.tolist(), comm)
        if (factors == 1.0).all():
            return rows
        by_row = factors[rows.y.astype(np.int64)]
        return replace(rows, weight=by_row if rows.weight is None else rows.weight * by_row)

    def _factors(self, y: np.ndarray, classes: list[Any], comm: Communicator) -> np.ndarray:
        factors = np.ones(len(classes))
        if self.is_unbalance or isinstance(self.class_weight, str):
            counts = np.bincount(y.astype(np.int64), minlength=len(classes)).astype(np.int64)
            counts = comm.allreduce(counts, "bins") if comm.size > 1 else counts
            present = np.maximum(counts, 1)
            if isinstance(self.class_weight, str):
                factors *= counts.sum() / (np.count_nonzero(counts) * present)
            if self.is_unbalance:
                self._check_two("is_unbalance=True", classes)
                factors *= counts.max() / present
        if self.scale_pos_weight != 1.0:
            self._check_two("scale_pos_weight", classes)
            factors[1] *= self.scale_pos_weight
        return factors * self._given(classes)

    def _given(self, classes: list[Any]) -> np.ndarray:
        """The user's own factors; 1 for a class that has none."""
        given = self.class_weight
        if given is None or isinstance(given, str):
            return np.ones(len(classes))
        if not isinstance(given, Mapping):
            if len(given) != len(classes):
                raise InvalidParameterError(
                    f"{self.name} has {len(given)} factors, but there are {len(classes)} classes; give one for each "
                    "class, or a dict."
                )
            return np.array(given, np.float64)
        unknown = [label for label in given if label not in classes]
        if unknown:
            raise InvalidParameterError(
                f"{self.name} has the class {unknown[0]!r}, which is not in y; use the classes of y as keys."
            )
        return np.array([float(given.get(label, 1.0)) for label in classes])

    def _check_two(self, what: str, classes: list[Any]) -> None:
        if len(classes) != 2:
            raise InvalidParameterError(
                f"{what} is for two classes, but y has {len(classes)}; use class_weight instead."
            )
