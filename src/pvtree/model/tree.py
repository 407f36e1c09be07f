"""A tree as immutable arrays, one entry per node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pvtree.errors import public
from pvtree.model.linear_leaves import LinearLeaves


@public
@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes in level order; a right child follows its left sibling, children come after their parents."""

    feature: np.ndarray  # int32 (n_nodes,); -1 for a leaf
    threshold: np.ndarray  # float64; x <= threshold goes left; at +inf all numbers go left, and NaN by default_left
    left_child: np.ndarray  # int32; 0 for a leaf
    default_left: np.ndarray  # uint8; 1 if NaN goes left at a numeric split
    cat_set: np.ndarray  # int32; -1 for a numeric split, else a row of cat_sets
    cat_sets: np.ndarray  # uint64 (n_cat_splits, 4); bit b is set if bin b goes left; bit 0: missing and unseen
    value: np.ndarray  # float64 (n_nodes, n_values); outputs of leaves, mean outputs of inner nodes
    gain: np.ndarray  # float64
    count: np.ndarray  # int64; number of training rows
    weight: np.ndarray  # float64; sum of hessians
    linear: LinearLeaves | None = None  # leaves that return linear functions; these trees have one value per node

    def __post_init__(self) -> None:
        for name, dtype in TREE_DTYPES.items():
            array: np.ndarray = np.ascontiguousarray(getattr(self, name), dtype).view()
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def n_nodes(self) -> int:
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        return int(np.count_nonzero(self.feature < 0))

    @property
    def n_values(self) -> int:
        return int(self.value.shape[1])

    def __repr__(self) -> str:
        return f"<Tree: {self.n_leaves} leaves>"

    def __eq__(self, other: object) -> bool:
        """Trees are equal if all their arrays are, to the last bit."""
        if not isinstance(other, Tree):
            return NotImplemented
        pairs = [(getattr(self, name), getattr(other, name)) for name in TREE_DTYPES]
        are_equal = all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)
        return are_equal and self.linear == other.linear

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Tree, (*(getattr(self, name) for name in TREE_DTYPES), self.linear)


TREE_DTYPES: dict[str, type] = {
    "feature": np.int32, "threshold": np.float64, "left_child": np.int32, "default_left": np.uint8,
    "cat_set": np.int32, "cat_sets": np.uint64, "value": np.float64, "gain": np.float64, "count": np.int64,
    "weight": np.float64,
}  # fmt: skip
