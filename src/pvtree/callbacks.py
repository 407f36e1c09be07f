"""What runs after every boosting iteration: LightGBM's callback interface and early stopping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pvtree.errors import InvalidParameterError
from pvtree.params import integer

# The training data never decides when to stop: its own metric improves for as long as trees are added.
TRAINING_NAMES = frozenset({"training", "train"})


class EvalResult(NamedTuple):
    """One metric on one evaluation set after one iteration."""

    dataset_name: str
    metric_name: str
    value: float
    is_higher_better: bool


class CallbackEnv(NamedTuple):
    """What a callback sees; the fields of LightGBM's, so that callbacks written for it work here."""

    model: Any  # None while training: a model is made of the finished trees only at the end
    params: Any  # the frozen pvtree.params.Params of this training
    iteration: int  # 0-based; continues an init_model's count
    begin_iteration: int  # first iteration of this training
    end_iteration: int  # one past its last
    evaluation_result_list: list[EvalResult]  # set by set, within a set metric by metric


class EarlyStopException(Exception):
    """Raised by a callback to end training and keep the trees up to ``best_iteration``."""

    def __init__(self, best_iteration: int, best_score: Sequence[EvalResult]) -> None:
        super().__init__()
        self.best_iteration = best_iteration  # 0-based, counted like CallbackEnv.iteration
        self.best_score = list(best_score)  # every result of that iteration


class early_stopping:
    """Stop when a metric has not improved for ``stopping_rounds`` iterations on some evaluation set.

    Every metric of every set is watched, and the first to run out of patience decides; a set named
    "training" or "train" is reported but never decides. With ``first_metric_only`` only the first metric is
    watched. ``min_delta`` is the least improvement that counts: one number, or one for each metric.
    If none runs out, the best iteration of the first watched metric is kept.
    """

    # A training that goes on from a checkpoint shows it the results of past iterations again, so that it remembers
    # what it would have. Callbacks without this attribute are not called again for what is past.
    replays = True

    def __init__(
        self,
        stopping_rounds: int,
        first_metric_only: bool = False,
        verbose: bool = False,
        min_delta: float | Sequence[float] = 0.0,
    ) -> None:
        integer("", 1).check("stopping_rounds", stopping_rounds)
        self.stopping_rounds = stopping_rounds
        self.first_metric_only = first_metric_only
        self.verbose = verbose
        self.min_delta = [min_delta] if isinstance(min_delta, int | float) else list(min_delta)
        if not self.min_delta or not all(delta >= 0 for delta in self.min_delta):
            raise InvalidParameterError(
                f"min_delta must be a number of at least 0 or a list of them, got {min_delta!r}."
            )
        self._deltas: dict[str, float] = {}
        self._best: dict[tuple[str, str], tuple[int, list[EvalResult]]] = {}

    def __call__(self, env: CallbackEnv) -> None:
        if env.iteration == env.begin_iteration:
            self._start(env.evaluation_result_list)
        watched = self._watched(env.evaluation_result_list)
        for result in watched:
            best_iteration = self._update(result, env)
            if env.iteration - best_iteration >= self.stopping_rounds:
                self._stop(result, f"has not improved for {self.stopping_rounds} iterations")
        if env.iteration == env.end_iteration - 1:
            self._stop(watched[0], "was watched to the last iteration")

    def _watched(self, results: list[EvalResult]) -> list[EvalResult]:
        watched = [EvalResult(*result) for result in results if result[0] not in TRAINING_NAMES]
        if self.first_metric_only:
            watched = [result for result in watched if result.metric_name == watched[0].metric_name]
        return watched

    def _start(self, results: list[EvalResult]) -> None:
        """Forget an earlier training; the same callback may serve several fits."""
        watched = self._watched(results)
        if not watched:
            raise InvalidParameterError(
                "early_stopping needs an evaluation set other than the training data; pass eval_set to fit."
            )
        metrics = list(dict.fromkeys(result.metric_name for result in watched))
        if len(self.min_delta) not in (1, len(metrics)):
            raise InvalidParameterError(
                f"min_delta must be one number or one for each of the {len(metrics)} metrics, "
                f"got {len(self.min_delta)} numbers."
            )
        deltas = self.min_delta * len(metrics) if len(self.min_delta) == 1 else self.min_delta
        self._deltas = dict(zip(metrics, deltas, strict=True))
        self._best = {}

    def _update(self, result: EvalResult, env: CallbackEnv) -> int:
        """The best iteration so far of this metric on this set."""
        key = result.dataset_name, result.metric_name
        if key in self._best:
            best_iteration, best_results = self._best[key]
            best = next(r[2] for r in best_results if tuple(r[:2]) == key)
            gain = result.value - best if result.is_higher_better else best - result.value
            # A NaN must not stay the best for ever: any number beats it.
            beats_nan = math.isnan(best) and not math.isnan(result.value)
            if not (gain > self._deltas[result.metric_name] or beats_nan):
                return best_iteration
        self._best[key] = env.iteration, list(env.evaluation_result_list)
        return env.iteration

    def _stop(self, result: EvalResult, why: str) -> None:
        best_iteration, best_results = self._best[result.dataset_name, result.metric_name]
        if self.verbose:
            scores = ", ".join(f"{name} {metric} {value:g}" for name, metric, value, _ in best_results)
            watched = f"{result.dataset_name} {result.metric_name}"
            print(f"{watched} {why}; the best iteration is {best_iteration + 1}: {scores}")
        raise EarlyStopException(best_iteration, best_results)
