"""Reads LightGBM's text models, whether LightGBM trained them or pvtree exported them.

The file is not trusted: kernels follow its indices without bounds, so every index is checked here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from pvtree.comm.user_warnings import warn_user
from pvtree.model.export_lightgbm import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, MISSING_ZERO, WORD_BITS
from pvtree.model.labels import Scalar
from pvtree.model.lightgbm_columns import CONSTANT, columns_of_tables
from pvtree.model.lightgbm_fields import count, counts, floats, ints, read_fields, tree_fields
from pvtree.model.linear_leaves import LinearLeaves
from pvtree.model.model import Model
from pvtree.model.text_format import TextFormat, check_linear, check_outputs, check_shape, refuse
from pvtree.model.tree import Tree
from pvtree.reading.tables import is_unicode

MAX_CODES = 255  # categories of a feature with a bin of their own
MAX_CODE = 2**20  # no real file has larger categories; the bit sets, ours and LightGBM's, grow with them
_LABELS = "pandas_categorical:"  # begins the last line of a file; JSON follows

# LightGBM's objectives, and ours that transform raw scores alike. Any other becomes "custom", which leaves them raw.
OBJECTIVES = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "regression"),
    **{name: name for name in ("poisson", "gamma", "tweedie", "cross_entropy", "cross_entropy_lambda")},
    **dict.fromkeys(("lambdarank", "rank_xendcg"), "lambdarank"),
    "binary": "binary",
    "multiclass": "multiclass",
}


def read(path: str | os.PathLike[str]) -> Model:
    """The model in a file, or a ModelFileError."""
    return _FORMAT.read(path)


def parse_text(text: str, name: str) -> Model:
    """The model in ``text``, or a ModelFileError that says where the text came from."""
    return _FORMAT.parse_text(text, name)


def _parse(text: str) -> Model:
    head_text, *tree_texts = text.partition("\nend of trees")[0].split("\nTree=")
    head = read_fields(head_text)
    if not text.startswith("tree\n") or "\nend of trees" not in text:
        refuse("it is not a complete text model")
    n_features, n_outputs = count(head, "max_feature_idx", 0) + 1, count(head, "num_tree_per_iteration", 1)
    blocks = [tree_fields(number, tree_text) for number, tree_text in enumerate(tree_texts)]
    if len(blocks) % n_outputs:
        refuse("the number of trees is not a multiple of the outputs")
    if n_outputs > len(text):  # without trees any number could stand here, and it sizes the initial scores
        refuse("num_tree_per_iteration is missing or out of range")
    names, infos = head.get("feature_names", "").split(" "), head.get("feature_infos", "").split(" ")
    if len(names) != n_features or len(infos) != n_features:
        refuse("feature_names or feature_infos does not match the number of features")
    sets = [_category_sets(block, n_features) for block in blocks]
    codes = _codes(sets, infos)
    zero = any(_separates_zeros(block, its_sets) for block, its_sets in zip(blocks, sets, strict=True))
    trees = [_tree(block, its_sets, codes, zero, n_features) for block, its_sets in zip(blocks, sets, strict=True)]
    is_forest = "average_output" in head
    objective = _objective(head.get("objective", ""), is_forest, n_outputs)
    check_outputs(objective, n_outputs)
    return Model(
        trees=tuple(_joined(trees, n_outputs) if is_forest and n_outputs > 1 else trees),
        objective=objective,
        ensemble="forest" if is_forest else "gbdt",
        n_features=n_features,
        n_outputs=n_outputs,
        init_score=np.zeros(n_outputs),
        feature_names=None if all(name == f"Column_{j}" for j, name in enumerate(names)) else tuple(names),
        categories=_labels(codes, infos, text),
        zero_as_missing=zero,
    )


_FORMAT = TextFormat(
    file="LightGBM's model file",
    verdict="cannot be used",
    remedy="give a file written by lightgbm.Booster.save_model or Model.export_lightgbm",
    encoding="utf-8",
    parse=_parse,
)


def _objective(text: str, is_forest: bool, n_outputs: int) -> str:
    name, *options = text.split(" ")
    if name == "binary" and options not in ([], ["sigmoid:1"]):
        refuse("its sigmoid is not 1", "train with sigmoid=1")
    if name == "regression" and "sqrt" in options:
        refuse("it predicts square roots of the target", "train with reg_sqrt=false")
    if name in ("", "custom") and is_forest:
        return "classification" if n_outputs > 1 else "regression"
    if name not in ("", "custom") and name not in OBJECTIVES:
        warn_user(f"pvtree does not know how the objective {name!r} transforms raw scores; predictions are raw scores.")
    return OBJECTIVES.get(name, "custom")


# Trees


@dataclass(frozen=True)
class CategorySets:
    """The sets of categories of one tree, and which splits use them; splits are in the file's order."""

    is_categorical: np.ndarray  # bool (n_splits,)
    feature: np.ndarray  # int64 (n_splits,)
    of_split: np.ndarray  # int64 (n_splits,): the number of the set, -1 for numeric splits
    left_codes: list[np.ndarray]  # per set: the codes that go left


def _category_sets(block: Mapping[str, str], n_features: int) -> CategorySets:
    n_splits = count(block, "num_leaves", 1) - 1
    n_sets = count(block, "num_cat", 0)
    is_categorical = ints(block, "decision_type", n_splits, -128, 127) & CATEGORICAL != 0
    feature = ints(block, "split_feature", n_splits, 0, n_features - 1)
    if n_sets == 0 and not is_categorical.any():
        return CategorySets(is_categorical, feature, np.full(n_splits, -1), [])
    words = len(block.get("cat_threshold", "").split())
    bounds = ints(block, "cat_boundaries", n_sets + 1, 0, words)
    flags = ints(block, "cat_threshold", words, 0, 2**WORD_BITS - 1).astype(np.uint32)
    if np.any(np.diff(bounds) < 0) or np.any(np.diff(bounds) * WORD_BITS > MAX_CODE):
        refuse("the sets of categories are malformed")
    which = np.where(is_categorical, floats(block, "threshold", n_splits), -1.0)
    if np.any(is_categorical & ~((which >= 0) & (which < n_sets) & (which == np.floor(which)))):
        refuse("a split names a set of categories that does not exist")
    # Unpacked once per set, not per split: many splits may name the same large set.
    left_codes = [
        np.flatnonzero(np.unpackbits(flags[start:stop].astype("<u4").view(np.uint8), bitorder="little"))
        for start, stop in pairwise(bounds.tolist())
    ]
    return CategorySets(is_categorical, feature, which.astype(np.int64), left_codes)


def _codes(sets: list[CategorySets], infos: list[str]) -> dict[int, np.ndarray]:
    """By categorical feature: the code of each bin, ascending from bin 1.

    These are the codes that training saw, if there are enough bins for them. Otherwise they are the codes that go left
    at some split, because all others always go right, as unseen ones do.
    """
    used: dict[int, list[np.ndarray]] = {}
    for its in sets:
        both = zip(its.feature[its.is_categorical].tolist(), its.of_split[its.is_categorical].tolist(), strict=True)
        for feature, its_set in sorted(set(both)):
            _check_number(feature, its.left_codes[its_set])
            used.setdefault(feature, []).append(its.left_codes[its_set])
    listed = _categorical(infos)
    codes = {}
    for feature in sorted({*used, *listed}):
        left = np.unique(np.concatenate(used.get(feature, [np.empty(0, np.int64)])))
        _check_number(feature, left)
        words = infos[feature].split(":") if feature in listed else []
        seen = np.array([int(word) for word in words if word.isdecimal() and len(word) < 10], np.int64)
        every = np.union1d(left, seen)
        codes[feature] = every if len(every) <= MAX_CODES else left
    return codes


def _check_number(feature: int, left_codes: np.ndarray) -> None:
    if len(left_codes) > MAX_CODES:
        refuse(
            f"feature {feature} splits on more than {MAX_CODES} categories, the most that can have bins",
            "train with fewer categories",
        )


def _categorical(infos: list[str]) -> set[int]:
    """The features whose info is a list of codes rather than a range or nothing."""
    return {feature for feature, info in enumerate(infos) if info and info != CONSTANT and not info.startswith("[")}


def _labels(codes: Mapping[int, np.ndarray], infos: list[str], text: str) -> dict[int, tuple[Scalar, ...]]:
    """What the codes stand for: pandas' categories if the file has them, otherwise the codes themselves."""
    labels: dict[int, tuple[Scalar, ...]] = {feature: tuple(its.tolist()) for feature, its in codes.items()}
    before, _, after = text.rpartition(f"\n{_LABELS}")
    if f"\n{_LABELS}" in before:
        refuse("the line pandas_categorical is repeated")
    try:
        tables = json.loads(after.partition("\n")[0]) if before else None
    except (ValueError, RecursionError):
        refuse("the line pandas_categorical is not JSON")
    if not isinstance(tables, list) or not tables:
        return labels  # no DataFrame, or one without categories
    scalars = (str, int, float, bool)
    if not all(isinstance(t, list) and all(type(each) in scalars and is_unicode(each) for each in t) for t in tables):
        refuse("the line pandas_categorical is malformed")
    places = columns_of_tables([len(table) for table in tables], codes, infos)
    if places is None:
        warn_user(
            "The file does not say which columns its category labels belong to, so the labels are ignored; "
            "pass LightGBM's codes, which are whole numbers, in place of labels."
        )
        return labels
    for feature, table in zip(places, tables, strict=True):
        if feature in codes:
            labels[feature] = tuple(table[code] for code in codes[feature].tolist())
        elif infos[feature] == CONSTANT:
            labels[feature] = tuple(table[:MAX_CODES])
    return dict(sorted(labels.items()))


def _tree(
    block: Mapping[str, str], sets: CategorySets, codes: Mapping[int, np.ndarray], zero: bool, n_features: int
) -> Tree:
    """One tree, with splits and leaves in level order and siblings side by side; ``zero`` counts as missing or not."""
    n_leaves = count(block, "num_leaves", 1)
    n_splits = n_leaves - 1
    left = ints(block, "left_child", n_splits, -n_leaves, n_splits - 1)
    right = ints(block, "right_child", n_splits, -n_leaves, n_splits - 1)
    order, left_child = _level_order(left, right)  # LightGBM's numbers: splits from 0 up, leaves from -1 down
    at_split, at_leaf = order >= 0, order < 0

    def along(of_splits: np.ndarray, of_leaves: Any) -> np.ndarray:
        nodes = np.empty(len(order), of_splits.dtype)
        nodes[at_split] = of_splits[order[at_split]]
        nodes[at_leaf] = of_leaves if np.isscalar(of_leaves) else of_leaves[~order[at_leaf]]
        return nodes

    def both(name: str, numbers: Callable[[Mapping[str, str], str, int], np.ndarray]) -> np.ndarray:
        """The lists of splits and leaves as one. A tree without splits may omit its leaf's weight or count."""
        n = 0 if not n_splits and name != "value" and not block.get(f"leaf_{name}") else n_leaves
        of_leaves = numbers(block, f"leaf_{name}", n)
        return along(numbers(block, f"internal_{name}", n_splits), of_leaves if n else 0)

    threshold, default_left = _numeric_splits(block, sets, zero)
    cat_set = np.where(sets.is_categorical, 0, -1)
    linear = _linear(block, np.where(at_leaf, ~order, -1), n_leaves, n_features)
    # Of a linear tree, a leaf without terms returns its constant.
    is_constant, const = (False, 0.0) if linear is None else (at_leaf & (linear.n_terms == 0), linear.const)
    tree = Tree(
        feature=along(sets.feature, -1),
        threshold=along(threshold, 0.0),
        left_child=left_child,
        default_left=along(default_left, 0),
        cat_set=_numbered(along(cat_set, -1)),
        cat_sets=_bin_sets(order[at_split][sets.is_categorical[order[at_split]]], sets, codes),
        value=np.where(is_constant, const, both("value", floats))[:, None],
        gain=along(floats(block, "split_gain", n_splits), -np.inf),
        count=both("count", counts),
        weight=both("weight", floats),
        linear=linear,
    )
    check_shape(tree)
    check_linear(tree, n_features)
    return tree


def _linear(block: Mapping[str, str], leaf: np.ndarray, n_leaves: int, n_features: int) -> LinearLeaves | None:
    """The linear functions of the leaves; ``leaf`` is LightGBM's number of each node's leaf, -1 for a split."""
    if block.get("is_linear", "0") == "0":
        return None
    n_terms = ints(block, "num_features", n_leaves, 0, n_features)
    n = int(n_terms.sum())
    if n == 0:  # as in a first tree
        return None
    feature, coef = ints(block, "leaf_features", n, 0, n_features - 1), floats(block, "leaf_coeff", n)
    const = floats(block, "leaf_const", n_leaves)
    ends = np.cumsum(n_terms)
    terms = np.concatenate([np.arange(ends[i] - n_terms[i], ends[i]) for i in leaf[leaf >= 0].tolist()])
    of_leaf = np.maximum(leaf, 0)
    return LinearLeaves(
        const=np.where(leaf >= 0, const[of_leaf], 0.0),
        n_terms=np.where(leaf >= 0, n_terms[of_leaf], 0),
        feature=feature[terms],
        coef=coef[terms],
    )


def _level_order(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """LightGBM's numbers of the nodes in level order, and the position of each left child (0 for leaves)."""
    order, left_child = [0 if len(left) else -1], []
    for node in order:  # grows while it is walked
        left_child.append(len(order) if node >= 0 else 0)
        if node >= 0:
            order += [int(left[node]), int(right[node])]
        if len(order) > 2 * len(left) + 1:
            refuse("a node has two parents")
    numbers = np.array(order, np.int64)
    if len(np.unique(numbers)) != 2 * len(left) + 1:
        refuse("a node has no parent or two")
    return numbers, np.array(left_child, np.int64)


def _separates_zeros(block: Mapping[str, str], sets: CategorySets) -> bool:
    """Whether some split sends 0 against its threshold, so that zeros must count as missing."""
    threshold, default_left, missing = _numeric_fields(block, sets)
    return bool(np.any(~sets.is_categorical & (missing == MISSING_ZERO) & ((threshold >= 0.0) != default_left)))


def _numeric_splits(block: Mapping[str, str], sets: CategorySets, zero: bool) -> tuple[np.ndarray, np.ndarray]:
    """(threshold, default_left) of every split; 0 for categorical ones.

    A split without missing values treats NaN as 0, and so does one that treats 0 as missing: NaN goes where 0 goes. If
    ``zero`` counts as missing in the model, it goes where NaN goes.
    """
    threshold, default_left, missing = _numeric_fields(block, sets)
    zero_left = threshold >= 0.0
    numeric = ~sets.is_categorical
    if zero and np.any(numeric & (missing == MISSING_NAN) & (zero_left != default_left)):
        refuse("zeros are missing at some splits and numbers at others", "train with one value of zero_as_missing")
    keeps = (missing == MISSING_NAN) | (zero & (missing == MISSING_ZERO))
    default_left = np.where(keeps, default_left, zero_left) & numeric
    return threshold, default_left.astype(np.int64)


def _numeric_fields(block: Mapping[str, str], sets: CategorySets) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(threshold, default_left, which numbers are missing) of every split, as the file has them."""
    n_splits = len(sets.is_categorical)
    threshold = np.where(sets.is_categorical, 0.0, floats(block, "threshold", n_splits))
    kind = ints(block, "decision_type", n_splits, -128, 127)
    missing = (kind >> 2) & 3
    if np.any(missing > MISSING_NAN):
        refuse("a number in decision_type is out of range")
    return threshold, kind & DEFAULT_LEFT != 0, missing


def _numbered(cat_set: np.ndarray) -> np.ndarray:
    """Number the categorical splits 0, 1, 2, ... in level order; -1 stays."""
    is_categorical = cat_set >= 0
    return np.where(is_categorical, np.cumsum(is_categorical) - 1, -1)


def _bin_sets(splits: np.ndarray, sets: CategorySets, codes: Mapping[int, np.ndarray]) -> np.ndarray:
    """uint64 (n, 4): bit b is set if bin b goes left. Bit 0, for missing and unseen categories, never is."""
    flags = np.zeros((len(splits), 256), np.uint8)
    for row, split in enumerate(splits.tolist()):
        bins = 1 + np.searchsorted(codes[int(sets.feature[split])], sets.left_codes[sets.of_split[split]])
        flags[row, bins] = 1
    return np.packbits(flags, axis=1, bitorder="little").view("<u8").astype(np.uint64).reshape(-1, 4)


def _joined(trees: list[Tree], n_outputs: int) -> list[Tree]:
    """A forest's trees: the trees of an iteration become one if they differ only in their values."""
    iterations = [trees[first : first + n_outputs] for first in range(0, len(trees), n_outputs)]
    if all(_same_but_values(its[0], tree) for its in iterations for tree in its[1:]):
        return [replace(its[0], value=np.concatenate([tree.value for tree in its], axis=1)) for its in iterations]
    return trees


def _same_but_values(a: Tree, b: Tree) -> bool:
    return a.value.shape == b.value.shape and a == replace(b, value=a.value)
