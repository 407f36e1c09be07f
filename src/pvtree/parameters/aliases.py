"""Parameter names of LightGBM, XGBoost and scikit-learn, and pvtree's names for the same things.

Synonyms are renamed before an estimator is made, so that equal fits look equal (ADR 0019). A name that only resembles
one of our parameters is refused, and the message names that parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pvtree.errors import InvalidParameterError
from pvtree.parameters.loss_table import LOSSES
from pvtree.parameters.suggestions import closest

# The same thing under another name.
SYNONYMS: dict[str, str] = {
    "n_estimators": "num_iterations num_iteration n_iter max_iter iterations num_tree num_trees num_round "
    "num_rounds nrounds num_boost_round",
    "learning_rate": "eta shrinkage shrinkage_rate",
    "num_leaves": "num_leaf max_leaves max_leaf max_leaf_nodes",
    "min_child_samples": "min_data_in_leaf min_data_per_leaf min_data min_samples_leaf min_rows",
    "min_child_weight": "min_sum_hessian_in_leaf min_sum_hessian_per_leaf min_sum_hessian min_hessian",
    "reg_alpha": "alpha lambda_l1 l1_regularization",
    "reg_lambda": "lambda lambda_ lambda_l2 l2_regularization",
    "min_split_gain": "gamma min_gain_to_split min_split_loss",
    "subsample": "bagging_fraction bagging sub_row",
    "subsample_freq": "bagging_freq",
    "colsample_bytree": "feature_fraction sub_feature",
    "colsample_bynode": "feature_fraction_bynode sub_feature_bynode",
    "max_features": "feature_fraction_bynode colsample_bynode mtries",
    "max_bin": "max_bins",
    "objective": "objective_type app application loss loss_function",
    "eval_metric": "metric metrics metric_types",
    "random_state": "seed random_seed",
    "n_jobs": "num_threads num_thread nthread nthreads thread_count",
    "verbosity": "verbose silent",
    "early_stopping_rounds": "early_stopping_round n_iter_no_change",
    "categorical_feature": "categorical_features cat_feature cat_features categorical_column cat_column",
    "monotone_constraints": "monotone_constraint mc monotonic_cst monotonic_constraints",
    "interaction_constraints": "interaction_constraint interaction_cst",
    "importance_type": "feature_importance_type",
    "tree_learner": "tree tree_type tree_learner_type",
    "top_k": "topk",
    "n_workers": "num_machines num_machine",
    "lambdarank_truncation_level": "max_position lambdarank_num_pair_per_sample",
    "criterion": "split_criterion impurity",
    "quantile_alpha": "quantile",
    "lambdarank_norm": "lambdarank_normalization",
    "max_delta_step": "max_tree_output max_leaf_output",
    "is_unbalance": "unbalance unbalanced_sets",
}

# Names with another meaning, so their values cannot be taken over. The message refers to our closest parameter.
RELATED: dict[str, str] = {
    "min_child_samples": "min_samples_split",
    "min_child_weight": "min_weight_fraction_leaf",
    "min_split_gain": "min_impurity_decrease ccp_alpha",
    "subsample": "max_samples",
    "colsample_bynode": "colsample_bylevel",
    "max_features": "feature_fraction colsample_bytree",
    "random_state": "bagging_seed feature_fraction_seed data_random_seed",
    "early_stopping_rounds": "early_stopping",
}

# Synonyms with other units: XGBoost's gain is half of LightGBM's and ours; its 0 leaves are our -1.
CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "gamma": lambda value: _twice(value),
    "min_split_loss": lambda value: _twice(value),
    "max_leaves": lambda value: -1 if value == 0 else value,
    "max_leaf_nodes": lambda value: -1 if value is None else value,
    "silent": lambda value: int(not value) if isinstance(value, bool) else value,
}

# Our objectives, and their names in LightGBM, XGBoost and scikit-learn.
OBJECTIVE_WORDS: dict[str, str] = {kind.name: kind.aliases for kind in LOSSES.values()}
# The parameter that LightGBM and scikit-learn call alpha; with any other objective that is reg_alpha, as in XGBoost.
ALPHA_OF = {"quantile": "quantile_alpha", "huber": "huber_slope"}

_SWITCH = (True, False)
# Parameters whose listed values ask for what pvtree does anyway. None is always accepted.
ANYWAY: dict[str, tuple[Any, ...]] = {
    "boosting_type": ("gbdt", "gbrt"),
    "boosting": ("gbdt", "gbrt"),
    "booster": ("gbtree",),
    "tree_method": ("hist", "auto"),
    "device": ("cpu",),
    "device_type": ("cpu",),
    "monotone_constraints_method": ("basic",),
    "predictor": ("auto", "cpu_predictor"),
    "process_type": ("default",),
    "grow_policy": ("lossguide",),
    "sampling_method": ("uniform",),
    "data_sample_strategy": ("bagging",),
    "lambdarank_pair_method": ("topk",),
    "multi_strategy": ("one_output_per_tree",),
    "num_parallel_tree": (1,),
    "colsample_bylevel": (1,),
    "missing": (math.nan,),
    "use_missing": (True,),
    "zero_as_missing": (False,),
    "enable_categorical": _SWITCH,
    "validate_parameters": _SWITCH,
    "use_label_encoder": (False,),
    "subsample_for_bin": (200000,),
    "bin_construct_sample_cnt": (200000,),
    "feature_pre_filter": _SWITCH,
    "deterministic": _SWITCH,
    "force_col_wise": _SWITCH,
    "force_row_wise": _SWITCH,
    "extra_trees": (False,),
    "linear_tree": (False,),
}

_ARGUMENTS_OF_FIT = (
    "callbacks",
    "checkpoint",
    "checkpoint_freq",
    "client",
    "comm",
    "eval_at",
    "eval_class_weight",
    "eval_group",
    "eval_init_score",
    "eval_metric",
    "eval_names",
    "eval_qid",
    "eval_sample_weight",
    "eval_set",
    "eval_X",
    "eval_y",
    "group",
    "init_model",
    "init_score",
    "qid",
    "sample_weight",
    "timeout",
)
_ELSEWHERE = {
    **dict.fromkeys(_ARGUMENTS_OF_FIT, "it is an argument of fit."),
    **dict.fromkeys(
        ("monotone_constraints_method", "monotone_constraining_method", "mc_method"),
        "there is one method, LightGBM's 'basic'; leave it out.",
    ),
    "warm_start": "pass init_model to fit to continue from an earlier model.",
    **dict.fromkeys(("num_class", "num_classes"), "the classes are those in y; leave it out."),
    **dict.fromkeys(("metric", "metrics"), "pass eval_metric to fit instead."),
    **dict.fromkeys(
        ("class_weight", "is_unbalance", "unbalance", "scale_pos_weight"),
        "pass sample_weight to fit instead.",
    ),
}


def right_names(
    given: Mapping[str, Any],
    known: Collection[str],
    owner: str,
    anyway: Mapping[str, tuple[Any, ...]] = ANYWAY,
    objective: Any = None,
) -> dict[str, Any]:
    """Rename parameters to the names that ``owner`` knows; drop those that ask for what is done anyway.

    Unknown names and two names for one parameter are refused. What alpha means depends on the ``objective``, unless it
    is given with the others.
    """
    objective = given.get("objective", objective)
    named = objective_named(objective, LOSSES) if isinstance(objective, str) else None
    renamed: dict[str, Any] = {}
    came_as: dict[str, str] = {}
    for name, value in given.items():
        right = ALPHA_OF[named] if name == "alpha" and named in ALPHA_OF else synonym(name, known)
        if right is None:
            if name in anyway and _is_one_of(value, anyway[name]):
                continue
            raise InvalidParameterError(f"{_refusal(name, value, owner)}; {_remedy(name, known)}")
        if right in renamed:
            raise InvalidParameterError(
                f"{came_as[right]} and {name} are two names for one parameter of {owner}; give one of them."
            )
        came_as[right] = name
        renamed[right] = CONVERSIONS[name](value) if name != right and name in CONVERSIONS else value
    return renamed


def synonym(name: str, known: Collection[str]) -> str | None:
    """The one of the ``known`` parameters that ``name`` or one of its synonyms stands for, or None."""
    if name in known:
        return name
    return next((right for right in known if name.lower() in SYNONYMS.get(right, "").split()), None)


def objective_named(word: str, names: Collection[str]) -> str | None:
    """The one of these objectives that has this name here or in another library, or None."""
    if word in names:
        return word
    return next((name for name in names if word in OBJECTIVE_WORDS.get(name, "").split()), None)


def _is_one_of(value: Any, accepted: tuple[Any, ...]) -> bool:
    if value is None:
        return True
    is_nan = isinstance(value, float) and math.isnan(value)
    return any(is_nan if each != each else isinstance(value, str | int | float) and value == each for each in accepted)


def _refusal(name: str, value: Any, owner: str) -> str:
    return (
        f"{name}={value!r} is not supported by {owner}" if name in ANYWAY else f"{name} is not a parameter of {owner}"
    )


def _remedy(name: str, known: Collection[str]) -> str:
    if name in ANYWAY and name not in _ELSEWHERE:
        accepted = " or ".join(map(repr, ANYWAY[name])) or "None"
        return f"leave it out, or give {accepted}."
    similar = {right: f"{SYNONYMS.get(right, '')} {RELATED.get(right, '')}".split() for right in known}
    same = [right for right in known if name.lower() in similar[right]]
    if same:
        return f"use {same[0]} instead."
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    near = closest(name, known)
    return f"did you mean {near}?" if near else f"its parameters are {', '.join(sorted(known))}."


def _twice(value: Any) -> Any:
    return 2 * value if isinstance(value, int | float) else value
