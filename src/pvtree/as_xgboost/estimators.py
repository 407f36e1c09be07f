"""XGBoost's estimators: ours with other defaults, and XGBoost's arguments of fit and predict."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from pvtree.as_xgboost.callback import EvaluationMonitor, TrainingCallback, adapted
from pvtree.as_xgboost.config import KIND, other_methods, saved_kind
from pvtree.as_xgboost.results import (
    as_margin,
    best_iteration,
    last_score,
    of_class,
    of_number,
    renamed,
    trees_of,
)
from pvtree.errors import InvalidTypeError
from pvtree.front.estimators import GBDTClassifier, GBDTModel, GBDTRegressor
from pvtree.front.estimators.eval_arguments import listed_metrics, paired, set_pairs
from pvtree.front.estimators.loading import restored
from pvtree.front.estimators.other_names import others, takes_other_names
from pvtree.front.scikit_learn import check_is_fitted
from pvtree.model.prediction_kinds import finished
from pvtree.parameters.aliases import ANY_VALUE, ANYWAY
from pvtree.parameters.loss_table import LOSSES
from pvtree.parameters.rule_kinds import one_of, optional
from pvtree.training.callbacks import EvalResult, early_stopping

if TYPE_CHECKING:
    from pvtree.as_xgboost.booster import Booster

DEFAULTS: dict[str, Any] = {
    "learning_rate": 0.3,
    "num_leaves": -1,
    "grow_policy": "depthwise",
    "max_depth": 6,
    "min_child_samples": 1,
    "min_child_weight": 1.0,
    "reg_lambda": 1.0,
    "subsample_freq": 1,
    "lambdarank_truncation_level": 32,
    "huber_slope": 1.0,
    "quantile_alpha": 0.5,
    "drop_rate": 0.0,
    "max_drop": -1,
    "skip_drop": 0.0,
    "uniform_drop": True,
    "xgboost_dart_mode": True,
    "importance_type": None,
}


IMPORTANCE = optional(
    one_of("What ``feature_importances_`` measures.", "weight", "gain", "cover", "total_gain", "total_cover")
)


class _last_decides(early_stopping):
    """XGBoost's early stopping: it watches only the last metric of the last set, and the model keeps all trees."""

    keeps_later = True

    def _watched(self, results: list[EvalResult]) -> list[EvalResult]:
        return [EvalResult(*result[:4]) for result in results[-1:]]


class AsXGBoost:
    """XGBoost's defaults, fit arguments and results."""

    _adds_own_metric = False
    _default_metric: ClassVar[str | None] = None
    _own_defaults: ClassVar[dict[str, Any]] = {}
    _anyway: ClassVar[Mapping[str, tuple[Any, ...]]] = ANYWAY | {
        "tree_method": ("hist", "auto", "exact", "approx"),  # with a warning
        "callbacks": ANY_VALUE,
        "missing": ANY_VALUE,
        "updater": ANY_VALUE,  # with a warning
        "feature_types": ANY_VALUE,
    }

    @property
    def _settled(self) -> dict[str, Any]:
        fractions = (self.colsample_bytree, self.colsample_bylevel, self.colsample_bynode)  # type: ignore[attr-defined]
        return {"floors_columns": min(fractions) < 1}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if cls.__module__.startswith("pvtree."):  # a user's subclass has these defaults already
            trainer: Any = cls.__bases__[-1]  # XGBModel comes first and knows no parameters of rankings
            cls._rules = {**trainer._rules, "importance_type": IMPORTANCE}  # type: ignore[attr-defined]
            own_init = trainer.__init__
            ours = inspect.signature(own_init)
            changed = DEFAULTS | cls._own_defaults
            theirs = [p.replace(default=changed.get(p.name, p.default)) for p in ours.parameters.values()]
            defaults = {p.name: p.default for p in theirs[1:]}

            def __init__(self: Any, **given: Any) -> None:
                own_init(self, **(defaults | given))

            __init__.__signature__ = ours.replace(parameters=theirs)  # type: ignore[attr-defined]
            cls.__init__ = takes_other_names(__init__)  # type: ignore[method-assign]
        super().__init_subclass__(**kwargs)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Any = None,
        verbose: Any = True,
        xgb_model: Any = None,
        sample_weight_eval_set: Any = None,
        base_margin_eval_set: Any = None,
        callbacks: Any = None,
        **arguments: Any,
    ) -> Self:
        """Fit with XGBoost's arguments.

        Parameters
        ----------
        X, y, sample_weight
            The training rows, as in ``GBDTRegressor.fit``.
        base_margin : array-like or None, default=None
            The raw score that boosting starts from in each row.
        eval_set : list of (X, y) or None, default=None
            Sets to evaluate after each iteration.
        verbose : bool or int, default=True
            Print the metrics of ``eval_set`` after every iteration; a number n prints them after every n-th.
        xgb_model : estimator, Booster, Model or path or None, default=None
            A model to continue from.
        sample_weight_eval_set, base_margin_eval_set : list or None, default=None
            The row weights and the base margins of each evaluation set.
        callbacks : list or None, default=None
            Callbacks, as in ``GBDTRegressor.fit``.
        **arguments
            Other arguments of ``GBDTRegressor.fit`` or ``GBDTRanker.fit``.
        """
        ours = {
            "init_model": xgb_model,
            "eval_sample_weight": sample_weight_eval_set,
            "init_score": base_margin,
            "eval_init_score": base_margin_eval_set,
        }
        arguments |= {name: value for name, value in ours.items() if value is not None}
        eval_set = paired(eval_set, arguments.pop("eval_X", None), arguments.pop("eval_y", None))
        if eval_set is not None:
            arguments.setdefault("eval_names", [f"validation_{i}" for i in range(len(set_pairs(eval_set)))])
            if self.eval_metric is None and self._task(2) == "regression":  # type: ignore[attr-defined]
                arguments.setdefault("eval_metric", self._default_metric)
        X, eval_set = (
            self._with_missing(_framed(X)),
            eval_set and [(self._with_missing(_framed(each)), target) for each, target in set_pairs(eval_set)],
        )
        callbacks = self._all_callbacks(callbacks, eval_set and verbose, arguments.pop("early_stopping_rounds", None))
        super().fit(  # type: ignore[misc]
            X, y, sample_weight, eval_set=eval_set, callbacks=self._adapted(callbacks), **arguments
        )
        for each in callbacks:
            if isinstance(each, TrainingCallback):
                each.after_training(None)
        return self

    def _all_callbacks(self, of_fit: Any, verbose: Any, rounds: int | None) -> list[Any]:
        """The estimator's callbacks, those of fit, and what ``verbose`` and ``early_stopping_rounds`` stand for."""
        own = others(self).get("callbacks")  # type: ignore[arg-type]
        callbacks = [*(own or []), *(of_fit or [])]
        if verbose:
            callbacks.append(EvaluationMonitor(period=1 if verbose is True else verbose))
        rounds = self.early_stopping_rounds if rounds is None else rounds  # type: ignore[attr-defined]
        if rounds:
            callbacks.append(_last_decides(rounds, verbose=False))
        return callbacks

    def _with_missing(self, X: Any) -> Any:
        """X with NaN in place of the number ``missing``."""
        from pvtree.as_xgboost.matrix import without

        return without(X, others(self).get("missing"))  # type: ignore[arg-type]

    def _adapted(self, callbacks: Any) -> Any:
        """XGBoost's callback objects as ours."""
        if not callbacks:
            return callbacks
        from pvtree.as_xgboost.booster import Booster

        return adapted(callbacks, 1.0, Booster._with_model)

    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        base_margin: Any = None,
        iteration_range: tuple[int, int] | None = None,
        **arguments: Any,
    ) -> np.ndarray:
        """Predict with XGBoost's arguments.

        Parameters
        ----------
        X
            The rows to predict.
        output_margin : bool, default=False
            Predict raw scores.
        iteration_range : (int, int) or None, default=None
            The first iteration to use and the one to stop before; (0, 0) and None for all up to the best one.
        base_margin : array-like or None, default=None
            The raw score of each row that the trees are added to, in place of the model's initial score.
        **arguments
            Other arguments of ``GBDTRegressor.predict``.
        """
        part, X = copy.copy(self), self._with_missing(_framed(X))
        if iteration_range is not None and any(iteration_range):
            check_is_fitted(self, "model_")
            part.model_ = trees_of(self.model_, *iteration_range)  # type: ignore[attr-defined, has-type]
            part.best_iteration_ = 0  # the range has the last word
        if base_margin is not None:
            margin = as_margin(base_margin, np.shape(X)[0])
            raw = margin + part._raw(X) - part.model_.init_score  # type: ignore[attr-defined]
            if output_margin:
                return raw[:, 0] if raw.shape[1] == 1 else raw
            return part._finished(raw)
        if output_margin:
            arguments["raw_score"] = True
        return super(AsXGBoost, part).predict(X, **arguments)  # type: ignore[misc, no-any-return]

    def _finished(self, raw: np.ndarray) -> np.ndarray:
        """What ``predict`` makes of raw scores."""
        finish = getattr(self, "_classes_of", None) or getattr(self, "_values_of", None)
        return finish(raw) if finish is not None else finished(self.model_)(raw)  # type: ignore[attr-defined]

    def _which(self, num_iteration: int | None, start_iteration: int, n_jobs: int | None = None) -> dict[str, Any]:
        """Without a range, XGBoost's estimators predict with the trees up to the best iteration."""
        best = getattr(self, "best_iteration_", 0)
        if not num_iteration and best:
            num_iteration = max(1, best - start_iteration)
        return super()._which(num_iteration, start_iteration, n_jobs)  # type: ignore[misc, no-any-return]

    def _trained_with(self, values: dict[str, Any], n_classes: int) -> dict[str, Any]:
        """Scale these three like the hessian H, so that leaf values and chosen splits are those of XGBoost's hessian:
        r G / (H + l) = c r G / (c H + c l)."""
        scale = self._hessian_scale(n_classes)
        scaled = ("learning_rate", "reg_lambda", "min_child_weight")
        return values | {name: values[name] * scale for name in scaled} | {"early_stopping_rounds": None}

    def _hessian_scale(self, n_classes: int) -> float:
        """Our hessian divided by XGBoost's."""
        return 1.0

    def _own_metrics(self) -> Any:
        listed = listed_metrics(self.eval_metric)  # type: ignore[attr-defined]
        made = of_class if self.objective == "multi:softmax" else of_number  # type: ignore[attr-defined]
        return listed and [made(metric) if callable(metric) else metric for metric in listed]

    def _idle_parameters(self, values: dict[str, Any]) -> list[str]:
        sentences: list[str] = super()._idle_parameters(values)  # type: ignore[misc]
        method = self.get_params().get("tree_method")  # type: ignore[attr-defined]
        return sentences + other_methods({"tree_method": method, "updater": others(self).get("updater")})  # type: ignore[arg-type]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; tree_method is None unless it was set."""
        return {"tree_method": None} | super().get_params(deep)  # type: ignore[misc]

    tree_method: Any = None

    def get_xgb_params(self) -> dict[str, Any]:
        """The parameters of training, by name."""
        params: dict[str, Any] = self.get_params()
        seed = params.get("random_state")
        if hasattr(seed, "randint") or hasattr(seed, "integers"):
            params["random_state"] = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        left_out = ("n_estimators", "importance_type", "callbacks")
        return {name: value for name, value in params.items() if name not in left_out}

    @property
    def feature_importances_(self) -> np.ndarray:
        """The features' shares of ``importance_type``, float32; None stands for gain."""
        self._rules["importance_type"].check("importance_type", self.importance_type)  # type: ignore[attr-defined]
        scores = self.get_booster().get_score(importance_type=self.importance_type or "gain")  # type: ignore[attr-defined]
        names = self.model_.column_names("f{}")  # type: ignore[attr-defined]
        shares = np.array([scores.get(name, 0.0) for name in names], np.float32)
        return shares / shares.sum() if shares.sum() else shares

    @property
    def _Booster(self) -> Booster | None:
        return self.get_booster() if hasattr(self, "model_") else None

    def get_num_boosting_rounds(self) -> int:
        return int(self.n_estimators)  # type: ignore[attr-defined]

    @property
    def intercept_(self) -> np.ndarray:
        """The initial scores, one per output, on the scale of predictions, as XGBoost's base_score."""
        check_is_fitted(self, "model_")
        base, objective = self.model_.init_score, self.model_.objective  # type: ignore[attr-defined]
        link = LOSSES[objective].link if objective in LOSSES else "identity"
        values = {"sigmoid": 1 / (1 + np.exp(-base)), "exp": np.exp(base)}.get(link, base)
        return np.asarray(values, np.float32)

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """The metrics of every iteration, by XGBoost's names."""
        return renamed(self.evals_result_, self.eval_metric)  # type: ignore[attr-defined]

    @property
    def best_iteration(self) -> int:
        """The best iteration, counted from 0. Exists only after early stopping."""
        return best_iteration(self.best_iteration_)  # type: ignore[attr-defined]

    @property
    def best_score(self) -> float:
        """The deciding metric at the best iteration. Exists only after early stopping."""
        return last_score(self.best_score_ if self.best_iteration_ else {})  # type: ignore[attr-defined]

    def get_booster(self) -> Booster:
        from pvtree.as_xgboost.booster import Booster

        booster = Booster.of(self, self.get_xgb_params())  # type: ignore[arg-type]
        booster.feature_types = others(self).get("feature_types")  # type: ignore[arg-type]
        if self.best_iteration_:  # type: ignore[attr-defined]
            booster.best_iteration, booster.best_score = self.best_iteration, self.best_score  # type: ignore[assignment]
        return booster

    def save_model(self, fname: Any) -> None:
        """Write XGBoost's JSON or UBJSON if the name ends with .json or .ubj, else a model file of pvtree."""
        booster = self.get_booster()
        if (kind := getattr(type(self), "_estimator_type", None)) is not None:
            booster.set_attr(**{KIND: json.dumps({"_estimator_type": kind})})
        booster.save_model(fname)

    def load_model(self, fname: Any) -> None:
        """Read a model of pvtree or XGBoost, to predict with it."""
        from pvtree.as_xgboost.booster import Booster

        booster = Booster(model_file=fname)
        kind, target = getattr(type(self), "_estimator_type", None), LOSSES.get(booster.model_.objective)
        saved_as = saved_kind(booster.attr(KIND))
        if saved_as is None and kind == "regressor" and target is not None and target.target == "class":
            saved_as = "classifier"
        if saved_as is not None and saved_as != kind:
            raise InvalidTypeError(
                f"The model was saved by a {saved_as}; load it with XGB{saved_as.capitalize()} instead of "
                f"{type(self).__name__}."
            )
        restored(self, booster.model_)  # type: ignore[arg-type]
        best = booster.attr("best_iteration")
        if best is not None and best.isdecimal():
            self.best_iteration_ = int(best) + 1
            self.best_score_ = {"": {"": float(booster.attr("best_score") or "nan")}}


class XGBModel(AsXGBoost, GBDTModel):  # type: ignore[misc]
    """``GBDTModel`` with XGBoost's defaults: trains the task that ``objective`` names. The base of the others."""


class XGBRegressor(XGBModel, GBDTRegressor):  # type: ignore[misc]
    """``GBDTRegressor`` with XGBoost's defaults."""

    _default_metric = "rmse"
    _estimator_type = "regressor"


class OwnObjective(XGBRegressor):
    """Trains a custom objective. The meaning of its scores is unknown, so every metric is allowed."""

    _metric_objective = "custom"


class XGBClassifier(XGBModel, GBDTClassifier):  # type: ignore[misc]
    """``GBDTClassifier`` with XGBoost's defaults."""

    _estimator_type = "classifier"

    def _hessian_scale(self, n_classes: int) -> float:
        """For n classes, XGBoost's softmax has 2 p (1 - p); LightGBM's and ours have n / (n - 1) p (1 - p)."""
        return 1.0 if n_classes <= 2 else n_classes / (n_classes - 1) / 2


def _framed(X: Any) -> Any:
    """A Series as a table of one column, as XGBoost takes it."""
    return X.to_frame() if hasattr(X, "to_frame") and getattr(X, "ndim", 2) == 1 else X
