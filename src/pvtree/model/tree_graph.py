"""A tree as a picture: the labels of its nodes and edges, their levels, and DOT for graphviz."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.model.number_text import trimmed
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
LINE = 30  # characters of a label's line, unless a single word is longer


@dataclass(frozen=True)
class Drawn:
    """The picture of a tree; lists and arrays have one entry per node."""

    labels: list[str]
    edges: list[tuple[int, int, str]]  # parent, child, the answer that leads there
    is_leaf: np.ndarray
    depth: np.ndarray  # int64, 0 for the root


def draw(
    model: Model,
    tree_index: int = 0,
    show_info: Collection[str] | None = None,
    precision: int = 3,
    max_category_values: int = MAX_CATEGORIES,
) -> Drawn:
    """The labels and edges of one tree of the model."""
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
    return Drawn(labels, edges, tree.feature < 0, _depths(tree))


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
    number = partial(trimmed, precision=precision)
    is_leaf = tree.feature[node] < 0
    value = ", ".join(number(float(each)) for each in tree.value[node])
    first = value if is_leaf else question(model, tree, node, number, n_shown)
    count, weight = f"{int(tree.count[node]):,} rows", f"weight {number(float(tree.weight[node]))}"
    texts = {
        "split_gain": f"gain {number(float(tree.gain[node]))}",
        "internal_value": f"value {value}",
        "internal_count": count,
        "internal_weight": weight,
        "leaf_count": count,
        "leaf_weight": weight,
        "data_percentage": f"{100 * tree.count[node] / tree.count[0]:.2f}% of rows",
    }
    kept = ("leaf_count", "leaf_weight") if is_leaf else INFO[:4]
    lines = [first, *(texts[name] for name in info if name in (*kept, "data_percentage"))]
    return "\n".join(fill(line, LINE, break_long_words=False, break_on_hyphens=False) for line in lines)


def question(model: Model, tree: Tree, node: int, number: Callable[[float], str], n_shown: int) -> str:
    """What a split asks: age <= 36.5, or job in 6 of 14: clerk, sales, ..."""
    feature = int(tree.feature[node])
    name, last = shortened(model.column_name(feature)), last_left(model, tree, node)
    if last is not None:
        return f"{name} <= {last}"
    if tree.cat_set[node] < 0:
        threshold = float(tree.threshold[node])
        return f"{name} is a number" if threshold == np.inf else f"{name} <= {number(threshold)}"
    left = [shortened(str(category)) for category in left_categories(model, tree, node)[0]]
    of = len(model.categories.get(feature, ())) or "all"
    more = ", ..." if len(left) > n_shown else ""
    return f"{name} in {len(left)} of {of}: {', '.join(left[:n_shown])}{more}"


def sides(model: Model, tree: Tree, node: int) -> tuple[str, str]:
    """The labels of the left and the right edge: the answer, and whether missing values go there."""
    if tree.cat_set[node] >= 0:
        missing_left = bool(tree.cat_sets[tree.cat_set[node]][0] & np.uint64(1))
    else:
        missing_left = bool(tree.default_left[node]) or last_left(model, tree, node) is not None
    if tree.cat_set[node] < 0 and tree.threshold[node] == np.inf:
        return ("yes", "no") if not missing_left else ("yes, missing", "no")
    return ("yes, missing", "no") if missing_left else ("yes", "no, missing")


def _depths(tree: Tree) -> np.ndarray:
    depth = np.zeros(tree.n_nodes, np.int64)
    for node in np.flatnonzero(tree.feature >= 0).tolist():  # parents come before their children
        left = tree.left_child[node]
        depth[left] = depth[left + 1] = depth[node] + 1
    return depth


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
