"""One table that says what each parameter means and allows. Checks, error messages and docs come from it."""

from __future__ import annotations

import inspect
import os
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pvtree.parameters.boosting_rules import BOOSTING_RULES
from pvtree.parameters.constraint_texts import is_list_of_columns, sets_of, signs_of
from pvtree.parameters.loss_table import LOSSES
from pvtree.parameters.params import SEPARATE_LEARNERS, TREE_LEARNERS
from pvtree.parameters.rule_kinds import (
    Rule,
    fraction,
    integer,
    is_finite,
    is_integer,
    is_list,
    is_real,
    non_negative,
    objective,
    one_of,
    optional,
    positive,
    switch,
)
from pvtree.parameters.tree_rules import TREE_RULES

_MAX_FEATURES = Rule(
    "The number of features to consider at each split, drawn anew for every node.",
    "'sqrt', 'log2', an integer of at least 1, a fraction greater than 0.0 and at most 1.0, or None for all",
    lambda v: v is None or isinstance(v, str) or is_real(v),
    lambda v: v in (None, "sqrt", "log2") or (not isinstance(v, str) and (v >= 1 if is_integer(v) else 0 < v <= 1)),
    "int, float, {'sqrt', 'log2'} or None",
)

_SEED = Rule(
    "The seed of all random choices, such as how gradients are rounded. None stands for a fixed seed too, so two fits "
    "always agree.",
    "an integer of at least 0, a numpy RandomState or Generator, or None",
    lambda v: v is None or is_integer(v) or isinstance(v, np.random.RandomState | np.random.Generator),
    lambda v: not is_integer(v) or 0 <= v < 2**63,
    "int, RandomState, Generator or None",
)

_CATEGORICAL = Rule(
    "The columns to treat as categorical, besides columns of text, which always are. 'auto' takes those whose type "
    "says so; None takes none.",
    "'auto', None, or a list of column indices or names",
    lambda v: v is None or isinstance(v, str) or is_integer(v) or _is_list_of_columns(v),
    lambda v: not isinstance(v, str) or v == "auto" or is_list_of_columns(v),
    "list, 'auto' or None",
)


def _is_list_of_columns(value: Any) -> bool:
    return is_list(value) and all(is_integer(v) or isinstance(v, str) for v in value)


_MONOTONE = Rule(
    "The direction of each column's effect: with 1 predictions may only rise as the column rises, with -1 they may "
    "only fall, with 0 they are free.",
    "a list of 1, -1 or 0 for each column, a dict of these by column index or name, a text like '(1,0,-1)', or None",
    lambda v: (
        v is None
        or isinstance(v, str)
        or (_is_list_of_columns([*v] if isinstance(v, Mapping) else v) and _are_integers(_signs(v)))
    ),
    lambda v: v is None or all(sign in (-1, 0, 1) for sign in _signs(_read(v, signs_of, [None]))),
    "list, dict, str or None",
)

_INTERACTIONS = Rule(
    "Sets of columns that may interact: all splits on the path to a leaf use columns of one set. Columns in no set are "
    "not used.",
    "a list of lists of column indices or names, none of them empty, a text like '[0,1],[2]', or None",
    lambda v: v is None or isinstance(v, str) or (isinstance(v, list | tuple) and all(map(_is_list_of_columns, v))),
    lambda v: v is None or all(len(columns) > 0 for columns in _read(v, sets_of, [[]])),
    "list of lists, str or None",
)


def _read(given: Any, parse: Callable[[str], Any], wrong: Any) -> Any:
    """Parse a text; one that cannot be parsed becomes ``wrong``, which is out of range."""
    if not isinstance(given, str):
        return given
    try:
        return parse(given)
    except ValueError:
        return wrong


def _are_integers(values: list[Any]) -> bool:
    return all(map(is_integer, values))


def _signs(given: Any) -> list[Any]:
    return list(given.values() if isinstance(given, Mapping) else given)


def _is_factor(value: Any) -> bool:
    return is_real(value) and is_finite(value) and value >= 0


def _are_class_weights(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return value in (None, "balanced")
    return all(_is_factor(factor) and factor > 0 for factor in _signs(value))


RULES: dict[str, Rule] = {
    **BOOSTING_RULES,
    **TREE_RULES,
    "n_estimators": integer("The number of boosting iterations, or of trees in a forest.", 1),
    "learning_rate": non_negative("The factor by which each tree is scaled before it is added to the model."),
    "num_leaves": integer("The maximum number of leaves of a tree.", 2, also="-1 for no limit"),
    "max_depth": integer("The most splits on the path to a leaf; 0 is no limit either.", 0, also="-1 for no limit"),
    "min_child_samples": integer("The minimum number of rows in a leaf; 0 is 1.", 0),
    "min_child_weight": non_negative("The minimum sum of hessians in a leaf; in forests, of row weights."),
    "reg_alpha": non_negative("L1 regularisation of leaf values."),
    "reg_lambda": non_negative("L2 regularisation of leaf values."),
    "min_split_gain": non_negative("The minimum gain of a split."),
    "subsample": fraction("The fraction of rows drawn without replacement every subsample_freq iterations."),
    "subsample_freq": integer("The number of iterations between two draws of rows; 0 turns subsample off.", 0),
    "colsample_bytree": fraction("The fraction of features drawn for each tree."),
    "colsample_bynode": fraction("The fraction of features drawn for each node."),
    "max_bin": integer("The maximum number of bins per feature, not counting the bin of missing values.", 2, 255),
    "min_data_in_bin": integer(
        "The minimum number of rows in a bin, of the rows from which bins are chosen. LightGBM's default is 3.", 1
    ),
    "max_delta_step": non_negative(
        "The largest magnitude of a leaf's value before it is scaled by learning_rate; 0 for no limit."
    ),
    "boost_from_average": switch(
        "Whether scores start from the constant that suits the objective best; otherwise from 0."
    ),
    "base_score": optional(
        Rule(
            "The prediction to start from in place of the best constant, on the scale of predictions: a probability "
            "for log loss, a mean for losses with a log link.",
            "a finite number",
            is_real,
            is_finite,
            "float",
        )
    ),
    "quantile_alpha": Rule(
        "The level of the quantile that objective='quantile' predicts; a list for one output per level.",
        "a number greater than 0 and less than 1, or a list of such numbers",
        lambda v: is_real(v) or (is_list(v) and len(v) > 0 and all(map(is_real, v))),
        lambda v: 0 < v < 1 if is_real(v) else all(0 < level < 1 for level in v),
        "float or list of float",
    ),
    "huber_slope": positive(
        "The error from which on objective='huber' and 'pseudohuber' grow linearly instead of squared."
    ),
    "fair_c": positive("The scale of errors in objective='fair'."),
    "poisson_max_delta_step": positive("The logarithm of a factor of the hessian of objective='poisson'."),
    "tweedie_variance_power": Rule(
        "The power of the mean that the variance grows with in objective='tweedie'.",
        "a number greater than 1 and less than 2",
        is_real,
        lambda v: 1 < v < 2,
        "float",
    ),
    "class_weight": Rule(
        "Factors of the row weights by class: a dict by class (others have 1), a list in the order of the classes, or "
        "'balanced' for n_rows / (n_classes * rows of the class).",
        "'balanced', a dict or list of finite numbers greater than 0, or None",
        lambda v: v is None or isinstance(v, str | Mapping) or is_list(v),
        lambda v: _are_class_weights(v),
        "dict, list, 'balanced' or None",
    ),
    "scale_pos_weight": positive("The factor of the weights of the second of two classes."),
    "is_unbalance": switch("Whether the smaller of two classes is weighted up to the sum of the larger one."),
    "criterion": one_of("The impurity that splits reduce.", "entropy", "variance"),
    "max_features": _MAX_FEATURES,
    "bootstrap": switch("Whether each tree is grown on rows drawn with replacement."),
    "objective": objective(*LOSSES),
    "eval_metric": Rule(
        "The metrics to evaluate on eval_set, after those given to fit. None for the objective's default metric.",
        "a metric's name, a function, a list of these, or None",
        lambda v: v is None or isinstance(v, str | list | tuple) or callable(v),
        type_name="str, callable, list or None",
    ),
    "random_state": _SEED,
    "n_jobs": Rule(
        "The number of threads. None and -1 mean all cores, -2 all but one.",
        "an integer other than 0 or None",
        lambda v: v is None or is_integer(v),
        lambda v: v != 0,
        "int or None",
    ),
    "bins_folder": Rule(
        "A folder for the bins of the training rows, one byte a value, if memory is too small for them. The file there "
        "has no name and disappears with the training. The model stays the same.",
        "a folder that can be written to, or None for memory",
        lambda v: v is None or isinstance(v, str | os.PathLike),
        lambda v: v is None or str(v) != "",
        "path or None",
    ),
    "verbosity": integer("How much to print; below 1, only warnings.", -1),
    "early_stopping_rounds": optional(
        integer("Stop when an evaluation metric has not improved for this many iterations.", 1)
    ),
    "categorical_feature": _CATEGORICAL,
    "monotone_constraints": _MONOTONE,
    "interaction_constraints": _INTERACTIONS,
    "importance_type": one_of(
        "What feature_importances_ holds: the number of splits on a feature or the sum of their gains.",
        "split",
        "gain",
    ),
    "lambdarank_truncation_level": integer(
        "Training uses the pairs in which at least one document ranks above this position.", 1
    ),
    "lambdarank_norm": switch("Whether lambdarank normalises the gradients of each query."),
    "lambdarank_position_bias_regularization": non_negative(
        "L2 regularisation of what positions add to relevance, if fit gets the position of each document."
    ),
    "label_gain": Rule(
        "The gain of each relevance label in NDCG, from label 0 on. None is 2^label - 1.",
        "a list of 2 to 31 numbers of at least 0 that do not fall, or None",
        lambda v: v is None or is_list(v),
        lambda v: v is None or (1 < len(v) <= 31 and all(map(_is_factor, v)) and all(np.diff(v) >= 0)),
        "list or None",
    ),
    "tree_learner": one_of(
        "How workers find splits: 'serial' on one machine, 'voting' by PV-Tree, 'exact_voting' by PV-Tree with a proof "
        "of every split, or one of the paper's baselines. 'auto' is 'serial' on one worker and 'exact_voting' on "
        "several, which give the same model; with 'svore' and 'yu' each worker grows a tree of its own, and the best "
        "or the mean of these trees is added.",
        *TREE_LEARNERS,
        *SEPARATE_LEARNERS,
    ),
    "n_workers": integer("The number of virtual machines that share the data. 'serial' needs 1.", 1, 1024),
    "top_k": Rule(
        "The number of features that each worker votes for, with tree_learner='voting' or 'exact_voting'.",
        "an integer of at least 1, or with tree_learner='exact_voting' also 'auto' for what sends the fewest bytes",
        lambda v: is_integer(v) or isinstance(v, str),
        lambda v: v == "auto" if isinstance(v, str) else v >= 1,
        "int or 'auto'",
    ),
    "audit": integer(
        "With tree_learner='voting': count the splits that are proven best in every audit-th tree; 0 for never.", 0
    ),
    "election_size": Rule(
        "The number of elected features, as a multiple of top_k, with tree_learner='voting' or 'exact_voting'.",
        "a finite number of at least 1",
        is_real,
        lambda v: is_finite(v) and v >= 1,
        "float",
    ),
    "ballot_rows": Rule(
        "The number of rows of all workers by which tree_learner='voting' ranks the features of a root; nodes below it "
        "vote by fewer. 'all' is the paper's vote by all rows.",
        "an integer of at least 1, or 'all'",
        lambda v: is_integer(v) or isinstance(v, str),
        lambda v: v == "all" if isinstance(v, str) else v >= 1,
        "int or 'all'",
    ),
    "quantized_bins": fraction("The fraction of bins that workers exchange, with tree_learner='quantized'."),
}


def check_values(values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Check every value that has a rule; raise for the first that its rule does not allow."""
    for name, value in values.items():
        if name in rules:
            rules[name].check(name, value)


def parameter_docs(init: Callable[..., Any], rules: Mapping[str, Rule]) -> str:
    """The "Parameters" section of a docstring in numpydoc form, from a constructor's signature and the table."""
    lines = ["Parameters", "----------"]
    for parameter in inspect.signature(init).parameters.values():
        if parameter.name in rules:
            rule = rules[parameter.name]
            lines.append(f"{parameter.name} : {rule.type_name}, default={parameter.default!r}")
            # An attribute's name ends with _, which Sphinx would take for a link.
            text = re.sub(r"\b\w+_(?!\w)", r"``\g<0>``", rule.meaning)
            if not (rule.type_name == "bool" or rule.type_name.startswith("{")):  # these tell all values already
                text += f" Must be {rule.allowed}."
            lines += textwrap.wrap(
                text,
                116,
                initial_indent="    ",
                subsequent_indent="    ",
                break_on_hyphens=False,
                break_long_words=False,
            )
    return "\n".join(lines)
