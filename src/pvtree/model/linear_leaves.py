"""Leaves that return a linear function of a row in place of a number (linear_tree)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.reading.sparse_rows import SparseRows

if TYPE_CHECKING:
    from pvtree.model.model import Model
    from pvtree.model.tree import Tree

ROWS_AT_ONCE = 2**14  # whose leaves and sums are in memory together
LINEAR_DTYPES: dict[str, type] = {
    "const": np.float64, "n_terms": np.int32, "feature": np.int32, "coef": np.float64
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class LinearLeaves:
    """A leaf with terms returns const + the sum of coef * x over its features, and its value if one is not finite."""

    const: np.ndarray  # float64 (n_nodes,)
    n_terms: np.ndarray  # int32 (n_nodes,); 0 for inner nodes and for leaves that return their value
    feature: np.ndarray  # int32 (sum of n_terms,): those of a leaf side by side, leaves in the order of nodes
    coef: np.ndarray  # float64, the same

    def __post_init__(self) -> None:
        for name, dtype in LINEAR_DTYPES.items():
            array: np.ndarray = np.ascontiguousarray(getattr(self, name), dtype).view()
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinearLeaves):
            return NotImplemented
        return all(getattr(self, name).tobytes() == getattr(other, name).tobytes() for name in LINEAR_DTYPES)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return LinearLeaves, tuple(getattr(self, name) for name in LINEAR_DTYPES)

    def table(self, values: np.ndarray) -> np.ndarray:
        """(n_nodes, most terms): the features or coefs of each node, then zeros."""
        most = int(self.n_terms.max(initial=0))
        table = np.zeros((len(self.n_terms), most), values.dtype)
        table[np.arange(most) < self.n_terms[:, None]] = values
        return table

    def terms(self, node: int) -> tuple[np.ndarray, np.ndarray]:
        """(features, coefs) of a node."""
        stop = int(self.n_terms[: node + 1].sum())
        own = slice(stop - int(self.n_terms[node]), stop)
        return self.feature[own], self.coef[own]


def refuse_linear(model: Model, what: str) -> None:
    """Raise if a tree of the model has linear leaves, which ``what`` does not support."""
    if any(tree.linear is not None for tree in model.trees):
        raise InvalidParameterError(f"{what} does not support linear_tree; train with linear_tree=False.")


def tree_outputs(tree: Tree, node: np.ndarray, X: np.ndarray | SparseRows) -> np.ndarray:
    """float64 (n,): what a tree adds to each row of X that stands on the leaf ``node``.

    Terms are added one after the other, so that every row gets the same bits wherever it is predicted.
    """
    out: np.ndarray = tree.value[node, 0]
    if tree.linear is None:
        return out
    if isinstance(X, SparseRows):
        columns = np.unique(tree.linear.feature)
        slot = X.slots(columns)
        for first, block in X.blocks_of(columns):
            rows = slice(first, first + len(block))
            _add_terms(tree.linear, node[rows], block, slot, out[rows])
    else:
        for first in range(0, len(node), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            _add_terms(tree.linear, node[rows], X[rows], None, out[rows])
    return out


def _add_terms(linear: LinearLeaves, node: np.ndarray, X: np.ndarray, slot: np.ndarray | None, out: np.ndarray) -> None:
    """Replace OUT out where a leaf has terms whose numbers are all finite."""
    rows = np.flatnonzero(linear.n_terms[node])
    at = node[rows]
    n_terms, total = linear.n_terms[at], linear.const[at]
    is_known = np.ones(len(rows), np.bool_)
    for k, (feature, coef) in enumerate(zip(linear.table(linear.feature).T, linear.table(linear.coef).T, strict=True)):
        column = feature[at] if slot is None else slot[feature[at]]
        x = np.where(k < n_terms, X[rows, column], 0.0).astype(np.float64)
        is_finite = np.isfinite(x)
        is_known &= is_finite
        total = total + coef[at] * np.where(is_finite, x, 0.0)
    out[rows[is_known]] = total[is_known]
