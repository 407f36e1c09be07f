"""The section with the trees themselves, which page.js draws, folds and zooms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pvtree.front.report.page import Section
from pvtree.front.report.subject import Subject
from pvtree.model.number_text import shown_number
from pvtree.model.tree_graph import question, sides

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
    asked = question(model, tree, index, "{:.6g}".format, MOST_CATEGORIES)
    return [asked, detail, int(tree.left_child[index]), *sides(model, tree, index)]
