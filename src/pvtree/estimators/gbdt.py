"""Gradient boosting for classes, values and rankings."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pvtree import targets
from pvtree.callbacks import TRAINING_NAMES
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError
from pvtree.estimators.base import Classifier, Estimator, Regressor, TrainingData, Values, store
from pvtree.estimators.evaluation import Evaluation, read_eval_sets, read_metrics
from pvtree.params import RULES, make_params, objective

if TYPE_CHECKING:
    from pvtree.ensemble import TrainResult
    from pvtree.model import Model


class _GBDT(Estimator):
    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        num_leaves: int = 31,
        max_depth: int = -1,
        min_child_samples: int = 20,
        min_child_weight: float = 1e-3,
        reg_alpha: float = 0.0,
        reg_lambda: float = 0.0,
        min_split_gain: float = 0.0,
        subsample: float = 1.0,
        subsample_freq: int = 0,
        colsample_bytree: float = 1.0,
        colsample_bynode: float = 1.0,
        max_bin: int = 255,
        objective: Any = None,
        categorical_feature: Any = "auto",
        early_stopping_rounds: int | None = None,
        importance_type: str = "split",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbosity: int = 1,
        tree_learner: str = "serial",
        top_k: int = 20,
        n_workers: int = 1,
    ) -> None:
        store(self, locals())

    def _task(self, n_classes: int) -> str:
        """The named objective that says what raw scores mean, whatever function the user trains with."""
        raise NotImplementedError

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
        _warn_of_idle_subsample(values)
        callbacks = _checked_callbacks(callbacks)
        start = _read_init_model(init_model)
        data = self._read_training(X, y, sample_weight, values, start)
        n_classes = 1 if data.classes is None else len(data.classes)
        task = self._task(n_classes)
        trained_with = values["objective"] if callable(values["objective"]) else task
        params = make_params(values, data.columns.n_features, objective=trained_with, n_classes=n_classes)
        _check_continues(start, trained_with, self._n_outputs(task, n_classes))
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
        self._keep_result(result, data)
        return self

    def _read_queries(self, queries: tuple[Any, Any], n_rows: int) -> np.ndarray | None:
        return None

    @staticmethod
    def _n_outputs(task: str, n_classes: int) -> int:
        return n_classes if task == "multiclass" else 1

    def _keep_result(self, result: TrainResult, data: TrainingData) -> None:
        self._keep(result.model, data)
        self.evals_result_ = result.evals_result
        self.best_iteration_ = result.best_iteration
        self.best_score_ = result.best_score
        self.n_iter_ = result.model.n_iterations


class GBDTRegressor(_GBDT, Regressor):
    """Gradient boosting of a numeric target: squared error, or an objective of your own.

    After fit: ``n_features_in_``, ``feature_names_in_`` (of a DataFrame), ``feature_importances_``,
    ``evals_result_`` {set: {metric: [value of each iteration]}}, ``best_iteration_`` (0 without early
    stopping), ``best_score_``, ``n_iter_`` and ``model_``.
    """

    _rules = RULES | {"objective": objective("regression")}

    def _task(self, n_classes: int) -> str:
        return "regression"

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


class GBDTClassifier(_GBDT, Classifier):
    """Gradient boosting of classes: log loss for two, softmax for more, or an objective of your own.

    The scores of an objective of your own are taken for log-odds (two classes) or softmax inputs (more).
    After fit: ``classes_``, ``n_features_in_``, ``feature_names_in_`` (of a DataFrame),
    ``feature_importances_``, ``evals_result_`` {set: {metric: [value of each iteration]}},
    ``best_iteration_`` (0 without early stopping), ``best_score_``, ``n_iter_`` and ``model_``.
    """

    _rules = RULES | {"objective": objective("binary", "multiclass")}

    def _task(self, n_classes: int) -> str:
        if self.objective == "binary" and n_classes > 2:
            raise InvalidDataError(f"objective='binary' needs two classes, but y has {n_classes}.")
        if isinstance(self.objective, str):
            return self.objective
        return "binary" if n_classes == 2 else "multiclass"

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
        evaluation = Evaluation(eval_set, eval_names, eval_sample_weight, eval_metric=eval_metric)
        return self._fit(X, y, sample_weight, evaluation, callbacks, init_model)

    fit.__doc__ = GBDTRegressor.fit.__doc__

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw scores: log-odds of the second class (n_rows,), or one score per class (n_rows, n_classes)."""
        raw = self._raw(X)
        if raw.shape[1] == 1:
            return raw[:, 0]
        return raw[:, 1] - raw[:, 0] if raw.shape[1] == 2 else raw

    def _probabilities(self, raw: np.ndarray) -> np.ndarray:
        from pvtree.losses import predictions

        return predictions("binary" if raw.shape[1] == 1 else "multiclass", raw)


class GBDTRanker(_GBDT, Values):
    """Gradient boosting of rankings: LambdaMART with NDCG truncation, or an objective of your own.

    After fit: ``n_features_in_``, ``feature_names_in_`` (of a DataFrame), ``feature_importances_``,
    ``evals_result_`` {set: {metric: [value of each iteration]}}, ``best_iteration_`` (0 without early
    stopping), ``best_score_``, ``n_iter_`` and ``model_``.
    """

    _rules = RULES | {"objective": objective("lambdarank")}
    _drops_weightless = False  # a document that weighs nothing still takes a rank

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        num_leaves: int = 31,
        max_depth: int = -1,
        min_child_samples: int = 20,
        min_child_weight: float = 1e-3,
        reg_alpha: float = 0.0,
        reg_lambda: float = 0.0,
        min_split_gain: float = 0.0,
        subsample: float = 1.0,
        subsample_freq: int = 0,
        colsample_bytree: float = 1.0,
        colsample_bynode: float = 1.0,
        max_bin: int = 255,
        objective: Any = None,
        lambdarank_truncation_level: int = 30,
        categorical_feature: Any = "auto",
        early_stopping_rounds: int | None = None,
        importance_type: str = "split",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbosity: int = 1,
        tree_learner: str = "serial",
        top_k: int = 20,
        n_workers: int = 1,
    ) -> None:
        store(self, locals())

    def _task(self, n_classes: int) -> str:
        return "lambdarank"

    def _read_target(
        self, y: Any, n_rows: int, known: np.ndarray | None, name: str = "y"
    ) -> tuple[np.ndarray, np.ndarray | None]:
        return targets.read_relevance(y, n_rows, name), None

    def _read_queries(self, queries: tuple[Any, Any], n_rows: int) -> np.ndarray:
        sizes = targets.read_group(*queries, n_rows)
        if sizes is None:
            message = "All rows are ranked as one query; pass group (sizes of queries) or qid (query ids)."
            warnings.warn(message, UserWarning, stacklevel=4)
            return np.array([n_rows], dtype=np.int64)
        return sizes

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        group: Any = None,
        qid: Any = None,
        eval_set: Any = None,
        eval_names: Any = None,
        eval_sample_weight: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
        eval_metric: Any = None,
        eval_at: Any = (10,),
        callbacks: Any = None,
        init_model: Any = None,
    ) -> Self:
        """Train on X (documents x columns) and their relevance y, whole numbers from 0 to 30.

        The rows of a query stand together: ``group`` holds their number for each query, or ``qid`` the query
        of each row; ``eval_group`` or ``eval_qid`` hold one such list per evaluation set. ``eval_at`` are the
        ranks at which NDCG is measured. The other arguments are those of ``GBDTRegressor.fit``.
        """
        if eval_set is not None and eval_group is None and eval_qid is None:
            raise InvalidDataError(
                "eval_set of a ranker needs its queries; pass eval_group or eval_qid to fit."
            )
        evaluation = Evaluation(
            eval_set, eval_names, eval_sample_weight, eval_group, eval_qid, eval_metric, eval_at
        )
        return self._fit(X, y, sample_weight, evaluation, callbacks, init_model, (group, qid))


def _warn_of_idle_subsample(values: dict[str, Any]) -> None:
    if values["subsample"] < 1 and values["subsample_freq"] == 0:
        message = (
            "subsample has no effect while subsample_freq is 0; set subsample_freq=1 to draw for every tree."
        )
        warnings.warn(message, UserWarning, stacklevel=4)


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


def _check_continues(start: Model | None, trained_with: Any, n_outputs: int) -> None:
    """Trees can only be added to a model of the same objective: their values are on its scale."""
    if start is None:
        return
    if start.ensemble != "gbdt":
        raise InvalidParameterError(
            "init_model is a forest, to which boosting cannot add; pass a GBDT model."
        )
    name = "custom" if callable(trained_with) else trained_with
    if start.objective != name or start.n_outputs != n_outputs:
        raise InvalidParameterError(
            f"init_model has the objective {start.objective!r} with {start.n_outputs} output(s), this fit "
            f"{name!r} with {n_outputs}; train both with the same objective."
        )
