"""Metrics on the evaluation sets after every iteration; each worker keeps the scores of its own rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pvtree.model.model import Model
from pvtree.model.predictor import Predictor, Rows, first_scores
from pvtree.model.tree import Tree
from pvtree.objectives.metric import ScoredRows
from pvtree.objectives.metrics import Metric, evaluate_together
from pvtree.reading.zeros import zeros_as_missing
from pvtree.training.callbacks import EvalResult

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.kernels.team import Team
    from pvtree.training.options import TrainOptions


@dataclass(frozen=True)
class EvalSet:
    """A worker's rows of an evaluation set, possibly none; X is encoded as for Model.predict_raw."""

    name: str
    X: Rows
    y: np.ndarray
    weight: np.ndarray | None = None
    group: np.ndarray | None = None
    init_score: np.ndarray | None = None  # (n_rows, n_outputs): added to the model's scores

    def without_rows(self) -> EvalSet:
        """The same set for a worker with none of its rows; empty weights and queries stay, as others have them."""
        weight = None if self.weight is None else self.weight[:0]
        group = None if self.group is None else self.group[:0]
        score = None if self.init_score is None else self.init_score[:0]
        return EvalSet(self.name, self.X[:0], self.y[:0], weight, group, score)


def _flat(y: np.ndarray, scores: np.ndarray, weight: np.ndarray | None, group: np.ndarray | None) -> ScoredRows:
    """The rows of each output one after the other, as if they were those of one: a metric is that of all outputs."""
    n_outputs = len(scores)
    labels = np.tile(y, n_outputs) if y.ndim == 1 else y.T.ravel()
    return labels, scores.reshape(1, -1), None if weight is None else np.tile(weight, n_outputs), group


class Evaluator:
    """Running scores of this worker's rows in every set. All workers call it together and get the same results."""

    def __init__(self, options: TrainOptions, comm: Communicator | None = None) -> None:
        self.sets, self.metrics, self.comm = options.eval_sets, options.metrics, comm
        if options.params.zero_as_missing:
            self.sets = [replace(each, X=zeros_as_missing(each.X, options.categorical)) for each in self.sets]
        self.is_mean, self.has_many_targets = options.params.averages, options.params.n_targets > 1

    @property
    def asked(self) -> list[str]:
        """The names of all sets and metrics; a run that resumes a checkpoint must ask for the same."""
        names = [m.name if isinstance(m, Metric) else getattr(m.function, "__qualname__", "") for m in self.metrics]
        return [f"{each.name} {name}" for each in self.sets for name in names]

    def begin(self, n_outputs: int, init_score: np.ndarray, team: Team, start: Model | None = None) -> None:
        """Set the scores to those of ``start``, or to ``init_score`` without one."""
        self.team = team
        self.init_score = init_score if start is None else start.init_score
        self._restart([] if start is None else start.trees)

    def _restart(self, trees: Sequence[Tree]) -> None:
        """Per set (n_outputs, n_rows): sums of the trees' outputs. A mean is taken when it is evaluated, and the
        initial score added then."""
        first = np.zeros_like(self.init_score) if self.is_mean else self.init_score
        self.scores = [first_scores(first, len(each.y), each.init_score) for each in self.sets]
        self._add(trees)

    def evaluate(
        self, trees: Sequence[Tree], n_iterations: int, all_trees: Sequence[Tree] | None = None
    ) -> list[EvalResult]:
        """Add an iteration's trees, the ``n_iterations``-th, and compute every metric, set by set.

        ``all_trees`` are the trees of the whole model, if the iteration has changed some of them.
        """
        if not self.sets:
            return []
        if all_trees is None:
            self._add(trees)
        else:
            self._restart(all_trees)
        asked = []
        for each, scores in zip(self.sets, self.scores, strict=True):
            shown = scores / n_iterations + self.init_score[:, None] if self.is_mean else scores
            rows = (each.y, shown, each.weight, each.group)
            flat = _flat(*rows) if self.has_many_targets else rows
            asked += [(each.name, metric, flat if isinstance(metric, Metric) else rows) for metric in self.metrics]
        answers = evaluate_together([(metric, rows) for _, metric, rows in asked], self.comm)
        return [
            EvalResult(name, *evaluation)
            for (name, _, _), evaluations in zip(asked, answers, strict=True)
            for evaluation in evaluations
        ]

    def _add(self, trees: Sequence[Tree]) -> None:
        """Add one tree after the other, so that the sums have the same bits in one call or in many."""
        if trees and self.sets:
            predictor = Predictor(trees)
            for each, scores in zip(self.sets, self.scores, strict=True):
                predictor.add_outputs(each.X, scores, 0, len(trees), self.team)
