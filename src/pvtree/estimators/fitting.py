"""fit: check parameters and data, call the trainer, keep what it made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from pvtree import inputs, targets
from pvtree.callbacks import TRAINING_NAMES
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError
from pvtree.estimators.base import Estimator, columns_of
from pvtree.estimators.evaluation import Evaluation, read_eval_sets, read_metrics
from pvtree.params import make_params

if TYPE_CHECKING:
    from pvtree.ensemble import TrainResult
    from pvtree.model import Model


@dataclass(frozen=True)
class TrainingData:
    """What fit was given, as the trainer wants it."""

    matrix: np.ndarray  # float32 or float64 (n_rows, n_features)
    y: np.ndarray  # float64 (n_rows,)
    weight: np.ndarray | None
    columns: inputs.Columns
    classes: np.ndarray | None

    @property
    def n_classes(self) -> int:
        return 1 if self.classes is None else len(self.classes)

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


class Fitting(Estimator):
    """The part of an estimator that trains; subclasses say what kind of ensemble and of target."""

    _ensemble: ClassVar[str]
    _drops_weightless: ClassVar[bool] = True

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        eval_names: Any = None,
        eval_sample_weight: Any = None,
        eval_metric: Any = None,
        callbacks: Any = None,
        init_model: Any = None,
    ) -> Self:
        """Train on X (rows x columns) and y; rows of weight zero are left out.

        ``eval_set`` is a list of pairs (X, y) whose metrics are recorded after every iteration,
        ``eval_metric`` a name, a function f(y_true, y_pred[, weight]) -> (name, value, is_higher_better) or a
        list of these. ``callbacks`` are called after every iteration. ``init_model`` (a Model, a fitted
        estimator or the path of a saved model) is where training goes on from.
        """
        evaluation = Evaluation(eval_set, eval_names, eval_sample_weight, eval_metric=eval_metric)
        return self._fit(X, y, sample_weight, evaluation, callbacks, init_model)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        evaluation: Evaluation,
        callbacks: Any,
        init_model: Any,
        queries: tuple[Any, Any] = (None, None),
    ) -> Self:
        values = self._checked_parameters()
        callbacks = _checked_callbacks(callbacks)
        start = _read_init_model(init_model)
        data = self._read_training(X, y, sample_weight, values, start)
        task = self._task(data.n_classes)
        custom = values.get("objective") if callable(values.get("objective")) else None
        params = make_params(
            values,
            data.columns.n_features,
            ensemble=self._ensemble,
            objective=custom or task,
            n_classes=data.n_classes,
            **self._settled,
        )
        if start is not None:
            _check_continues(start, self._ensemble, "custom" if custom else task, data.n_classes)
        group = self._read_queries(queries, len(data.y))

        def read_target(y: Any, n_rows: int, name: str) -> np.ndarray:
            return self._read_target(y, n_rows, data.classes, name)[0]

        eval_sets = read_eval_sets(evaluation, (X, y), data.columns, read_target)
        metrics = read_metrics(evaluation, task) if eval_sets else []
        if params.early_stopping_rounds and all(s.name in TRAINING_NAMES for s in eval_sets):
            raise InvalidDataError(
                "early_stopping_rounds needs data that is not trained on; pass eval_set=[(X, y)] to fit."
            )
        from pvtree.ensemble import train  # imports the kernels: not needed to construct or clone

        result = train(
            data.matrix,
            data.y,
            params,
            group=group,
            eval_sets=eval_sets,
            metrics=metrics,
            callbacks=callbacks,
            init_model=start,
            **data.for_train,
        )
        self._keep(result, data)
        return self

    def _task(self, n_classes: int) -> str:
        """The named objective that says what raw scores mean, whatever function the user trains with."""
        raise NotImplementedError

    @property
    def _settled(self) -> dict[str, Any]:
        """Fields of Params that are no parameters of this estimator."""
        return {}

    def _read_training(
        self, X: Any, y: Any, sample_weight: Any, values: dict[str, Any], start: Model | None
    ) -> TrainingData:
        table = inputs.read_table(X)
        weight = targets.read_weight(sample_weight, table.shape[0])
        if weight is not None and self._drops_weightless and not weight.all():
            # A row that weighs nothing is no row: it makes no bin, no class, and fills no leaf.
            keep = weight > 0
            y = targets.read_column(y, table.shape[0])[keep]
            table = inputs.take_rows(table, keep)
            weight = targets.read_weight(weight[keep], table.shape[0])
        known = None if start is None or start.classes is None else np.asarray(start.classes)
        target, classes = self._read_target(y, table.shape[0], known)
        if start is None:
            columns = inputs.learn_columns(X, table, values["categorical_feature"], values["max_bin"])
        else:
            # The trees of the earlier model know its categories by their bins, so these must stay.
            columns = columns_of(start)
            inputs.check_columns(X, table, columns, "init_model")
        return TrainingData(inputs.encode(table, columns), target, weight, columns, classes)

    def _read_target(
        self, y: Any, n_rows: int, known: np.ndarray | None, name: str = "y"
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The target as the trainer wants it, and the classes if it has any."""
        return targets.read_values(y, n_rows, name), None

    def _read_queries(self, queries: tuple[Any, Any], n_rows: int) -> np.ndarray | None:
        return None

    def _keep(self, result: TrainResult, data: TrainingData) -> None:
        """All fitted attributes at once, so that a fit which fails leaves the estimator as it was."""
        self.model_ = result.model
        self.evals_result_ = result.evals_result
        self.best_iteration_ = result.best_iteration
        self.best_score_ = result.best_score
        self.timings_ = result.timings
        self.traffic_ = result.traffic
        self.votes_ = result.votes
        self.n_iter_ = result.model.n_iterations
        self.n_features_in_ = data.columns.n_features
        if data.classes is not None:
            self.classes_ = data.classes
            self.n_classes_ = len(data.classes)
        if data.columns.names is not None:
            self.feature_names_in_ = np.asarray(data.columns.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_


def _checked_callbacks(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    if not isinstance(callbacks, list | tuple | set) or not all(callable(c) for c in callbacks):
        raise InvalidTypeError(f"callbacks must be a list of functions, got {callbacks!r}.")
    return list(callbacks)


def _read_init_model(init_model: Any) -> Model | None:
    if init_model is None:
        return None
    from pvtree.model import Model

    if isinstance(init_model, str | os.PathLike):
        return Model.load(init_model)
    model = getattr(init_model, "model_", init_model)
    if not isinstance(model, Model):
        raise InvalidTypeError(
            "init_model must be a Model, a fitted pvtree estimator or the path of a saved model, "
            f"got {type(init_model).__name__}."
        )
    return model


def _check_continues(start: Model, ensemble: str, objective: str, n_classes: int) -> None:
    """Trees can only be added to a model of their own kind: their values are on its scale."""
    if start.ensemble != ensemble:
        raise InvalidParameterError(
            f"init_model is of kind {start.ensemble!r}, but this estimator adds trees to {ensemble!r} only."
        )
    n_known = 1 if start.classes is None else len(start.classes)
    if start.objective != objective or n_known != n_classes:
        raise InvalidParameterError(
            f"init_model was trained for {start.objective!r} with {n_known} class(es), this fit is for "
            f"{objective!r} with {n_classes}; train both for the same."
        )
