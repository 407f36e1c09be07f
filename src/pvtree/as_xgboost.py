"""The same estimators under XGBoost's names, with XGBoost's defaults: ``import pvtree.as_xgboost as xgb``.

Trees are grown by the same code. What differs from the estimators of ``pvtree`` are the defaults (depth-wise trees of
depth 6, a learning rate of 0.3, reg_lambda of 1, leaves of a single row), the scale of a softmax's and of a ranker's
hessian, and that early stopping follows the last metric of the last evaluation set.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.front.estimators import GBDTClassifier, GBDTRanker, GBDTRegressor
from pvtree.front.estimators.eval_arguments import listed_metrics, one_each, paired, set_pairs
from pvtree.front.functional import Booster as LightGBMBooster
from pvtree.front.functional import Dataset
from pvtree.front.functional.predict_arguments import OF_XGBOOST, check_others
from pvtree.front.functional.training import Family, read_params, run
from pvtree.model.model import Model
from pvtree.parameters.aliases import ANYWAY
from pvtree.reading.tables import Table, as_dense
from pvtree.training.callbacks import EvalResult, early_stopping

__all__ = ["Booster", "DMatrix", "XGBClassifier", "XGBRanker", "XGBRegressor", "train"]

DEFAULTS: dict[str, Any] = {
    "learning_rate": 0.3,
    "num_leaves": -1,
    "max_depth": 6,
    "min_child_samples": 1,
    "min_child_weight": 1.0,
    "reg_lambda": 1.0,
    "subsample_freq": 1,
    "lambdarank_truncation_level": 32,
}
# What XGBoost calls our metrics.
METRIC_NAMES = {
    "binary_logloss": "logloss",
    "multi_logloss": "mlogloss",
    "binary_error": "error",
    "multi_error": "merror",
    "l1": "mae",
    "l2": "mse",
}


class _last_decides(early_stopping):
    """XGBoost's early stopping, which looks at the last metric of the last set."""

    def _watched(self, results: list[EvalResult]) -> list[EvalResult]:
        return [EvalResult(*result[:4]) for result in results[-1:]]


class _AsXGBoost:
    """XGBoost's defaults, fit arguments and results."""

    _default_metric: ClassVar[str | None] = None
    # Without a limit of leaves both ways to grow end with the same tree.
    _anyway: ClassVar[Mapping[str, tuple[Any, ...]]] = ANYWAY | {"grow_policy": ("depthwise", "lossguide")}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        ours = inspect.signature(cls.__init__)
        theirs = [p.replace(default=DEFAULTS.get(p.name, p.default)) for p in ours.parameters.values()]
        defaults = {p.name: p.default for p in theirs[1:]}
        make = cls.__init__

        def __init__(self: Any, **given: Any) -> None:
            make(self, **(defaults | given))

        __init__.__signature__ = ours.replace(parameters=theirs)  # type: ignore[attr-defined]
        cls.__init__ = __init__  # type: ignore[method-assign]
        super().__init_subclass__(**kwargs)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Any = None,
        verbose: Any = False,
        xgb_model: Any = None,
        sample_weight_eval_set: Any = None,
        callbacks: Any = None,
        **arguments: Any,
    ) -> Self:
        """XGBoost's fit; ``arguments`` are those of ``GBDTRegressor.fit``, or ``GBDTRanker.fit``, with our names."""
        ours = {"init_model": xgb_model, "eval_sample_weight": sample_weight_eval_set}
        arguments |= {name: value for name, value in ours.items() if value is not None}
        if base_margin is not None:
            raise InvalidParameterError("base_margin is not known to pvtree; leave it out.")
        eval_set = paired(eval_set, arguments.pop("eval_X", None), arguments.pop("eval_y", None))
        if eval_set is not None:
            arguments.setdefault("eval_names", [f"validation_{i}" for i in range(len(set_pairs(eval_set)))])
            if self.eval_metric is None:  # type: ignore[attr-defined]
                arguments.setdefault("eval_metric", self._default_metric)
        rounds = arguments.pop("early_stopping_rounds", None)
        if rounds is None:
            rounds = self.early_stopping_rounds  # type: ignore[attr-defined]
        if rounds:
            callbacks = [*(callbacks or []), _last_decides(rounds, verbose=False)]
        return super().fit(  # type: ignore[misc, no-any-return]
            X, y, sample_weight, eval_set=eval_set, verbose=verbose, callbacks=callbacks, **arguments
        )  # fmt: skip

    def predict(
        self, X: Any, *, output_margin: bool = False, iteration_range: tuple[int, int] | None = None, **arguments: Any
    ) -> np.ndarray:
        """XGBoost's predict; ``arguments`` are those of ``GBDTRegressor.predict``, with our names."""
        part = copy.copy(self)
        if iteration_range is not None:
            check_is_fitted(self, "model_")
            part.model_ = _iterations(self.model_, *iteration_range)  # type: ignore[attr-defined, has-type]
        if output_margin:
            arguments["raw_score"] = True
        return super(_AsXGBoost, part).predict(X, **arguments)  # type: ignore[misc, no-any-return]

    def _trained_with(self, values: dict[str, Any], n_classes: int) -> dict[str, Any]:
        """With these three scaled like the hessian H, leaf values and chosen splits are those of XGBoost's hessian:
        r G / (H + l) = c r G / (c H + c l)."""
        scale = self._hessian_scale(n_classes)
        scaled = ("learning_rate", "reg_lambda", "min_child_weight")
        return values | {name: values[name] * scale for name in scaled} | {"early_stopping_rounds": None}

    def _hessian_scale(self, n_classes: int) -> float:
        """Our hessian as a share of XGBoost's."""
        return 1.0

    def _own_metrics(self) -> Any:
        listed = listed_metrics(self.eval_metric)  # type: ignore[attr-defined]
        return listed and [_of_number(metric) if callable(metric) else metric for metric in listed]

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """The metrics of every iteration under XGBoost's names."""
        return _renamed(self.evals_result_)  # type: ignore[attr-defined]

    @property
    def best_iteration(self) -> int:
        """Counted from 0; only after early stopping."""
        return _best_iteration(self.best_iteration_)  # type: ignore[attr-defined]

    @property
    def best_score(self) -> float:
        return _last(self.best_score_ if self.best_iteration_ else {})  # type: ignore[attr-defined]

    def get_booster(self) -> Booster:
        return Booster.of(self)  # type: ignore[arg-type, return-value]

    def save_model(self, fname: Any) -> None:
        """Write pvtree's model file."""
        self.model_.save(fname)  # type: ignore[attr-defined]

    def load_model(self, fname: Any) -> None:
        """Predict with a model that was saved before."""
        self.model_ = Model.load(fname)
        self.n_features_in_ = self.model_.n_features
        if self.model_.classes is not None:
            self.classes_ = np.asarray(self.model_.classes)
            self.n_classes_ = len(self.classes_)


class XGBRegressor(_AsXGBoost, GBDTRegressor):  # type: ignore[misc]
    """``GBDTRegressor`` with XGBoost's defaults."""

    _default_metric = "rmse"


class _OwnObjective(XGBRegressor):
    """For an objective that says nothing about what its scores mean."""

    _metric_objective = "custom"


class XGBClassifier(_AsXGBoost, GBDTClassifier):  # type: ignore[misc]
    """``GBDTClassifier`` with XGBoost's defaults."""

    def _hessian_scale(self, n_classes: int) -> float:
        """XGBoost's softmax has 2 p (1 - p), LightGBM's and ours n / (n - 1) p (1 - p) for n classes."""
        return 1.0 if n_classes <= 2 else n_classes / (n_classes - 1) / 2


class XGBRanker(_AsXGBoost, GBDTRanker):  # type: ignore[misc]
    """``GBDTRanker`` with XGBoost's defaults."""

    def _hessian_scale(self, n_classes: int) -> float:
        return 0.5

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        *,
        group: Any = None,
        qid: Any = None,
        eval_set: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
        eval_at: Any = (32,),
        **arguments: Any,
    ) -> Self:
        """XGBoost's fit: a column ``qid`` of X tells the queries. NDCG is measured at rank 32."""
        X, qid = _with_queries(X, group, qid, "X")
        pairs = set_pairs(paired(eval_set, arguments.pop("eval_X", None), arguments.pop("eval_y", None)))
        if any(_has_queries(X_eval) for X_eval, _ in pairs):
            groups = one_each(eval_group, len(pairs), "eval_group")
            qids = one_each(eval_qid, len(pairs), "eval_qid")
            split = [
                _with_queries(X_eval, groups[i], qids[i], f"X of eval_set {i}") for i, (X_eval, _) in enumerate(pairs)
            ]
            pairs = [(X_eval, y_eval) for (X_eval, _), (_, y_eval) in zip(split, pairs, strict=True)]
            eval_qid = [queries for _, queries in split]
        return super().fit(
            X, y, group=group, qid=qid, eval_set=pairs or None, eval_group=eval_group, eval_qid=eval_qid,
            eval_at=eval_at, **arguments,
        )  # fmt: skip

    def _features(self, X: Any) -> Any:
        """The column that told the queries in fit is no feature, so predictions may come with it or without."""
        is_feature = "qid" in (self.model_.feature_names or ())
        return _without_queries(X) if _has_queries(X) and not is_feature else X


class DMatrix(Dataset):
    """``Dataset`` with XGBoost's arguments."""

    def __init__(
        self,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        feature_names: Any = None,
        group: Any = None,
        qid: Any = None,
        enable_categorical: bool = False,
        nthread: int | None = None,
    ) -> None:
        names = "auto" if feature_names is None else feature_names
        super().__init__(data, label, None, weight, group, base_margin, names, qid=qid)

    def num_row(self) -> int:
        return self.num_data()

    def num_col(self) -> int:
        return self.num_feature()


class Booster(LightGBMBooster):
    """A trained model with the methods of XGBoost's Booster; the best iteration counts from 0."""

    def predict(  # type: ignore[override]
        self,
        data: Any,
        output_margin: bool = False,
        pred_leaf: bool = False,
        pred_contribs: bool = False,
        iteration_range: tuple[int, int] = (0, 0),
        **others: Any,
    ) -> np.ndarray:
        """Values, or probabilities; with the objective multi:softmax, classes.

        XGBoost's other arguments are taken where they ask for what is done anyway.
        """
        check_others(others, OF_XGBOOST, Booster.predict)
        kind = {"raw_score": output_margin, "pred_leaf": pred_leaf, "pred_contrib": pred_contribs}
        predicted = as_dense(self._predict(_iterations(self.model_, *iteration_range), data, {}, **kind))
        gives_classes = self.params.get("objective") == "multi:softmax"
        if gives_classes and not (output_margin or pred_leaf or pred_contribs):
            return predicted.argmax(axis=1).astype(np.float32)
        return predicted

    def get_score(self, fmap: str = "", importance_type: str = "weight") -> dict[str, float]:
        """By name of the feature, of those that split: the number of its splits, or their mean or summed gain."""
        names = self.model_.feature_names or [f"f{j}" for j in range(self.model_.n_features)]
        splits, gains = (self.model_.feature_importance(kind) for kind in ("split", "gain"))
        kinds = {"weight": splits, "gain": gains / np.maximum(splits, 1), "total_gain": gains}
        if importance_type not in kinds:
            raise InvalidParameterError(
                f"importance_type={importance_type!r} is unknown; choose {', '.join(map(repr, kinds))}."
            )
        return {names[j]: float(kinds[importance_type][j]) for j in np.flatnonzero(splits)}


def train(
    params: Mapping[str, Any],
    dtrain: Dataset,
    num_boost_round: int = 10,
    evals: Sequence[tuple[Dataset, str]] | None = None,
    obj: Any = None,
    *,
    early_stopping_rounds: int | None = None,
    evals_result: dict[str, Any] | None = None,
    verbose_eval: bool | int = False,
    xgb_model: Any = None,
    callbacks: Any = None,
    custom_metric: Any = None,
    **where: Any,
) -> Booster:
    """XGBoost's train; unlike there nothing is printed unless ``verbose_eval`` asks for it."""
    values = dict(params) if obj is None else {**params, "objective": obj}
    asked = read_params(
        values, Family(XGBRegressor, XGBClassifier, XGBRanker, _OwnObjective), n_estimators=num_boost_round,
        early_stopping_rounds=early_stopping_rounds,
    )  # fmt: skip
    if asked.metrics is None and asked.task == "regression":
        asked = replace(asked, metrics=[XGBRegressor._default_metric])
    sets, names = [each for each, _ in evals or []], [name for _, name in evals or []]
    estimator = run(
        asked, dtrain, sets, names, custom_metric, xgb_model=xgb_model, callbacks=callbacks, verbose=verbose_eval,
        **where,
    )  # fmt: skip
    if evals_result is not None:
        evals_result.clear()
        evals_result.update(_renamed(estimator.evals_result_))
    booster = Booster.of(estimator, values)
    if booster.best_iteration:
        booster.best_iteration = _best_iteration(booster.best_iteration)
        booster.best_score = _last(booster.best_score)  # type: ignore[assignment]
    return booster  # type: ignore[return-value]


def _iterations(model: Model, first: int, stop: int) -> Model:
    """The model with the trees of some iterations. Unlike LightGBM, XGBoost adds the initial score to any of them."""
    if first <= 0 and stop <= 0:
        return model
    per = model.trees_per_iteration
    return replace(model, trees=model.trees[max(first, 0) * per : stop * per if stop > 0 else None])


def _of_number(metric: Callable[..., Any]) -> Callable[..., Any]:
    """XGBoost's metrics, such as scikit-learn's log_loss, return a number, and lower is better."""

    @functools.wraps(metric)  # with its signature, which tells whether it takes weights
    def named(*given: Any, **more: Any) -> Any:
        answer = metric(*given, **more)
        return (metric.__name__, answer, False) if isinstance(answer, Real) else answer

    return named


def _has_queries(X: Any) -> bool:
    """Of pandas, Dask and polars, or Arrow, where ``columns`` are the values."""
    names = getattr(X, "column_names", None) or getattr(X, "columns", None)
    return not isinstance(X, Table) and names is not None and "qid" in list(names)


def _without_queries(X: Any) -> Any:
    if hasattr(X, "drop_columns"):
        return X.drop_columns(["qid"])
    return X.drop(columns="qid") if hasattr(X, "iloc") else X.drop("qid")


def _with_queries(X: Any, group: Any, qid: Any, what: str) -> tuple[Any, Any]:
    """X without the column that tells the queries, and these."""
    if not _has_queries(X):
        return X, qid
    if group is not None or qid is not None:
        raise InvalidDataError(
            f"The column 'qid' of {what} tells the queries already; drop that column, or leave out group and qid."
        )
    return _without_queries(X), X["qid"]


def _renamed(results: Mapping[str, Mapping[str, list[float]]]) -> dict[str, dict[str, list[float]]]:
    return {
        name: {METRIC_NAMES.get(metric, metric): values for metric, values in by.items()}
        for name, by in results.items()
    }


def _best_iteration(n_iterations: int) -> int:
    if not n_iterations:
        raise AttributeError("There is a best iteration only after early stopping; set early_stopping_rounds.")
    return n_iterations - 1


def _last(scores: Mapping[str, Mapping[str, float]]) -> float:
    """The last metric of the last set, which decides."""
    if not scores:
        raise AttributeError("There is a best score only after early stopping; set early_stopping_rounds.")
    return list(list(scores.values())[-1].values())[-1]
