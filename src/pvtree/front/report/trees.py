"""The section with the trees themselves, which page.js draws, folds and zooms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pvtree.front.report.page import Section, shown_number
from pvtree.front.report.subject import Subject
from pvtree.model.tree_graph import sides
from pvtree.model.tree_text import last_left, left_categories, shortened

if TYPE_CHECKING:
    from pvtree.model.model import Model
    from pvtree.model.tree import Tree

MOST_TREES = 50
MOST_NODES = 8000  # of all trees on a page, about 1 MB
MOST_CATEGORIES = 6


def section(subject: Subject) -> Section | None:
    model = subject.model
    shown: list[dict[str, Any]] = []
    n_nodes = 0
    for number, tree in enumerate(model.trees[:MOST_TREES]):
        n_nodes += tree.n_nodes
        if n_nodes > MOST_NODES and shown:
            break
        if tree.n_nodes <= MOST_NODES:
            shown.append({"number": number, "nodes": [node(model, tree, i) for i in range(tree.n_nodes)]})
    if not shown:
        return None
    found = Section("trees", "Trees")
    if len(shown) < len(model.trees):
        found.text(f"The first {len(shown)} of {len(model.trees):,} trees.")
    options = "".join(f'<option value="{i}">tree {each["number"]}</option>' for i, each in enumerate(shown))
    found.data(
        "trees",
        shown,
        f'<label class="screen"><select id="tree-choice" aria-label="Tree">{options}</select>'
        '<button id="tree-in" type="button">Larger</button><button id="tree-out" type="button">Smaller</button>'
        "<span>Click a split to fold what is below it; drag to move.</span></label>"
        '<svg id="tree-view" role="img" aria-label="The chosen tree"></svg>',
    )
    return found


def node(model: Model, tree: Tree, index: int) -> list[Any]:
    """[label, detail, left child or 0, answer left, answer right]"""
    count = f"{int(tree.count[index]):,} rows"
    if tree.feature[index] < 0:
        value = ", ".join(shown_number(float(each)) for each in tree.value[index][:3])
        return [value + ", ..." * (tree.n_values > 3), count, 0, "", ""]
    detail = f"gain {shown_number(float(tree.gain[index]))}, {count}"
    return [question(model, tree, index), detail, int(tree.left_child[index]), *sides(model, tree, index)]


def question(model: Model, tree: Tree, index: int) -> str:
    """Such as age <= 36.5, or job in 6 of 14: clerk, sales, ..."""
    feature = int(tree.feature[index])
    name, last = shortened(model.column_name(feature)), last_left(model, tree, index)
    if last is not None:
        return f"{name} <= {last}"
    if tree.cat_set[index] < 0:
        threshold = float(tree.threshold[index])
        return f"{name} is a number" if threshold == float("inf") else f"{name} <= {shown_number(threshold)}"
    left = [shortened(str(each)) for each in left_categories(model, tree, index)[0]]
    of = len(model.categories.get(feature, ())) or "all"
    more = ", ..." if len(left) > MOST_CATEGORIES else ""
    return f"{name} in {len(left)} of {of}: {', '.join(left[:MOST_CATEGORIES])}{more}"
