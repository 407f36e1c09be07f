"""Metrics of raw scores over the rows of all workers.

Every sum is exact, so a metric depends neither on the order of rows nor on which worker holds them. Names and
conventions are LightGBM's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.comm.agreement import tell
from pvtree.errors import InvalidParameterError
from pvtree.kernels.objectives import metrics as kernels
from pvtree.kernels.team import in_pieces
from pvtree.objectives.auc import area_under_curve
from pvtree.objectives.fixed_point import Term, exact_means_of
from pvtree.objectives.losses import SMALLEST_PROBABILITY, call_with, predictions
from pvtree.objectives.queries import Queries
from pvtree.parameters.suggestions import closest

if TYPE_CHECKING:
    from pvtree.comm import Communicator

MaybeArray = np.ndarray | None
NamedValue = tuple[str, float, bool]  # name, value, greater is better
ScoredRows = tuple[np.ndarray, np.ndarray, MaybeArray, MaybeArray]  # y, RAW scores (n_outputs, n_rows), weight, group


@dataclass(frozen=True)
class Metric:
    """``metric(y, scores, weight, group, comm)``: each worker passes its own rows, and all get the same value.

    A worker may have no rows. Scores are RAW (n_outputs, n_rows). Either all workers give a weight or none does.
    """

    name: str
    greater_is_better: bool

    def __call__(
        self,
        y: np.ndarray,
        scores: np.ndarray,
        weight: MaybeArray = None,
        group: MaybeArray = None,
        comm: Communicator | None = None,
    ) -> float:
        return self._value((y, scores, weight, group), comm)

    def evaluate(
        self,
        y: np.ndarray,
        scores: np.ndarray,
        weight: MaybeArray = None,
        group: MaybeArray = None,
        comm: Communicator | None = None,
    ) -> list[NamedValue]:
        """The value with its name, in the form that custom metrics return too."""
        return self.named(self(y, scores, weight, group, comm))

    def named(self, value: float) -> list[NamedValue]:
        return [(self.name, value, self.greater_is_better)]

    def _value(self, rows: ScoredRows, comm: Communicator | None) -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class Mean(Metric):
    """The weighted mean of a value per row or query; ``finish`` turns the mean into the metric."""

    terms: Callable[..., Term]
    finish: Callable[[float], float] = float

    def _value(self, rows: ScoredRows, comm: Communicator | None) -> float:
        return self.finish(exact_means_of([self.terms(*rows)], comm, "metrics")[0])


@dataclass(frozen=True)
class AUC(Metric):
    """The share of (positive, negative) pairs in correct order, by weight; ties count half; 1 if a class is missing."""

    def _value(self, rows: ScoredRows, comm: Communicator | None) -> float:
        y, scores, weight, _ = rows
        if scores.shape[0] > 2:
            raise InvalidParameterError(
                f"eval_metric='auc' is for two classes, but there are {scores.shape[0]}: use multi_logloss."
            )
        return area_under_curve(y > 0.5, scores[-1], weight, comm)


@dataclass(frozen=True)
class CustomMetric:
    """``function(y_true, y_pred[, weight[, group]]) -> (name, value, is_higher_better)``, or a list of these.

    y_pred is what predict or predict_proba returns; for two classes, the probability of the second. Worker 0 calls the
    function once, with the rows of all workers in the order of their ranks.
    """

    function: Callable[..., Any]
    objective: str

    def evaluate(
        self,
        y: np.ndarray,
        scores: np.ndarray,
        weight: MaybeArray = None,
        group: MaybeArray = None,
        comm: Communicator | None = None,
    ) -> list[NamedValue]:
        """Call the function with the arguments that it takes, and check its answer."""
        predicted = predictions(self.objective, scores.T)
        if self.objective in ("binary", "classification") and predicted.shape[1] == 2:
            predicted = predicted[:, 1]
        if comm is None or comm.size == 1:
            return self._call(y, predicted, weight, group)
        rows = [None if each is None else _on_worker_0(each, comm) for each in (y, predicted, weight, group)]
        shared = tell(self._call(*rows) if comm.rank == 0 else None, comm, "metrics")
        return [(name, value, greater) for name, value, greater in shared]

    def _call(self, y: MaybeArray, predicted: MaybeArray, weight: MaybeArray, group: MaybeArray) -> list[NamedValue]:
        answer = call_with(self.function, y, predicted, weight=weight, group=group)
        triples = answer if isinstance(answer, list) else [answer]
        if not all(isinstance(triple, tuple) and len(triple) == 3 for triple in triples):
            raise InvalidParameterError(
                f"A custom metric must return (name, value, is_higher_better), but returned {answer!r}: "
                "return that triple or a list of such triples."
            )
        return [(str(name), float(value), bool(greater)) for name, value, greater in triples]


def evaluate_together(
    asked: Sequence[tuple[Metric | CustomMetric, ScoredRows]], comm: Communicator | None = None
) -> list[list[NamedValue]]:
    """``metric.evaluate(*rows, comm)`` for each pair, with two exchanges for all means together."""
    means = iter(exact_means_of([m.terms(*rows) for m, rows in asked if isinstance(m, Mean)], comm, "metrics"))
    return [
        metric.named(metric.finish(next(means))) if isinstance(metric, Mean) else metric.evaluate(*rows, comm)
        for metric, rows in asked
    ]


def _on_worker_0(values: np.ndarray, comm: Communicator) -> np.ndarray:
    """On worker 0, the values of all workers in the order of ranks; nothing elsewhere."""
    values = np.ascontiguousarray(values)
    return np.concatenate(comm.alltoall([values] + [values[:0]] * (comm.size - 1), "metrics"))


def _squared_errors(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    return np.square(scores[0] - y), weight


def _absolute_errors(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    return np.abs(scores[0] - y), weight


def _binary_log_losses(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    losses = np.empty(y.size)
    in_pieces(kernels.binary_log_losses, y.size, y, scores[0], losses)
    return losses, weight


def _binary_errors(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    return ((scores[0] > 0.0) != (y > 0.5)).astype(np.float64), weight


def _multi_log_losses(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    losses = np.empty(y.size)
    in_pieces(kernels.multiclass_log_losses, y.size, y, scores, losses)
    return losses, weight


def _multi_errors(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    errors = np.empty(y.size)
    in_pieces(kernels.multiclass_errors, y.size, y, scores, errors)
    return errors, weight


def _forest_log_losses(y: np.ndarray, probabilities: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    losses = np.empty(y.size)
    of_true_class = probabilities[y.astype(np.intp), np.arange(y.size)]
    in_pieces(kernels.negative_logs, y.size, of_true_class, SMALLEST_PROBABILITY, losses)
    return losses, weight


def _ndcgs(level: int, y: np.ndarray, scores: np.ndarray, weight: MaybeArray, group: MaybeArray) -> Term:
    queries = Queries(y, group)
    return queries.ndcgs(scores[0], level), None if weight is None else queries.weights(weight)


REGRESSION: dict[str, Metric] = {
    "l2": Mean("l2", False, _squared_errors),
    "rmse": Mean("rmse", False, _squared_errors, math.sqrt),
    "l1": Mean("l1", False, _absolute_errors),
}
BINARY: dict[str, Metric] = {
    "binary_logloss": Mean("binary_logloss", False, _binary_log_losses),
    "binary_error": Mean("binary_error", False, _binary_errors),
    "auc": AUC("auc", True),
}
MULTICLASS: dict[str, Metric] = {
    "multi_logloss": Mean("multi_logloss", False, _multi_log_losses),
    "multi_error": Mean("multi_error", False, _multi_errors),
}
# The raw scores of a classification forest are the probabilities of all classes, even if there are two.
FOREST: dict[str, Metric] = {
    "multi_logloss": Mean("multi_logloss", False, _forest_log_losses),
    "multi_error": Mean("multi_error", False, _multi_errors),
    "binary_logloss": Mean("binary_logloss", False, _forest_log_losses),
    "binary_error": Mean("binary_error", False, _multi_errors),
    "auc": AUC("auc", True),
}
BY_OBJECTIVE: dict[str, dict[str, Metric]] = {
    "regression": REGRESSION,
    "binary": BINARY,
    "multiclass": MULTICLASS,
    "classification": FOREST,
    "lambdarank": {},  # ndcg@K
    "custom": REGRESSION | BINARY | MULTICLASS,
}
DEFAULTS = {
    "regression": "l2",
    "binary": "binary_logloss",
    "multiclass": "multi_logloss",
    "classification": "multi_logloss",
    "lambdarank": "ndcg@10",
}
# An alias stands for the first candidate that the objective has, so "logloss" suits any number of classes.
ALIASES = {
    "mse": ("l2",),
    "mean_squared_error": ("l2",),
    "root_mean_squared_error": ("rmse",),
    "mae": ("l1",),
    "mean_absolute_error": ("l1",),
    "logloss": ("multi_logloss", "binary_logloss"),
    "log_loss": ("multi_logloss", "binary_logloss"),
    "binary_logloss": ("binary_logloss", "multi_logloss"),
    "multi_logloss": ("multi_logloss", "binary_logloss"),
    "error": ("multi_error", "binary_error"),
    "binary_error": ("binary_error", "multi_error"),
    "multi_error": ("multi_error", "binary_error"),
    "ndcg": ("ndcg@10",),
    # XGBoost's names, and objectives that LightGBM accepts as metrics.
    "mlogloss": ("multi_logloss", "binary_logloss"),
    "merror": ("multi_error", "binary_error"),
    "l2_root": ("rmse",),
    "regression": ("l2",),
    "regression_l2": ("l2",),
    "regression_l1": ("l1",),
    "binary": ("binary_logloss", "multi_logloss"),
    "multiclass": ("multi_logloss",),
    "softmax": ("multi_logloss",),
    "lambdarank": ("ndcg@10",),
}
# Metrics of LightGBM and XGBoost that pvtree does not have. They are not taken for misspelt names.
ELSEWHERE = (
    "auc_mu aucpr average_precision cox cross_entropy fair gamma gamma_deviance huber interval kldiv kullback_leibler "
    "map mape mean_absolute_percentage_error mean_average_precision mphe poisson pre quantile rmsle tweedie xentropy"
)


def get_metric(name: str, objective: str | Callable[..., Any]) -> Metric:
    """The objective's metric with this name or alias, in upper or lower case; "custom" stands for a function."""
    family, lower = _family(objective), name.lower()
    found = _find(lower, family)
    if found is not None:
        return found
    names = [*BY_OBJECTIVE[family], *(["ndcg@K"] if family in ("lambdarank", "custom") else [])]
    if lower.partition("@")[0].partition("-")[0] in ELSEWHERE.split():
        raise InvalidParameterError(f"eval_metric={name!r} is not supported; use one of {', '.join(names)}.")
    near = closest(lower, [*names, *(alias for alias in ALIASES if _find(alias, family) is not None)])
    hint = f"did you mean {near!r}? " if near is not None else ""
    raise InvalidParameterError(
        f"eval_metric={name!r} is unknown for objective {family!r}: {hint}use one of {', '.join(names)}."
    )


def _find(name: str, family: str) -> Metric | None:
    known = BY_OBJECTIVE[family]
    for candidate in ALIASES.get(name, (name,)):
        if candidate in known:
            return known[candidate]
        level = re.fullmatch(r"ndcg@([1-9][0-9]{0,8})", candidate)
        if level and family in ("lambdarank", "custom"):
            return Mean(candidate, True, partial(_ndcgs, int(level[1])))
    return None


def default_metric(objective: str | Callable[..., Any]) -> str:
    """The metric to evaluate if none is given."""
    family = _family(objective)
    if family not in DEFAULTS:
        raise InvalidParameterError("A custom objective has no default metric: give eval_metric.")
    return DEFAULTS[family]


def _family(objective: str | Callable[..., Any]) -> str:
    family = "custom" if callable(objective) else objective
    if family not in BY_OBJECTIVE:
        raise InvalidParameterError(f"objective={family!r} is unknown: use one of {', '.join(DEFAULTS)}.")
    return family
