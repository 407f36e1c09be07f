"""What all estimators share: parameters with checked names, reading of training data, and prediction."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from pvtree import inputs, targets
from pvtree.aliases import check_names
from pvtree.params import RULES, Rule, check_values, n_threads, optional, parameter_docs
from pvtree.params import integer as integer_rule

if TYPE_CHECKING:
    from pvtree.model import Model

_NUM_ITERATION = optional(integer_rule("How many iterations to predict with.", 1))


@dataclass(frozen=True)
class TrainingData:
    """What fit was given, as the trainer wants it."""

    matrix: np.ndarray  # float32 or float64 (n_rows, n_features)
    y: np.ndarray  # float64 (n_rows,)
    weight: np.ndarray | None
    columns: inputs.Columns
    classes: np.ndarray | None

    @property
    def for_train(self) -> dict[str, Any]:
        """The keyword arguments of ``train`` that describe the data."""
        categories = dict(self.columns.categories)
        return {
            "weight": self.weight,
            "categorical": {j: len(values) for j, values in categories.items()},
            "categories": categories,
            "feature_names": self.columns.names,
            "classes": None if self.classes is None else tuple(self.classes.tolist()),
        }


def store(estimator: Any, arguments: Mapping[str, Any]) -> None:
    """Keep constructor arguments as they are; scikit-learn wants no more and no less of ``__init__``."""
    for name, value in arguments.items():
        if name != "self":
            setattr(estimator, name, value)


class Estimator(BaseEstimator):
    _rules: ClassVar[Mapping[str, Rule]] = RULES

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # Before __init__, whose own TypeError could not say which name is right.
        parameters = inspect.signature(cls.__init__).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            check_names(kwargs, cls._get_param_names(), cls.__name__)
        return super().__new__(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__doc__ and cls.__module__.startswith("pvtree.") and not cls.__name__.startswith("_"):
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__)}\n\n{parameter_docs(cls.__init__, cls._rules)}\n"

    def set_params(self, **params: Any) -> Self:
        check_names(params, self._get_param_names(), type(self).__name__)
        return super().set_params(**params)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags

    def _checked_parameters(self) -> dict[str, Any]:
        values = self.get_params(deep=False)
        check_values(values, self._rules)
        return values

    def _read_training(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        values: Mapping[str, Any],
        init_model: Model | None = None,
    ) -> TrainingData:
        table = inputs.read_table(X)
        weight = targets.read_weight(sample_weight, table.shape[0])
        if weight is not None and self._drops_weightless and not weight.all():
            # A row that weighs nothing is no row: it makes no bin, no class, and fills no leaf.
            keep = weight > 0
            y = targets.read_column(y, table.shape[0])[keep]
            table = inputs.take_rows(table, keep)
            weight = targets.read_weight(weight[keep], table.shape[0])
        known = None if init_model is None or init_model.classes is None else np.asarray(init_model.classes)
        target, classes = self._read_target(y, table.shape[0], known)
        if init_model is None:
            columns = inputs.learn_columns(X, table, values["categorical_feature"], values["max_bin"])
        else:
            columns = columns_of(init_model)
            inputs.check_columns(X, table, columns, "init_model")
        return TrainingData(inputs.encode(table, columns), target, weight, columns, classes)

    _drops_weightless: ClassVar[bool] = True

    def _read_target(
        self, y: Any, n_rows: int, known: np.ndarray | None, name: str = "y"
    ) -> tuple[np.ndarray, np.ndarray | None]:
        return targets.read_values(y, n_rows, name), None

    def _keep(self, model: Model, data: TrainingData) -> None:
        """All fitted attributes at once, so that a fit which fails leaves the estimator as it was."""
        self.model_ = model
        self.n_features_in_ = data.columns.n_features
        if data.classes is not None:
            self.classes_ = data.classes
            self.n_classes_ = len(data.classes)
        if data.columns.names is not None:
            self.feature_names_in_ = np.asarray(data.columns.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # -- Prediction -----------------------------------------------------------------------------------------

    def _raw(self, X: Any, num_iteration: int | None = None) -> np.ndarray:
        """Sum (GBDT) or mean (forest) of the trees' values, (n_rows, n_outputs)."""
        check_is_fitted(self, "model_")
        _NUM_ITERATION.check("num_iteration", num_iteration)
        matrix = self._matrix(X)
        return self.model_.predict_raw(matrix, n_iterations=num_iteration, n_threads=n_threads(self.n_jobs))

    def _staged_raw(self, X: Any) -> Iterator[np.ndarray]:
        check_is_fitted(self, "model_")
        return self.model_.staged_raw(self._matrix(X), n_threads=n_threads(self.n_jobs))

    def _matrix(self, X: Any) -> np.ndarray:
        return inputs.read_like(X, columns_of(self.model_), type(self).__name__)

    def apply(self, X: Any) -> np.ndarray:
        """Leaf that each row falls into: its ordinal among the tree's leaves, (n_rows, n_trees)."""
        check_is_fitted(self, "model_")
        return self.model_.predict_leaf(self._matrix(X), n_threads=n_threads(self.n_jobs))

    @property
    def feature_importances_(self) -> np.ndarray:
        """Splits on each feature, or their summed gains, as ``importance_type`` says; not normalised."""
        check_is_fitted(self, "model_")
        self._rules["importance_type"].check("importance_type", self.importance_type)
        return self.model_.feature_importance(self.importance_type)


class Values(Estimator):
    """Predicts one number a row."""

    def predict(self, X: Any, raw_score: bool = False, num_iteration: int | None = None) -> np.ndarray:
        """Predicted values, with the first ``num_iteration`` iterations only if given."""
        return self._raw(X, num_iteration)[:, 0]

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predicted values after the first iteration, after the second, and so on."""
        return (raw[:, 0] for raw in self._staged_raw(X))


class Regressor(RegressorMixin, Values):
    """Regression targets; adds score, the coefficient of determination."""


class Classifier(ClassifierMixin, Estimator):
    """Predicts classes and their probabilities; adds score, the accuracy."""

    def _probabilities(self, raw: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _read_target(
        self, y: Any, n_rows: int, known: np.ndarray | None, name: str = "y"
    ) -> tuple[np.ndarray, np.ndarray | None]:
        return targets.read_labels(y, n_rows, known, name)

    def predict(self, X: Any, raw_score: bool = False, num_iteration: int | None = None) -> np.ndarray:
        """Most probable classes; with ``raw_score`` the scores behind them, (n,) or (n, n_outputs)."""
        raw = self._raw(X, num_iteration)
        if raw_score:
            return raw[:, 0] if raw.shape[1] == 1 else raw
        return self._classes_of(raw)

    def predict_proba(self, X: Any, num_iteration: int | None = None) -> np.ndarray:
        """Probabilities of the classes in the order of ``classes_``, (n_rows, n_classes)."""
        return self._probabilities(self._raw(X, num_iteration))

    def predict_log_proba(self, X: Any, num_iteration: int | None = None) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, num_iteration))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Classes after the first iteration, after the second, and so on."""
        return (self._classes_of(raw) for raw in self._staged_raw(X))

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Probabilities after the first iteration, after the second, and so on."""
        return (self._probabilities(raw) for raw in self._staged_raw(X))

    def _classes_of(self, raw: np.ndarray) -> np.ndarray:
        return self.classes_[self._probabilities(raw).argmax(axis=1)]


def columns_of(model: Model) -> inputs.Columns:
    return inputs.Columns(model.n_features, model.feature_names, model.categories)
