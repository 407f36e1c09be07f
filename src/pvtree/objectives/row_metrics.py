"""Every metric that is a mean over rows, at a glance: its names, its kernel and the scale of the scores it expects.

Predictions come from the objective's link; a metric with another link gets their inverse under it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pvtree.kernels.objectives import metrics as log_kernels
from pvtree.kernels.team import in_pieces
from pvtree.objectives.fixed_point import Term
from pvtree.objectives.loss import SMALLEST_PROBABILITY
from pvtree.objectives.row_losses import linked, row_values
from pvtree.parameters.loss_table import LOSSES

LEAST_MEAN = 1e-10  # of predictions in a logarithm, as in LightGBM


def _rooted_twice(mean: float) -> float:
    return math.sqrt(2.0 * mean)


@dataclass(frozen=True)
class RowMetric:
    """One metric."""

    name: str
    aliases: str
    kernel: str  # in kernels/objectives/row_losses.py
    link: str = "identity"
    constant: str | None = None  # the parameter that the kernel needs
    finish: Callable[[float], float] = float


ROW_METRICS: dict[str, RowMetric] = {
    metric.name: metric
    for metric in (
        RowMetric("huber", "", "huber_losses", constant="huber_slope"),
        RowMetric("fair", "", "fair_losses", constant="fair_c"),
        RowMetric("quantile", "", "quantile_losses", constant="quantile_alpha"),
        RowMetric("mape", "mean_absolute_percentage_error", "mape_losses"),
        RowMetric("mphe", "pseudohuber", "pseudohuber_losses", constant="huber_slope"),
        RowMetric("rmsle", "squared_log", "squared_log_losses", finish=_rooted_twice),
        RowMetric("poisson", "poisson-nloglik", "poisson_losses", "exp", "poisson_max_delta_step"),
        RowMetric("gamma", "gamma-nloglik", "gamma_losses", "exp"),
        RowMetric("gamma_deviance", "gamma-deviance", "gamma_deviances", "exp"),
        RowMetric("tweedie", "tweedie-nloglik", "tweedie_losses", "exp", "tweedie_variance_power"),
        RowMetric("cross_entropy", "xentropy", "cross_entropy_losses", "sigmoid"),
        RowMetric("kullback_leibler", "kldiv", "kullback_leiblers", "sigmoid"),
    )
}


def scores_under(link: str, objective: str, scores: np.ndarray) -> np.ndarray:
    """(n,): what ``link`` turns into the predictions of these raw scores (1, n) of the objective."""
    own = LOSSES[objective].link if objective in LOSSES else "identity"
    if own == link:
        return np.ascontiguousarray(scores[0])
    predicted = np.ascontiguousarray(scores[0]) if own == "identity" else linked(own, scores[:1].T)
    if link == "identity":
        return predicted
    least = LEAST_MEAN if link == "exp" else SMALLEST_PROBABILITY
    negative = np.empty(predicted.size)
    in_pieces(log_kernels.negative_logs, predicted.size, predicted, least, negative)
    if link == "exp":
        return -negative
    others = np.empty(predicted.size)
    in_pieces(log_kernels.negative_logs, predicted.size, 1.0 - predicted, least, others)
    return others - negative


def row_terms(
    metric: RowMetric,
    objective: str,
    constant: float | tuple[float, ...],
    y: np.ndarray,
    scores: np.ndarray,
    weight: np.ndarray | None,
    _group: Any,
) -> Term:
    """The metric of each row, and the rows' weights; with a constant per output, of the rows of each in turn."""
    predicted = scores_under(metric.link, objective, scores)
    if isinstance(constant, float):
        return row_values("", y, predicted, constant, metric.kernel), weight
    parts = zip(np.split(y, len(constant)), np.split(predicted, len(constant)), constant, strict=True)
    return np.concatenate([row_values("", *part, metric.kernel) for part in parts]), weight


def bound_terms(name: str, objective: str, constants: Mapping[str, Any]) -> Callable[..., Term]:
    """``row_terms`` of a metric, for an objective and its parameters."""
    metric = ROW_METRICS[name]
    constant = constants[metric.constant] if metric.constant else 0.0
    return partial(row_terms, metric, objective, constant if isinstance(constant, tuple) else float(constant))


def lambda_terms(y: np.ndarray, scores: np.ndarray, weight: np.ndarray | None, _group: Any) -> Term:
    """Cross-entropy with weights as exponents, so the mean itself has none."""
    return row_values("cross_entropy_lambda", y, scores[0], np.ones(y.size) if weight is None else weight), None
