"""Parameter names of LightGBM, XGBoost and scikit-learn, and pvtree's names for the same things.

Synonyms are renamed before training, so that equal fits look equal (ADR 0019). A name that only resembles one of our
parameters is refused, and the message names that parameter; one that means nothing is told in a warning (ADR 0028).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from types import NoneType
from typing import Any, NamedTuple

from pvtree.errors import InvalidParameterError
from pvtree.parameters.loss_table import LOSSES
from pvtree.parameters.peer_names import LIGHTGBM_NAMES, UNSUPPORTED
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
    "boosting_type": "boosting boost booster",
    "data_sample_strategy": "sampling_method",
    "drop_rate": "rate_drop",
    "uniform_drop": "sample_type",
    "pos_bagging_fraction": "pos_sub_row pos_subsample pos_bagging",
    "neg_bagging_fraction": "neg_sub_row neg_subsample neg_bagging",
    "bagging_seed": "bagging_fraction_seed",
    "data_random_seed": "data_seed",
    "subsample_for_bin": "bin_construct_sample_cnt",
    "extra_trees": "extra_tree",
    "linear_tree": "linear_trees",
    "forcedsplits_filename": "fs forced_splits_filename forced_splits_file forced_splits",
    "feature_contri": "feature_contrib fc fp feature_penalty",
    "monotone_penalty": "monotone_splits_penalty ms_penalty mc_penalty",
}

# Names with another meaning, so their values cannot be taken over. The message refers to our closest parameter.
RELATED: dict[str, str] = {
    "min_child_samples": "min_samples_split",
    "min_child_weight": "min_weight_fraction_leaf",
    "min_split_gain": "min_impurity_decrease ccp_alpha",
    "subsample": "max_samples",
    "max_features": "feature_fraction colsample_bytree",
    "early_stopping_rounds": "early_stopping",
}

_KINDS = {"gbrt": "gbdt", "gbtree": "gbdt", "random_forest": "rf"}
# Synonyms with other units: XGBoost's gain is half of LightGBM's and ours; its 0 leaves are our -1.
CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "gamma": lambda value: _twice(value),
    "min_split_loss": lambda value: _twice(value),
    "max_leaves": lambda value: -1 if value == 0 else value,
    "max_leaf_nodes": lambda value: -1 if value is None else value,
    **dict.fromkeys(("boosting", "boost", "booster"), lambda value: _KINDS.get(value, value)),
    "sampling_method": lambda value: {"uniform": "bagging", "gradient_based": "mvs"}.get(value, value),
    "sample_type": lambda value: {"uniform": True, "weighted": False}.get(value, value),
    "silent": lambda value: int(not value) if isinstance(value, bool) else value,
}

# Our objectives, and their names in LightGBM, XGBoost and scikit-learn.
OBJECTIVE_WORDS: dict[str, str] = {kind.name: kind.aliases for kind in LOSSES.values()}
# The parameter that LightGBM and scikit-learn call alpha; with any other objective that is reg_alpha, as in XGBoost.
ALPHA_OF = {"quantile": "quantile_alpha", "huber": "huber_slope"}

LEAST_LETTERS = 13  # of a synonym that a misspelt name is compared with
_SWITCH = (True, False)
ANY_VALUE: tuple[Any, ...] = (object,)
# Parameters whose listed values ask for what pvtree does anyway. None is always accepted.
ANYWAY: dict[str, tuple[Any, ...]] = {
    "tree_method": ("hist", "auto"),
    "device": ("cpu",),
    "device_type": ("cpu",),
    "monotone_constraints_method": ("basic",),
    "predictor": ("auto", "cpu_predictor"),
    "process_type": ("default",),
    "lambdarank_pair_method": ("topk",),
    "multi_strategy": ("one_output_per_tree",),
    "missing": (math.nan,),
    "enable_categorical": _SWITCH,
    "validate_parameters": _SWITCH,
    "use_label_encoder": (False,),
    "feature_pre_filter": _SWITCH,
    "deterministic": _SWITCH,
    "force_col_wise": _SWITCH,
    "force_row_wise": _SWITCH,
    "reg_sqrt": (False,),
    "sigmoid": (1,),
    "lambdarank_unbiased": (False,),
    "lambdarank_score_normalization": (True,),
    "ndcg_exp_gain": (True,),
    "max_cached_hist_node": ANY_VALUE,  # memory alone
}

EVAL_AT = ("eval_at", "ndcg_eval_at", "ndcg_at", "map_eval_at", "map_at")
# LightGBM's parameters that are no parameters of ours but have an effect where they are read: in fit or predict.
READ_ELSEWHERE = frozenset(
    (
        *EVAL_AT,
        "early_stopping_min_delta",
        "first_metric_only",
        "multi_error_top_k",
        "num_class",
        "num_classes",
        "pred_early_stop",
        "pred_early_stop_freq",
        "pred_early_stop_margin",
    )
)

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
    **dict.fromkeys(("metric", "metrics"), "pass eval_metric to fit instead."),
    **dict.fromkeys(
        ("class_weight", "is_unbalance", "unbalance", "scale_pos_weight"),
        "pass sample_weight to fit instead.",
    ),
}


class ReadNames(NamedTuple):
    """Parameters by the names that an estimator knows, and what else was written."""

    values: dict[str, Any]
    others: dict[str, Any]  # as written: other names of parameters, what is done anyway, and what is unknown
    unknown: list[str]  # sentences about names that mean nothing
    ignored: list[str]  # sentences about parameters that were given under several names


def read_names(
    given: Mapping[str, Any],
    known: Collection[str],
    owner: str,
    anyway: Mapping[str, tuple[Any, ...]] = ANYWAY,
    objective: Any = None,
) -> ReadNames:
    """Rename parameters to the names that ``owner`` knows.

    A name that is misspelt, or that asks for what is not supported, is refused. One that means nothing is told as a
    sentence. Of several names for one parameter LightGBM's own counts, then the shortest. What alpha means depends on
    the ``objective``, unless it is given with the others.
    """
    objective = next((value for name, value in given.items() if synonym(name, ["objective"])), objective)
    read = ReadNames({}, {}, [], [])
    came_as: dict[str, str] = {}
    for name, value in given.items():
        right = synonym(name, known, objective)
        if right is None:
            read.others[name] = value
            if name not in READ_ELSEWHERE and not (name in anyway and _is_one_of(value, anyway[name])):
                if is_refused(name, known):
                    raise InvalidParameterError(f"{_refusal(name, value, owner)}; {_remedy(name, known)}")
                read.unknown.append(f"{name} is not a parameter of {owner} and has no effect; leave it out.")
            continue
        if name != right:
            read.others[name] = value
        if right in came_as:
            first, second = sorted((came_as[right], name), key=precedence)
            if agree(converted(first, right, given[first]), converted(second, right, given[second])):
                first = right if right in (first, second) else first
            else:
                read.ignored.append(ignored(second, first))
                read.others.pop(second, None)
            came_as[right] = first
        else:
            came_as[right] = name
    read.values.update({right: converted(name, right, given[name]) for right, name in came_as.items()})
    return read


def right_names(
    given: Mapping[str, Any], known: Collection[str], owner: str, anyway: Mapping[str, tuple[Any, ...]] = ANYWAY
) -> dict[str, Any]:
    """Rename parameters where every name must mean something; unknown ones and two for one parameter are refused."""
    read = read_names(given, known, owner, anyway)
    if read.ignored:
        raise InvalidParameterError(read.ignored[0])
    for name in given:
        if synonym(name, known) is None and name not in anyway:
            raise InvalidParameterError(f"{name} is not a parameter of {owner}; {_remedy(name, known)}")
    return read.values


def precedence(name: str) -> tuple[bool, int, str]:
    """Sorts the names of one parameter as LightGBM does: its own, then the shortest, then by the alphabet."""
    return name not in LIGHTGBM_NAMES, len(name), name


def ignored(name: str, first: str) -> str:
    """The warning about a parameter that is given under two names."""
    return f"{name} is ignored, because {first} is another name for it; pass one of them."


def converted(name: str, right: str, value: Any) -> Any:
    """A value given as ``name`` in the units of ``right``."""
    return CONVERSIONS[name](value) if name != right and name in CONVERSIONS else value


def agree(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are the same; objects of one type count as copies of each other."""
    if isinstance(one, str | int | float | NoneType) or isinstance(other, str | int | float | NoneType):
        return bool(one == other) or (one != one and other != other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(agree, one, other))
    return type(one) is type(other)


def is_refused(name: str, known: Collection[str]) -> bool:
    """Whether an unknown name is an error: it is misspelt, belongs elsewhere, or asks for another model."""
    resembling = {word for right in known for word in RELATED.get(right, "").split()}
    if name.lower() in resembling or name in ANYWAY or name in _ELSEWHERE or name.lower() in UNSUPPORTED:
        return not name.lower().endswith("_seed")
    words = {*known, *(word for right in known for word in _long_synonyms(right))}
    return closest(name, words) is not None


def synonym(name: str, known: Collection[str], objective: Any = None) -> str | None:
    """The one of the ``known`` parameters that ``name`` stands for with this objective, or None."""
    if name in known:
        return name
    if name == "alpha" and isinstance(objective, str):
        right = ALPHA_OF.get(objective_named(objective, LOSSES) or "")
        if right in known:
            return right
    return next((right for right in known if name.lower() in SYNONYMS.get(right, "").split()), None)


def objective_named(word: str, names: Collection[str]) -> str | None:
    """The one of these objectives that has this name here or in another library, or None."""
    if word in names:
        return word
    return next((name for name in names if word in OBJECTIVE_WORDS.get(name, "").split()), None)


def _is_one_of(value: Any, accepted: tuple[Any, ...]) -> bool:
    if value is None or accepted is ANY_VALUE:
        return True
    is_nan = isinstance(value, float) and math.isnan(value)
    return any(is_nan if each != each else isinstance(value, str | int | float) and value == each for each in accepted)


def _refusal(name: str, value: Any, owner: str) -> str:
    is_known = name in ANYWAY or name in UNSUPPORTED
    return f"{name}={value!r} is not supported by {owner}" if is_known else f"{name} is not a parameter of {owner}"


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
    if name in UNSUPPORTED:
        return "leave it out."
    near = closest(name, known) or closest(name, [word for right in known for word in _long_synonyms(right)])
    return f"did you mean {near}?" if near else f"its parameters are {', '.join(sorted(known))}."


def _long_synonyms(right: str) -> list[str]:
    """Without the short words, which resemble too much."""
    return [word for word in SYNONYMS.get(right, "").split() if len(word) >= LEAST_LETTERS]


def _twice(value: Any) -> Any:
    return 2 * value if isinstance(value, int | float) else value
