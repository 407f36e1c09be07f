"""What every loss offers to boosting: gradients and hessians with respect to raw scores, and the initial scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.kernels.elementary import log
from pvtree.kernels.objectives import gradients as kernels
from pvtree.kernels.team import Team
from pvtree.objectives.fixed_point import Term, exact_sum

if TYPE_CHECKING:
    from pvtree.comm import Communicator

SMALLEST_PROBABILITY = 1e-15  # the prior of a class that does not occur, which avoids a score of -inf


class Loss:
    """One objective on one set of rows."""

    n_outputs: int = 1
    constant_hessian: bool = False  # True: the hessian is the row's weight, or 1
    iteration: int = 0  # set before each call of ``gradients``, for losses that draw random numbers
    numbers: np.ndarray | None = None  # the rows' numbers in the whole data, which these numbers depend on
    comm: Communicator | None = None  # connects the workers whose rows belong to one sum of the gradients
    renewal_level: float | None = None  # a leaf returns this quantile of its residuals y - score; None: -G / H

    def __init__(self, y: np.ndarray, weight: np.ndarray | None = None) -> None:
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        self.weight = None if weight is None else np.ascontiguousarray(weight, dtype=np.float64)

    def of_output(self, output: int) -> Loss:
        """The loss whose residuals and quantiles the leaves of this output return."""
        return self

    def init_scores(self, comm: Communicator | None = None) -> np.ndarray:
        """The best constant score per output, independent of the order of rows and of which worker holds them."""
        return np.zeros(self.n_outputs)

    @property
    def quantile_weight(self) -> np.ndarray | None:
        """The weights of the rows in quantiles."""
        return self.weight

    def raw_score(self, prediction: float) -> float:
        """The raw score that stands for this prediction."""
        return prediction

    def gradients(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        """Fill OUT ``grad`` and ``hess``, multiplied by the weights."""
        self._fill(scores, grad, hess, team)
        if self.weight is not None:
            team.for_blocks(kernels.multiply_by_weight, self.y.size, self.weight, grad, hess)

    def _fill(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        raise NotImplementedError

    def total(self, moved: np.ndarray, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray) -> float:
        """The loss of the scores ``moved``, summed over this worker's rows or queries, in any units.

        ``grad`` and ``hess`` are those at ``scores``; of a custom loss nothing else is known.
        """
        losses, weight = self._losses(moved)
        return exact_sum(losses if weight is None else losses * weight)

    def _losses(self, scores: np.ndarray) -> Term:
        raise NotImplementedError


def log_odds(probability: float) -> float:
    probability = min(max(probability, SMALLEST_PROBABILITY), 1.0 - SMALLEST_PROBABILITY)
    return float(log(probability) - log(1.0 - probability))
