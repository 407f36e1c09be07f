"""Where the nodes of a plotted tree stand, in inches: level by level, subtrees as close together as they can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pvtree.model.tree_graph import Drawn

NODE_FONT, EDGE_FONT = 9.0, 9.0  # points
LETTER, LINE_HEIGHT = 0.58 * NODE_FONT / 72, 1.25 * NODE_FONT / 72  # inches
BORDER = 0.2  # around the text of a node, on both sides together
APART = 0.14  # between neighbours of one level


class Layout(NamedTuple):
    """Centres (x, y) and sizes (width, height) of all nodes, (n_nodes, 2) each, and the size of the whole."""

    centres: np.ndarray
    sizes: np.ndarray
    whole: tuple[float, float]


def lay_out(drawn: Drawn, across: bool) -> Layout:
    """``across``: the root is on the left, otherwise on top."""
    lines = [label.split("\n") for label in drawn.labels]
    sizes = np.array([(LETTER * max(map(len, each)) + BORDER, LINE_HEIGHT * len(each) + BORDER) for each in lines])
    along, beside = (0, 1) if across else (1, 0)  # the coordinate of levels, and that of neighbours
    # A level is as wide as its widest node; between two levels there is room for the answers on the edges.
    n_levels = int(drawn.depth.max()) + 1
    widths = np.array([sizes[drawn.depth == level, along].max() for level in range(n_levels)])
    words = np.full(n_levels, 0.0)
    for parent, _, word in drawn.edges:
        need = LETTER * len(word) + 0.35 if across else 0.5
        words[drawn.depth[parent]] = max(words[drawn.depth[parent]], need)
    starts = np.concatenate([[0.0], np.cumsum(widths + words)[:-1]])
    centres = np.empty((len(lines), 2))
    centres[:, along] = (starts + widths / 2)[drawn.depth]
    extent = sizes[:, beside].copy()
    if not across:  # the answers stand right above the nodes that they lead to
        for _, child, word in drawn.edges:
            extent[child] = max(extent[child], LETTER * len(word))
    centres[:, beside] = _beside(drawn, extent)
    centres[:, beside] -= (centres[:, beside] - extent / 2).min()
    width, height = (centres + sizes / 2).max(axis=0).tolist()
    centres[:, 1] = height - centres[:, 1]  # the first one is on top
    return Layout(centres, sizes, (width, height))


def _beside(drawn: Drawn, extent: np.ndarray) -> np.ndarray:
    """The position across the levels: parents are halfway between their children, and no nodes of a level overlap.

    A subtree's contour is its lowest and highest border at each level, counted from its root (Reingold and Tilford).
    """
    children = {parent: child for parent, child, _ in drawn.edges[::2]}  # the left one; the right one follows it
    contours: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    shifts = np.zeros(len(extent))
    for node in reversed(range(len(extent))):  # children come after their parents
        low, high = np.array([-extent[node] / 2]), np.array([extent[node] / 2])
        if node in children:
            left = children[node]
            (low_left, high_left), (low_right, high_right) = contours.pop(left), contours.pop(left + 1)
            common = min(len(low_left), len(low_right))
            between = float((high_left[:common] - low_right[:common]).max()) + APART
            shifts[left], shifts[left + 1] = -between / 2, between / 2
            low = np.concatenate([low, _joined(low_left - between / 2, low_right + between / 2)])
            high = np.concatenate([high, _joined(high_right + between / 2, high_left - between / 2)])
        contours[node] = low, high
    for parent, child, _ in drawn.edges:
        shifts[child] += shifts[parent]
    return shifts


def _joined(near: np.ndarray, far: np.ndarray) -> np.ndarray:
    """The border of two subtrees side by side: that of the outer one, and below it that of the other."""
    return np.concatenate([near, far[len(near) :]])


def font_scale(available: Sequence[float], whole: Sequence[float]) -> float:
    """How much smaller texts must be if there is less room than the layout needs."""
    return float(np.clip(min(have / need for have, need in zip(available, whole, strict=True)), 0.3, 1.0))
