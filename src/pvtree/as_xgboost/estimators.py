"""XGBoost's estimators: ours with other defaults, and XGBoost's arguments of fit and predict."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pvtree.as_xgboost.results import best_iteration, last_score, renamed, trees_of
from pvtree.errors import InvalidDataError
from pvtree.front.estimators import GBDTClassifier, GBDTModel, GBDTRanker, GBDTRegressor
from pvtree.front.estimators.eval_arguments import listed_metrics, one_each, paired, set_pairs
from pvtree.front.estimators.loading import restored
from pvtree.front.estimators.other_names import takes_other_names
from pvtree.model.any_file import read_any, save_as_named
from pvtree.parameters.aliases import ANYWAY
from pvtree.parameters.loss_table import LOSSES
from pvtree.reading.tables import Table
from pvtree.training.callbacks import EvalResult, early_stopping

if TYPE_CHECKING:
    from pvtree.as_xgboost.booster import Booster

DEFAULTS: dict[str, Any] = {
    "learning_rate": 0.3,
    "num_leaves": -1,
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
}


class _last_decides(early_stopping):
    """XGBoost's early stopping, which watches only the last metric of the last set."""

    def _watched(self, results: list[EvalResult]) -> list[EvalResult]:
        return [EvalResult(*result[:4]) for result in results[-1:]]


class _AsXGBoost:
    """XGBoost's defaults, fit arguments and results."""

    _default_metric: ClassVar[str | None] = None
    _own_defaults: ClassVar[dict[str, Any]] = {}
    # Without a limit on leaves, both policies grow the same tree.
    _anyway: ClassVar[Mapping[str, tuple[Any, ...]]] = ANYWAY | {
        "grow_policy": ("depthwise", "lossguide"),
        "tree_method": ("hist", "auto", "exact", "approx"),  # with a warning
    }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if cls.__module__.startswith("pvtree."):  # a user's subclass has these defaults already
            ours = inspect.signature(cls.__init__)
            changed = DEFAULTS | cls._own_defaults
            theirs = [p.replace(default=changed.get(p.name, p.default)) for p in ours.parameters.values()]
            defaults = {p.name: p.default for p in theirs[1:]}
            make = cls.__init__

            def __init__(self: Any, **given: Any) -> None:
                make(self, **(defaults | given))

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
        verbose: Any = False,
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
        verbose : bool or int, default=False
            Print metrics after every iteration; a number n prints them after every n-th.
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
        rounds = arguments.pop("early_stopping_rounds", None)
        if rounds is None:
            rounds = self.early_stopping_rounds  # type: ignore[attr-defined]
        if rounds:
            callbacks = [*(callbacks or []), _last_decides(rounds, verbose=False)]
        callbacks = self._adapted(callbacks)
        return super().fit(  # type: ignore[misc, no-any-return]
            X, y, sample_weight, eval_set=eval_set, verbose=verbose, callbacks=callbacks, **arguments
        )  # fmt: skip

    def _adapted(self, callbacks: Any) -> Any:
        """XGBoost's callback objects as ours."""
        if not callbacks:
            return callbacks
        from pvtree.as_xgboost.booster import Booster
        from pvtree.as_xgboost.callback import adapted

        return adapted(callbacks, 1.0, Booster._with_model)

    def predict(
        self, X: Any, *, output_margin: bool = False, iteration_range: tuple[int, int] | None = None, **arguments: Any
    ) -> np.ndarray:
        """Predict with XGBoost's arguments.

        Parameters
        ----------
        X
            The rows to predict.
        output_margin : bool, default=False
            Predict raw scores.
        iteration_range : (int, int) or None, default=None
            The first iteration to use and the one to stop before; (0, 0) and None for all.
        **arguments
            Other arguments of ``GBDTRegressor.predict``.
        """
        part = copy.copy(self)
        if iteration_range is not None:
            check_is_fitted(self, "model_")
            part.model_ = trees_of(self.model_, *iteration_range)  # type: ignore[attr-defined, has-type]
        if output_margin:
            arguments["raw_score"] = True
        return super(_AsXGBoost, part).predict(X, **arguments)  # type: ignore[misc, no-any-return]

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
        return listed and [_of_number(metric) if callable(metric) else metric for metric in listed]

    def _idle_parameters(self, values: dict[str, Any]) -> list[str]:
        sentences: list[str] = super()._idle_parameters(values)  # type: ignore[misc]
        method = self.get_params().get("tree_method")  # type: ignore[attr-defined]
        if method in ("exact", "approx"):
            sentences.append(f"tree_method={method!r} is taken as 'hist', which is the only one here.")
        return sentences

    def get_xgb_params(self) -> dict[str, Any]:
        """The parameters of training, by name."""
        params: dict[str, Any] = self.get_params()  # type: ignore[attr-defined]
        return {name: value for name, value in params.items() if name not in ("n_estimators", "importance_type")}

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
        return renamed(self.evals_result_)  # type: ignore[attr-defined]

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

        return Booster.of(self)  # type: ignore[arg-type, return-value]

    def save_model(self, fname: Any) -> None:
        """Write XGBoost's JSON or UBJSON if the name ends with .json or .ubj, else a model file of pvtree."""
        save_as_named(self.model_, fname)  # type: ignore[attr-defined]

    def load_model(self, fname: Any) -> None:
        """Read a model of pvtree or XGBoost, to predict with it."""
        restored(self, read_any(fname))  # type: ignore[arg-type]


class XGBRegressor(_AsXGBoost, GBDTRegressor):  # type: ignore[misc]
    """``GBDTRegressor`` with XGBoost's defaults."""

    _default_metric = "rmse"


class XGBModel(_AsXGBoost, GBDTModel):  # type: ignore[misc]
    """``GBDTModel`` with XGBoost's defaults: trains the task that ``objective`` names."""


class OwnObjective(XGBRegressor):
    """Trains a custom objective. The meaning of its scores is unknown, so every metric is allowed."""

    _metric_objective = "custom"


class XGBClassifier(_AsXGBoost, GBDTClassifier):  # type: ignore[misc]
    """``GBDTClassifier`` with XGBoost's defaults."""

    def _hessian_scale(self, n_classes: int) -> float:
        """For n classes, XGBoost's softmax has 2 p (1 - p); LightGBM's and ours have n / (n - 1) p (1 - p)."""
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
        """Fit with XGBoost's arguments.

        Parameters
        ----------
        X, y
            The training rows. A column ``qid`` of X holds the query ids.
        group, qid
            The queries, as in ``GBDTRanker.fit``, if X has no such column.
        eval_set, eval_group, eval_qid
            The sets to evaluate and their queries.
        eval_at : list of int, default=(32,)
            The ranks at which NDCG is measured. At least 1.
        **arguments
            Other arguments of ``XGBRegressor.fit``.
        """
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

    def score(self, X: Any, y: Any) -> float:
        """The NDCG of ``predict(X)``, whose column ``qid`` holds the queries; all rows are one query without it."""
        from pvtree.objectives.metrics import get_metric
        from pvtree.reading.targets import read_queries

        n_rows = len(np.asarray(y))
        qid = np.asarray(X["qid"]) if _has_queries(X) else np.zeros(n_rows, np.int64)
        queries = read_queries(None, qid, n_rows)
        sizes = np.array([n_rows]) if queries is None else queries.sizes
        metric = get_metric("ndcg@32", "lambdarank")
        return float(metric(np.asarray(y, np.float64), np.ascontiguousarray(self._raw(X).T), None, sizes))

    def _features(self, X: Any) -> Any:
        """Drop the column of query ids, which is not a feature. X may come with it or without."""
        is_feature = "qid" in (self.model_.feature_names or ())
        return _without_queries(X) if _has_queries(X) and not is_feature else X


def _of_number(metric: Callable[..., Any]) -> Callable[..., Any]:
    """Make our kind of metric of XGBoost's, such as scikit-learn's log_loss: it returns a number; lower is better."""

    @functools.wraps(metric)  # keeps its signature, which shows whether it accepts weights
    def named(*given: Any, **more: Any) -> Any:
        result = metric(*given, **more)
        return (metric.__name__, result, False) if isinstance(result, Real) else result

    return named


def _has_queries(X: Any) -> bool:
    """Whether a table of pandas, Dask, polars or Arrow has a column qid. Arrow's ``columns`` are values, not names."""
    names = getattr(X, "column_names", None) or getattr(X, "columns", None)
    return not isinstance(X, Table) and names is not None and "qid" in list(names)


def _without_queries(X: Any) -> Any:
    if hasattr(X, "drop_columns"):
        return X.drop_columns(["qid"])
    return X.drop(columns="qid") if hasattr(X, "iloc") else X.drop("qid")


def _with_queries(X: Any, group: Any, qid: Any, what: str) -> tuple[Any, Any]:
    """X without the column of query ids, and the query ids."""
    if not _has_queries(X):
        return X, qid
    if group is not None or qid is not None:
        raise InvalidDataError(
            f"The column 'qid' of {what} already holds the queries; drop that column, or leave out group and qid."
        )
    return _without_queries(X), X["qid"]
