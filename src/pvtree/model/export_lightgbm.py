"""Writes LightGBM's text model, which lightgbm, treelite, lleaves, SHAP and ONNX converters read.

Every split, missing value and sum in the file has the same meaning there as here; docs/export.md has the details.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pvtree.model.model import Model
from pvtree.model.text_format import write_bytes
from pvtree.model.tree import Tree
from pvtree.parameters.loss_table import losses_of
from pvtree.reading.tables import lightgbm_name

# Bits of decision_type.
CATEGORICAL, DEFAULT_LEFT = 1, 2
MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2  # bits 2 and 3
WORD_BITS = 32  # bits of a word of a set of categories in the file
INT_MAX = 2**31 - 1  # LightGBM keeps counts in 32 bits
_ALL_BINS = np.full(4, 2**64 - 1, np.uint64)

# How LightGBM transforms raw scores. All others become "custom", which leaves them raw: their meaning is unknown, or,
# in classification forests, they are probabilities already.
OBJECTIVES = {
    "regression": "regression",
    "binary": "binary sigmoid:1",
    "multiclass": "multiclass num_class:{n_outputs}",
    "lambdarank": "lambdarank",
    "l1": "regression_l1",
    **{name: name for name in ("huber", "fair", "quantile", "mape", "poisson", "gamma", "tweedie")},
    **{name: name for name in ("cross_entropy", "cross_entropy_lambda")},
    **dict.fromkeys(("pseudohuber", "squared_log"), "regression"),  # raw scores are predictions
}


def write(model: Model, path: str | os.PathLike[str], average_output: bool = True) -> None:
    """Replace the file at ``path`` in one step."""
    write_bytes(path, dump(model, average_output).encode("utf-8"), "LightGBM's model file")


def dump(model: Model, average_output: bool = True) -> str:
    """The whole text; without ``average_output`` a forest is written as a sum of divided values."""
    compared = frozenset() if model.zero_as_missing else model.ordered_categories()
    missing = MISSING_ZERO if model.zero_as_missing else MISSING_NAN
    plain = ((_missing_left(tree, compared), value) for tree, value in _plain(model, divided=not average_output))
    bins = _category_bins(model)
    texts = (_tree_text(tree, value, bins, missing) for tree, value in plain)
    trees = [f"Tree={number}\n{text}\n\n" for number, text in enumerate(texts)]
    objective = OBJECTIVES.get(model.objective, "custom" if model.n_outputs == 1 else "custom num_class:{n_outputs}")
    if model.n_outputs > 1 and model.objective in losses_of("value"):
        objective = "custom num_class:{n_outputs}"  # LightGBM knows one target only
    names = lightgbm_names(model)
    lines = [
        "tree",
        "version=v4",
        f"num_class={model.n_outputs}",
        f"num_tree_per_iteration={model.n_outputs}",
        "label_index=0",
        f"max_feature_idx={model.n_features - 1}",
        f"objective={objective.format(n_outputs=model.n_outputs)}",
        *(["average_output"] if model.ensemble == "forest" and average_output else []),
        f"feature_names={' '.join(names)}",
        f"feature_infos={' '.join(_feature_infos(model))}",
        f"tree_sizes={_join(len(text.encode()) for text in trees)}",
        "",
        "".join(trees) + "end of trees",
        "",
        "feature_importances:",
        *_importances(model, names),
        "",
        f"pandas_categorical:{json.dumps(_pandas_categories(model))}",
    ]
    return "\n".join(lines) + "\n"


def _plain(model: Model, divided: bool) -> Iterator[tuple[Tree, np.ndarray]]:
    """Trees with one value per node, in LightGBM's order: in each iteration, one tree per output.

    LightGBM starts at 0, so the initial score goes into the values. In boosting it is added to the first tree of each
    output. Prediction here makes the same addition first, so the bits are the same. A forest is a mean, so the score is
    added to all its trees.
    """
    if model.ensemble == "forest":
        for number, tree in enumerate(model.trees or (_leaf(model.n_outputs),)):
            outputs = range(model.n_outputs) if tree.n_values > 1 else [number % model.n_outputs]
            value = tree.value + model.init_score[outputs] if model.init_score.any() else tree.value
            value = value / max(1, model.n_iterations) if divided else value
            yield from ((tree, its_value) for its_value in value.T)
        return
    for number, tree in enumerate(model.trees or (_leaf(1),) * model.n_outputs):
        init = model.init_score[number] if number < model.n_outputs else 0.0
        yield tree, tree.value[:, 0] + init


def _missing_left(tree: Tree, compared: frozenset[int]) -> Tree:
    """Send missing categories left: they are bin 0 here, below every threshold, and NaN in LightGBM."""
    if not compared:
        return tree
    goes_left = (tree.cat_set < 0) & np.isin(tree.feature, list(compared))
    return replace(tree, default_left=np.where(goes_left, 1, tree.default_left))


def _leaf(n_values: int) -> Tree:
    """A tree that adds nothing, for a model without trees: LightGBM requires at least one."""
    none: dict[str, Any] = {
        name: np.zeros(1) for name in ("threshold", "left_child", "default_left", "gain", "count", "weight")
    }
    sets = np.empty((0, 4))
    return Tree(feature=np.array([-1]), cat_set=np.array([-1]), cat_sets=sets, value=np.zeros((1, n_values)), **none)


def _category_bins(model: Model) -> dict[int, np.ndarray]:
    """By feature, uint64 (4,): the bins that a column of a DataFrame can have, which are those of its labels.

    Sets with other bins would make readers believe that labels are missing in the file. Columns of arrays are left out:
    they may hold any bin.
    """
    if model.feature_names is None:
        return {}
    return {
        feature: np.packbits(np.arange(256) <= len(labels), bitorder="little").view("<u8").astype(np.uint64)
        for feature, labels in model.categories.items()
    }


def _tree_text(tree: Tree, value: np.ndarray, bins: Mapping[int, np.ndarray], missing: int) -> str:
    """The text of one tree. Leaves are numbered in level order, as in ``Model.predict_leaf``, and so are splits.

    ``missing`` says which numbers are missing: NaN, or 0.
    """
    is_leaf = tree.feature < 0
    inner, leaves = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
    # LightGBM's number of a node: splits from 0 up, leaves from -1 down.
    number = np.where(is_leaf, -np.cumsum(is_leaf, dtype=np.int64), np.cumsum(~is_leaf) - 1)
    left = tree.left_child[inner].astype(np.int64)
    is_categorical = tree.cat_set[inner] >= 0
    sets = tree.cat_sets[tree.cat_set[inner[is_categorical]]]  # (n_cat, 4)
    # In LightGBM a missing or unseen category always goes right. Where it goes left here, the children swap places.
    swaps = np.zeros(inner.size, bool)
    swaps[is_categorical] = sets[:, 0] & np.uint64(1) == 1
    can_be = [bins.get(feature, _ALL_BINS) for feature in tree.feature[inner[is_categorical]].tolist()]
    left_bins = np.where(swaps[is_categorical, None], ~sets, sets) & np.reshape(can_be, (-1, 4)).astype(np.uint64)
    words = left_bins.view(np.uint32)  # (n_cat, 8), lowest bits first

    threshold = tree.threshold[inner].copy()
    threshold[is_categorical] = np.arange(len(sets))
    numeric_type = (missing << 2) + DEFAULT_LEFT * (tree.default_left[inner] != 0)
    count = _counts(tree.count)
    lines = {
        "num_leaves": [leaves.size],
        "num_cat": [len(sets)],
        "split_feature": tree.feature[inner],
        "split_gain": np.nan_to_num(tree.gain[inner]),
        "threshold": threshold,
        "decision_type": np.where(is_categorical, CATEGORICAL + (MISSING_NAN << 2), numeric_type),
        "left_child": number[left + swaps],
        "right_child": number[left + ~swaps],
        "leaf_value": value[leaves],
        "leaf_weight": tree.weight[leaves],
        "leaf_count": count[leaves],
        "internal_value": value[inner],
        "internal_weight": tree.weight[inner],
        "internal_count": count[inner],
    }
    if len(sets):
        lines["cat_boundaries"] = np.arange(len(sets) + 1) * words.shape[1]
        lines["cat_threshold"] = words.ravel()
    texts = [f"{name}={_join(np.asarray(values).tolist())}" for name, values in lines.items()]
    return "\n".join([*texts, *_linear_lines(tree, value, leaves), "shrinkage=1"]) + "\n"


def _linear_lines(tree: Tree, value: np.ndarray, leaves: np.ndarray) -> list[str]:
    """The linear functions of the leaves; ``value`` may hold the initial score, which their constants get too."""
    if tree.linear is None:
        return ["is_linear=0"]
    const = tree.linear.const + (value - tree.value[:, 0])
    const = np.where(tree.linear.n_terms > 0, const, value)
    terms = [tree.linear.terms(leaf) for leaf in leaves.tolist()]
    features, coefs = ("  ".join(_join(each.tolist()) for each in part) for part in zip(*terms, strict=True))
    return [
        "is_linear=1",
        f"leaf_const={_join(const[leaves].tolist())}",
        f"num_features={_join(tree.linear.n_terms[leaves].tolist())}",
        f"leaf_features={features}",
        f"leaf_coeff={coefs}",
    ]


def _counts(count: np.ndarray) -> np.ndarray:
    """Counts scaled to fit into 32 bits; SHAP values need only their ratios."""
    shift = max(0, int(count.max()).bit_length() - INT_MAX.bit_length())
    return np.where(count > 0, np.maximum(count >> shift, 1), 0)


def _join(values: Iterable[float]) -> str:
    """The shortest decimals that read back to the same bits."""
    return " ".join(map(repr, values))


def lightgbm_names(model: Model) -> list[str]:
    """The features' names without characters that LightGBM forbids, all distinct."""
    if model.feature_names is None:
        return model.column_names()
    names: list[str] = []
    used: set[str] = set()
    numbers: Counter[str] = Counter()  # the last number tried per name: restarting at 1 would take quadratic time
    for feature, given in enumerate(model.feature_names):
        name = plain = lightgbm_name(given) or f"Column_{feature}"
        while name in used:
            numbers[plain] += 1
            name = f"{plain}_{numbers[plain] + 1}"
        used.add(name)
        names.append(name)
    return names


def _feature_infos(model: Model) -> list[str]:
    """Codes for categories; for numbers the range of thresholds, since a model does not know the range of its data."""
    infos = ["none"] * model.n_features
    lowest, highest = np.full(model.n_features, np.inf), np.full(model.n_features, -np.inf)
    compared = model.ordered_categories()
    codes = {feature: len(labels) for feature, labels in model.categories.items() if feature not in compared}
    for tree in model.trees:
        is_numeric = (tree.feature >= 0) & (tree.cat_set < 0) & np.isfinite(tree.threshold)
        np.minimum.at(lowest, tree.feature[is_numeric], tree.threshold[is_numeric])
        np.maximum.at(highest, tree.feature[is_numeric], tree.threshold[is_numeric])
        for feature in tree.feature[tree.cat_set >= 0].tolist():
            codes.setdefault(feature, 255)  # no labels: a hand-made model
        for feature in tree.feature[(tree.feature >= 0) & (tree.cat_set < 0)].tolist():
            infos[feature] = "[0:0]"  # splits off missing values or infinities
    for feature in np.flatnonzero(lowest <= highest).tolist():
        infos[feature] = f"[{float(lowest[feature])!r}:{float(highest[feature])!r}]"
    for feature, n_codes in codes.items():
        infos[feature] = ":".join(map(str, range(1, n_codes + 1))) or "-1"  # LightGBM's code for missing
    return infos


def _importances(model: Model, names: list[str]) -> list[str]:
    splits = model.feature_importance()
    order = np.argsort(-splits, kind="stable")
    return [f"{names[feature]}={int(splits[feature])}" for feature in order if splits[feature]]


def _pandas_categories(model: Model) -> list[list[object]] | None:
    """Tables that LightGBM uses to turn a DataFrame's category columns into codes.

    A code is a position in the table and equals our bin number. Position 0 is a word that no row contains. A model
    without feature names was trained on an array and takes arrays of codes, so it has no tables.
    """
    if not model.categories or model.feature_names is None:
        return None
    tables: list[list[object]] = []
    for labels in model.categories.values():
        nothing = "(missing)"
        while nothing in labels:
            nothing = f"({nothing})"
        tables.append([nothing, *labels])
    return tables
