"""Writes XGBoost's JSON and UBJSON models: ``xgboost.Booster(model_file=path)`` predicts the same within float32."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.model.linear_leaves import refuse_linear
from pvtree.model.model import Model
from pvtree.model.text_format import write_bytes
from pvtree.model.tree import Tree
from pvtree.model.ubjson import encode
from pvtree.parameters.loss_table import LOSSES, losses_of

VERSION = (2, 1, 0)  # the oldest that reads it
_ROOT = 2**31 - 1  # the parent of the root
_LARGEST = float(np.finfo(np.float32).max)
# XGBoost's names of our losses, or of one that transforms raw scores alike.
OBJECTIVES = {
    **dict.fromkeys(("regression", "huber", "fair", "quantile", "mape"), "reg:squarederror"),
    "l1": "reg:absoluteerror",
    "pseudohuber": "reg:pseudohubererror",
    "squared_log": "reg:squaredlogerror",
    "poisson": "count:poisson",
    "gamma": "reg:gamma",
    "tweedie": "reg:tweedie",
    "cox": "survival:cox",
    "aft": "survival:aft",
    "cross_entropy": "reg:logistic",
    "binary": "binary:logistic",
    "hinge": "binary:hinge",
    "multiclass": "multi:softprob",
    **dict.fromkeys(("lambdarank", "rank_xendcg"), "rank:ndcg"),
    "pairwise": "rank:pairwise",
    "rank_map": "rank:map",
    "custom": "reg:squarederror",  # leaves raw scores as they are
}


def write(
    model: Model, path: str | os.PathLike[str], attributes: Mapping[str, str] | None = None, objective: Any = None
) -> None:
    """Replace the file at ``path``: UBJSON if its name ends with .ubj, JSON otherwise."""
    is_binary = os.fspath(path).endswith(".ubj")
    write_bytes(path, dump(model, "ubj" if is_binary else "json", attributes, objective), "XGBoost's model file")


def dump(model: Model, form: str = "json", attributes: Mapping[str, str] | None = None, objective: Any = None) -> bytes:
    """The content of such a file; ``attributes`` are texts that it holds beside the model.

    With the ``objective`` "multi:softmax", XGBoost predicts classes instead of probabilities.
    """
    document = _document(model)
    if objective == "multi:softmax" and model.objective == "multiclass":
        document["learner"]["objective"]["name"] = objective
    document["learner"]["attributes"] = dict(attributes or {})
    if form == "ubj":
        return encode(document)
    return json.dumps(document, default=lambda array: array.tolist(), allow_nan=False).encode()


def _document(model: Model) -> dict[str, Any]:
    if model.categories or any((tree.cat_set >= 0).any() for tree in model.trees):
        raise InvalidParameterError("export_xgboost does not support categories; export to LightGBM's format instead.")
    refuse_linear(model, "export_xgboost")
    if model.zero_as_missing:
        raise InvalidParameterError(
            "export_xgboost does not support zero_as_missing; export to LightGBM's format instead."
        )
    is_forest = model.objective == "classification" or (model.ensemble == "forest" and model.n_outputs > 1)
    if model.objective not in OBJECTIVES or is_forest:
        what = "forests of classes" if is_forest else f"objective={model.objective!r}"
        raise InvalidParameterError(f"export_xgboost does not support {what}; export to LightGBM's format instead.")
    if model.n_outputs > 1 and model.objective in losses_of("value"):
        raise InvalidParameterError(
            "export_xgboost does not support several targets; export to LightGBM's format instead."
        )
    trees = xgboost_trees(model)
    n_parallel = model.n_parallel_trees
    classes = [k for _ in range(model.n_iterations) for k in range(model.n_outputs) for _ in range(n_parallel)]
    classes = classes if model.ensemble == "gbdt" else [0] * len(trees)
    per = model.n_outputs * n_parallel
    bounds = list(range(0, len(trees) + 1, per))
    is_multi = model.objective == "multiclass" or model.n_outputs > 1
    objective = OBJECTIVES["multiclass" if is_multi and model.objective == "custom" else model.objective]
    # Without trees the base is all there is.
    base = _base_score(model.objective, float(model.init_score[0]) if not trees and model.n_outputs == 1 else 0.0)
    learner: dict[str, Any] = {
        "attributes": {},
        "feature_names": list(model.feature_names or ()),
        "feature_types": ["float"] * len(model.feature_names or ()),
        "gradient_booster": {
            "model": {
                "gbtree_model_param": {"num_parallel_tree": str(n_parallel), "num_trees": str(len(trees))},
                "iteration_indptr": bounds,
                "tree_info": classes,
                "trees": trees,
            },
            "name": "gbtree",
        },
        "learner_model_param": {
            "base_score": f"{base:.9E}",
            "boost_from_average": "1",
            "num_class": str(model.n_outputs if is_multi else 0),
            "num_feature": str(model.n_features),
            "num_target": "1",
        },
        "objective": {"name": objective, **_settings(objective, model.n_outputs)},
    }
    return {"learner": learner, "version": list(VERSION)}


def xgboost_trees(model: Model) -> list[dict[str, Any]]:
    """The trees as XGBoost's files hold them; the initial score is in the first ones."""
    return [_tree(model, number, tree) for number, tree in enumerate(_in_order(model))]


def _base_score(objective: str, raw: float) -> float:
    """XGBoost's base_score, which it transforms into this raw score."""
    link = LOSSES[objective].link if objective in LOSSES else "identity"
    if link not in ("sigmoid", "exp"):
        return raw
    if raw != 0.0:  # without trees, XGBoost 3.2 leaves out the transformation
        raise InvalidParameterError(
            f"XGBoost cannot read a model of objective={objective!r} without trees; train at least one tree."
        )
    return 1 / (1 + float(np.exp(-raw))) if link == "sigmoid" else 1.0


def _settings(objective: str, n_outputs: int) -> dict[str, Any]:
    of_one_loss = {
        "reg:pseudohubererror": {"pseudo_huber_param": {"huber_slope": "1"}},
        "count:poisson": {"poisson_regression_param": {"max_delta_step": "0.7"}},
        "survival:aft": {"aft_loss_param": {"aft_loss_distribution": "normal", "aft_loss_distribution_scale": "1"}},
        "reg:tweedie": {"tweedie_regression_param": {"tweedie_variance_power": "1.5"}},
        **{name: {} for name in ("reg:absoluteerror", "survival:cox", "binary:hinge")},
    }
    if objective in of_one_loss:
        return of_one_loss[objective]
    if objective.startswith("multi:"):
        return {"softmax_multiclass_param": {"num_class": str(n_outputs)}}
    if objective.startswith("rank:"):
        return {"lambdarank_param": {"lambdarank_pair_method": "topk"}}
    return {"reg_loss_param": {"scale_pos_weight": "1"}}


def _in_order(model: Model) -> list[Tree]:
    """The trees as XGBoost orders them: in each iteration those of one class side by side."""
    if model.ensemble == "forest":
        return list(model.trees)
    per, n_outputs = model.trees_per_iteration, model.n_outputs
    return [
        model.trees[start + p * n_outputs + k]
        for start in range(0, len(model.trees), per)
        for k in range(n_outputs)
        for p in range(model.n_parallel_trees)
    ]


def _tree(model: Model, number: int, tree: Tree) -> dict[str, Any]:
    n = tree.n_nodes
    is_leaf = tree.feature < 0
    value = tree.value[:, 0]
    if model.ensemble == "forest":
        value = (value + model.init_score[0]) / max(1, model.n_iterations)
    elif number < model.trees_per_iteration and number % model.n_parallel_trees == 0:
        value = value + model.init_score[number // model.n_parallel_trees]  # XGBoost's base is one for all classes
    if not (np.abs(value) <= _LARGEST).all():
        raise InvalidParameterError(
            f"Tree {number} returns a number beyond float32, which XGBoost's format cannot hold; "
            "export to LightGBM's format instead."
        )
    parents = np.full(n, _ROOT)
    inner = np.flatnonzero(~is_leaf)
    parents[tree.left_child[inner]] = parents[tree.left_child[inner] + 1] = inner
    none = np.empty(0)
    condition = np.where(is_leaf, value, 0.0).astype(np.float32)
    condition[inner] = first_right(tree.threshold[inner])
    left = np.where(is_leaf, -1, tree.left_child)
    return {
        "base_weights": value.astype(np.float32),
        "categories": none.astype(np.int32),
        "categories_nodes": none.astype(np.int32),
        "categories_segments": none.astype(np.int64),
        "categories_sizes": none.astype(np.int64),
        "default_left": np.where(is_leaf, 0, tree.default_left).astype(np.uint8),
        "id": number,
        "left_children": left.astype(np.int32),
        "loss_changes": _statistic(np.where(is_leaf, 0.0, tree.gain / 2)),
        "parents": parents.astype(np.int32),
        "right_children": np.where(is_leaf, -1, left + 1).astype(np.int32),
        "split_conditions": condition,
        "split_indices": np.where(is_leaf, 0, tree.feature).astype(np.int32),
        "split_type": np.zeros(n, np.uint8),
        "sum_hessian": _statistic(tree.weight),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(model.n_features),
            "num_nodes": str(n),
            "size_leaf_vector": "1",
        },
    }


def _statistic(values: np.ndarray) -> np.ndarray:
    """Numbers that no prediction depends on, as near as float32 comes."""
    near: np.ndarray = np.clip(np.nan_to_num(values), -_LARGEST, _LARGEST).astype(np.float32)
    return near


def first_right(threshold: np.ndarray) -> np.ndarray:
    """The least float32 above the threshold: XGBoost sends what is below its condition left."""
    with np.errstate(over="ignore"):
        rounded = threshold.astype(np.float32)
    above = np.where(rounded > threshold, rounded, np.nextafter(rounded, np.float32(np.inf)))
    return np.clip(above, -_LARGEST, _LARGEST).astype(np.float32)
