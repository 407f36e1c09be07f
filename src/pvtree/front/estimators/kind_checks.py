"""Kinds of boosting and ways to draw rows that do not go together, refused before any data is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.parameters.loss_table import LOSSES, check_labels
from pvtree.parameters.params import SEPARATE_LEARNERS, Params


def check_kinds(values: Mapping[str, Any]) -> None:
    """Raise unless the parameters of a boosting estimator describe one way to boost."""
    kind, strategy = values["boosting_type"], values["data_sample_strategy"]
    strategy = "goss" if kind == "goss" else strategy
    if values["tree_learner"] in SEPARATE_LEARNERS and (kind in ("dart", "rf") or values["num_parallel_tree"] > 1):
        raise InvalidParameterError(
            f"tree_learner={values['tree_learner']!r} does not support boosting_type='dart', 'rf' or "
            "num_parallel_tree; leave these out, or use another tree_learner."
        )
    by_sample = values["tree_learner"] == "voting" and values["ballot_rows"] != "all"
    if values["bins_folder"] is not None and (by_sample or values["tree_learner"] in SEPARATE_LEARNERS):
        raise InvalidParameterError(
            f"bins_folder does not support tree_learner={values['tree_learner']!r}, which needs its bins in memory; "
            "use tree_learner='exact_voting', or leave bins_folder out."
        )
    if values["tree_learner"] in SEPARATE_LEARNERS and values["cegb_penalty_feature_coupled"] is not None:
        raise InvalidParameterError(
            f"tree_learner={values['tree_learner']!r} does not support cegb_penalty_feature_coupled, because its "
            "workers grow trees apart; leave it out, or use another tree_learner."
        )
    if values["linear_tree"]:
        _check_linear(values)
    draws = values["subsample_freq"] > 0 and min(_fractions(values)) < 1
    if kind == "rf":
        if values["num_parallel_tree"] > 1:
            raise InvalidParameterError(
                "boosting_type='rf' averages all trees, so num_parallel_tree has no meaning; set n_estimators instead."
            )
        names = ("colsample_bytree", "colsample_bylevel", "colsample_bynode")
        of_columns = min(values[name] for name in names) < 1 or values["extra_trees"]
        if not (draws or of_columns or strategy == "goss" or (strategy == "mvs" and values["subsample"] < 1)):
            raise InvalidParameterError(
                "boosting_type='rf' without chance grows the same tree again and again; set subsample below 1 and "
                "subsample_freq=1, or colsample_bytree or colsample_bynode below 1."
            )
    if strategy == "goss":
        if draws:
            raise InvalidParameterError("data_sample_strategy='goss' draws rows itself; leave subsample out.")
        if values["top_rate"] + values["other_rate"] > 1:
            raise InvalidParameterError(
                f"top_rate and other_rate must sum to 1 at most, got {values['top_rate']} and {values['other_rate']}."
            )


def _check_linear(values: Mapping[str, Any]) -> None:
    """Raise if something would have to know what a linear leaf returns."""
    others = {
        f"boosting_type={values['boosting_type']!r}": values["boosting_type"] in ("dart", "rf"),
        f"tree_learner={values['tree_learner']!r}": values["tree_learner"] in SEPARATE_LEARNERS,
        "monotone_constraints": values["monotone_constraints"] is not None,
        "max_delta_step": values["max_delta_step"] > 0,
        "zero_as_missing": values["zero_as_missing"],
    }
    for name, is_asked in others.items():
        if is_asked:
            raise InvalidParameterError(f"linear_tree does not support {name}; leave one of them out.")


def check_fractions(params: Params) -> None:
    """Raise if fractions by class are asked for without two classes."""
    if params.n_classes != 2 and min(params.pos_bagging_fraction, params.neg_bagging_fraction) < 1.0:
        raise InvalidParameterError(
            "pos_bagging_fraction and neg_bagging_fraction need two classes; use subsample instead."
        )


def count_targets(values: Mapping[str, Any], task: str, n_columns: int) -> int:
    """The outputs of a loss of values: the columns of y, or the levels of a quantile."""
    if task == "aft" and not callable(values.get("objective")):
        if n_columns > 2:
            raise InvalidParameterError(f"y of objective='aft' has two columns, the bounds of a time, not {n_columns}.")
        return 1
    levels = values.get("quantile_alpha", 0.9)
    n_levels = len(levels) if isinstance(levels, list | tuple | np.ndarray) else 1
    if n_levels > 1 and (task != "quantile" or callable(values.get("objective"))):
        raise InvalidParameterError(
            "quantile_alpha is a list of levels, which only objective='quantile' trains; set that objective, or "
            "one level."
        )
    if n_levels > 1 and n_columns > 1:
        raise InvalidParameterError(
            f"y has {n_columns} columns and quantile_alpha {n_levels} levels; train one model for each column of y."
        )
    return max(n_levels, n_columns)


def idle_kinds(values: Mapping[str, Any]) -> list[str]:
    """A sentence for each parameter that does nothing together with the others."""
    sentences = []
    if values["subsample_freq"] == 0 and values["data_sample_strategy"] != "mvs":
        names = ("subsample", "pos_bagging_fraction", "neg_bagging_fraction")
        sentences = [
            f"{name} does nothing while subsample_freq is 0; set subsample_freq=1 to draw in every iteration."
            for name in names
            if values.get(name, 1) < 1
        ]
    if values["monotone_penalty"] > 0 and values["monotone_constraints"] is None:
        sentences.append("monotone_penalty does nothing without monotone_constraints; set both.")
    if values["normalize_type"] != "tree" and not values["xgboost_dart_mode"]:
        sentences.append("normalize_type does nothing without xgboost_dart_mode=True; set both.")
    return sentences


def _fractions(values: Mapping[str, Any]) -> list[float]:
    return [values.get(name, 1) for name in ("subsample", "pos_bagging_fraction", "neg_bagging_fraction")]


def check_loss(params: Params, labels: list[np.ndarray]) -> None:
    """Raise unless the labels of all sets suit the loss, and the loss suits the constraints."""
    check_fractions(params)
    if not isinstance(params.objective, str) or params.objective not in LOSSES:
        return
    for number, y in enumerate(labels):
        name = "y" if number == 0 else f"y of eval_set {number - 1}"
        check_labels(params.objective, y, name)
        if params.objective == "aft":
            from pvtree.objectives.aft import check_bounds

            check_bounds(y, name)
        if params.label_gain and y.max(initial=0.0) >= len(params.label_gain):
            raise InvalidDataError(
                f"label_gain has {len(params.label_gain)} gains, but {name} has the label {y.max():g}; give a gain "
                "for every label."
            )
    if LOSSES[params.objective].renewal is not None and params.monotone_constraints:
        raise InvalidParameterError(
            f"monotone_constraints do not suit objective={params.objective!r}, whose leaves return quantiles; "
            "leave monotone_constraints out, or use 'huber'."
        )
    if LOSSES[params.objective].renewal is not None and params.linear_tree:
        raise InvalidParameterError(
            f"linear_tree does not suit objective={params.objective!r}, whose leaves return quantiles; use 'huber'."
        )
