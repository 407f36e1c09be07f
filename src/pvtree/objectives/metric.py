"""What a metric is: a value of raw scores over the rows of all workers.

Every sum is exact, so a metric depends neither on the order of rows nor on which worker holds them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.comm.agreement import tell
from pvtree.errors import InvalidParameterError
from pvtree.objectives.auc import area_under_curve, average_precision
from pvtree.objectives.cox import mean_negative_log_likelihood
from pvtree.objectives.fixed_point import Term, exact_means_of
from pvtree.objectives.losses import call_with, predictions
from pvtree.objectives.row_metrics import scores_under

if TYPE_CHECKING:
    from pvtree.comm import Communicator

MaybeArray = np.ndarray | None
NamedValue = tuple[str, float, bool]  # name, value, greater is better
ScoredRows = tuple[np.ndarray, np.ndarray, MaybeArray, MaybeArray]  # y, RAW scores (n_outputs, n_rows), weight, group


@dataclass(frozen=True)
class Metric:
    """``metric(y, scores, weight, group, comm)``: each worker passes its own rows, and all get the same value.

    A worker may have no rows. Scores are RAW (n_outputs, n_rows). Either all workers give a weight or none does.
    """

    name: str
    greater_is_better: bool

    def __call__(
        self,
        y: np.ndarray,
        scores: np.ndarray,
        weight: MaybeArray = None,
        group: MaybeArray = None,
        comm: Communicator | None = None,
    ) -> float:
        return self._value((y, scores, weight, group), comm)

    def evaluate(
        self,
        y: np.ndarray,
        scores: np.ndarray,
        weight: MaybeArray = None,
        group: MaybeArray = None,
        comm: Communicator | None = None,
    ) -> list[NamedValue]:
        """The value with its name, in the form that custom metrics return too."""
        return self.named(self(y, scores, weight, group, comm))

    def named(self, value: float) -> list[NamedValue]:
        return [(self.name, value, self.greater_is_better)]

    def _value(self, rows: ScoredRows, comm: Communicator | None) -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class Mean(Metric):
    """The weighted mean of a value per row or query; ``finish`` turns the mean into the metric."""

    terms: Callable[..., Term]
    finish: Callable[[float], float] = float

    def _value(self, rows: ScoredRows, comm: Communicator | None) -> float:
        return self.finish(exact_means_of([self.terms(*rows)], comm, "metrics")[0])


@dataclass(frozen=True)
class AUC(Metric):
    """The share of (positive, negative) pairs in correct order, by weight; ties count half; 1 if a class is missing.

    Of several classes, each against the others by its probability, and the mean weighted by the classes' weights.
    """

    def _value(self, rows: ScoredRows, comm: Communicator | None) -> float:
        y, scores, weight, _ = rows
        if scores.shape[0] <= 2:
            return area_under_curve(y > 0.5, scores[-1], weight, comm)
        shares = exact_means_of([((y == k).astype(np.float64), weight) for k in range(len(scores))], comm, "metrics")
        areas = [area_under_curve(y == k, score, weight, comm) for k, score in enumerate(self._probabilities(scores))]
        return math.fsum(share * area for share, area in zip(shares, areas, strict=True))

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return predictions("multiclass", scores.T).T


@dataclass(frozen=True)
class ForestAUC(AUC):
    """The same of a forest, whose scores are probabilities."""

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return scores


@dataclass(frozen=True)
class AUCMu(Metric):
    """The mean over pairs of classes i, j of the area under the curve of score_i - score_j (Kleiman and Page, 2019)."""

    def _value(self, rows: ScoredRows, comm: Communicator | None) -> float:
        y, scores, weight, _ = rows
        areas = []
        for i, j in combinations(range(len(scores)), 2):
            of_both = (y == i) | (y == j)
            own = None if weight is None else weight[of_both]
            areas.append(area_under_curve(y[of_both] == i, (scores[i] - scores[j])[of_both], own, comm))
        return math.fsum(areas) / len(areas)


@dataclass(frozen=True)
class AveragePrecision(Metric):
    """The mean precision at the scores of the positives, by weight; not interpolated."""

    def _value(self, rows: ScoredRows, comm: Communicator | None) -> float:
        y, scores, weight, _ = rows
        return average_precision(y > 0.5, scores[-1], weight, comm)


@dataclass(frozen=True)
class R2(Metric):
    """1 - the squared error of the predictions by that of the mean label; 1 if both are 0, 0 if only the latter is."""

    objective: str

    def _value(self, rows: ScoredRows, comm: Communicator | None) -> float:
        y, scores, weight, _ = rows
        predicted = scores_under("identity", self.objective, scores)
        (mean,) = exact_means_of([(y, weight)], comm, "metrics")
        terms = [(np.square(predicted - y), weight), (np.square(y - mean), weight)]
        error, spread = exact_means_of(terms, comm, "metrics")
        return 1.0 - error / spread if spread > 0.0 else float(error < 1e-20)


@dataclass(frozen=True)
class CoxLikelihood(Metric):
    """Minus the mean logarithm of the partial likelihood of the events."""

    def _value(self, rows: ScoredRows, comm: Communicator | None) -> float:
        y, scores, weight, _ = rows
        return mean_negative_log_likelihood(y, scores[0], weight, comm)


@dataclass(frozen=True)
class CustomMetric:
    """``function(y_true, y_pred[, weight[, group]]) -> (name, value, is_higher_better)``, or a list of these.

    y_pred is what predict or predict_proba returns; for two classes, the probability of the second. Worker 0 calls the
    function once, with the rows of all workers in the order of their ranks.
    """

    function: Callable[..., Any]
    objective: str

    def evaluate(
        self,
        y: np.ndarray,
        scores: np.ndarray,
        weight: MaybeArray = None,
        group: MaybeArray = None,
        comm: Communicator | None = None,
    ) -> list[NamedValue]:
        """Call the function with the arguments that it takes, and check its answer."""
        predicted = predictions(self.objective, scores.T)
        if self.objective in ("binary", "classification") and predicted.shape[1] == 2:
            predicted = predicted[:, 1]
        if comm is None or comm.size == 1:
            return self._call(y, predicted, weight, group)
        rows = [None if each is None else _on_worker_0(each, comm) for each in (y, predicted, weight, group)]
        shared = tell(self._call(*rows) if comm.rank == 0 else None, comm, "metrics")
        return [(name, value, greater) for name, value, greater in shared]

    def _call(self, y: MaybeArray, predicted: MaybeArray, weight: MaybeArray, group: MaybeArray) -> list[NamedValue]:
        answer = call_with(self.function, y, predicted, weight=weight, group=group)
        triples = answer if isinstance(answer, list) else [answer]
        if not all(isinstance(triple, tuple) and len(triple) == 3 for triple in triples):
            raise InvalidParameterError(
                f"A custom metric must return (name, value, is_higher_better), but returned {answer!r}: "
                "return that triple or a list of such triples."
            )
        return [(str(name), float(value), bool(greater)) for name, value, greater in triples]


def evaluate_together(
    asked: Sequence[tuple[Metric | CustomMetric, ScoredRows]], comm: Communicator | None = None
) -> list[list[NamedValue]]:
    """``metric.evaluate(*rows, comm)`` for each pair, with two exchanges for all means together."""
    means = iter(exact_means_of([m.terms(*rows) for m, rows in asked if isinstance(m, Mean)], comm, "metrics"))
    return [
        metric.named(metric.finish(next(means))) if isinstance(metric, Mean) else metric.evaluate(*rows, comm)
        for metric, rows in asked
    ]


def _on_worker_0(values: np.ndarray, comm: Communicator) -> np.ndarray:
    """On worker 0, the values of all workers in the order of ranks; nothing elsewhere."""
    values = np.ascontiguousarray(values)
    return np.concatenate(comm.alltoall([values] + [values[:0]] * (comm.size - 1), "metrics"))
