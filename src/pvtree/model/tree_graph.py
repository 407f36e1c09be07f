"""A tree as a picture: the labels of its nodes and edges, their positions, and DOT for graphviz."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.model.tree_text import find_tree, last_left, left_categories, shortened

if TYPE_CHECKING:
    from pvtree.model.model import Model
    from pvtree.model.tree import Tree

# What labels may show besides the split or the value, by LightGBM's names.
INFO = (
    "split_gain",
    "internal_value",
    "internal_count",
    "internal_weight",
    "leaf_count",
    "leaf_weight",
    "data_percentage",
)
MAX_CATEGORIES = 10


@dataclass(frozen=True)
class Drawn:
    """The picture of a tree; lists and arrays have one entry per node."""

    labels: list[str]
    edges: list[tuple[int, int, str]]  # parent, child, the answer that leads there
    is_leaf: np.ndarray
    place: np.ndarray  # float64 (n_nodes, 2): depth, and position among the leaves


def draw(
    model: Model,
    tree_index: int = 0,
    show_info: Collection[str] | None = None,
    precision: int = 3,
    max_category_values: int = MAX_CATEGORIES,
) -> Drawn:
    """Lay out one tree of the model."""
    tree = find_tree(model, tree_index)
    info = tuple(show_info or ())
    unknown = [name for name in info if name not in INFO]
    if isinstance(show_info, str) or unknown:
        raise InvalidParameterError(f"show_info must be a list of some of {', '.join(INFO)}, got {show_info!r}.")
    labels = [_label(model, tree, node, info, precision, max_category_values) for node in range(tree.n_nodes)]
    edges = []
    for node in np.flatnonzero(tree.feature >= 0).tolist():
        left = int(tree.left_child[node])
        words = sides(model, tree, node)
        edges += [(node, left, words[0]), (node, left + 1, words[1])]
    return Drawn(labels, edges, tree.feature < 0, _places(tree))


def to_dot(drawn: Drawn, name: str = "tree", orientation: str = "horizontal") -> str:
    """DOT text: boxes for splits, ellipses for leaves."""
    direction = "LR" if orientation == "horizontal" else "TB"
    lines = [f"digraph {_quoted(name)} {{", f"  graph [rankdir={direction}];", '  node [fontname="Helvetica"];']
    for node, label in enumerate(drawn.labels):
        shape = "ellipse" if drawn.is_leaf[node] else "box"
        lines.append(f"  {node} [label={_quoted(label)}, shape={shape}];")
    lines += [f"  {parent} -> {child} [label={_quoted(word)}];" for parent, child, word in drawn.edges]
    return "\n".join([*lines, "}\n"])


def _label(model: Model, tree: Tree, node: int, info: Sequence[str], precision: int, n_shown: int) -> str:
    is_leaf = tree.feature[node] < 0
    value = ", ".join(f"{each:.{precision}f}" for each in tree.value[node])
    lines = [value if is_leaf else _split(model, tree, node, precision, n_shown)]
    texts = {
        "split_gain": f"gain {tree.gain[node]:.{precision}f}",
        "internal_value": f"value {value}",
        "internal_count": f"{int(tree.count[node])} rows",
        "internal_weight": f"weight {tree.weight[node]:.{precision}f}",
        "leaf_count": f"{int(tree.count[node])} rows",
        "leaf_weight": f"weight {tree.weight[node]:.{precision}f}",
        "data_percentage": f"{100 * tree.count[node] / tree.count[0]:.2f}% of rows",
    }
    kept = ("leaf_count", "leaf_weight") if is_leaf else INFO[:4]
    return "\n".join([*lines, *(texts[name] for name in info if name in (*kept, "data_percentage"))])


def _split(model: Model, tree: Tree, node: int, precision: int, n_shown: int) -> str:
    feature = int(tree.feature[node])
    name = shortened(model.column_name(feature))
    last = last_left(model, tree, node)
    if last is not None:
        return f"{name} <= {last}"
    if tree.cat_set[node] < 0:
        threshold = float(tree.threshold[node])
        return f"{name} is a number" if threshold == np.inf else f"{name} <= {threshold:.{precision}f}"
    named = [shortened(str(category)) for category in left_categories(model, tree, node)[0]]
    return f"{name} in {', '.join(named[:n_shown])}" + (", ..." if len(named) > n_shown else "")


def sides(model: Model, tree: Tree, node: int) -> tuple[str, str]:
    """The labels of the left and the right edge: the answer, and whether missing values go there."""
    if tree.cat_set[node] >= 0:
        missing_left = bool(tree.cat_sets[tree.cat_set[node]][0] & np.uint64(1))
    else:
        missing_left = bool(tree.default_left[node]) or last_left(model, tree, node) is not None
    if tree.cat_set[node] < 0 and tree.threshold[node] == np.inf:
        return ("yes", "no") if not missing_left else ("yes, missing", "no")
    return ("yes, missing", "no") if missing_left else ("yes", "no, missing")


def _places(tree: Tree) -> np.ndarray:
    """Leaves side by side, inner nodes halfway between their children."""
    depth, place = np.zeros(tree.n_nodes), np.zeros(tree.n_nodes)
    inner = np.flatnonzero(tree.feature >= 0).tolist()
    for node in inner:  # parents come before their children
        left = tree.left_child[node]
        depth[left] = depth[left + 1] = depth[node] + 1
    waiting, n_leaves = [0], 0
    while waiting:  # depth first, left to right
        node = waiting.pop()
        if tree.feature[node] < 0:
            place[node] = n_leaves
            n_leaves += 1
        else:
            left = tree.left_child[node]
            waiting += [int(left) + 1, int(left)]
    for node in reversed(inner):
        left = tree.left_child[node]
        place[node] = (place[left] + place[left + 1]) / 2
    return np.column_stack([depth, place])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
