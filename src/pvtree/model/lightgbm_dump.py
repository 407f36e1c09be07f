"""A model as nested dictionaries and as a table, in the forms of LightGBM's dump_model and trees_to_dataframe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pvtree.model.export_lightgbm import CATEGORICAL, DEFAULT_LEFT, MISSING_ZERO, WORD_BITS, dump
from pvtree.model.model import Model

TABLE_COLUMNS = (
    "tree_index", "node_depth", "node_index", "left_child", "right_child", "parent_index", "split_feature",
    "split_gain", "threshold", "decision_type", "missing_direction", "missing_type", "value", "weight", "count",
)  # fmt: skip


def dumped(model: Model, importance_type: str = "split") -> dict[str, Any]:
    """What LightGBM's dump_model gives for the exported model; the initial score is in the first trees."""
    head_text, *tree_texts = dump(model).partition("\nend of trees")[0].split("\nTree=")
    head = dict(line.partition("=")[::2] for line in head_text.splitlines())
    names = head["feature_names"].split(" ")
    importance = model.feature_importance(importance_type)
    order = np.argsort(-importance, kind="stable")
    kind = int if importance_type == "split" else float
    return {
        "name": "tree",
        "version": head["version"],
        "num_class": int(head["num_class"]),
        "num_tree_per_iteration": int(head["num_tree_per_iteration"]),
        "label_index": 0,
        "max_feature_idx": model.n_features - 1,
        "objective": head["objective"],
        "average_output": "average_output" in head,
        "feature_names": names,
        "monotone_constraints": [],
        "feature_infos": dict(_infos(names, head["feature_infos"].split(" "))),
        "tree_info": [_tree_info(number, text) for number, text in enumerate(tree_texts)],
        "feature_importances": {names[j]: kind(importance[j]) for j in order if importance[j]},
        "pandas_categorical": [list(labels) for labels in model.categories.values()] or None,
    }


def _infos(names: list[str], infos: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, info in zip(names, infos, strict=True):
        if info == "none":
            continue
        if info.startswith("["):
            low, high = (float(word) for word in info.strip("[]").split(":"))
            yield name, {"min_value": low, "max_value": high, "values": []}
        else:
            codes = [int(word) for word in info.split(":")]
            yield name, {"min_value": min(codes), "max_value": max(codes), "values": codes}


def _tree_info(number: int, text: str) -> dict[str, Any]:
    fields = dict(line.partition("=")[::2] for line in text.splitlines()[1:] if line)
    columns = {name: values.split(" ") if values else [] for name, values in fields.items()}
    n_leaves = int(fields["num_leaves"])
    structure = _leaf(columns, 0) if n_leaves == 1 else _structure(columns)
    return {
        "tree_index": number,
        "num_leaves": n_leaves,
        "num_cat": int(fields["num_cat"]),
        "shrinkage": 1,
        "tree_structure": structure,
    }


def _structure(columns: dict[str, list[str]]) -> dict[str, Any]:
    """Nested nodes; made from the last split to the first, because children come after their parents."""
    nodes: list[dict[str, Any]] = [{} for _ in columns["split_feature"]]
    for split in reversed(range(len(nodes))):
        kind = int(columns["decision_type"][split])
        is_categorical = bool(kind & CATEGORICAL)
        number = float(columns["threshold"][split])
        sides = [int(columns[side][split]) for side in ("left_child", "right_child")]
        left, right = (nodes[side] if side >= 0 else _leaf(columns, ~side) for side in sides)
        nodes[split] = {
            "split_index": split,
            "split_feature": int(columns["split_feature"][split]),
            "split_gain": float(columns["split_gain"][split]),
            "threshold": _codes(columns, int(number)) if is_categorical else number,
            "decision_type": "==" if is_categorical else "<=",
            "default_left": bool(kind & DEFAULT_LEFT),
            "missing_type": "Zero" if (kind >> 2) & 3 == MISSING_ZERO else "NaN",
            "internal_value": float(columns["internal_value"][split]),
            "internal_weight": float(columns["internal_weight"][split]),
            "internal_count": int(columns["internal_count"][split]),
            "left_child": left,
            "right_child": right,
        }
    return nodes[0]


def _codes(columns: dict[str, list[str]], which: int) -> str:
    """The categories of a set as LightGBM writes them: "1||4||7"."""
    first, stop = (int(columns["cat_boundaries"][which + side]) for side in (0, 1))
    words = [int(word) for word in columns["cat_threshold"][first:stop]]
    codes = (WORD_BITS * at + bit for at, word in enumerate(words) for bit in range(WORD_BITS) if word >> bit & 1)
    return "||".join(map(str, codes))


def _leaf(columns: dict[str, list[str]], number: int) -> dict[str, Any]:
    leaf: dict[str, Any] = {
        "leaf_index": number,
        "leaf_value": float(columns["leaf_value"][number]),
        "leaf_weight": float(columns["leaf_weight"][number]),
        "leaf_count": int(columns["leaf_count"][number]),
    }
    if columns["is_linear"] == ["1"]:
        n_terms = [int(word) for word in columns["num_features"]]
        own = slice(sum(n_terms[:number]), sum(n_terms[: number + 1]))
        features, coefs = ([word for word in columns[name] if word] for name in ("leaf_features", "leaf_coeff"))
        leaf["leaf_const"] = float(columns["leaf_const"][number])
        leaf["leaf_features"] = [int(word) for word in features[own]]
        leaf["leaf_coeff"] = [float(word) for word in coefs[own]]
    return leaf


def table(model: Model) -> Any:
    """A DataFrame with a row for each node, trees in order, each node before its left and its right side."""
    import pandas as pd

    whole = dumped(model)
    rows = [row for tree in whole["tree_info"] for row in _rows(tree, whole["feature_names"])]
    return pd.DataFrame(rows, columns=list(TABLE_COLUMNS))


def _rows(tree: dict[str, Any], names: list[str]) -> Iterator[dict[str, Any]]:
    number = tree["tree_index"]
    waiting: list[tuple[dict[str, Any], int, str | None]] = [(tree["tree_structure"], 1, None)]
    while waiting:  # a stack, because trees may be deeper than Python's recursion
        node, depth, parent = waiting.pop()
        row = dict.fromkeys(TABLE_COLUMNS) | {"tree_index": number, "node_depth": depth, "parent_index": parent}
        row["node_index"] = own = _index(node, number)
        if "leaf_value" in node:
            yield row | {"value": node["leaf_value"], "weight": node["leaf_weight"], "count": node["leaf_count"]}
            continue
        yield row | {
            "left_child": _index(node["left_child"], number),
            "right_child": _index(node["right_child"], number),
            "split_feature": names[node["split_feature"]],
            "split_gain": node["split_gain"],
            "threshold": node["threshold"],
            "decision_type": node["decision_type"],
            "missing_direction": "left" if node["default_left"] else "right",
            "missing_type": node["missing_type"],
            "value": node["internal_value"],
            "weight": node["internal_weight"],
            "count": node["internal_count"],
        }
        waiting += [(node["right_child"], depth + 1, own), (node["left_child"], depth + 1, own)]


def _index(node: dict[str, Any], tree: int) -> str:
    return f"{tree}-L{node['leaf_index']}" if "leaf_value" in node else f"{tree}-S{node['split_index']}"
