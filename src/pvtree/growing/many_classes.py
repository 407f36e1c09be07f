"""Trees of several columns of classes: one tree for all of them, as scikit-learn grows it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pvtree.binning.shard import Shard
from pvtree.comm.worker import Worker
from pvtree.growing.layouts import MAX_COPIES
from pvtree.growing.sampling import row_chances
from pvtree.growing.tree_maker import ClassTreeMaker, step_of
from pvtree.growing.tree_memory import GrownTree
from pvtree.kernels.constants import BLOCK
from pvtree.model.tree import Tree
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds

if TYPE_CHECKING:
    from pvtree.growing.strategy import Strategy

_NO_COPIES = np.empty(0, np.uint8)


def repeated(shard: Shard, n_times: int) -> Shard:
    """Every row as often as there are columns of classes, side by side."""
    data = shard.data
    n_blocks, n_rows, block = len(data.bins), shard.n_rows, int(BLOCK)
    bins = np.repeat(np.asarray(data.bins).reshape(n_blocks, n_rows, block), n_times, axis=1)
    bundles = data.bundles and data.bundles._replace(n_unusual=n_times * data.bundles.n_unusual)
    lengths, firsts = np.diff(shard.ids.start), shard.ids.start[:-1] + shard.ids.shift
    return replace(
        shard,
        data=data._replace(bins=bins.reshape(n_blocks, n_times * n_rows * block), bundles=bundles),
        y=np.zeros(n_times * n_rows),
        weight=None if shard.weight is None else np.repeat(shard.weight, n_times),
        ids=RowIds.of_runs((n_times * lengths).tolist(), (n_times * firsts).tolist(), n_times * shard.ids.n_all),
    )


class ManyClassTreeMaker(ClassTreeMaker):
    """A row counts once for each column, in the field of its class there.

    The sums of a node then hold the classes of all columns, and their entropy is the sum of the columns' entropies plus
    a constant per row, which cancels in gains: a gain is the mean of the columns' information gains.
    """

    # Sums of one class leave no entropy at all; those of a class in each column leave what rounding leaves.
    noise_share = 1e-12

    def __init__(
        self, shard: Shard, weights: str, params: Params, worker: Worker, strategy: Strategy, grown_on: Shard
    ) -> None:
        """``grown_on`` are the shard's rows, ``repeated``."""
        self.n_columns = n = len(params.target_sizes)
        self.first_class = np.cumsum([0, *params.target_sizes])
        self.plain_ids, self.label = shard.ids, (shard.y + self.first_class[:-1]).ravel()
        scaled = replace(
            params, min_child_samples=n * params.min_child_samples, min_child_weight=n * params.min_child_weight
        )
        super().__init__(grown_on, weights, scaled, worker, strategy)

    def make(
        self,
        label: np.ndarray,
        weight: np.ndarray,
        number: int,
        rows: np.ndarray | None = None,
        copies: np.ndarray = _NO_COPIES,
    ) -> tuple[GrownTree, Tree]:
        """As of one column; rows, weights and copies are those of the rows before they were repeated."""
        n, scale = self.n_columns, 1.0
        if self.weights == "real":
            weight, scale = self._rounded(weight, number, rows)
        all_rows = None if rows is None else (n * rows[:, None] + np.arange(n, dtype=np.uint32)).ravel()
        grown, tree = super().make(self.label, np.repeat(weight, n), number, all_rows, np.repeat(copies, n))
        counts = grown.sums[:, self.layout.n_planes :]
        of_columns = [
            counts[:, first:stop] for first, stop in zip(self.first_class, self.first_class[1:], strict=False)
        ]
        value = np.concatenate([each / each.sum(axis=1, keepdims=True) for each in of_columns], axis=1)
        return grown, replace(tree, value=value, count=tree.count // n, weight=scale * tree.weight / n)

    def _rounded(self, weight: np.ndarray, number: int, rows: np.ndarray | None) -> tuple[np.ndarray, float]:
        """Whole numbers of steps, and the step: a row must weigh the same in all columns, or that would be a gain."""
        counted = weight if rows is None else weight[rows]
        (largest,) = super()._largest([counted], np.empty(0, np.uint32))
        scale = step_of(largest, self.params.bootstrap, self.layout.limit[0])
        return np.floor(weight / scale + row_chances(self.params, number, self.plain_ids)), scale

    def _largest(self, columns: list[np.ndarray], row_ids: np.ndarray) -> list[float]:
        """The largest number of steps that a word takes: then a step is 1, and nothing is rounded once more."""
        return [float(self.layout.limit[0]) / (MAX_COPIES if self.params.bootstrap else 1)]
