"""Training from rows to a model: bin them, add trees, evaluate, stop early and keep the best iteration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.binning.shard import all_numbers, in_order, make_shard, split_by_columns, split_by_rows, spread_columns
from pvtree.comm import Communicator, Solo, TrafficReport, local, virtual
from pvtree.comm.traffic import report
from pvtree.comm.worker import Worker
from pvtree.errors import InvalidParameterError
from pvtree.find_split import Votes
from pvtree.find_split.certificates import Certificate
from pvtree.kernels.beside import compile_beside
from pvtree.kernels.team import Team
from pvtree.model.model import Model
from pvtree.model.predictor import first_scores
from pvtree.parameters.params import Params
from pvtree.reading.sources import Source, as_source
from pvtree.reading.training_rows import TrainingRows
from pvtree.training.checkpoint_file import Saved
from pvtree.training.dart import Dart
from pvtree.training.ensemble import make_ensemble
from pvtree.training.evaluator import Evaluator
from pvtree.training.options import TrainOptions
from pvtree.training.out_of_bag import OutOfBag, judge_out_of_bag
from pvtree.training.run import CheckpointKeeper, TrainingRun
from pvtree.training.separate_boosting import count_parallel_trees
from pvtree.training.skew import warn_if_skewed

if TYPE_CHECKING:
    from pvtree.reading.tables import Columns


@dataclass(frozen=True)
class TrainResult:
    """A model and how it was trained; all workers have the same."""

    model: Model
    evals_result: dict[str, dict[str, list[float]]]
    best_iteration: int  # number of iterations kept; 0 if training did not stop early
    best_score: dict[str, dict[str, float]]
    timings: dict[str, float]  # seconds of "binning" and of "training"
    traffic: TrafficReport
    votes: list[Votes] | None  # by tree, if workers vote
    certificates: list[Certificate] | None  # by tree, if splits are proven
    seconds: list[float]  # from the start of the first iteration to the end of each
    out_of_bag: OutOfBag | None = None  # of a forest, if asked for
    # What fit learned from the data; None for plain arrays.
    columns: Columns | None = None
    classes: np.ndarray | tuple[np.ndarray, ...] | None = None  # several columns have a tuple
    kept: dict[str, Any] = field(default_factory=dict)  # attributes that callbacks set on env.model, on worker 0


def train(
    X: np.ndarray | Source,
    y: np.ndarray,
    params: Params,
    *,
    weight: np.ndarray | None = None,
    group: np.ndarray | None = None,
    comm: Communicator | None = None,
    cluster: virtual.Cluster | None = None,
    **options: Any,
) -> TrainResult:
    """Train on arrays of numbers; ``options`` are further fields of ``TrainOptions``. See ``train_rows``."""
    return train_rows(TrainingRows(X, y, weight, group), TrainOptions(params, **options), comm, cluster)


def train_rows(
    rows: TrainingRows,
    options: TrainOptions,
    comm: Communicator | None = None,
    cluster: virtual.Cluster | None = None,
) -> TrainResult:
    """Train on this rank's rows together with all ranks of ``comm``; every rank must call it.

    Without other ranks, train on ``n_workers`` virtual machines, which are threads of this process. On a ``cluster``
    they have clocks of their own, and all timings are in virtual time.
    """
    params = options.params
    by_columns = params.tree_learner == "attribute"
    if comm is not None and comm.size > 1:
        if cluster is not None:
            raise InvalidParameterError(
                f"cluster is given together with comm, whose {comm.size} workers are real; leave one of them out."
            )
        return train_worker(spread_columns(rows, comm) if by_columns else rows, options, comm)
    compile_beside([params.tree_learner])
    parts = (split_by_columns if by_columns else split_by_rows)(rows, params.n_workers)

    def work(comm: Communicator) -> TrainResult:
        # Worker 0 evaluates all rows, which are in this process anyway.
        eval_sets = options.eval_sets if comm.rank == 0 else [each.without_rows() for each in options.eval_sets]
        return train_worker(parts[comm.rank], replace(options, eval_sets=eval_sets), comm)

    if cluster is not None:
        return virtual.run(work, params.n_workers, cluster)[0]
    return local.run(work, params.n_workers)[0] if params.n_workers > 1 else work(Solo())


def train_worker(rows: TrainingRows, options: TrainOptions, comm: Communicator) -> TrainResult:
    """What every worker runs, whichever communicator connects them."""
    params = options.params
    with comm.make_team(params.n_threads) as team:
        worker = Worker.of(team, comm, params.tree_learner)
        began = comm.now()
        n_parallel_trees = count_parallel_trees(rows, params, comm)
        _check_init_model(options.init_model, n_parallel_trees, params)
        shard = make_shard(rows, options.categorical, params, team, comm)
        warn_if_skewed(shard, params, comm, options.feature_names)
        binned = comm.now()
        evaluator = Evaluator(options, comm)
        keeper = CheckpointKeeper(options, shard, comm, evaluator.asked, n_parallel_trees)
        start = options.init_model if keeper.saved is None else keeper.saved.model
        first = 0 if start is None else start.n_iterations
        fixed = options.init_model if params.boosting_type == "dart" else start  # whose trees do not change
        start_scores = None if fixed is None else _start_scores(fixed, rows, comm, team)
        ensemble = make_ensemble(shard, options, worker, n_parallel_trees, fixed, start_scores, first)
        if ensemble.dart is not None and keeper.saved is not None:
            start = _resume_dart(ensemble.dart, keeper.saved, fixed, rows, comm, team)
        for tree in () if start is None else start.trees:
            ensemble.maker.pay_for(tree.feature)
        evaluator.begin(ensemble.n_outputs, ensemble.init_score, team, start)
        run = TrainingRun(options, ensemble, evaluator, keeper, shard.n_all_features, comm, start)
        before_trees = comm.traffic.snapshot()
        run.run()
        ensemble.maker.strategy.finish_training()
        traffic = report(comm, before_trees, len(run.trees) - run.n_old_trees, run.ledgers)
        timings = {"binning": binned - began, "training": comm.now() - binned}
        result = _result(run, timings, traffic)
        if not params.oob_score:
            return result
        held, others = (rows, worker.by_rows) if rows.before_spread is None else (rows.before_spread, comm)
        return replace(result, out_of_bag=judge_out_of_bag(result.model, held, params, others, team))


def _check_init_model(init_model: Model | None, n_parallel_trees: int, params: Params) -> None:
    """All iterations of a model have the same number of trees, and all trees read rows alike."""
    if init_model is not None and init_model.zero_as_missing != params.zero_as_missing:
        raise InvalidParameterError(
            f"init_model was trained with zero_as_missing={init_model.zero_as_missing}, this training has "
            f"zero_as_missing={params.zero_as_missing}; use the same for both."
        )
    if init_model is not None and init_model.n_parallel_trees != n_parallel_trees:
        raise InvalidParameterError(
            f"init_model adds {init_model.n_parallel_trees} tree(s) to each output in an iteration, this training "
            f"would add {n_parallel_trees}; train both with tree_learner='yu' on the same number of workers that have "
            "rows, or both without."
        )


def _start_scores(start: Model, rows: TrainingRows, comm: Communicator, team: Team) -> np.ndarray:
    """The scores that ``start`` gives to the rows that this worker trains on, (n_outputs, n_rows)."""
    held = rows if rows.before_spread is None else rows.before_spread
    if held.init_score is None:
        own = np.vstack([start.predict_raw(block, n_threads=team.n_threads) for block in as_source(held.X).blocks()])
    else:
        # In the order in which training adds, so that a resumed training gets the same bits.
        own = np.ascontiguousarray(first_scores(start.init_score, len(held.y), held.init_score).T)
        at = 0
        for block in as_source(held.X).blocks():
            rows_here = slice(at, at + block.shape[0])
            scores = np.ascontiguousarray(own[rows_here].T)
            start.add_trees(block, scores, team.n_threads)
            own[rows_here] = scores.T
            at = rows_here.stop
    return (own if rows.before_spread is None else in_order(own, all_numbers(held, comm), comm)).T


def _resume_dart(
    dart: Dart, saved: Saved, fixed: Model | None, rows: TrainingRows, comm: Communicator, team: Team
) -> Model:
    """The saved model with its trees' weights, from which ``dart`` goes on."""
    n_fixed = 0 if fixed is None else len(fixed.trees)
    trees = saved.model.trees[n_fixed:]
    held = rows if rows.before_spread is None else rows.before_spread
    grown = replace(saved.model, trees=trees)
    own = np.vstack([grown.predict_leaf(block, n_threads=team.n_threads) for block in as_source(held.X).blocks()])
    leaves = own if rows.before_spread is None else in_order(own, all_numbers(held, comm), comm)
    dart.resume(trees, leaves.astype(np.int64), saved.weights or [])
    return replace(saved.model, trees=(*saved.model.trees[:n_fixed], *dart.trees))


def _result(run: TrainingRun, timings: dict[str, float], traffic: TrafficReport) -> TrainResult:
    model, stop, strategy = run.model(), run.stop, run.ensemble.maker.strategy
    evals_result: dict[str, dict[str, list[float]]] = {}
    for results in run.history:
        for name, metric, value, _ in results:
            evals_result.setdefault(name, {}).setdefault(metric, []).append(value)
    best_score: dict[str, dict[str, float]] = {}
    last = run.history[-1] if run.history else []
    for result in stop.best_score if stop else last:
        best_score.setdefault(result[0], {})[result[1]] = result[2]
    if stop and not stop.keeps_later:
        model = run.model_after(stop.best_iteration + 1)
    return TrainResult(
        model=model,
        evals_result=evals_result,
        best_iteration=stop.best_iteration + 1 if stop else 0,
        best_score=best_score,
        timings=timings,
        traffic=traffic,
        votes=strategy.votes,
        certificates=strategy.certificates,
        seconds=run.seconds,
        kept={} if run.runner is None else run.runner.training.kept(),
    )
