"""Training from a matrix to a model: bin, boost or plant, evaluate, stop early, keep the best iteration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pvtree.binning.shard import (
    Part,
    Shard,
    all_numbers,
    in_order,
    make_shard,
    split_by_columns,
    split_by_rows,
    spread_columns,
)
from pvtree.comm import Communicator, Solo, TrafficReport, local, virtual
from pvtree.comm.agreement import tell
from pvtree.comm.traffic import report
from pvtree.comm.worker import Worker
from pvtree.errors import InvalidParameterError
from pvtree.find_split import Votes
from pvtree.find_split.certificates import Certificate
from pvtree.growing.tree_maker import TreeMaker
from pvtree.kernels.team import Team
from pvtree.model.model import Model
from pvtree.model.tree import Tree
from pvtree.objectives.metrics import CustomMetric, Metric
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds
from pvtree.reading.sources import Source, as_source
from pvtree.training.callbacks import EarlyStopException, EvalResult
from pvtree.training.checkpoint_file import Checkpoint, fingerprint
from pvtree.training.evaluator import EvalSet, Evaluator
from pvtree.training.forest import Planter, plant_forest
from pvtree.training.separate_boosting import count_parallel_trees, make_booster
from pvtree.training.skew import warn_if_skewed
from pvtree.training.watching import NOTHING, Callback, Watch, Word


@dataclass(frozen=True)
class TrainResult:
    """A model and how it came about."""

    model: Model
    evals_result: dict[str, dict[str, list[float]]]
    best_iteration: int  # counts iterations kept; 0 if training did not stop early
    best_score: dict[str, dict[str, float]]
    timings: dict[str, float]  # seconds of "binning" and of "training"
    traffic: TrafficReport
    votes: list[Votes] | None  # by tree, where workers vote
    certificates: list[Certificate] | None  # by tree, where splits are proven
    seconds: list[float]  # from the begin of the first iteration until the trees of each were made


@dataclass(frozen=True)
class Job:
    """What all workers train, beside their rows."""

    params: Params
    categorical: Mapping[int, int] = field(default_factory=dict)
    feature_names: Sequence[str] | None = None
    init_model: Model | None = None
    is_watched: bool = False  # whether worker 0 may stop the training before its end
    classes: Sequence[Any] | None = None
    categories: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None

    @property
    def first(self) -> int:
        """The number of the first iteration."""
        return 0 if self.init_model is None else self.init_model.n_iterations

    @property
    def stop(self) -> int:
        """One past the number of the last iteration."""
        return self.first + self.params.n_estimators

    def model(
        self, trees: Sequence[Tree], n_features: int, n_outputs: int, init_score: np.ndarray, n_parallel_trees: int = 1
    ) -> Model:
        params = self.params
        return Model(
            trees=tuple(trees),
            objective=params.objective if isinstance(params.objective, str) else "custom",
            ensemble=params.ensemble,
            n_features=n_features,
            n_outputs=n_outputs,
            init_score=init_score,
            feature_names=None if self.feature_names is None else tuple(self.feature_names),
            classes=None if self.classes is None else tuple(self.classes),
            categories={k: tuple(v) for k, v in self.categories.items()},
            n_parallel_trees=n_parallel_trees,
        )


@dataclass(frozen=True)
class Trained:
    """What each worker has in the end: the same trees as every other."""

    trees: list[Tree]
    n_outputs: int
    init_score: np.ndarray
    stop: EarlyStopException | None
    history: list[list[EvalResult]]  # of each iteration
    timings: dict[str, float]
    traffic: TrafficReport
    votes: list[Votes] | None
    certificates: list[Certificate] | None
    n_parallel_trees: int
    seconds: list[float]


def train(
    X: np.ndarray | Source,
    y: np.ndarray,
    params: Params,
    *,
    weight: np.ndarray | None = None,
    group: np.ndarray | None = None,
    ids: RowIds | None = None,
    categorical: Mapping[int, int] | None = None,
    feature_names: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    categories: Mapping[int, Sequence[Any]] | None = None,
    eval_sets: Sequence[EvalSet] = (),
    metrics: Sequence[Metric | CustomMetric] = (),
    callbacks: Sequence[Callback] = (),
    init_model: Model | None = None,
    checkpoint: Checkpoint | None = None,
    comm: Communicator | None = None,
    cluster: virtual.Cluster | None = None,
) -> TrainResult:
    """Train on the rows of this process and of those at the other ends of ``comm``, all of which call this.

    Alone, on ``n_workers`` virtual machines that are threads of this process. X is encoded: categorical columns hold
    bin numbers, 0 for missing; ``ids`` tells where its rows stand among those of all workers. On a ``cluster`` the
    workers have clocks of their own, and timings are what they show.
    """
    is_watched = bool(eval_sets or callbacks)
    job = Job(params, categorical or {}, feature_names, init_model, is_watched, classes, categories or {}, checkpoint)
    if comm is not None and comm.size > 1:
        if cluster is not None:
            raise InvalidParameterError(
                f"cluster is given beside comm, whose {comm.size} workers are real; leave one of them out."
            )
        part = Part(X, y, weight, group, ids)
        part = spread_columns(part, comm) if params.tree_learner == "attribute" else part
        trained = train_worker(part, job, comm, eval_sets, metrics, callbacks)
    else:
        spread = split_by_columns if params.tree_learner == "attribute" else split_by_rows
        parts = spread(X, y, weight, group, params.n_workers)

        def work(comm: Communicator) -> Trained:
            # The evaluation sets are worker 0's, as they are here anyway.
            sets = eval_sets if comm.rank == 0 else [each.without_rows() for each in eval_sets]
            return train_worker(parts[comm.rank], job, comm, sets, metrics, callbacks)

        if cluster is not None:
            trained = virtual.run(work, params.n_workers, cluster)[0]
        else:
            trained = local.run(work, params.n_workers)[0] if params.n_workers > 1 else work(Solo())
    return _result(trained, job, X.shape[1])


def _result(trained: Trained, job: Job, n_features: int) -> TrainResult:
    stop = trained.stop
    model = job.model(trained.trees, n_features, trained.n_outputs, trained.init_score, trained.n_parallel_trees)
    best_score: dict[str, dict[str, float]] = {}
    last = trained.history[-1] if trained.history else []
    for result in stop.best_score if stop else last:
        best_score.setdefault(result[0], {})[result[1]] = result[2]
    if stop:
        n_kept = (stop.best_iteration + 1) * model.trees_per_iteration
        model = replace(model, trees=model.trees[:n_kept])
    evals_result: dict[str, dict[str, list[float]]] = {}
    for results in trained.history:
        for name, metric, value, _ in results:
            evals_result.setdefault(name, {}).setdefault(metric, []).append(value)
    return TrainResult(
        model,
        evals_result,
        stop.best_iteration + 1 if stop else 0,
        best_score,
        trained.timings,
        trained.traffic,
        trained.votes,
        trained.certificates,
        trained.seconds,
    )


def train_worker(
    part: Part,
    job: Job,
    comm: Communicator,
    eval_sets: Sequence[EvalSet] = (),
    metrics: Sequence[Metric | CustomMetric] = (),
    callbacks: Sequence[Callback] = (),
) -> Trained:
    """What every worker runs, whatever carries its messages; worker 0 calls the callbacks."""
    params, checkpoint = job.params, job.checkpoint
    with comm.make_team(params.n_threads) as team:
        worker = Worker.of(team, comm, params.tree_learner)
        began = comm.now()
        n_parallel = count_parallel_trees(part, params, comm)
        _check_start(job.init_model, n_parallel)
        shard = make_shard(part, job.categorical, params, team, comm)
        warn_if_skewed(shard, params, comm, job.feature_names)
        binned = comm.now()
        evaluator = Evaluator(job, eval_sets, metrics, comm)
        saved, mark = None, {}
        if checkpoint is not None:
            mark = fingerprint(params, shard, comm, job.init_model, evaluator.asked, n_parallel)
            saved = checkpoint.resume(mark, comm)
            saved = saved and saved.up_to(params.n_estimators)
        start = job.init_model if saved is None else saved.model
        start_scores = None if start is None else _start_scores(start, part, comm, team)
        iterations, n_outputs, init_score, maker = _iterations(shard, job, start, start_scores, worker)
        evaluator.begin(n_outputs, init_score, team, start)
        trees = [] if start is None else list(start.trees)
        history: list[list[EvalResult]] = [] if saved is None else saved.history
        before_trees, n_before = comm.traffic.snapshot(), len(trees)
        watch = Watch(job, callbacks, comm.traffic) if comm.rank == 0 else None
        ready, seconds, ledgers = comm.now(), [], []
        with watch.progress(len(history)) if watch is not None else nullcontext():
            word = _hear(watch.begin(history) if watch is not None else NOTHING, job, comm)
            while word.stop is None and len(history) < params.n_estimators:
                if word.changes:
                    maker.params = replace(maker.params, **word.changes)
                added = next(iterations)
                trees.extend(added)
                seconds.append(comm.now() - ready)
                history.append(evaluator.evaluate(added, job.first + len(history) + 1))
                said = watch.see(job.first + len(history) - 1, history[-1]) if watch is not None else NOTHING
                word = _hear(said, job, comm)
                ledgers += [comm.traffic.snapshot()] if comm.size > 1 else []
                if checkpoint is not None and comm.rank == 0 and checkpoint.is_due(len(history)):
                    so_far = job.model(trees, shard.n_all_features, n_outputs, init_score, n_parallel)
                    checkpoint.save(so_far, history, mark)
        maker.strategy.finish_training()
        traffic = report(comm, before_trees, len(trees) - n_before, ledgers)
        timings = {"binning": binned - began, "training": comm.now() - binned}
    of = maker.strategy
    return Trained(
        trees,
        n_outputs,
        init_score,
        word.stop,
        history,
        timings,
        traffic,
        of.votes,
        of.certificates,
        n_parallel,
        seconds,
    )


def _check_start(start: Model | None, n_parallel: int) -> None:
    """All iterations of a model have as many trees."""
    if start is not None and start.n_parallel_trees != n_parallel:
        raise InvalidParameterError(
            f"init_model adds {start.n_parallel_trees} tree(s) to each output in an iteration, this training would add "
            f"{n_parallel}; train both with tree_learner='yu' and equally many workers that have rows, or both without."
        )


def _start_scores(start: Model, part: Part, comm: Communicator, team: Team) -> np.ndarray:
    """What an earlier model gives to the rows that this worker adds trees for, (n_outputs, n_rows)."""
    X = part.X if part.before_spread is None else part.before_spread.X
    n_threads = team.n_threads
    own = np.vstack([start.predict_raw(block, n_threads=n_threads) for block in as_source(X).blocks()])
    return (own if part.before_spread is None else in_order(own, all_numbers(part.before_spread, comm), comm)).T


def _iterations(
    shard: Shard, job: Job, start: Model | None, start_scores: np.ndarray | None, worker: Worker
) -> tuple[Iterator[list[Tree]], int, np.ndarray, TreeMaker]:
    """The stream of iterations, long enough, the number of outputs, the initial score, and who makes the trees."""
    params, first = job.params, 0 if start is None else start.n_iterations
    if params.ensemble == "forest":
        planter = Planter(shard, params, worker)
        trees = plant_forest(planter, job.stop - first, first)
        n_outputs = params.n_classes if params.criterion == "entropy" else 1
        return ([tree] for tree in trees), n_outputs, np.zeros(n_outputs), planter.maker
    booster = make_booster(shard, params, worker, start_scores)
    init_score = booster.init_score if start is None else start.init_score
    return booster.iterations(first), booster.n_outputs, init_score, booster.maker


def _hear(said: Word, job: Job, comm: Communicator) -> Word:
    """Worker 0 tells whether its callbacks have seen enough, which iteration was the best, and what is to change."""
    if not job.is_watched:
        return NOTHING
    stop = None if said.stop is None else [said.stop.best_iteration, said.stop.best_score]
    stop, changes = tell([stop, said.changes], comm, "metrics")
    return Word(None if stop is None else EarlyStopException(stop[0], [EvalResult(*r) for r in stop[1]]), changes)
