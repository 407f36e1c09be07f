"""What the parameters of growing trees, of bins and of categories mean and allow, beyond the basic ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from pvtree.parameters.rule_kinds import (
    Rule,
    fraction,
    integer,
    is_finite,
    is_integer,
    is_list,
    is_real,
    non_negative,
    one_of,
    optional,
    switch,
)


def _by_column(meaning: str, each: str, is_one: Callable[[Any], bool], in_range: Callable[[Any], bool]) -> Rule:
    """One number per column."""

    def numbers(value: Any) -> list[Any]:
        return list(value.values() if isinstance(value, Mapping) else value)

    return Rule(
        meaning,
        f"a list of {each}, one for each column, a dict of these by column index or name, or None",
        lambda v: v is None or ((is_list(v) or isinstance(v, Mapping)) and all(map(is_one, numbers(v)))),
        lambda v: v is None or all(map(in_range, numbers(v))),
        "list, dict or None",
    )


def _factors(meaning: str) -> Rule:
    return _by_column(meaning, "finite numbers of at least 0", is_real, lambda v: is_finite(v) and v >= 0)


TREE_RULES: dict[str, Rule] = {
    "grow_policy": one_of(
        "Which leaf is split next while num_leaves allows more: 'lossguide' takes the one whose split gains most, "
        "'depthwise' the oldest, so that levels are filled one after another.",
        "lossguide",
        "depthwise",
    ),
    "colsample_bylevel": fraction("The fraction of a tree's features that is drawn for each of its levels."),
    "extra_trees": switch(
        "Whether each feature is tried at a single threshold, drawn at random for every node, instead of at all of "
        "them."
    ),
    "extra_seed": optional(integer("The seed of the thresholds that extra_trees draws. None takes random_state.", 0)),
    "linear_tree": switch(
        "Whether leaves return linear functions of the numbers that their paths split by, from the second iteration "
        "on; rows that lack one of these get a constant."
    ),
    "linear_lambda": non_negative("L2 regularisation of the coefficients that linear_tree fits."),
    "path_smooth": non_negative(
        "How strongly the value of a node is drawn towards its parent's: as strongly as by this many rows. 0 for not "
        "at all."
    ),
    "feature_contri": _factors("Factors of the gains of each column's splits; with 0 a column is not used."),
    "monotone_penalty": non_negative(
        "How much splits of columns with monotone constraints are avoided close to the root: on level d their gains "
        "are multiplied by 1 - 2^(monotone_penalty - 1 - d), or 1 - monotone_penalty / 2^d if it is below 1."
    ),
    "cegb_tradeoff": non_negative("The factor of the cegb_penalty parameters, which are costs of using features."),
    "cegb_penalty_split": non_negative("What a split costs, for each row of its node; its gain is lower by that."),
    "cegb_penalty_feature_coupled": _factors(
        "What each column costs in a split, as long as no earlier tree uses it; the gain is lower by that."
    ),
    "cat_smooth": non_negative(
        "The number that is added to the hessians of categories when they are ordered, against noise in rare ones."
    ),
    "cat_l2": non_negative("L2 regularisation of splits by categories, in addition to reg_lambda."),
    "max_cat_to_onehot": integer(
        "Columns with at most this many categories are split by one category against all others, without cat_l2. "
        "LightGBM's and XGBoost's default is 4.",
        0,
        255,
    ),
    "max_cat_threshold": optional(
        integer(
            "The largest number of categories on the side of a split that has fewer; None for no limit. LightGBM's "
            "default is 32, XGBoost's 64.",
            1,
            255,
        )
    ),
    "min_data_per_group": integer(
        "The minimum number of rows by which two sets of categories that are tried as a split differ. LightGBM's "
        "default is 100.",
        1,
    ),
    "use_missing": switch(
        "Whether missing values have a bin of their own, and each split sends them to the better side; otherwise they "
        "count as 0, except in categorical columns."
    ),
    "zero_as_missing": switch(
        "Whether numbers that are 0, also those that a sparse matrix does not store, count as missing, in training and "
        "prediction; categories stay what they are. Without use_missing it has no effect."
    ),
    "subsample_for_bin": integer("About how many rows bins are chosen from, if there are more.", 1),
    "max_bin_by_feature": _by_column(
        "max_bin of each column; in a dict, other columns have max_bin.",
        "integers from 2 to 255",
        is_integer,
        lambda v: 2 <= v <= 255,
    ),
    "forcedsplits_filename": Rule(
        "A JSON file with splits that every tree begins with, as LightGBM reads it: an object such as "
        '{"feature": 0, "threshold": 0.5, "left": {...}, "right": {...}}. A split that gains nothing, or leaves a side '
        "too few rows, is not made, nor are those below it.",
        "the path of a file, or None",
        lambda v: v is None or isinstance(v, str | os.PathLike),
        type_name="path or None",
    ),
    "forcedbins_filename": Rule(
        "A JSON file with ends of bins that some columns must have, as LightGBM reads it: a list of objects such as "
        '{"feature": 0, "bin_upper_bound": [0.5, 2.5]}.',
        "the path of a file, or None",
        lambda v: v is None or isinstance(v, str | os.PathLike),
        type_name="path or None",
    ),
}
