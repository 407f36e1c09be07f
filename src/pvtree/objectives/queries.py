"""The queries of a ranking task: groups of consecutive rows, their labels, and how well scores order them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pvtree.errors import InvalidDataError
from pvtree.kernels.objectives import ranking
from pvtree.kernels.objectives.ranking_metrics import average_precisions, precisions
from pvtree.kernels.team import in_pieces


class Queries:
    """The documents of all queries; ``group`` holds the sizes of the queries in the order of rows."""

    def __init__(self, y: np.ndarray, group: np.ndarray | None, label_gain: Sequence[float] = ()) -> None:
        """``label_gain`` is the gain of each label; by default 2^label - 1."""
        self.gain_of = 2.0 ** np.arange(ranking.MAX_LABELS) - 1.0
        if len(label_gain):  # kernels look up any label that there may be
            self.gain_of = np.full(ranking.MAX_LABELS, float(label_gain[-1]))
            self.gain_of[: len(label_gain)] = label_gain
        self.label = _relevance_labels(y)
        self.bounds = _query_bounds(group, y.size)  # (n_queries + 1,)
        sizes = np.diff(self.bounds)
        self.discount = np.empty(int(sizes.max(initial=0)))  # 1 / log2(2 + position)
        ranking.fill_discounts(self.discount)
        # int32 positions inside the query. Kept between calls, because the next order is almost the same.
        self.order = (np.arange(y.size) - np.repeat(self.bounds[:-1], sizes)).astype(np.int32)

    def __len__(self) -> int:
        return self.bounds.size - 1

    def sort(self, start: int, stop: int, score: np.ndarray) -> None:
        """Sort ``order`` of queries start..stop by descending score, ties in the order of rows."""
        ranking.sort_documents(start, stop, self.bounds, score, self.order)

    def ideal_dcgs(self, level: int) -> np.ndarray:
        """DCG@level of each query's best order."""
        out = np.empty(len(self))
        in_pieces(ranking.ideal_dcgs, len(self), self.bounds, self.label, self.gain_of, level, self.discount, out)
        return out

    def ndcgs(self, score: np.ndarray, level: int) -> np.ndarray:
        """NDCG@level of each query, 1 if it has no relevant document."""
        in_pieces(self.sort, len(self), score)
        out = self.ideal_dcgs(level)
        arrays = self.bounds, self.label, self.gain_of, self.order
        in_pieces(ranking.ndcgs, len(self), *arrays, level, self.discount, out)
        return out

    def average_precisions(self, score: np.ndarray, level: int) -> np.ndarray:
        """Average precision@level of each query, 1 if it has no relevant document."""
        return self._measured(average_precisions, score, level)

    def precisions(self, score: np.ndarray, level: int) -> np.ndarray:
        """Precision@level of each query."""
        return self._measured(precisions, score, level)

    def _measured(self, kernel: Callable[..., None], score: np.ndarray, level: int) -> np.ndarray:
        in_pieces(self.sort, len(self), score)
        out = np.empty(len(self))
        in_pieces(kernel, len(self), self.bounds, self.label, self.order, level, out)
        return out

    def weights(self, weight: np.ndarray) -> np.ndarray:
        """The weight of each query: the mean of its rows' weights."""
        return np.add.reduceat(weight, self.bounds[:-1]) / np.diff(self.bounds)


def _relevance_labels(y: np.ndarray) -> np.ndarray:
    """Relevance labels as int64, which index the gains 2^label - 1."""
    top = ranking.MAX_LABELS - 1
    # Written as a negation so that NaN fails too.
    if y.size and not (y.min() >= 0 and y.max() <= top and (y == np.floor(y)).all()):
        raise InvalidDataError(
            f"Ranking needs whole relevance labels from 0 to {top} in y: map the labels to this range."
        )
    return y.astype(np.int64)


def _query_bounds(group: np.ndarray | None, n_rows: int) -> np.ndarray:
    """The first row of each query, then the number of rows."""
    if group is None:
        raise InvalidDataError("Ranking needs the rows of each query: give group (sizes) or qid.")
    bounds = np.concatenate(([0], np.cumsum(group, dtype=np.int64)))
    if bounds[-1] != n_rows or (np.diff(bounds) < 1).any():
        raise InvalidDataError(
            f"group must hold positive sizes that add up to the {n_rows} rows, but they add up to {bounds[-1]}: "
            "give one size per query, in the order of the rows."
        )
    return bounds
