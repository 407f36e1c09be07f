"""Names that users bring from LightGBM, XGBoost and scikit-learn, and what pvtree calls the same thing.

Aliases are refused, never accepted: two names for one parameter make two fits look different that are not.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from pvtree.errors import InvalidParameterError

_SYNONYMS: dict[str, str] = {
    "n_estimators": "num_iterations num_iteration n_iter max_iter iterations num_tree num_trees num_round "
    "num_rounds nrounds num_boost_round",
    "learning_rate": "eta shrinkage shrinkage_rate",
    "num_leaves": "num_leaf max_leaves max_leaf max_leaf_nodes",
    "min_child_samples": "min_data_in_leaf min_data_per_leaf min_data min_samples_leaf min_rows",
    "min_child_weight": "min_sum_hessian_in_leaf min_sum_hessian_per_leaf min_sum_hessian min_hessian "
    "min_weight_fraction_leaf",
    "reg_alpha": "alpha lambda_l1 l1_regularization",
    "reg_lambda": "lambda lambda_ lambda_l2 l2_regularization",
    "min_split_gain": "gamma min_gain_to_split min_split_loss min_impurity_decrease",
    "subsample": "bagging_fraction bagging sub_row max_samples",
    "subsample_freq": "bagging_freq",
    "colsample_bytree": "feature_fraction sub_feature",
    "colsample_bynode": "feature_fraction_bynode sub_feature_bynode colsample_bylevel",
    "max_features": "feature_fraction feature_fraction_bynode colsample_bytree colsample_bynode mtries",
    "max_bin": "max_bins",
    "objective": "objective_type app application loss loss_function",
    "random_state": "seed random_seed bagging_seed feature_fraction_seed data_random_seed",
    "n_jobs": "num_threads num_thread nthread nthreads thread_count",
    "verbosity": "verbose silent",
    "early_stopping_rounds": "early_stopping_round early_stopping n_iter_no_change",
    "categorical_feature": "categorical_features cat_feature cat_features categorical_column cat_column",
    "monotone_constraints": "monotone_constraint mc monotonic_cst monotonic_constraints",
    "interaction_constraints": "interaction_constraint interaction_cst",
    "importance_type": "feature_importance_type",
    "tree_learner": "tree tree_type tree_learner_type",
    "top_k": "topk",
    "n_workers": "num_machines num_machine",
    "lambdarank_truncation_level": "max_position lambdarank_num_pair_per_sample",
    "criterion": "split_criterion impurity",
}

_ARGUMENTS_OF_FIT = (
    "callbacks",
    "checkpoint",
    "checkpoint_freq",
    "client",
    "comm",
    "eval_at",
    "eval_group",
    "eval_metric",
    "eval_names",
    "eval_qid",
    "eval_sample_weight",
    "eval_set",
    "group",
    "init_model",
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
    **dict.fromkeys(("metric", "metrics"), "pass eval_metric to fit instead."),
    **dict.fromkeys(
        ("class_weight", "is_unbalance", "unbalance", "scale_pos_weight"),
        "pass sample_weight to fit instead.",
    ),
}


def check_names(given: Iterable[str], known: Collection[str], owner: str) -> None:
    """Refuse the first of ``given`` that is not a parameter of ``owner``, saying which name is right."""
    for name in given:
        if name not in known:
            raise InvalidParameterError(f"{name} is not a parameter of {owner}; {_remedy(name, known)}")


def _remedy(name: str, known: Collection[str]) -> str:
    same = [right for right in known if name.lower() in _SYNONYMS.get(right, "").split()]
    if same:
        return f"use {same[0]} instead."
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    close = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f"did you mean {close[0]}?" if close else f"its parameters are {', '.join(sorted(known))}."
