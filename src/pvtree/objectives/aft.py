"""Accelerated failure times: the logarithm of a time is the score plus noise, and of many rows only bounds are known.

Elementary functions are pvtree's own (ADR 0005), so gradients have the same bits everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pvtree.errors import InvalidDataError
from pvtree.kernels.objectives.metrics import negative_logs
from pvtree.kernels.objectives.row_losses import exps
from pvtree.kernels.team import Team, in_pieces
from pvtree.objectives.fixed_point import Term, exact_mean
from pvtree.objectives.loss import Loss
from pvtree.objectives.normal_tails import upper_tail
from pvtree.reading.targets import LARGEST

if TYPE_CHECKING:
    from pvtree.comm import Communicator

LIMIT = 15.0  # of gradients and hessians, as in XGBoost
LEAST_HESSIAN = 1e-16
LEAST = 1e-300  # of a probability in a logarithm or a quotient
HIGHEST, HIGHEST_EXTREME = 35.0, 6.0  # of z: densities farther away are 0 in floating point
_ROOT_2_PI = 2.5066282746310002


class Density(NamedTuple):
    """Of the noise at some z: the density, its slope, and the probabilities of less and of more."""

    value: np.ndarray
    slope: np.ndarray
    below: np.ndarray
    above: np.ndarray


def density(distribution: str, z: np.ndarray) -> Density:
    """The standard normal, logistic or extreme-value (minimum) distribution."""
    if distribution == "normal":
        value = _exp(-0.5 * z * z) / _ROOT_2_PI
        tail = upper_tail(np.abs(z), value)
        return Density(value, -z * value, np.where(z < 0.0, tail, 1.0 - tail), np.where(z < 0.0, 1.0 - tail, tail))
    if distribution == "logistic":
        power = _exp(-np.abs(z))
        value, less, more = power / (1.0 + power) ** 2, power / (1.0 + power), 1.0 / (1.0 + power)
        below, above = np.where(z < 0.0, less, more), np.where(z < 0.0, more, less)
        return Density(value, value * (above - below), below, above)
    power = _exp(np.minimum(z, 100.0))
    above = _exp(-power)
    # 1 - e^-w loses digits where w is small.
    below = np.where(power < 1e-5, power * (1.0 - 0.5 * power), 1.0 - above)
    return Density(power * above, (1.0 - power) * power * above, below, above)


class FailureTimes(Loss):
    """y is a time, or (lower, upper) bounds of one; an upper bound of LARGEST stands for infinity."""

    def __init__(self, y: np.ndarray, weight: np.ndarray | None, distribution: str, scale: float) -> None:
        super().__init__(y, weight)
        self.distribution, self.scale = distribution, scale
        self.bounds = Bounds.of(self.y)

    def init_scores(self, comm: Communicator | None = None) -> np.ndarray:
        lower, upper = self.bounds.lower_log, self.bounds.upper_log
        middle = np.where(np.isinf(lower), upper, np.where(np.isinf(upper), lower, 0.5 * (lower + upper)))
        middle = np.where(np.isinf(middle), 0.0, middle)
        return np.array([exact_mean(middle, self.weight, comm)])

    def raw_score(self, prediction: float) -> float:
        return float(_log(np.array([prediction]))[0])

    def gradients(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        """Fill OUT ``grad`` and ``hess``, multiplied by the weights."""
        grad[0], hess[0] = self._derivatives(scores[0])
        if self.weight is not None:
            grad[0] *= self.weight
            hess[0] *= self.weight

    def _derivatives(self, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lower, upper, between = probability_between(self.bounds, score, self.distribution, self.scale)
        gap, slope = upper.value - lower.value, upper.slope - lower.slope
        first = gap / between / self.scale
        second = np.square(first) - slope / between / self.scale**2
        # So far away that the probability is 0: go towards the interval.
        is_far = between <= LEAST
        first = np.where(is_far, np.where(score < self.bounds.lower_log, -LIMIT, LIMIT), first)
        second = np.where(is_far, 1.0 / self.scale**2, second)
        exact = self.bounds.is_exact
        z = (self.bounds.lower_log[exact] - score[exact]) / self.scale
        first[exact], second[exact] = _of_events(self.distribution, z, self.scale)
        return np.clip(first, -LIMIT, LIMIT), np.clip(second, LEAST_HESSIAN, LIMIT)

    def _losses(self, scores: np.ndarray) -> Term:
        return negative_log_likelihoods(self.y, scores[0], self.distribution, self.scale), self.weight


class Bounds(NamedTuple):
    """Logarithms of the bounds of each row's time."""

    lower_log: np.ndarray  # -inf for 0
    upper_log: np.ndarray  # inf if there is none
    is_exact: np.ndarray  # both are the time itself

    @classmethod
    def of(cls, y: np.ndarray) -> Bounds:
        lower, upper = (y, y) if y.ndim == 1 else (y[:, 0], y[:, 1])
        lower_log = np.where(lower > 0.0, _log(np.maximum(lower, LEAST)), -np.inf)
        upper_log = np.where(upper < LARGEST, _log(np.maximum(upper, LEAST)), np.inf)
        return cls(lower_log, upper_log, lower == upper)


def check_bounds(y: np.ndarray, name: str = "y") -> None:
    """Raise unless y holds times, or bounds of times."""
    lower, upper = (y, y) if y.ndim == 1 else (y[:, 0], y[:, 1])
    if (lower < 0.0).any() or (upper <= 0.0).any() or (lower > upper).any():
        raise InvalidDataError(
            f"{name} must hold times above 0, or a lower bound of at least 0 and an upper bound that is not below it; "
            "numpy.inf is the upper bound of a row without an event."
        )


def probability_between(
    bounds: Bounds, score: np.ndarray, distribution: str, scale: float
) -> tuple[Density, Density, np.ndarray]:
    """The noise at the lower and the upper bound, and the probability between them."""
    highest = HIGHEST_EXTREME if distribution == "extreme" else HIGHEST
    ends = []
    for log_time in (bounds.lower_log, bounds.upper_log):
        is_finite = np.isfinite(log_time)
        z = (np.where(is_finite, log_time, 0.0) - score) / scale
        at = density(distribution, np.clip(z, -HIGHEST, highest))
        beyond = (log_time > 0.0).astype(np.float64)  # an infinite bound
        ends.append(
            Density(
                np.where(is_finite, at.value, 0.0),
                np.where(is_finite, at.slope, 0.0),
                np.where(is_finite, at.below, beyond),
                np.where(is_finite, at.above, 1.0 - beyond),
            )
        )
    lower, upper = ends
    # Differences of small tails keep their digits, differences of numbers near 1 do not.
    between = np.where(lower.below < 0.5, upper.below - lower.below, lower.above - upper.above)
    return lower, upper, np.maximum(between, LEAST)


def _of_events(distribution: str, z: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Gradients and hessians of -log density at z = (log time - score) / scale."""
    if distribution == "normal":
        return -z / scale, np.full(z.size, 1.0 / scale**2)
    if distribution == "logistic":
        at = density(distribution, z)
        return (at.above - at.below) / scale, 2.0 * at.value / scale**2
    power = _exp(np.minimum(z, 100.0))
    return (1.0 - power) / scale, power / scale**2


def negative_log_likelihoods(y: np.ndarray, score: np.ndarray, distribution: str, scale: float) -> np.ndarray:
    """Of each row: of its time, or of the interval that holds it."""
    bounds = Bounds.of(y)
    likelihood = probability_between(bounds, score, distribution, scale)[2]
    exact = bounds.is_exact
    at = density(distribution, (bounds.lower_log[exact] - score[exact]) / scale)
    losses = -_log(likelihood)
    losses[exact] = -_log(np.maximum(at.value, LEAST)) + _log(np.array([scale])) + bounds.lower_log[exact]
    return losses


def within_bounds(y: np.ndarray, score: np.ndarray) -> np.ndarray:
    """1 for each prediction that lies between its bounds, else 0."""
    lower, upper = (y, y) if y.ndim == 1 else (y[:, 0], y[:, 1])
    predicted = _exp(score)
    return ((predicted >= lower) & (predicted <= upper)).astype(np.float64)


def _exp(values: np.ndarray) -> np.ndarray:
    return _applied(exps, values)


def _log(values: np.ndarray) -> np.ndarray:
    return -_applied(negative_logs, values, LEAST)


def _applied(kernel: Any, values: np.ndarray, *more: float) -> np.ndarray:
    values = np.ascontiguousarray(values, np.float64)
    out = np.empty(values.size)
    in_pieces(kernel, values.size, values, *more, out)
    return out
