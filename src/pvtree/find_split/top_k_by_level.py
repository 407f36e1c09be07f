"""top_k="auto": how many names a ballot has at each level of a tree, by what earlier trees cost the network there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# With more names more histograms are merged; with fewer, more attributes are in doubt afterwards, and proofs take more
# bytes and more collectives. Exact voting grows the same tree in any case, so workers are free to try. All of them see
# the cost of all, and choose the same.
_RUNGS = (1, 2, 3, 5, 8, 12, 20, 32, 50, 80, 128)
_FIRST_RUNG = 6  # the default of a fixed top_k
_MEMORY = 0.5  # the weight of older trees in an average: what is best changes as trees gain less
# How far from the best known rung to look, in successive trees.
_LOOKS = (0, 1, 0, -1)


class _Level:
    """What each rung has cost at one level."""

    def __init__(self) -> None:
        self.rung = _FIRST_RUNG
        self.cost: dict[int, float] = {}  # bytes and collectives per node, by rung: see ``ExactVoting._sent``

    def learn(self, rung: int, cost: float) -> None:
        before = self.cost.get(rung, cost)
        self.cost[rung] = _MEMORY * before + (1.0 - _MEMORY) * cost
        near = [r for r in (self.rung, self.rung - 1, self.rung + 1) if r in self.cost]
        self.rung = min(near, key=self.cost.__getitem__)


class TopKByLevel:
    """The names on a ballot at level 0, 1, ... of the next tree."""

    def __init__(self, top_k: int | str) -> None:
        self.fixed = None if top_k == "auto" else int(top_k)
        self.levels: list[_Level] = []
        self.n_trees = 0

    @property
    def first(self) -> int:
        return self[0]

    def __getitem__(self, level: int) -> int:
        return self.fixed if self.fixed is not None else _RUNGS[self._rung(level)]

    def _rung(self, level: int) -> int:
        best = self.levels[level].rung if level < len(self.levels) else _FIRST_RUNG
        return min(max(best + _LOOKS[self.n_trees % len(_LOOKS)], 0), len(_RUNGS) - 1)

    def learn(self, sent: np.ndarray, n_open: Sequence[int]) -> None:
        """Take in what each level of a tree cost all workers, and how many nodes were open there."""
        rungs = [self._rung(level) for level in range(len(sent))]
        self.levels += [_Level() for _ in range(len(sent) - len(self.levels))]
        for level, rung in enumerate(rungs):
            self.levels[level].learn(rung, float(sent[level]) / max(1, n_open[level]))
        self.n_trees += 1
