"""Trees as XGBoost shows them: texts, JSON and a table. The numbers are those of the exported model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.model.export_xgboost import xgboost_trees
from pvtree.model.model import Model

COLUMNS = ("Tree", "Node", "ID", "Feature", "Split", "Yes", "No", "Missing", "Gain", "Cover", "Category")


def mapped(names: Sequence[str], fmap: str | os.PathLike[str]) -> list[str]:
    """The names with those of XGBoost's feature map: lines of a column's number, its name and its type."""
    found = list(names)
    try:
        with open(fmap, encoding="utf-8") as file:
            for line in file:
                number, name, _ = line.split()
                found[int(number)] = name
    except OSError as error:
        raise InvalidParameterError(f"The feature map {os.fspath(fmap)!r} cannot be read: {error.strerror}.") from error
    except (ValueError, IndexError):
        raise InvalidParameterError(
            f"The feature map {os.fspath(fmap)!r} is not one of this model; each line holds the number of a column, "
            "its name and its type."
        ) from None
    return found


def dumps(model: Model, names: Sequence[str], with_stats: bool, form: str) -> list[str]:
    """One text per tree, in the form "text", "json" or "dot"."""
    if form == "text":
        return ["".join(_lines(tree, names, with_stats)) for tree in xgboost_trees(model)]
    if form == "json":
        return [json.dumps(_nested(tree, names, with_stats), indent=2) for tree in xgboost_trees(model)]
    if form == "dot":
        return [model.to_dot(number) for number in range(len(model.trees))]
    raise InvalidParameterError(f"dump_format={form!r} is unknown; use 'text', 'json' or 'dot'.")


def _walk(tree: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """(node, depth), each node before its left and its right side."""
    waiting = [(0, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        if tree["left_children"][node] >= 0:
            waiting += [(int(tree[side][node]), depth + 1) for side in ("right_children", "left_children")]


def _lines(tree: dict[str, Any], names: Sequence[str], with_stats: bool) -> Iterator[str]:
    for node, depth in _walk(tree):
        number, cover = _short(tree["split_conditions"][node]), _short(tree["sum_hessian"][node])
        head = "\t" * depth + f"{node}:"
        if tree["left_children"][node] < 0:
            yield f"{head}leaf={number}" + (f",cover={cover}" if with_stats else "") + "\n"
            continue
        yes, no = tree["left_children"][node], tree["right_children"][node]
        missing = yes if tree["default_left"][node] else no
        stats = f",gain={_short(tree['loss_changes'][node])},cover={cover}" if with_stats else ""
        name = names[tree["split_indices"][node]]
        yield f"{head}[{name}<{number}] yes={yes},no={no},missing={missing}{stats}\n"


def _short(value: np.floating[Any]) -> str:
    return str(np.float32(value))


def _nested(tree: dict[str, Any], names: Sequence[str], with_stats: bool) -> dict[str, Any]:
    nodes: dict[int, dict[str, Any]] = {}
    for node, depth in reversed(list(_walk(tree))):
        number = float(tree["split_conditions"][node])
        cover = {"cover": float(tree["sum_hessian"][node])} if with_stats else {}
        yes, no = int(tree["left_children"][node]), int(tree["right_children"][node])
        if yes < 0:
            nodes[node] = {"nodeid": node, "leaf": number, **cover}
            continue
        gain = {"gain": float(tree["loss_changes"][node])} if with_stats else {}
        nodes[node] = {
            "nodeid": node,
            "depth": depth,
            "split": names[tree["split_indices"][node]],
            "split_condition": number,
            "yes": yes,
            "no": no,
            "missing": yes if tree["default_left"][node] else no,
            **gain,
            **cover,
            "children": [nodes[yes], nodes[no]],
        }
    return nodes[0]


def table(model: Model, names: Sequence[str]) -> Any:
    """A DataFrame with a row for each node of each tree."""
    import pandas as pd

    rows = []
    for number, tree in enumerate(xgboost_trees(model)):
        for node in range(len(tree["left_children"])):
            yes, no = int(tree["left_children"][node]), int(tree["right_children"][node])
            value, cover = float(tree["split_conditions"][node]), float(tree["sum_hessian"][node])
            own = [number, node, f"{number}-{node}"]
            if yes < 0:
                rows.append([*own, "Leaf", np.nan, None, None, None, value, cover, np.nan])
                continue
            missing = yes if tree["default_left"][node] else no
            sides = [f"{number}-{side}" for side in (yes, no, missing)]
            gain = float(tree["loss_changes"][node])
            rows.append([*own, names[tree["split_indices"][node]], value, *sides, gain, cover, np.nan])
    return pd.DataFrame(rows, columns=list(COLUMNS))


def importances(model: Model) -> dict[str, np.ndarray]:
    """XGBoost's five kinds of importance, (n_features,) each."""
    splits, gains, covers = (np.zeros(model.n_features) for _ in range(3))
    for tree in model.trees:
        inner = tree.feature >= 0
        np.add.at(splits, tree.feature[inner], 1)
        np.add.at(gains, tree.feature[inner], tree.gain[inner])
        np.add.at(covers, tree.feature[inner], tree.weight[inner])
    most = np.maximum(splits, 1)
    return {
        "weight": splits, "gain": gains / most, "cover": covers / most, "total_gain": gains, "total_cover": covers
    }  # fmt: skip
