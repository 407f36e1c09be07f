"""What a document gains by the position where it was shown, learned beside the ranking and left out of the model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pvtree.objectives.fixed_point import exact_sums

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.parameters.params import Params

_LEAST_CURVATURE = 0.001  # is added to a position's hessians


class PositionBias:
    """A number for each position, which is added to the scores of the documents shown there while they train.

    After every iteration it takes one step of Newton's method, by sums over the rows of all workers.
    """

    def __init__(self, position: np.ndarray, params: Params) -> None:
        """``position`` holds whole numbers from 0 up."""
        self.position = position.astype(np.int64)
        self.ridge, self.rate = params.lambdarank_position_bias_regularization, params.learning_rate
        self.order = np.argsort(self.position, kind="stable")
        self.value: np.ndarray | None = None  # (n_positions,), once all workers have told their positions

    def of_rows(self, comm: Communicator | None) -> np.ndarray:
        """Each row's bias."""
        if self.value is None:
            n = np.array([self.position.max(initial=-1) + 1])
            self.value = np.zeros(
                int(n[0] if comm is None or comm.size == 1 else comm.allreduce(n, "scores", "max")[0])
            )
        return self.value[self.position]

    def move(self, grad: np.ndarray, hess: np.ndarray, comm: Communicator | None) -> None:
        """One step, from the gradients that the rows have with their biases."""
        assert self.value is not None  # of_rows comes first
        bounds = np.searchsorted(self.position[self.order], np.arange(len(self.value) + 1)).tolist()

        def arrays() -> Iterator[np.ndarray]:
            for first, stop in pairwise(bounds):
                rows = self.order[first:stop]
                yield from (grad[rows], hess[rows])

        sums = exact_sums(arrays, comm, "scores")
        (g, n), (h, _) = (np.array(each).T for each in (sums[::2], sums[1::2]))
        slope = -g - self.ridge * n * self.value
        self.value = self.value + self.rate * slope / (np.abs(h + self.ridge * n) + _LEAST_CURVATURE)
