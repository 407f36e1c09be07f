"""Every loss at a glance: its names, what its scores mean, where they start and what a leaf returns.

The gradients of loss ``x`` are ``x_gradients`` in kernels/objectives/row_losses.py unless a class of its own in
objectives/losses.py computes them. To add a loss, add its record here and its two kernels there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pvtree.errors import InvalidDataError


@dataclass(frozen=True)
class LossKind:
    """One loss."""

    name: str
    aliases: str  # in LightGBM, XGBoost and scikit-learn
    metric: str  # reported by default
    target: str = "value"  # what y holds: "value", "class" or "relevance"
    link: str = "identity"  # from the raw score to the prediction: "exp", "sigmoid", "softplus", "softmax", ...
    start: str = "mean"  # the prediction to start from; "zero" and "log-odds" (of the mean) are raw scores
    labels: str = "any"  # see LABELS
    constant: str | None = None  # the parameter that the gradients depend on
    constant_hessian: bool = False  # True: the hessian is the row's weight, or 1
    renewal: str | None = None  # a leaf returns this quantile of its residuals: "median", or a parameter's name
    n_outputs: int | None = 1  # None: one for each class


LOSSES: dict[str, LossKind] = {
    kind.name: kind
    for kind in (
        LossKind(
            "regression",
            "regression_l2 l2 mean_squared_error mse l2_root root_mean_squared_error rmse reg:squarederror reg:linear "
            "squared_error",
            "l2",
            constant_hessian=True,
        ),
        LossKind(
            "l1",
            "regression_l1 mean_absolute_error mae reg:absoluteerror absolute_error",
            "l1",
            start="median",
            constant_hessian=True,
            renewal="median",
        ),
        LossKind("huber", "", "huber", constant="huber_slope", constant_hessian=True),
        LossKind("fair", "", "fair", constant="fair_c"),
        LossKind(
            "quantile",
            "reg:quantileerror",
            "quantile",
            start="quantile_alpha",
            constant="quantile_alpha",
            constant_hessian=True,
            renewal="quantile_alpha",
        ),
        LossKind(
            "mape",
            "mean_absolute_percentage_error",
            "mape",
            start="median",
            constant_hessian=True,
            renewal="median",
        ),
        LossKind("pseudohuber", "reg:pseudohubererror", "mphe", start="median", constant="huber_slope"),
        LossKind("squared_log", "reg:squaredlogerror", "rmsle", start="log1p", labels="above -1"),
        LossKind(
            "poisson",
            "count:poisson",
            "poisson",
            link="exp",
            labels="at least 0",
            constant="poisson_max_delta_step",
        ),
        LossKind("gamma", "reg:gamma", "gamma", link="exp", labels="above 0"),
        LossKind(
            "tweedie",
            "reg:tweedie",
            "tweedie",
            link="exp",
            labels="at least 0",
            constant="tweedie_variance_power",
        ),
        LossKind("cross_entropy", "xentropy reg:logistic", "cross_entropy", link="sigmoid", labels="from 0 to 1"),
        LossKind(
            "cross_entropy_lambda",
            "xentlambda",
            "cross_entropy_lambda",
            link="softplus",
            start="log-odds",
            labels="from 0 to 1",
        ),
        LossKind("cox", "survival:cox", "cox-nloglik", link="exp", start="zero", labels="not 0"),
        LossKind("aft", "survival:aft", "aft-nloglik", link="exp", start="middle"),
        LossKind("binary", "binary:logistic log_loss", "binary_logloss", target="class", link="sigmoid"),
        LossKind("hinge", "binary:hinge", "binary_error", target="class", link="sign", start="zero"),
        LossKind(
            "multiclass",
            "softmax multi:softprob multi:softmax log_loss",
            "multi_logloss",
            target="class",
            link="softmax",
            n_outputs=None,
        ),
        LossKind(
            "multiclassova",
            "multiclass_ova ova ovr",
            "multi_logloss",
            target="class",
            link="sigmoids",
            n_outputs=None,
        ),
        LossKind("lambdarank", "rank:ndcg", "ndcg", target="relevance", start="zero"),
        LossKind("pairwise", "rank:pairwise", "ndcg", target="relevance", start="zero"),
        LossKind("rank_map", "rank:map", "map", target="relevance", start="zero"),
        LossKind("rank_xendcg", "xendcg xe_ndcg xe_ndcg_mart xendcg_mart", "ndcg", target="relevance", start="zero"),
    )
}

# What y may hold, as a test of all labels.
LABELS = {
    "at least 0": lambda y: y >= 0.0,
    "above 0": lambda y: y > 0.0,
    "not 0": lambda y: y != 0.0,
    "above -1": lambda y: y > -1.0,
    "from 0 to 1": lambda y: (y >= 0.0) & (y <= 1.0),
}


def losses_of(target: str) -> tuple[str, ...]:
    """The names of the losses whose y holds this."""
    return tuple(kind.name for kind in LOSSES.values() if kind.target == target)


def check_labels(objective: str, y: np.ndarray, name: str = "y") -> None:
    """Raise unless all labels suit the loss."""
    allowed = LOSSES[objective].labels if objective in LOSSES else "any"
    if allowed == "any":
        return
    wrong = ~LABELS[allowed](y)
    if wrong.any():
        raise InvalidDataError(
            f"objective={objective!r} needs labels {allowed} in {name}, got {y[wrong][0]:g}; remove those rows, or use "
            "another objective."
        )
