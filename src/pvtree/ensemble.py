"""Training from a matrix to a model: bin, boost or plant, evaluate, stop early, keep the best iteration."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tqdm import tqdm

from pvtree.boosting import Booster
from pvtree.callbacks import CallbackEnv, EarlyStopException, EvalResult, early_stopping
from pvtree.dataset import Shard, make_shard
from pvtree.forest import plant_forest
from pvtree.metrics import CustomMetric, Metric
from pvtree.model import Model, Tree
from pvtree.params import Params
from pvtree.predictor import add_tree
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


@dataclass(frozen=True)
class TrainResult:
    """A model and how it came about."""

    model: Model
    evals_result: dict[str, dict[str, list[float]]]
    best_iteration: int  # counts iterations kept; 0 if training did not stop early
    best_score: dict[str, dict[str, float]]
    timings: dict[str, float]  # seconds of "binning" and of "training"


@dataclass
class Evaluation:
    """The running scores of the evaluation sets and the metrics' history."""

    sets: Sequence[EvalSet]
    metrics: Sequence[Metric | CustomMetric]
    scores: list[np.ndarray]  # (n_outputs, n_rows) each: sums of the trees' outputs
    averaged: bool
    team: Team
    history: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, trees: list[Tree], n_iterations: int) -> list[EvalResult]:
        """Add an iteration's trees and compute every metric on every set."""
        results = []
        for eval_set, scores in zip(self.sets, self.scores, strict=True):
            for output, tree in enumerate(trees):
                add_tree(tree, eval_set.X, scores[output] if tree.n_values == 1 else scores, self.team)
            shown = scores / n_iterations if self.averaged else scores
            for metric in self.metrics:
                for name, value, higher in metric.evaluate(eval_set.y, shown, eval_set.weight, eval_set.group):
                    results.append(EvalResult(eval_set.name, name, value, higher))
                    self.history.setdefault(eval_set.name, {}).setdefault(name, []).append(value)
        return results


def train(
    X: np.ndarray,
    y: np.ndarray,
    params: Params,
    *,
    weight: np.ndarray | None = None,
    group: np.ndarray | None = None,
    categorical: Mapping[int, int] | None = None,
    feature_names: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    categories: Mapping[int, Sequence[Any]] | None = None,
    eval_sets: Sequence[EvalSet] = (),
    metrics: Sequence[Metric | CustomMetric] = (),
    callbacks: Sequence[Callback] = (),
    init_model: Model | None = None,
) -> TrainResult:
    """Train on rows held by this process. X is encoded: categorical columns hold bin numbers, 0 for missing."""
    with Team(params.n_threads) as team:
        began = time.perf_counter()
        shard = make_shard(X, y, weight, group, categorical or {}, params.max_bin, team)
        binned = time.perf_counter()
        start_scores = None if init_model is None else init_model.predict_raw(X, n_threads=params.n_threads).T
        iterations, n_outputs, init_score = _iterations(shard, params, team, init_model, start_scores)
        evaluation = Evaluation(
            eval_sets, metrics, _start_scores(eval_sets, n_outputs, init_score, init_model, params),
            params.ensemble == "forest", team,
        )  # fmt: skip
        kept = list(init_model.trees) if init_model is not None else []
        first = 0 if init_model is None else init_model.n_iterations
        stop = _run(iterations, params, first, evaluation, list(callbacks), kept)
        trained = time.perf_counter()
    best_score: dict[str, dict[str, float]] = {}
    for result in stop.best_score if stop else []:
        best_score.setdefault(result[0], {})[result[1]] = result[2]
    if stop:
        per_iteration = n_outputs if params.ensemble == "gbdt" else 1
        del kept[(stop.best_iteration + 1) * per_iteration :]
    model = Model(
        trees=tuple(kept),
        objective=params.objective if isinstance(params.objective, str) else "custom",
        ensemble=params.ensemble,
        n_features=X.shape[1],
        n_outputs=n_outputs,
        init_score=init_score,
        feature_names=None if feature_names is None else tuple(feature_names),
        classes=None if classes is None else tuple(classes),
        categories={k: tuple(v) for k, v in (categories or {}).items()},
    )
    timings = {"binning": binned - began, "training": trained - binned}
    return TrainResult(model, evaluation.history, stop.best_iteration + 1 if stop else 0, best_score, timings)


def _iterations(
    shard: Shard, params: Params, team: Team, init_model: Model | None, start_scores: np.ndarray | None
) -> tuple[Iterator[list[Tree]], int, np.ndarray]:
    """The endless or long enough stream of iterations, the number of outputs and the initial score."""
    first = 0 if init_model is None else init_model.n_iterations
    if params.ensemble == "forest":
        trees = plant_forest(shard, params, params.n_estimators, first, team)
        n_outputs = params.n_classes if params.criterion == "entropy" else 1
        return ([tree] for tree in trees), n_outputs, np.zeros(n_outputs)
    booster = Booster(shard, params, team, start_scores)
    init_score = booster.init_score if init_model is None else init_model.init_score
    return booster.iterations(first), booster.n_outputs, init_score


def _start_scores(
    eval_sets: Sequence[EvalSet], n_outputs: int, init_score: np.ndarray, init_model: Model | None, params: Params
) -> list[np.ndarray]:
    if init_model is None:
        return [np.repeat(init_score[:, None], len(each.y), axis=1) for each in eval_sets]
    # Of a forest the mean is predicted, but sums are kept.
    times = init_model.n_iterations if params.ensemble == "forest" else 1
    raw = (init_model.predict_raw(each.X, n_threads=params.n_threads).T for each in eval_sets)
    return [np.ascontiguousarray(scores * times, np.float64) for scores in raw]


def _run(
    iterations: Iterator[list[Tree]],
    params: Params,
    first: int,
    evaluation: Evaluation,
    callbacks: list[Callback],
    kept: list[Tree],
) -> EarlyStopException | None:
    """Take iterations until the number asked for, or until a callback has seen enough."""
    if params.early_stopping_rounds:
        callbacks = [*callbacks, early_stopping(params.early_stopping_rounds, verbose=params.verbosity > 1)]
    last = first + params.n_estimators
    hidden = True if params.verbosity < 1 else None  # None: hidden unless standard error is a terminal
    with tqdm(total=params.n_estimators, unit="tree", delay=_SILENT_SECONDS, disable=hidden, leave=False) as bar:
        for iteration in range(first, last):
            trees = next(iterations)
            kept.extend(trees)
            results = evaluation.add(trees, iteration + 1) if evaluation.sets else []
            bar.update()
            if results:
                bar.set_postfix({f"{r.dataset_name} {r.metric_name}": f"{r.value:.5g}" for r in results[:3]})
            env = CallbackEnv(None, params, iteration, first, last, results)
            try:
                for callback in callbacks:
                    callback(env)
            except EarlyStopException as stop:
                return stop
    return None
