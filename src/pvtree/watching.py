"""What worker 0 does besides training: metrics of the evaluation sets, callbacks, the progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from pvtree.callbacks import CallbackEnv, EarlyStopException, EvalResult, early_stopping
from pvtree.metrics import CustomMetric, Metric
from pvtree.model import Tree
from pvtree.predictor import add_tree

if TYPE_CHECKING:
    from pvtree.ensemble import Job
    from pvtree.team import Team

Callback = Callable[[CallbackEnv], None]
_SILENT_SECONDS = 2.0  # a progress bar appears only for trainings that take longer


@dataclass(frozen=True)
class EvalSet:
    """Rows that a metric is computed on after every iteration; X is encoded as for Model.predict_raw."""

    name: str
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None
    group: np.ndarray | None = None


class Watch:
    """The running scores of the evaluation sets, the metrics' history, and who is told about them."""

    def __init__(
        self,
        job: Job,
        sets: Sequence[EvalSet],
        metrics: Sequence[Metric | CustomMetric],
        callbacks: Sequence[Callback],
        history: dict[str, dict[str, list[float]]],
    ) -> None:
        self.job, self.sets, self.metrics, self.history = job, sets, metrics, history
        self.callbacks = list(callbacks)
        rounds = job.params.early_stopping_rounds
        if rounds:
            self.callbacks.append(early_stopping(rounds, verbose=job.params.verbosity > 1))

    def begin(self, n_outputs: int, init_score: np.ndarray, team: Team) -> None:
        """Scores before the first iteration, (n_outputs, n_rows) of each set: sums of the trees' outputs."""
        self.team, start = team, self.job.init_model
        if start is None:
            self.scores = [np.repeat(init_score[:, None], len(each.y), axis=1) for each in self.sets]
            return
        # Of a forest the mean is predicted, but sums are kept.
        times = start.n_iterations if self.job.params.ensemble == "forest" else 1
        raw = (start.predict_raw(each.X, n_threads=team.n_threads).T for each in self.sets)
        self.scores = [np.ascontiguousarray(scores * times, np.float64) for scores in raw]

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Show a bar meanwhile."""
        params = self.job.params
        hidden = True if params.verbosity < 1 else None  # None: hidden unless standard error is a terminal
        with tqdm(total=params.n_estimators, unit="tree", delay=_SILENT_SECONDS, disable=hidden, leave=False) as bar:
            self.bar = bar
            yield

    def see(self, iteration: int, trees: list[Tree]) -> EarlyStopException | None:
        """Add an iteration, compute every metric, tell the callbacks; returns the one that has seen enough."""
        results = self._evaluate(trees, iteration + 1)
        self.bar.update()
        if results:
            self.bar.set_postfix({f"{r.dataset_name} {r.metric_name}": f"{r.value:.5g}" for r in results[:3]})
        first = self.job.first
        env = CallbackEnv(None, self.job.params, iteration, first, first + self.job.params.n_estimators, results)
        try:
            for callback in self.callbacks:
                callback(env)
        except EarlyStopException as stop:
            return stop
        return None

    def _evaluate(self, trees: list[Tree], n_iterations: int) -> list[EvalResult]:
        results = []
        for eval_set, scores in zip(self.sets, self.scores, strict=True):
            for output, tree in enumerate(trees):
                add_tree(tree, eval_set.X, scores[output] if tree.n_values == 1 else scores, self.team)
            shown = scores / n_iterations if self.job.params.ensemble == "forest" else scores
            for metric in self.metrics:
                for name, value, higher in metric.evaluate(eval_set.y, shown, eval_set.weight, eval_set.group):
                    results.append(EvalResult(eval_set.name, name, value, higher))
                    self.history.setdefault(eval_set.name, {}).setdefault(name, []).append(value)
        return results
