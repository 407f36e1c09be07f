"""Training from a matrix to a model: bin, boost or plant, evaluate, stop early, keep the best iteration."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pvtree.boosting import Booster
from pvtree.callbacks import EarlyStopException
from pvtree.comm import Communicator, Solo, TrafficReport, local
from pvtree.comm.traffic import report
from pvtree.dataset import Part, Shard, make_shard, split_by_columns, split_by_rows
from pvtree.find_split import Votes
from pvtree.forest import Planter, plant_forest
from pvtree.growing import TreeMaker
from pvtree.metrics import CustomMetric, Metric
from pvtree.model import Model, Tree
from pvtree.params import Params
from pvtree.skew import warn_if_skewed
from pvtree.team import Team
from pvtree.watching import Callback, EvalSet, Watch
from pvtree.worker import Worker


@dataclass(frozen=True)
class TrainResult:
    """A model and how it came about."""

    model: Model
    evals_result: dict[str, dict[str, list[float]]]
    best_iteration: int  # counts iterations kept; 0 if training did not stop early
    best_score: dict[str, dict[str, float]]
    timings: dict[str, float]  # seconds of "binning" and of "training"
    traffic: TrafficReport
    votes: list[Votes] | None  # by tree, of tree_learner="voting"


@dataclass(frozen=True)
class Job:
    """What all workers train, beside their rows."""

    params: Params
    categorical: Mapping[int, int] = field(default_factory=dict)
    feature_names: Sequence[str] | None = None
    init_model: Model | None = None
    is_watched: bool = False  # whether worker 0 may stop the training before its end

    @property
    def first(self) -> int:
        """The number of the first iteration."""
        return 0 if self.init_model is None else self.init_model.n_iterations


@dataclass(frozen=True)
class Trained:
    """What each worker has in the end: the same trees as every other."""

    trees: list[Tree]
    n_outputs: int
    init_score: np.ndarray
    stop: EarlyStopException | None  # known to worker 0 alone
    timings: dict[str, float]
    traffic: TrafficReport
    votes: list[Votes] | None


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
    """Train on rows held by this process, on ``n_workers`` virtual machines that are threads of it.

    X is encoded: categorical columns hold bin numbers, 0 for missing.
    """
    is_watched = bool(eval_sets or callbacks)
    job = Job(params, categorical or {}, feature_names, init_model, is_watched)
    spread = split_by_columns if params.tree_learner == "attribute" else split_by_rows
    parts = spread(X, y, weight, group, params.n_workers)
    history: dict[str, dict[str, list[float]]] = {}

    def work(comm: Communicator) -> Trained:
        watch = Watch(job, eval_sets, metrics, callbacks, history) if comm.rank == 0 else None
        return train_worker(parts[comm.rank], job, comm, watch)

    trained = local.run(work, params.n_workers)[0] if params.n_workers > 1 else work(Solo())
    trees, stop = trained.trees, trained.stop
    best_score: dict[str, dict[str, float]] = {}
    for result in stop.best_score if stop else []:
        best_score.setdefault(result[0], {})[result[1]] = result[2]
    if stop:
        per_iteration = trained.n_outputs if params.ensemble == "gbdt" else 1
        del trees[(stop.best_iteration + 1) * per_iteration :]
    model = Model(
        trees=tuple(trees),
        objective=params.objective if isinstance(params.objective, str) else "custom",
        ensemble=params.ensemble,
        n_features=X.shape[1],
        n_outputs=trained.n_outputs,
        init_score=trained.init_score,
        feature_names=None if feature_names is None else tuple(feature_names),
        classes=None if classes is None else tuple(classes),
        categories={k: tuple(v) for k, v in (categories or {}).items()},
    )
    best_iteration = stop.best_iteration + 1 if stop else 0
    return TrainResult(model, history, best_iteration, best_score, trained.timings, trained.traffic, trained.votes)


def train_worker(part: Part, job: Job, comm: Communicator, watch: Watch | None = None) -> Trained:
    """What every worker runs, whatever carries its messages; worker 0 watches the progress."""
    params, start = job.params, job.init_model
    with Team(max(1, params.n_threads // comm.size)) as team:
        worker = Worker.of(team, comm, params.tree_learner)
        began = time.perf_counter()
        shard = make_shard(part, job.categorical, params, team, comm)
        if params.tree_learner == "voting" and comm.size > 1:
            warn_if_skewed(shard, params, comm, job.feature_names)
        binned = time.perf_counter()
        start_scores = None if start is None else start.predict_raw(part.X, n_threads=team.n_threads).T
        iterations, n_outputs, init_score, maker = _iterations(shard, job, worker, start_scores)
        before_trees = comm.traffic.snapshot()
        if watch is not None:
            watch.begin(n_outputs, init_score, team)
        trees = list(start.trees) if start is not None else []
        n_before = len(trees)
        stop = _run(iterations, job, comm, watch, trees)
        maker.strategy.finish_training()
        traffic = report(comm, before_trees, len(trees) - n_before)
        timings = {"binning": binned - began, "training": time.perf_counter() - binned}
    return Trained(trees, n_outputs, init_score, stop, timings, traffic, maker.strategy.votes)


def _iterations(
    shard: Shard, job: Job, worker: Worker, start_scores: np.ndarray | None
) -> tuple[Iterator[list[Tree]], int, np.ndarray, TreeMaker]:
    """The stream of iterations, long enough, the number of outputs, the initial score, and who makes the trees."""
    params = job.params
    if params.ensemble == "forest":
        planter = Planter(shard, params, worker)
        trees = plant_forest(planter, params.n_estimators, job.first)
        n_outputs = params.n_classes if params.criterion == "entropy" else 1
        return ([tree] for tree in trees), n_outputs, np.zeros(n_outputs), planter.maker
    booster = Booster(shard, params, worker, start_scores)
    init_score = booster.init_score if job.init_model is None else job.init_model.init_score
    return booster.iterations(job.first), booster.n_outputs, init_score, booster.maker


def _run(
    iterations: Iterator[list[Tree]], job: Job, comm: Communicator, watch: Watch | None, kept: list[Tree]
) -> EarlyStopException | None:
    """Take iterations until the number asked for, or until worker 0 has seen enough."""
    stop = None
    with watch.progress() if watch is not None else nullcontext():
        for iteration in range(job.first, job.first + job.params.n_estimators):
            trees = next(iterations)
            kept.extend(trees)
            if watch is not None:
                stop = watch.see(iteration, trees)
            is_over = np.array([stop is not None])
            if job.is_watched and comm.broadcast(is_over, "metrics")[0]:
                break
    return stop
