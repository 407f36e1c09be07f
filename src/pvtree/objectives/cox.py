"""Cox's partial likelihood: each event against all rows that were still at risk, whichever worker has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.kernels.objectives.metrics import negative_logs
from pvtree.kernels.objectives.row_losses import exps
from pvtree.kernels.team import Team, in_pieces
from pvtree.objectives.fixed_point import Term, exact_mean
from pvtree.objectives.loss import Loss

if TYPE_CHECKING:
    from pvtree.comm import Communicator


class RiskSets:
    """The times of all workers' rows in ascending order. A row is at risk until its time, whether an event or not.

    y is the time of an event, or minus the time until which a row was observed without one. Sums run over the rows of
    all workers in this order, so their bits do not depend on who has which rows.
    """

    def __init__(
        self,
        y: np.ndarray,
        weight: np.ndarray | None,
        numbers: np.ndarray | None = None,
        comm: Communicator | None = None,
    ) -> None:
        self.comm = None if comm is None or comm.size == 1 else comm
        own = np.arange(y.size) if numbers is None else numbers
        by_rank = [own] if self.comm is None else self.comm.allgather(own, "scores")
        all_y = self._gathered(y)
        self.order = np.lexsort((np.concatenate(by_rank), np.abs(all_y)))
        # The places of this worker's rows among the sorted ones.
        place = np.empty(len(all_y), np.int64)
        place[self.order] = np.arange(len(all_y))
        before = 0 if self.comm is None else sum(map(len, by_rank[: self.comm.rank]))
        self.place = place[before : before + y.size]
        self.weight = self._gathered(np.ones(y.size) if weight is None else weight)[self.order]
        sorted_y = all_y[self.order]
        self.is_event, time = sorted_y > 0.0, np.abs(sorted_y)
        # Rows of the same time share the sums of the first and those of the last of them.
        self.first = np.searchsorted(time, time, side="left")
        self.last = np.searchsorted(time, time, side="right") - 1

    def _gathered(self, values: np.ndarray) -> np.ndarray:
        """The values of all workers, in the order of their ranks."""
        if self.comm is None:
            return values
        return np.concatenate(self.comm.allgather(np.ascontiguousarray(values), "scores"))

    def at_risk(self, score: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Of all rows in order: e^(score - top), the sum of weight * e^(score - top) of the rows at risk, and top."""
        sorted_score = self._gathered(score)[self.order]
        top = float(sorted_score.max()) if len(sorted_score) else 0.0
        power = np.empty(len(sorted_score))
        in_pieces(exps, len(power), sorted_score - top, power)
        from_here = np.cumsum((self.weight * power)[::-1])[::-1]
        return power, from_here[self.first], top


class Cox(Loss):
    """The raw score is the logarithm of a row's hazard relative to the others. Ties by Breslow's method."""

    def _fill(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        sets = self._risk_sets()
        power, risk, _ = sets.at_risk(scores[0])
        events = np.where(sets.is_event, sets.weight, 0.0)
        # Sums over all events up to a row's time of weight / risk and weight / risk^2.
        first, second = (np.cumsum(events / risk**k)[sets.last] for k in (1, 2))
        grad[0] = (power * first - sets.is_event)[sets.place]
        hess[0] = np.maximum(power * first - sets.weight * power * power * second, 0.0)[sets.place]

    def _risk_sets(self) -> RiskSets:
        if not hasattr(self, "_sets"):
            self._sets = RiskSets(self.y, self.weight, self.numbers, self.comm)
        return self._sets

    def _losses(self, scores: np.ndarray) -> Term:
        return partial_log_likelihoods(self._risk_sets(), self.y, scores[0]), self.weight


def partial_log_likelihoods(sets: RiskSets, y: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Of each event, minus the logarithm of its share of the hazard of all rows at risk; 0 without an event."""
    _, risk, top = sets.at_risk(score)
    negative = np.empty(len(risk))
    in_pieces(negative_logs, len(risk), risk, 0.0, negative)
    return np.where(y > 0.0, top - score - negative[sets.place], 0.0)


def mean_negative_log_likelihood(
    y: np.ndarray, score: np.ndarray, weight: np.ndarray | None, comm: Communicator | None = None
) -> float:
    """The mean over the events of all workers, by weight; NaN without events."""
    columns = [y, score, np.ones(y.size) if weight is None else weight]
    if comm is not None and comm.size > 1:
        columns = [np.concatenate(comm.allgather(np.ascontiguousarray(each), "metrics")) for each in columns]
    # In an order that depends on the rows alone, so that sums of any partition have the same bits.
    order = np.lexsort((columns[2], columns[1], columns[0] > 0.0, np.abs(columns[0])))
    y, score, weight = (each[order] for each in columns)
    losses = partial_log_likelihoods(RiskSets(y, weight), y, score)
    return exact_mean(losses[y > 0.0], weight[y > 0.0])
