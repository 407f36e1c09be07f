"""What the parameters of kinds of boosting, of drawing rows and of single draws mean and allow."""

from __future__ import annotations

from pvtree.parameters.rule_kinds import Rule, fraction, integer, is_real, one_of, optional, positive, switch


def _share(meaning: str) -> Rule:
    return Rule(meaning, "a number from 0 to 1", is_real, lambda v: 0 <= v <= 1, "float")


def _seed(meaning: str) -> Rule:
    return optional(integer(meaning + " None takes random_state.", 0))


BOOSTING_RULES: dict[str, Rule] = {
    "boosting_type": one_of(
        "The kind of boosting: 'gbdt' is the ordinary one; 'dart' leaves out random trees when it fits the next one; "
        "'rf' averages trees that are all fitted to the gradients of the initial score. 'goss' is 'gbdt' with "
        "data_sample_strategy='goss'.",
        "gbdt",
        "dart",
        "rf",
        "goss",
    ),
    "num_parallel_tree": integer(
        "The number of trees that each iteration adds to each output; the learning rate is divided by it.", 1, 10000
    ),
    "data_sample_strategy": one_of(
        "How the rows of a tree are drawn: 'bagging' draws subsample of them by chance; 'goss' takes those with the "
        "largest gradients and some of the others; 'mvs' draws subsample of them with probabilities that minimise the "
        "variance of the sums. The gradients of rows that are drawn with a lower probability count more.",
        "bagging",
        "goss",
        "mvs",
    ),
    "top_rate": _share("The share of rows with the largest gradients that 'goss' keeps."),
    "other_rate": fraction("The share of all rows that 'goss' draws from the others."),
    "drop_rate": _share("The share of iterations that 'dart' leaves out."),
    "max_drop": integer("The largest number of iterations that 'dart' leaves out; 0 and -1 for no limit.", -1),
    "skip_drop": _share("The probability that an iteration of 'dart' leaves nothing out."),
    "uniform_drop": switch(
        "Whether 'dart' leaves out all iterations with the same probability; otherwise in proportion to their weights."
    ),
    "one_drop": switch("Whether 'dart' leaves out at least one iteration, unless it leaves out nothing by skip_drop."),
    "xgboost_dart_mode": switch("Whether 'dart' weighs trees as XGBoost does."),
    "normalize_type": one_of(
        "How xgboost_dart_mode weighs a new tree: like one of the k trees that were left out, 'tree', or like all of "
        "them together, 'forest'.",
        "tree",
        "forest",
    ),
    "pos_bagging_fraction": fraction(
        "The fraction of the rows of the second of two classes that is drawn every subsample_freq iterations."
    ),
    "neg_bagging_fraction": fraction(
        "The fraction of the rows of the first of two classes that is drawn every subsample_freq iterations."
    ),
    "bagging_by_query": switch("Whether subsample draws whole queries instead of single documents."),
    "aft_loss_distribution": one_of(
        "The distribution of the noise in the logarithm of a time, of objective='aft'.", "normal", "logistic", "extreme"
    ),
    "aft_loss_distribution_scale": positive("The scale of that noise."),
    "oob_score": switch("Whether to judge each row by the trees that were grown without it, as oob_score_."),
    "bagging_seed": _seed("The seed of the rows that are drawn."),
    "feature_fraction_seed": _seed("The seed of the features that are drawn for trees and nodes."),
    "drop_seed": _seed("The seed of the iterations that 'dart' leaves out."),
    "objective_seed": _seed("The seed of the gains that objective='rank_xendcg' draws."),
    "data_random_seed": _seed("The seed of the 200,000 rows from which bins are chosen, if there are more."),
}
