"""The metrics of each objective by name. Names and conventions are LightGBM's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.kernels.objectives import metrics as kernels
from pvtree.kernels.team import in_pieces
from pvtree.objectives.aft import negative_log_likelihoods, within_bounds
from pvtree.objectives.fixed_point import Term
from pvtree.objectives.loss import SMALLEST_PROBABILITY
from pvtree.objectives.losses import predictions
from pvtree.objectives.metric import (
    AUC,
    R2,
    AUCMu,
    AveragePrecision,
    CoxLikelihood,
    CustomMetric,
    ForestAUC,
    MaybeArray,
    Mean,
    Metric,
    evaluate_together,
)
from pvtree.objectives.queries import Queries
from pvtree.objectives.row_losses import row_values
from pvtree.objectives.row_metrics import ROW_METRICS, bound_terms, lambda_terms, scores_under
from pvtree.parameters.loss_table import LOSSES, losses_of
from pvtree.parameters.params import Params
from pvtree.parameters.suggestions import closest

__all__ = ["CustomMetric", "Mean", "Metric", "default_metric", "evaluate_together", "get_metric"]


def _squared_errors(objective: str, y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    return np.square(scores_under("identity", objective, scores) - y), weight


def _absolute_errors(objective: str, y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    return np.abs(scores_under("identity", objective, scores) - y), weight


def _binary_log_losses(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    losses = np.empty(y.size)
    in_pieces(kernels.binary_log_losses, y.size, y, scores[0], losses)
    return losses, weight


def _binary_errors(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    return ((scores[0] > 0.0) != (y > 0.5)).astype(np.float64), weight


def _errors_at(threshold: float, y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    """Wrong if the probability of the second class is above the threshold and the label is the first, or vice versa."""
    positive = predictions("binary", scores[:1].T)[:, 1] if len(scores) == 1 else scores[-1]
    return ((positive > threshold) != (y > 0.5)).astype(np.float64), weight


def _errors_of_values(
    objective: str, threshold: float, y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray
) -> Term:
    """The same for predictions that are values: labels are 0 and 1, or are compared with a half like them."""
    return ((scores_under("identity", objective, scores) > threshold) != (y > 0.5)).astype(np.float64), weight


def _errors_at_k(k: int, y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    """1 where the true class is not among the k with the highest scores; a tie counts against it."""
    own = scores[y.astype(np.intp), np.arange(y.size)]
    return ((scores >= own).sum(axis=0) > k).astype(np.float64), weight


def _ova_log_losses(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, group: MaybeArray) -> Term:
    return _forest_log_losses(y, np.ascontiguousarray(predictions("multiclassova", scores.T).T), weight, group)


def _hinge_losses(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: MaybeArray) -> Term:
    return row_values("hinge", y, scores[0], 0.0), weight


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


def _of_queries(
    measure: str,
    level: int,
    label_gain: Sequence[float],
    y: np.ndarray,
    scores: np.ndarray,
    weight: MaybeArray,
    group: MaybeArray,
) -> Term:
    queries = Queries(y, group, label_gain)
    values = getattr(queries, measure)(scores[0], level)
    return values, None if weight is None else queries.weights(weight)


AT_RANKS = {"ndcg": "ndcgs", "map": "average_precisions", "pre": "precisions"}  # "ndcg@5": Queries' method


def _regression(objective: str, constants: Mapping[str, float]) -> dict[str, Metric]:
    """The metrics of values, on the scale of the objective's predictions."""
    squared, absolute = partial(_squared_errors, objective), partial(_absolute_errors, objective)
    own: dict[str, Metric] = {
        "l2": Mean("l2", False, squared),
        "rmse": Mean("rmse", False, squared, math.sqrt),
        "l1": Mean("l1", False, absolute),
        "r2": R2("r2", True, objective),
        "binary_error": Mean("binary_error", False, partial(_errors_of_values, objective, 0.5)),
    }
    for name, kind in ROW_METRICS.items():
        own[name] = Mean(name, False, bound_terms(name, objective, constants), kind.finish)
    if objective == "cross_entropy_lambda":
        own["cross_entropy_lambda"] = Mean("cross_entropy_lambda", False, lambda_terms)
    return own


BINARY: dict[str, Metric] = {
    "binary_logloss": Mean("binary_logloss", False, _binary_log_losses),
    "binary_error": Mean("binary_error", False, _binary_errors),
    "auc": AUC("auc", True),
    "average_precision": AveragePrecision("average_precision", True),
    **{name: Mean(name, False, bound_terms(name, "binary", {})) for name in ("cross_entropy", "kullback_leibler")},
}
OF_CLASSES: dict[str, Metric] = {
    "multi_error": Mean("multi_error", False, _multi_errors),
    "auc": AUC("auc", True),
    "auc_mu": AUCMu("auc_mu", True),
}
MULTICLASS = {"multi_logloss": Mean("multi_logloss", False, _multi_log_losses)} | OF_CLASSES
# The raw scores of a classification forest are the probabilities of all classes, even if there are two.
FOREST: dict[str, Metric] = {
    "multi_logloss": Mean("multi_logloss", False, _forest_log_losses),
    "multi_error": Mean("multi_error", False, _multi_errors),
    "binary_logloss": Mean("binary_logloss", False, _forest_log_losses),
    "binary_error": Mean("binary_error", False, _multi_errors),
    "auc": ForestAUC("auc", True),
    "auc_mu": AUCMu("auc_mu", True),
    "average_precision": AveragePrecision("average_precision", True),
}
OF_ORDER = {name: BINARY[name] for name in ("auc", "average_precision")}  # of any scores, if labels are 0 and 1
BY_OBJECTIVE: dict[str, dict[str, Metric]] = {
    "binary": BINARY,
    "hinge": {"hinge": Mean("hinge", False, _hinge_losses)} | BINARY,
    "multiclass": MULTICLASS,
    "multiclassova": {"multi_logloss": Mean("multi_logloss", False, _ova_log_losses)} | OF_CLASSES,
    "classification": FOREST,
    "cox": {"cox-nloglik": CoxLikelihood("cox-nloglik", False)},
}
RANKED = (*losses_of("relevance"), "custom")  # objectives with metrics at ranks
OF_CHANCES = ("binary", "hinge", "classification", "custom")  # error@t compares the second class's probability with t
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
    "map": ("map@10",),
    "mean_average_precision": ("map@10",),
    "pre": ("pre@10",),
    "aucpr": ("average_precision",),
    # XGBoost's names, and objectives that LightGBM accepts as metrics.
    "mlogloss": ("multi_logloss", "binary_logloss"),
    "merror": ("multi_error", "binary_error"),
    "l2_root": ("rmse",),
    "regression": ("l2",),
    "regression_l2": ("l2",),
    "regression_l1": ("l1",),
    "reg:squarederror": ("l2",),
    **dict.fromkeys(("multiclassova", "multiclass_ova", "ova", "ovr"), ("multi_logloss",)),
    **dict.fromkeys(("rank_xendcg", "xendcg", "rank:ndcg", "rank:pairwise"), ("ndcg@10",)),
    "binary": ("binary_logloss", "multi_logloss"),
    "multiclass": ("multi_logloss",),
    "softmax": ("multi_logloss",),
    "lambdarank": ("ndcg@10",),
    "rank:map": ("map@10",),
}
ALIASES |= {alias: (metric.name,) for metric in ROW_METRICS.values() for alias in metric.aliases.split()}
# Metrics of LightGBM and XGBoost that pvtree does not have. They are not taken for misspelt names.
ELSEWHERE = "cox aft interval"


def _likelihoods_of_times(
    distribution: str, scale: float, y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: Any
) -> Term:
    return negative_log_likelihoods(y, scores[0], distribution, scale), weight


def _within_bounds(y: np.ndarray, scores: np.ndarray, weight: MaybeArray, _group: Any) -> Term:
    return within_bounds(y, scores[0]), weight


def get_metric(name: str, objective: str | Callable[..., Any], constants: Mapping[str, Any] | None = None) -> Metric:
    """The objective's metric with this name or alias, in upper or lower case; "custom" stands for a function.

    ``constants`` are the parameters that some metrics depend on, such as ``quantile_alpha``.
    """
    family, lower = _family(objective), name.lower()
    known = _known(family, constants or {})
    found = _find(lower, family, known, (constants or {}).get("label_gain", ()))
    if found is not None:
        return found
    names = [*known, *(f"{each}@K" for each in AT_RANKS if family in RANKED)]
    word = lower.partition("@")[0]
    if word in _known("custom", {}) or word in ALIASES or word.partition("-")[0] in (*ELSEWHERE.split(), *AT_RANKS):
        raise InvalidParameterError(
            f"eval_metric={name!r} is not supported for objective {family!r}; use one of {', '.join(names)}."
        )
    near = closest(lower, [*names, *(alias for alias in ALIASES if _find(alias, family, known) is not None)])
    hint = f"did you mean {near!r}? " if near is not None else ""
    raise InvalidParameterError(
        f"eval_metric={name!r} is unknown for objective {family!r}: {hint}use one of {', '.join(names)}."
    )


def _known(family: str, constants: Mapping[str, Any]) -> dict[str, Metric]:
    known: dict[str, Any] = {field.name: field.default for field in fields(Params)} | dict(constants)
    if family == "custom":
        return _regression("regression", known) | BINARY | MULTICLASS
    if family == "aft":
        noise = known["aft_loss_distribution"], known["aft_loss_distribution_scale"]
        return {
            "aft-nloglik": Mean("aft-nloglik", False, partial(_likelihoods_of_times, *noise)),
            "interval-regression-accuracy": Mean("interval-regression-accuracy", True, _within_bounds),
        }
    if family in ("binary", "hinge"):
        return _regression(family, known) | BY_OBJECTIVE[family]
    if family in losses_of("relevance"):
        return _regression("regression", known) | OF_ORDER
    return BY_OBJECTIVE[family] if family in BY_OBJECTIVE else _regression(family, known) | OF_ORDER


def _find(name: str, family: str, known: Mapping[str, Metric], gains: Sequence[float] = ()) -> Metric | None:
    candidates = ALIASES.get(name, (name,))
    if name in ("multi_error", "merror") and family not in OF_CHANCES:
        candidates = candidates[:1]  # values have errors, but of no class
    for candidate in candidates:
        if candidate in known:
            return known[candidate]
        word, _, at = candidate.partition("@")
        word = ALIASES.get(word, (word,))[0]
        if word.partition("@")[0] in AT_RANKS and family in RANKED and re.fullmatch("[1-9][0-9]{0,8}", at):
            word = word.partition("@")[0]
            return Mean(f"{word}@{at}", True, partial(_of_queries, AT_RANKS[word], int(at), gains))
        if word == "multi_error" and word in known and re.fullmatch("[1-9][0-9]{0,8}", at):
            return Mean(candidate, False, partial(_errors_at_k, int(at)))
        if candidate.startswith("error@") and "binary_error" in known and re.fullmatch(r"0?\.[0-9]{1,15}", at):
            of_values = partial(_errors_of_values, family, float(at))
            return Mean(candidate, False, partial(_errors_at, float(at)) if family in OF_CHANCES else of_values)
        if candidate.startswith("tweedie-nloglik@") and "tweedie" in known and re.fullmatch(r"1\.[0-9]{1,15}", at):
            terms = bound_terms("tweedie", family, {"tweedie_variance_power": float(at)})
            return Mean(candidate, False, terms)
    return None


def default_metric(objective: str | Callable[..., Any]) -> str:
    """The metric to evaluate if none is given."""
    family = _family(objective)
    if family == "custom":
        raise InvalidParameterError("A custom objective has no default metric: give eval_metric.")
    name = "multi_logloss" if family == "classification" else LOSSES[family].metric
    return f"{name}@10" if name in ("ndcg", "map") else name


def _family(objective: str | Callable[..., Any]) -> str:
    family = "custom" if callable(objective) else objective
    if family not in LOSSES and family not in ("classification", "custom"):
        raise InvalidParameterError(f"objective={family!r} is unknown: use one of {', '.join(LOSSES)}.")
    return family
