"""Trees as text for people, one line per node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError, InvalidTypeError

if TYPE_CHECKING:
    from pvtree.model.model import Model
    from pvtree.model.tree import Tree

MAX_SHOWN = 8  # categories shown per split
MAX_INDENT = 40  # levels; without a limit, lines of a degenerate tree would be as long as it has nodes
MAX_WORD = 100  # characters of a name or category; one may appear in every line
NUMBERED = "column {}"  # the name of a column without one


def tree_text(model: Model, number: int) -> str:
    """Tree ``number``, counted from 0. Each line has the condition under which a row reaches its node."""
    tree = find_tree(model, number)
    lines = [f"tree {number}: {tree.n_leaves} leaves, {int(tree.count[0])} rows"]
    return "\n".join([*lines, *_lines(model, tree)])


def find_tree(model: Model, number: int) -> Tree:
    if not isinstance(number, int | np.integer) or isinstance(number, bool):
        raise InvalidTypeError(f"The number of a tree must be an integer, got {number!r}.")
    if not 0 <= number < len(model.trees):
        raise InvalidParameterError(f"There is no tree {number}; the model has trees 0 to {len(model.trees) - 1}.")
    return model.trees[number]


def shortened(word: str) -> str:
    return word if len(word) <= MAX_WORD else f"{word[:MAX_WORD]}..."


def left_categories(model: Model, tree: Tree, node: int) -> tuple[list[Any], bool]:
    """The categories that go left at a categorical split, and whether missing and other ones go left too."""
    bins = _bins(tree.cat_sets[tree.cat_set[node]])
    labels = model.categories.get(int(tree.feature[node]))
    # A hand-made model may have no labels; its categories are bin numbers.
    named = [labels[b - 1] for b in bins if 0 < b <= len(labels)] if labels else [b for b in bins if b > 0]
    return list(named), 0 in bins


def last_left(model: Model, tree: Tree, node: int) -> str | None:
    """The last category that goes left at a split that compares bins with a threshold; None at any other split.

    Missing and other categories are bin 0, so they go left with it.
    """
    labels = model.categories.get(int(tree.feature[node]))
    if not labels or tree.cat_set[node] >= 0:
        return None
    place = int(np.clip(tree.threshold[node], 0, len(labels)))
    return repr(labels[place - 1]) if place else "missing or other"


def _lines(model: Model, tree: Tree) -> Iterator[str]:
    """The lines in depth-first order, without recursion, because leaf-wise trees may be deep."""
    waiting = [(0, 0, "")]
    while waiting:
        node, depth, condition = waiting.pop()
        indent = "  " * depth if depth <= MAX_INDENT else f"{'  ' * MAX_INDENT}[level {depth}] "
        if tree.feature[node] < 0:
            yield f"{indent}{condition}-> {_returned(model, tree, node)}  ({int(tree.count[node])} rows)"
            continue
        left = int(tree.left_child[node])
        if condition:
            yield f"{indent}{condition}(gain {tree.gain[node]:.6g}, {int(tree.count[node])} rows)"
        below = depth + bool(condition)
        to_left, to_right = _conditions(model, tree, node)
        waiting += [(left + 1, below, to_right), (left, below, to_left)]


def _returned(model: Model, tree: Tree, node: int) -> str:
    """What a leaf returns: numbers, or a linear function of the row."""
    if tree.linear is None or tree.linear.n_terms[node] == 0:
        return ", ".join(f"{each:.6g}" for each in tree.value[node])
    features, coefs = tree.linear.terms(node)
    names = [shortened(model.column_name(feature, NUMBERED)) for feature in features[:MAX_SHOWN].tolist()]
    terms = [f"{coef:+.6g} * {name}" for coef, name in zip(coefs.tolist(), names, strict=False)]
    more = ["+ ..."] if len(features) > MAX_SHOWN else []
    return " ".join([f"{tree.linear.const[node]:.6g}", *terms, *more])


def _conditions(model: Model, tree: Tree, node: int) -> tuple[str, str]:
    feature = int(tree.feature[node])
    name = shortened(model.column_name(feature, NUMBERED))
    last = last_left(model, tree, node)
    if last is not None:
        return f"{name} <= {last}  ", f"{name} > {last}  "
    if tree.cat_set[node] < 0:
        threshold, missing_left = float(tree.threshold[node]), bool(tree.default_left[node])
        if np.isinf(threshold) and threshold > 0:  # splits off missing values
            sides = [f"{name} is a number", f"{name} is missing"]
            return tuple(f"{side}  " for side in (sides if not missing_left else sides[::-1]))  # type: ignore[return-value]
        note = [" or missing", ""] if missing_left else ["", " or missing"]
        return f"{name} <= {threshold:.6g}{note[0]}  ", f"{name} > {threshold:.6g}{note[1]}  "
    named, others_left = left_categories(model, tree, node)
    shown = ", ".join(shortened(repr(label)) for label in named[:MAX_SHOWN])
    shown += f" and {len(named) - MAX_SHOWN} more" * (len(named) > MAX_SHOWN)
    other = " or other" if others_left else ""
    return f"{name} in {{{shown}}}{other}  ", f"{name} not in {{{shown}}}{' or other' if not other else ''}  "


def _bins(words: np.ndarray) -> list[int]:
    bits = np.unpackbits(np.ascontiguousarray(words, "<u8").view(np.uint8), bitorder="little")
    found: list[int] = np.flatnonzero(bits).tolist()
    return found
