"""How good raw scores are. Every sum is exact, so a metric does not depend on the order of the rows.
Names and conventions are LightGBM's."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.fixed_point import SUM_BITS, exact_mean, max_magnitude
from pvtree.kernels import metrics as kernels
from pvtree.losses import SMALLEST_PROBABILITY, n_arguments, predictions
from pvtree.queries import Queries

MaybeArray = np.ndarray | None
Evaluation = tuple[str, float, bool]  # name, value, greater is better


@dataclass(frozen=True)
class Metric:
    """``metric(y, scores, weight, group)`` with RAW scores (n_outputs, n_rows)."""

    name: str
    greater_is_better: bool
    function: Callable[..., float]

    def __call__(self, y: np.ndarray, scores: np.ndarray, weight: MaybeArray = None, group: MaybeArray = None) -> float:
        return self.function(y, scores, weight, group)

    def evaluate(
        self, y: np.ndarray, scores: np.ndarray, weight: MaybeArray = None, group: MaybeArray = None
    ) -> list[Evaluation]:
        """The value with its name, as custom metrics answer too."""
        return [(self.name, self(y, scores, weight, group), self.greater_is_better)]


@dataclass(frozen=True)
class CustomMetric:
    """``function(y_true, y_pred[, weight[, group]]) -> (name, value, is_higher_better)``, or a list of these.

    y_pred is what predict or predict_proba gives; for two classes the probability of the second.
    """

    function: Callable[..., Any]
    objective: str

    def evaluate(
        self, y: np.ndarray, scores: np.ndarray, weight: MaybeArray = None, group: MaybeArray = None
    ) -> list[Evaluation]:
        """Call the function with as much as it takes, and check its answer."""
        predicted = predictions(self.objective, scores.T)
        if self.objective in ("binary", "classification") and predicted.shape[1] == 2:
            predicted = predicted[:, 1]
        answer = self.function(*(y, predicted, weight, group)[: n_arguments(self.function)])
        triples = answer if isinstance(answer, list) else [answer]
        if not all(isinstance(triple, tuple) and len(triple) == 3 for triple in triples):
            raise InvalidParameterError(
                f"A custom metric must return (name, value, is_higher_better), it returned {answer!r}: "
                "return that triple or a list of such triples."
            )
        return [(str(name), float(value), bool(greater)) for name, value, greater in triples]


def _l2(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> float:
    return exact_mean(np.square(scores[0] - y), weight)


def _rmse(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> float:
    return math.sqrt(_l2(y, scores, weight, None))


def _l1(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> float:
    return exact_mean(np.abs(scores[0] - y), weight)


def _binary_logloss(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> float:
    losses = np.empty(y.size)
    kernels.binary_log_losses(y, scores[0], losses)
    return exact_mean(losses, weight)


def _binary_error(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> float:
    return exact_mean(((scores[0] > 0.0) != (y > 0.5)).astype(np.float64), weight)


def _multi_logloss(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> float:
    losses = np.empty(y.size)
    kernels.multiclass_log_losses(y, scores, losses)
    return exact_mean(losses, weight)


def _multi_error(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> float:
    errors = np.empty(y.size)
    kernels.multiclass_errors(y, scores, errors)
    return exact_mean(errors, weight)


def _forest_logloss(y: np.ndarray, probabilities: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> float:
    losses = np.empty(y.size)
    of_true_class = probabilities[y.astype(np.intp), np.arange(y.size)]
    kernels.negative_logs(of_true_class, SMALLEST_PROBABILITY, losses)
    return exact_mean(losses, weight)


def _auc(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> float:
    """Weight of rightly ordered (positive, negative) pairs, ties half; 1 if a class is missing."""
    if scores.shape[0] > 2:
        raise InvalidParameterError(
            f"eval_metric='auc' is for two classes, there are {scores.shape[0]}: use multi_logloss."
        )
    score = scores[-1]
    if np.isnan(score).any():
        return math.nan
    is_positive = y > 0.5
    positive, positive_weight = _sorted_class(score, weight, is_positive)
    negative, negative_weight = _sorted_class(score, weight, ~is_positive)
    pairs = float(positive_weight.sum()) * float(negative_weight.sum())
    if pairs == 0.0:
        return 1.0
    return kernels.ordered_pair_weight(positive, positive_weight, negative, negative_weight) / (2.0 * pairs)


def _sorted_class(score: np.ndarray, weight: MaybeArray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ascending scores of one class, and integer weights whose sums are exact."""
    if weight is None:
        ascending = np.sort(score[members])  # much faster than argsort
        return ascending, np.ones(ascending.size, dtype=np.int64)
    # All classes share the scale: the largest weight of all rows, summed over all rows, fits.
    exponent = SUM_BITS - max(weight.size - 1, 0).bit_length() - math.frexp(max_magnitude(weight))[1]
    score = score[members]
    order = np.argsort(score)
    return score[order], np.rint(np.ldexp(weight[members][order], exponent)).astype(np.int64)


def _ndcg(level: int, y: np.ndarray, scores: np.ndarray, weight: MaybeArray, group: MaybeArray) -> float:
    queries = Queries(y, group)
    return exact_mean(queries.ndcgs(scores[0], level), None if weight is None else queries.weights(weight))


REGRESSION = {"l2": _l2, "rmse": _rmse, "l1": _l1}
BINARY = {"binary_logloss": _binary_logloss, "binary_error": _binary_error, "auc": _auc}
MULTICLASS = {"multi_logloss": _multi_logloss, "multi_error": _multi_error}
# A classification forest's raw scores are the probabilities of all classes, also of two.
FOREST = {
    "multi_logloss": _forest_logloss,
    "multi_error": _multi_error,
    "binary_logloss": _forest_logloss,
    "binary_error": _multi_error,
    "auc": _auc,
}
BY_OBJECTIVE: dict[str, dict[str, Callable[..., float]]] = {
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
# The first candidate that the objective has: "logloss" fits classifiers of any number of classes.
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
}


def get_metric(name: str, objective: str | Callable[..., Any]) -> Metric:
    """The metric of that name or alias for an objective ("custom" for a function)."""
    family = _family(objective)
    known = BY_OBJECTIVE[family]
    for candidate in ALIASES.get(name, (name,)):
        if candidate in known:
            return Metric(candidate, candidate == "auc", known[candidate])
        level = re.fullmatch(r"ndcg@([1-9][0-9]{0,8})", candidate)
        if level and family in ("lambdarank", "custom"):
            return Metric(candidate, True, partial(_ndcg, int(level[1])))
    names = [*known, *(["ndcg@K"] if family in ("lambdarank", "custom") else [])]
    similar = difflib.get_close_matches(str(name), [*names, *ALIASES], n=1)
    hint = f"did you mean {similar[0]!r}? " if similar and similar[0] != name else ""
    raise InvalidParameterError(
        f"eval_metric={name!r} is unknown for objective {family!r}: {hint}choose one of {', '.join(names)}."
    )


def default_metric(objective: str | Callable[..., Any]) -> str:
    """What is evaluated when nothing is asked for."""
    family = _family(objective)
    if family not in DEFAULTS:
        raise InvalidParameterError("A custom objective has no default metric: give eval_metric.")
    return DEFAULTS[family]


def _family(objective: str | Callable[..., Any]) -> str:
    family = "custom" if callable(objective) else objective
    if family not in BY_OBJECTIVE:
        raise InvalidParameterError(f"objective={family!r} is unknown: choose one of {', '.join(DEFAULTS)}.")
    return family
