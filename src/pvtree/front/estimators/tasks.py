"""Predictions of values or classes, for boosting and forests alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pvtree.front.estimators.argument_docs import PREDICT, SCORE, documented
from pvtree.front.estimators.base import lazy_on_engines
from pvtree.front.estimators.fit import Fitting
from pvtree.front.scikit_learn import ClassifierMixin, RegressorMixin
from pvtree.reading.dask_data import is_collection
from pvtree.reading.ray_data import PREDICTION, fetch_column, is_dataset


class Values(Fitting):
    """Predicts one number per row."""

    @lazy_on_engines
    @documented(
        PREDICT, "ndarray of shape (n_rows,), (n_rows, n_trees) of leaves, or (n_rows, n_features + 1) of SHAP values"
    )
    def predict(
        self,
        X: Any,
        raw_score: bool = False,
        num_iteration: int | None = None,
        pred_contrib: bool = False,
        *,
        start_iteration: int = 0,
        pred_leaf: bool = False,
        validate_features: bool | None = None,
        **others: Any,
    ) -> np.ndarray:
        """Predicted values, or leaves or SHAP values."""
        others["validate_features"] = validate_features
        kind = {"raw_score": raw_score, "pred_leaf": pred_leaf, "pred_contrib": pred_contrib}
        return self._of_kind(X, self._values_of, num_iteration, start_iteration, others, **kind)

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predicted values after each iteration."""
        return map(self._values_of, self._staged_raw(X))

    def _values_of(self, raw: np.ndarray) -> np.ndarray:
        from pvtree.objectives.losses import predictions

        return predictions(self.model_.objective, raw)


class Regressor(RegressorMixin, Values):
    """Predicts numbers; adds score, the coefficient of determination."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._takes_many_targets
        return tags

    @documented(SCORE, "float")
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R^2 of ``predict(X)``."""
        if not is_collection(X) and not is_dataset(X):
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import r2_score

        y, predicted, sample_weight = _computed(self, X, y, sample_weight)
        return float(r2_score(y, predicted, sample_weight=sample_weight))


class Classifier(ClassifierMixin, Fitting):
    """Predicts classes and their probabilities; adds score, the accuracy."""

    _target_kind = "class"

    def _probabilities(self, raw: np.ndarray) -> np.ndarray:
        """(n_rows, n_classes) from raw scores (n_rows, n_outputs)."""
        raise NotImplementedError

    @lazy_on_engines
    @documented(
        PREDICT,
        "ndarray of shape (n_rows,), (n_rows, n_outputs) of raw scores, (n_rows, n_trees) of leaves, or "
        "(n_rows, n_outputs * (n_features + 1)) of SHAP values",
    )
    def predict(
        self,
        X: Any,
        raw_score: bool = False,
        num_iteration: int | None = None,
        pred_contrib: bool = False,
        *,
        start_iteration: int = 0,
        pred_leaf: bool = False,
        validate_features: bool | None = None,
        **others: Any,
    ) -> np.ndarray:
        """The most probable classes, or raw scores, leaves or SHAP values."""
        others["validate_features"] = validate_features
        kind = {"raw_score": raw_score, "pred_leaf": pred_leaf, "pred_contrib": pred_contrib}
        return self._of_kind(X, self._classes_of, num_iteration, start_iteration, others, **kind)

    @lazy_on_engines
    @documented(PREDICT, "ndarray of shape (n_rows, n_classes)")
    def predict_proba(
        self,
        X: Any,
        num_iteration: int | None = None,
        *,
        start_iteration: int = 0,
        raw_score: bool = False,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        validate_features: bool | None = None,
        **others: Any,
    ) -> np.ndarray:
        """Probabilities of the classes, in the order of ``classes_``, or raw scores, leaves or SHAP values."""
        others["validate_features"] = validate_features
        kind = {"raw_score": raw_score, "pred_leaf": pred_leaf, "pred_contrib": pred_contrib}
        return self._of_kind(X, self._probabilities, num_iteration, start_iteration, others, **kind)

    @lazy_on_engines
    @documented(PREDICT, "ndarray of shape (n_rows, n_classes)")
    def predict_log_proba(self, X: Any, num_iteration: int | None = None, *, start_iteration: int = 0) -> Any:
        """Logarithms of the probabilities, in the order of ``classes_``."""
        found = self.predict_proba(X, num_iteration, start_iteration=start_iteration)
        with np.errstate(divide="ignore"):
            return [np.log(each) for each in found] if isinstance(found, list) else np.log(found)

    @documented(SCORE, "float")
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy of ``predict(X)``."""
        if not is_collection(X) and not is_dataset(X):
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import accuracy_score

        y, predicted, sample_weight = _computed(self, X, y, sample_weight)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predicted classes after each iteration."""
        return (self._classes_of(raw) for raw in self._staged_raw(X))

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Probabilities of the classes after each iteration."""
        return (self._probabilities(raw) for raw in self._staged_raw(X))

    def _classes_of(self, raw: np.ndarray) -> np.ndarray:
        return self.classes_[self._probabilities(raw).argmax(axis=1)]


def _computed(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
    """y, the predictions and the weights in this process; of a Ray Dataset, y and the weights are columns."""
    if is_dataset(X):
        answered = estimator.predict(X).materialize()
        return tuple(None if name is None else fetch_column(answered, name) for name in (y, PREDICTION, sample_weight))
    columns = (y, estimator.predict(X), sample_weight)
    return tuple(column.compute() if is_collection(column) else column for column in columns)
