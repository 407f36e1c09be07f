"""What is predicted: values or classes, for boosting and forests alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from pvtree.front.estimators.base import lazy_on_dask
from pvtree.front.estimators.fitting import Fitting
from pvtree.reading import targets
from pvtree.reading.dask_data import is_collection


class Values(Fitting):
    """Predicts one number a row."""

    @lazy_on_dask
    def predict(
        self,
        X: Any,
        raw_score: bool = False,
        num_iteration: int | None = None,
        pred_contrib: bool = False,
        *,
        start_iteration: int = 0,
        pred_leaf: bool = False,
    ) -> np.ndarray:
        """Predicted values, with ``num_iteration`` iterations from ``start_iteration`` on only, if given.

        With ``pred_contrib`` SHAP values, (n_rows, n_features + 1): what each feature adds to a row's value, and last
        the value to be expected of a training row; a row of them sums up to the prediction. With ``pred_leaf`` what
        ``apply`` gives, of these iterations.
        """
        kind = {"raw_score": raw_score, "pred_leaf": pred_leaf, "pred_contrib": pred_contrib}
        return self._of_kind(X, _only_output, num_iteration, start_iteration, **kind)

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predicted values after the first iteration, after the second, and so on."""
        return map(_only_output, self._staged_raw(X))


class Regressor(RegressorMixin, Values):
    """Regression targets; adds score, the coefficient of determination."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination of predict(X); of Dask collections, y and the predictions come here."""
        if not is_collection(X):
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import r2_score

        y, predicted, sample_weight = _computed(y, self.predict(X), sample_weight)
        return float(r2_score(y, predicted, sample_weight=sample_weight))


class Classifier(ClassifierMixin, Fitting):
    """Predicts classes and their probabilities; adds score, the accuracy."""

    def _probabilities(self, raw: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    _has_classes = True

    def _read_target(self, y: Any, n_rows: int, classes: np.ndarray | None, name: str = "y") -> np.ndarray:
        assert classes is not None  # agreed on before
        return targets.read_labels(y, n_rows, classes, name)

    @lazy_on_dask
    def predict(
        self,
        X: Any,
        raw_score: bool = False,
        num_iteration: int | None = None,
        pred_contrib: bool = False,
        *,
        start_iteration: int = 0,
        pred_leaf: bool = False,
    ) -> np.ndarray:
        """Most probable classes; with ``raw_score`` the scores behind them, (n,) or (n, n_outputs).

        With ``pred_contrib`` SHAP values, (n_rows, n_outputs * (n_features + 1)): for each output what each feature
        adds to a row's raw score, and last the score to be expected of a training row. With ``pred_leaf`` what
        ``apply`` gives. All with ``num_iteration`` iterations from ``start_iteration`` on only, if given.
        """
        kind = {"raw_score": raw_score, "pred_leaf": pred_leaf, "pred_contrib": pred_contrib}
        return self._of_kind(X, self._classes_of, num_iteration, start_iteration, **kind)

    @lazy_on_dask
    def predict_proba(self, X: Any, num_iteration: int | None = None, *, start_iteration: int = 0) -> np.ndarray:
        """Probabilities of the classes in the order of ``classes_``, (n_rows, n_classes)."""
        return self._probabilities(self._raw(X, num_iteration, start_iteration))

    @lazy_on_dask
    def predict_log_proba(self, X: Any, num_iteration: int | None = None, *, start_iteration: int = 0) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, num_iteration, start_iteration=start_iteration))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy of predict(X); of Dask collections, y and the predictions come here."""
        if not is_collection(X):
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import accuracy_score

        y, predicted, sample_weight = _computed(y, self.predict(X), sample_weight)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Classes after the first iteration, after the second, and so on."""
        return (self._classes_of(raw) for raw in self._staged_raw(X))

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Probabilities after the first iteration, after the second, and so on."""
        return (self._probabilities(raw) for raw in self._staged_raw(X))

    def _classes_of(self, raw: np.ndarray) -> np.ndarray:
        return self.classes_[self._probabilities(raw).argmax(axis=1)]


def _only_output(raw: np.ndarray) -> np.ndarray:
    return raw[:, 0]


def _computed(*columns: Any) -> tuple[Any, ...]:
    """What is Dask's comes here; the rest is here already."""
    return tuple(column.compute() if is_collection(column) else column for column in columns)
