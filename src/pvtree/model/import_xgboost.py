"""Reads XGBoost's JSON and UBJSON models of trees. The file is not trusted: kernels follow its indices."""

from __future__ import annotations

import json
import math
import os
from typing import Any, NamedTuple

import numpy as np

from pvtree.comm.user_warnings import warn_user
from pvtree.errors import ModelFileError
from pvtree.model.model import Model
from pvtree.model.text_format import Refused, check_outputs, check_shape, refuse, unique_keys
from pvtree.model.tree import Tree
from pvtree.model.ubjson import decode
from pvtree.parameters.loss_table import LOSSES
from pvtree.parameters.paths import checked_path
from pvtree.reading.tables import MAX_UNNAMED, is_unicode

_REMEDY = "give a file written by xgboost.Booster.save_model or Model.export_xgboost"
# XGBoost's objectives, and ours that transform raw scores alike. Any other becomes "custom", which leaves them raw.
OBJECTIVES = {
    **{word: kind.name for kind in LOSSES.values() for word in kind.aliases.split() if ":" in word},
    "rank:map": "rank_map",
    "binary:logitraw": "custom",
}
_LOGISTIC = ("binary:logistic", "reg:logistic", "binary:logitraw")
_EXPONENTIAL = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")


def read(path: str | os.PathLike[str]) -> Model:
    """The model in a file, or a ModelFileError."""
    name = f"XGBoost's model file {os.fspath(path)!r}"
    try:
        with open(checked_path(path), "rb") as file:
            data = file.read()
    except OSError as error:
        raise ModelFileError(f"{name} cannot be read ({error.strerror}); check the path.") from error
    return parse(data, name)


class ReadModel(NamedTuple):
    """A model, and what a file of XGBoost's holds beside it."""

    model: Model
    attributes: dict[str, str]
    objective: str | None  # XGBoost's name


def parse(data: bytes, name: str) -> Model:
    """The model in JSON or UBJSON, or a ModelFileError that begins with ``name``."""
    return parse_whole(data, name).model


def parse_whole(data: bytes, name: str) -> ReadModel:
    """The model, the texts that are kept beside it and its objective."""
    try:
        document = _document(data)
        model = _model(document)
        found = _dict(document["learner"].get("attributes", {}), "the attributes")
        texts = {key: value for key, value in found.items() if isinstance(key, str) and isinstance(value, str)}
        return ReadModel(model, texts, document["learner"]["objective"]["name"])
    except Refused as refusal:
        reason, remedy = refusal.args
        raise ModelFileError(f"{name} cannot be used ({reason}); {remedy or _REMEDY}.") from None


def _document(data: bytes) -> dict[str, Any]:
    # Texts begin with a quoted key, UBJSON with the length of one.
    if data[:1] == b"{" and data[1:2] in (b'"', b" ", b"\n", b"\r", b"\t"):
        try:
            document = json.loads(data, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError):
            refuse("it is not JSON: truncated or altered")
    else:
        document = decode(data)
    return _dict(document, "the document")


def _dict(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        refuse(f"{what} is missing or of the wrong type")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        refuse(f"{what} is missing or of the wrong type")
    return value


def _integer(value: Any, what: str, low: int, high: int) -> int:
    """XGBoost writes parameters as texts."""
    if isinstance(value, str) and len(value) <= 12 and value.isascii() and value.isdecimal():
        value = int(value)
    if type(value) is not int or not low <= value <= high:
        refuse(f"{what} is missing or out of range")
    return value


def _model(document: dict[str, Any]) -> Model:
    learner = _dict(document.get("learner"), "the learner")
    booster = _dict(learner.get("gradient_booster"), "the booster")
    drops = None
    if booster.get("name") == "dart":
        drops = _numbers(booster.get("weight_drop"), None, "weight_drop")
        booster = _dict(booster.get("gbtree"), "the booster")
    if booster.get("name", "gbtree") != "gbtree":
        refuse("it is not a model of trees", "train with booster='gbtree'")
    settings = _dict(learner.get("learner_model_param"), "learner_model_param")
    objective = _dict(learner.get("objective"), "the objective").get("name")
    if not isinstance(objective, str):
        refuse("the objective has no name")
    if settings.get("num_target", "1") not in ("0", "1"):
        refuse("it has several targets", "train one model for each target")
    trees_part = _dict(booster.get("model"), "the trees")
    n_features = _integer(settings.get("num_feature"), "num_feature", 1, 2**31 - 1)
    raw_trees = _list(trees_part.get("trees"), "the list of trees")
    n_outputs = max(1, _integer(settings.get("num_class", "0"), "num_class", 0, 2**20))
    if n_outputs > max(2, len(raw_trees)):
        refuse("it has fewer trees than classes")
    names = _names(learner.get("feature_names"), n_features)
    trees = [_tree(raw, n_features) for raw in raw_trees]
    if drops is not None:
        if len(drops) != len(trees):
            refuse("weight_drop does not match the trees")
        trees = [_scaled(tree, factor) for tree, factor in zip(trees, drops.tolist(), strict=True)]
    ordered, n_parallel = _in_order(trees, trees_part, n_outputs)
    ours = OBJECTIVES.get(objective, "custom")
    if objective not in OBJECTIVES:
        warn_user(
            f"pvtree does not know how the objective {objective!r} transforms raw scores; it predicts raw scores."
        )
    check_outputs(ours, n_outputs)
    return Model(
        trees=tuple(ordered),
        objective=ours,
        ensemble="gbdt",
        n_features=n_features,
        n_outputs=n_outputs,
        init_score=_base_margins(settings.get("base_score"), objective, n_outputs),
        feature_names=names,
        n_parallel_trees=n_parallel,
    )


def _names(given: Any, n_features: int) -> tuple[str, ...] | None:
    names = [] if given is None else _list(given, "feature_names")
    if not names:
        if n_features > MAX_UNNAMED:
            refuse(f"it has {n_features} features without names, more than {MAX_UNNAMED}")
        return None
    if len(names) != n_features or len(set(map(str, names))) < n_features:
        refuse("the feature names do not match the features")
    if not all(isinstance(name, str) and is_unicode(name) for name in names):
        refuse("a feature name is not a text")
    return tuple(names)


def _base_margins(text: Any, objective: str, n_outputs: int) -> np.ndarray:
    """base_score is "5E-1" or, since version 3, "[5E-1]"; it is a probability or a mean, not a raw score."""
    words = text.strip("[]").split(",") if isinstance(text, str) else [text]
    try:
        values = [float(word) for word in words]
    except (TypeError, ValueError):
        refuse("base_score is not a number")
    values = values * n_outputs if len(values) == 1 else values
    if len(values) != n_outputs or not all(map(math.isfinite, values)):
        refuse("base_score does not match the outputs")
    if objective in _LOGISTIC:
        if not all(0 < value < 1 for value in values):
            refuse("base_score is not a probability")
        values = [math.log(value) - math.log1p(-value) for value in values]
    elif objective in _EXPONENTIAL:
        if not all(value > 0 for value in values):
            refuse("base_score is not positive")
        values = [math.log(value) for value in values]
    return np.array(values)


def _in_order(trees: list[Tree], part: dict[str, Any], n_outputs: int) -> tuple[list[Tree], int]:
    """The trees so that tree t adds to output t % n_outputs; XGBoost has those of one class side by side."""
    classes = _list(part.get("tree_info"), "tree_info")
    settings = _dict(part.get("gbtree_model_param"), "gbtree_model_param")
    n_parallel = max(1, _integer(settings.get("num_parallel_tree", "1"), "num_parallel_tree", 0, 2**20))
    per = n_parallel * n_outputs
    expected = [k for _ in range(len(trees) // per) for k in range(n_outputs) for _ in range(n_parallel)]
    if len(trees) % per or classes != expected:
        refuse("the trees are not in the order of the classes")
    ordered = [
        trees[start + k * n_parallel + p]
        for start in range(0, len(trees), per)
        for p in range(n_parallel)
        for k in range(n_outputs)
    ]
    return ordered, n_parallel


def _numbers(values: Any, n: int | None, what: str) -> np.ndarray:
    listed = _list(values, what)
    if (n is not None and len(listed) != n) or not set(map(type, listed)) <= {int, float}:
        refuse(f"the list {what} has a wrong length or type")
    try:
        array = np.array(listed, np.float64)
    except OverflowError:
        refuse(f"a number in {what} is out of range")
    if not np.isfinite(array).all():
        refuse(f"a value in {what} is not a finite number")
    return array


def _integers(values: Any, n: int, low: int, high: int, what: str) -> np.ndarray:
    listed = _list(values, what)
    if len(listed) != n or not set(map(type, listed)) <= {int, bool}:
        refuse(f"the list {what} has a wrong length or type")
    if n and not (low <= min(listed) and max(listed) <= high):
        refuse(f"a number in {what} is out of range")
    return np.array(listed, np.int64)


def _tree(raw: Any, n_features: int) -> Tree:
    fields = _dict(raw, "a tree")
    left = _list(fields.get("left_children"), "left_children")
    n = len(left)
    if n == 0:
        refuse("a tree has no nodes")
    size = _dict(fields.get("tree_param"), "tree_param").get("size_leaf_vector", "1")
    if size not in ("0", "1"):
        refuse("its leaves hold several values", "train with multi_strategy='one_output_per_tree'")
    if any(_list(fields.get("split_type", [0]), "split_type")) or fields.get("categories_nodes"):
        refuse("it splits on categories", "train on numeric columns")
    children = [_integers(fields.get(name), n, -1, n - 1, name) for name in ("left_children", "right_children")]
    feature = _integers(fields.get("split_indices"), n, 0, n_features - 1, "split_indices")
    condition = _numbers(fields.get("split_conditions"), n, "split_conditions")
    default_left = _integers(fields.get("default_left"), n, 0, 1, "default_left")
    gain = _numbers(fields.get("loss_changes"), n, "loss_changes")
    weight = _numbers(fields.get("sum_hessian"), n, "sum_hessian")
    means = _numbers(fields.get("base_weights"), n, "base_weights")
    order = _level_order(*children)
    place = np.full(n, -1)
    place[order] = np.arange(len(order))
    is_leaf = children[0][order] < 0
    inner = order[~is_leaf]
    value = np.where(is_leaf, condition[order], means[order])
    threshold = np.zeros(len(order))
    threshold[~is_leaf] = last_left(condition[inner].astype(np.float32))
    left_child = np.zeros(len(order), np.int64)
    left_child[~is_leaf] = place[children[0][inner]]
    tree = Tree(
        feature=np.where(is_leaf, -1, feature[order]),
        threshold=threshold,
        left_child=left_child,
        default_left=np.where(is_leaf, 0, default_left[order]),
        cat_set=np.full(len(order), -1),
        cat_sets=np.empty((0, 4)),
        value=value[:, None],
        gain=np.where(is_leaf, 0.0, gain[order]),
        count=np.round(np.clip(weight[order], 0, 2**62)).astype(np.int64),  # XGBoost knows only sums of hessians
        weight=weight[order],
    )
    check_shape(tree)
    return tree


def _level_order(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The nodes from the root on, level by level; deleted nodes are not reached. Each has one parent at most."""
    reached, level = [0], [0]
    seen = np.zeros(len(left), bool)
    seen[0] = True
    lefts, rights = left.tolist(), right.tolist()
    while level:
        following = []
        for node in level:
            sides = lefts[node], rights[node]
            if sides == (-1, -1):
                continue
            for side in sides:
                if side < 0 or seen[side]:
                    refuse("the nodes of a tree do not form a tree")
                seen[side] = True
                following.append(side)
        reached += following
        level = following
    return np.array(reached)


def last_left(condition: np.ndarray) -> np.ndarray:
    """The largest float64 that XGBoost sends left: one that is below the condition once it is rounded to float32."""
    below = np.nextafter(condition, np.float32(-np.inf))
    middle = (below.astype(np.float64) + condition.astype(np.float64)) / 2
    # A tie is rounded to the neighbour whose last bit is 0.
    goes_left = (below.view(np.int32) & 1) == 0
    ends: np.ndarray = np.where(goes_left, middle, np.nextafter(middle, -np.inf))
    return ends


def _scaled(tree: Tree, factor: float) -> Tree:
    from dataclasses import replace

    return replace(tree, value=tree.value * factor)
