"""Several outputs with a loss each: columns of y, or levels of a quantile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pvtree.kernels.team import Team
from pvtree.objectives.loss import Loss

if TYPE_CHECKING:
    from pvtree.comm import Communicator


class ManyTargets(Loss):
    """The sum of losses, the k-th of which sees the k-th score of each row."""

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses, self.n_outputs = list(losses), len(losses)
        self.y, self.weight = losses[0].y, losses[0].weight
        self.constant_hessian = losses[0].constant_hessian

    def of_output(self, output: int) -> Loss:
        return self.losses[output]

    def init_scores(self, comm: Communicator | None = None) -> np.ndarray:
        return np.concatenate([loss.init_scores(comm) for loss in self.losses])

    def raw_score(self, prediction: float) -> float:
        return self.losses[0].raw_score(prediction)

    def gradients(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        """Fill OUT ``grad`` and ``hess``, an output at a time."""
        for k, loss in enumerate(self.losses):
            loss.gradients(scores[k : k + 1], grad[k : k + 1], hess[k : k + 1], team)

    def total(self, moved: np.ndarray, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray) -> float:
        """The sum of the losses."""
        arrays = (moved, scores, grad, hess)
        return sum(loss.total(*(each[k : k + 1] for each in arrays)) for k, loss in enumerate(self.losses))
