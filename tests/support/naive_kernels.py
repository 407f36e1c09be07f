"""What prediction computes, said plainly, and room for messages: what tests compare with and write to."""

from __future__ import annotations

from typing import Any

import numpy as np


def find_leaf_naive(tree: Any, row: Any) -> int:
    """The node number of one row's leaf."""
    node = 0
    while tree.feature[node] >= 0:
        x = float(row[tree.feature[node]])
        if tree.cat_set[node] >= 0:
            code = int(x) if 0 <= x < 256 else 0
            goes_left = bool(int(tree.cat_sets[tree.cat_set[node]][code // 64]) >> (code % 64) & 1)
        elif x != x:
            goes_left = bool(tree.default_left[node])
        else:
            goes_left = x <= tree.threshold[node]
        node = int(tree.left_child[node]) + (not goes_left)
    return node


def message_words(n_bits: int) -> np.ndarray:
    """Room to write up to so many bits. It need not be cleared before it is used again."""
    return np.zeros(n_bits // 64 + 2, np.uint64)
