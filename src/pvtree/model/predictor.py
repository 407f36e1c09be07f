"""Trees packed for prediction: stacked once, then run over blocks of rows by a team of threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidDataError
from pvtree.kernels.predict import trees as kernels
from pvtree.kernels.predict.intrinsics import GROUP
from pvtree.kernels.team import Team
from pvtree.model.linear_leaves import ROWS_AT_ONCE, tree_outputs
from pvtree.reading.sparse_rows import SparseRows
from pvtree.reading.sparse_tables import SparseTable
from pvtree.reading.tables import Columns, is_sparse

if TYPE_CHECKING:
    from pvtree.model.tree import Tree

BLOCK_BYTES = 128 * 1024  # a block of rows fits into the L2 cache of any processor of the last ten years
MIN_THREAD_WORK = 2**16  # rows x trees below which a second thread costs more than it saves
NODES_AT_ONCE = 2**16  # nodes that are prepared in one step
MANY_NODES = 2**10  # trees with more nodes take longer per row
Rows = np.ndarray | SparseRows
_NO_LEAVES, _NO_NUMBERS = np.empty((0, 0), np.int32), np.empty(0, np.int32)


class Predictor:
    """A sequence of trees, ready to run. Tree t adds to output t % n_outputs, or to K outputs if it has K values."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        self.n_trees = len(trees)
        self._trees, self._linear = trees, np.array([tree.linear is not None for tree in trees], np.bool_)
        self.max_nodes = max((tree.n_nodes for tree in trees), default=1)
        sizes = np.array([tree.n_nodes for tree in trees], np.int64)
        roots = np.cumsum(sizes) - sizes
        feature = _stack([tree.feature for tree in trees], np.int32)
        self._roots, self._sizes, self._feature = roots, sizes, feature
        self.columns, slot_of = _number_columns(feature)
        groups = BLOCK_BYTES // 8 // GROUP // max(1, self.columns.size)
        self.block_rows = GROUP * min(8, max(1, groups))
        link = _links(trees, roots, sizes, feature, slot_of)
        threshold = _stack([tree.threshold for tree in trees], np.float64)

        split_shape = (self.n_trees, kernels.N_SPLITS)
        tops = (
            np.empty(split_shape, np.float64),  # threshold, or the set of a categorical split
            np.empty(split_shape, np.uint64),  # exits that remain when a row goes right
            np.empty(split_shape, np.int32),  # slot
            np.empty(
                (self.n_trees, 4), np.int32
            ),  # ends of the three groups of splits; whether the tree continues below
            np.empty((self.n_trees, kernels.N_EXITS), np.uint32),  # the node at each exit
        )
        count = _stack([tree.count for tree in trees], np.int64)
        kernels.pack_tops(roots, threshold, link, count, *tops)
        self.n_values = trees[0].n_values if trees else 1
        self._packed = (
            *tops,
            threshold,
            link,
            _stack([tree.cat_sets for tree in trees], np.uint64, (0, 4)),
            _stack([tree.value for tree in trees], np.float64, (0, self.n_values)),
        )

    @cached_property
    def _leaf_number(self) -> np.ndarray:
        """int32 (nodes,): a leaf's number among the leaves of its tree."""
        is_leaf = self._feature < 0
        leaves_before: np.ndarray = np.cumsum(is_leaf) - is_leaf  # over all trees
        number: np.ndarray = leaves_before - np.repeat(leaves_before[self._roots], self._sizes)
        return number.astype(np.int32)

    def add_outputs(self, X: Rows, out: np.ndarray, first: int, end: int, team: Team) -> None:
        """Add trees first..end to OUT out, float64 C-contiguous (n_outputs, n)."""
        if out.shape[1] != X.shape[0] or out.shape[0] < self.n_values:
            raise InvalidDataError(
                f"scores have shape {out.shape}, but X has {X.shape[0]} rows and the trees have "
                f"{self.n_values} values; give a score for each row and value."
            )
        if self._linear[first:end].any():
            self._add_linear(X, out, first, end, team)
        else:
            self._run(X, out, _NO_LEAVES, first, end, team)

    def _add_linear(self, X: Rows, out: np.ndarray, first: int, end: int, team: Team) -> None:
        """The same where some trees have linear leaves: first the leaves of some rows, then tree after tree."""
        for start in range(0, X.shape[0], ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            some = X[rows]
            leaves = self.leaves(some, first, end, team)
            for number in range(first, end):
                tree = self._trees[number]
                node = np.flatnonzero(tree.feature < 0)[leaves[:, number - first]]
                out[number % len(out), rows] += tree_outputs(tree, node, some)

    def leaves(self, X: Rows, first: int, end: int, team: Team) -> np.ndarray:
        """int32 (n, end - first): each row's leaf in trees first..end, numbered in level order."""
        leaves = np.empty((X.shape[0], max(0, end - first)), np.int32)
        if leaves.size:
            self._run(X, np.empty((1, 0)), leaves, first, end, team)
        return leaves

    def _run(self, X: Rows, out: np.ndarray, leaves: np.ndarray, first: int, end: int, team: Team) -> None:
        if self.columns.size and self.columns[-1] >= X.shape[1]:
            raise InvalidDataError(
                f"X has {X.shape[1]} columns, but the trees read column {self.columns[-1]}; "
                "give the columns that they were trained on."
            )
        if X.shape[0] and end > first:
            # A tree may be half as deep as it has nodes, and a row may go all the way down.
            min_block = 1 + MIN_THREAD_WORK // (end - first) // (1 + self.max_nodes // MANY_NODES)
            run = self._run_sparse if isinstance(X, SparseRows) else self._run_dense
            team.for_blocks(run, X.shape[0], X, self.columns, out, leaves, first, end, min_block=min_block)

    def _run_sparse(
        self, start: int, stop: int, X: SparseRows, columns: np.ndarray, out: np.ndarray, leaves: np.ndarray,
        first: int, end: int,
    ) -> None:  # fmt: skip
        slots = np.arange(columns.size)
        for at, block in X[start:stop].blocks_of(columns):
            rows = slice(start + at, start + at + len(block))
            scores = np.ascontiguousarray(out[:, rows])
            self._run_dense(0, len(block), block, slots, scores, leaves[rows], first, end)
            out[:, rows] = scores

    def _run_dense(
        self, start: int, stop: int, X: np.ndarray, columns: np.ndarray, out: np.ndarray, leaves: np.ndarray,
        first: int, end: int,
    ) -> None:  # fmt: skip
        """``columns[i]`` is the column of X that holds feature ``self.columns[i]``."""
        source = np.array([X.__array_interface__["data"][0], X.strides[0], X.strides[1], X.itemsize], np.int64)
        numbers = self._leaf_number if leaves.size else _NO_NUMBERS
        kernels.run_trees(
            start, stop, source, columns, self.block_rows, first, end, *self._packed, numbers, out, leaves
        )


def first_scores(init_score: np.ndarray, n_rows: int, own: np.ndarray | None = None) -> np.ndarray:
    """(n_outputs, n_rows): a model's initial score for every row, plus the rows' ``own`` (n_rows, n_outputs)."""
    scores = np.repeat(init_score[:, None], n_rows, axis=1)
    if own is None:
        return scores
    if own.shape[1] != len(init_score):
        raise InvalidDataError(
            f"init_score (base_margin) has {own.shape[1]} score(s) per row, but the model has {len(init_score)}; give "
            "one column for each output."
        )
    return np.ascontiguousarray(scores + own.T)


def as_rows(X: Any, n_features: int) -> Rows:
    """X as sparse rows, or as a float32 or float64 matrix in any memory order, without a copy if it is one already."""
    if not is_sparse(X) and not isinstance(X, SparseRows):
        X = np.asarray(X)
    if len(X.shape) != 2 or X.shape[1] != n_features:
        raise InvalidDataError(
            f"X has shape {X.shape}, but the model expects (n_rows, {n_features}); "
            "give the columns that it was trained on."
        )
    if is_sparse(X):
        X = SparseTable.read(X).encode(Columns(n_features))
    if X.dtype != np.float64 and X.dtype != np.float32:  # or a foreign byte order
        X = X.astype(np.float64)
    return X  # type: ignore[no-any-return]


def team_for(n_rows: int, n_trees: int, n_threads: int) -> Team:
    """A team with no more threads than there is work for: starting one takes as long as some thousand predictions."""
    return Team(min(n_threads, max(1, n_rows * n_trees // MIN_THREAD_WORK)))


def _number_columns(feature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the features that some split reads, in rising order; the place of every feature among them, last 0 for leaves).

    By a table, because sorting the nodes would take most of the time.
    """
    is_read = np.zeros(int(feature.max(initial=-1)) + 2, np.bool_)
    is_read[feature] = True  # leaves, at -1, mark the last entry
    is_read[-1] = False
    place = np.cumsum(is_read, dtype=np.int32) - np.int32(1)
    place[-1] = 0
    return np.flatnonzero(is_read), place


def _links(
    trees: Sequence[Tree], roots: np.ndarray, sizes: np.ndarray, feature: np.ndarray, slot_of: np.ndarray
) -> np.ndarray:
    """int32 (nodes, 4): what a walk needs of each node. Only features that some split reads have a slot in a block.

    Some trees at a time, because memory that is new to the process costs more than all the rest.
    """
    link = np.empty((feature.size, 4), np.int32)
    left_child = _stack([tree.left_child for tree in trees], np.int32)
    default_left = _stack([tree.default_left for tree in trees], np.uint8)
    n_sets = np.array([len(tree.cat_sets) for tree in trees], np.int64)
    first_set = np.cumsum(n_sets) - n_sets
    first = 0
    while first < len(trees):
        end = max(first + 1, int(np.searchsorted(roots, roots[first] + NODES_AT_ONCE)))
        some, nodes = slice(first, end), slice(int(roots[first]), int(roots[end - 1] + sizes[end - 1]))
        part, is_inner = link[nodes], feature[nodes] >= 0
        part[:, kernels.SLOT] = slot_of[feature[nodes]]
        part[:, kernels.LEFT] = (left_child[nodes] + np.repeat(roots[some], sizes[some])) * is_inner
        part[:, kernels.NAN_RIGHT] = default_left[nodes] == 0
        part[:, kernels.CAT_SET] = -1
        if n_sets[some].any():
            cat_set = np.concatenate([tree.cat_set for tree in trees[some]])
            offset = np.repeat(first_set[some], sizes[some])
            part[:, kernels.CAT_SET] = np.where(cat_set < 0, -1, cat_set + offset)
        first = end
    return link


def _stack(arrays: list[np.ndarray], dtype: type, empty_shape: tuple[int, ...] = (0,)) -> np.ndarray:
    if not arrays:
        return np.empty(empty_shape, dtype)
    whole = _whole(arrays)
    stacked: np.ndarray = (np.concatenate(arrays) if whole is None else whole).astype(dtype, copy=False).view()
    stacked.flags.writeable = False  # as those of binary files are: numba would compile kernels for both
    return stacked


def _whole(arrays: list[np.ndarray]) -> np.ndarray | None:
    """The array that these are consecutive parts of, as in models from binary files; None if they are not."""
    first, base = arrays[0], arrays[0].base
    if len(arrays) == 1:
        return first
    if base is None or not first.flags.c_contiguous:
        return None
    at = first.__array_interface__["data"][0]
    for array in arrays:
        is_next = array.base is base and array.__array_interface__["data"][0] == at
        if not is_next or array.dtype != first.dtype or array.shape[1:] != first.shape[1:]:
            return None
        at += array.nbytes
    length = sum(len(array) for array in arrays)
    return np.lib.stride_tricks.as_strided(first, (length, *first.shape[1:]), first.strides, writeable=False)
