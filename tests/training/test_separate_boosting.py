"""Boosters whose workers grow trees of their own, against the same made step by step from one-machine trainings."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from pvtree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GBDTClassifier,
    GBDTRanker,
    GBDTRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from pvtree.binning.shard import make_shard
from pvtree.comm import local
from pvtree.comm.worker import Worker
from pvtree.errors import InvalidParameterError, ModelFileError
from pvtree.kernels.team import Team
from pvtree.model import Model
from pvtree.objectives.losses import make_loss
from pvtree.objectives.metrics import get_metric
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds
from pvtree.reading.training_rows import TrainingRows
from pvtree.training.boosting import BoostingLoop
from pvtree.training.options import TrainOptions
from pvtree.training.train import train_worker

LEARNERS = ("svore", "yu")
N_ITERATIONS = 4
SIZES = (96, 0, 120, 72, 60)  # rows of each worker, whole queries of 12; the second has none
N_VALUES = 6


@dataclass(frozen=True)
class Rows:
    """All workers' rows, and how they are spread."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None
    group: np.ndarray | None = None

    def parts(self) -> list[TrainingRows]:
        bounds = np.cumsum([0, *SIZES]).tolist()
        return [
            TrainingRows(
                self.X[a:b],
                self.y[a:b],
                None if self.weight is None else self.weight[a:b],
                None if self.group is None else self.group[a // 12 : b // 12],
                RowIds.consecutive(b - a, a, len(self.y)),
            )
            for a, b in pairwise(bounds)
        ]


def make_rows(task: str) -> Rows:
    """Columns of few values, all of which every worker with rows has: its own bins are those of all rows then."""
    rng = np.random.default_rng(7)
    n = sum(SIZES)
    X = rng.integers(0, N_VALUES, (n, 5)).astype(np.float64)
    for first in np.cumsum([0, *SIZES[:-1]])[np.array(SIZES) > 0]:
        X[first : first + N_VALUES] = np.arange(N_VALUES)[:, None]
    X[:, 1] = np.where(rng.random(n) < 0.2, np.nan, X[:, 1])
    signal = X[:, 0] - np.nan_to_num(X[:, 1], nan=4.0) + 2 * np.isin(X[:, 4], [1, 4]) + rng.normal(size=n)
    weight = rng.choice([0.25, 1.0, 3.0], n)
    match task:
        case "regression" | "custom":
            return Rows(X, signal, weight)
        case "binary":
            return Rows(X, (signal > 0.5).astype(np.float64))
        case "multiclass":
            return Rows(X, np.digitize(signal, [-1.0, 2.0]).astype(np.float64), weight)
    return Rows(X, np.digitize(signal, [0.0, 2.0, 3.5]).astype(np.float64), weight, np.full(n // 12, 12))


def squared_error(y: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return scores - y, np.ones_like(y)


CASES: dict[str, dict[str, Any]] = {
    "regression": {"objective": "regression"},
    "binary": {"objective": "binary", "n_classes": 2, "subsample": 0.7, "subsample_freq": 1, "colsample_bytree": 0.6},
    "multiclass": {"objective": "multiclass", "n_classes": 3},
    "ranking": {"objective": "lambdarank", "lambdarank_truncation_level": 3},
    "custom": {"objective": squared_error},
}
CATEGORICAL = {4: N_VALUES - 1}  # the values of column 4 are numbers of bins


def params_of(case: str, **more: Any) -> Params:
    small = {"n_estimators": N_ITERATIONS, "num_leaves": 6, "min_child_samples": 4, "learning_rate": 0.3}
    return Params(**{**small, "verbosity": 0, **CASES[case], **more})


def trained_together(case: str, learner: str, n_threads: int = 1) -> list[tuple[Model, Any]]:
    """Every worker's model and ledger."""
    options = TrainOptions(params_of(case, tree_learner=learner, n_threads=n_threads), CATEGORICAL)
    parts = make_rows(case).parts()

    def work(comm: Any) -> tuple[Model, Any]:
        made = train_worker(parts[comm.rank], options, comm)
        return made.model, made.traffic

    return local.run(work, len(SIZES))


# The same, step by step


def total_loss(case: str, rows: Rows, scores: np.ndarray) -> float:
    """scores: (n_rows, n_outputs)."""
    y, weight = rows.y, np.ones(len(rows.y)) if rows.weight is None else rows.weight
    match case:
        case "regression" | "custom":  # of squares the second-order model is no approximation
            return float(np.sum(weight * (scores[:, 0] - y) ** 2))
        case "binary":
            return float(np.sum(weight * (np.logaddexp(0.0, scores[:, 0]) - y * scores[:, 0])))
        case "multiclass":
            own = scores[np.arange(len(y)), y.astype(int)]
            return float(np.sum(weight * (np.logaddexp.reduce(scores, axis=1) - own)))
    total, discount = 0.0, 1.0 / np.log2(np.arange(3) + 2.0)
    for first in range(0, len(y), 12):
        gain, score = 2.0 ** y[first : first + 12] - 1.0, scores[first : first + 12, 0]
        best = np.sum(np.sort(gain)[::-1][:3] * discount)
        got = np.sum(gain[np.argsort(-score, kind="stable")][:3] * discount)
        total += (1.0 - got / best if best > 0 else 0.0) * weight[first : first + 12].mean()
    return total


def made_by_hand(case: str, learner: str) -> tuple[Model, list[int]]:
    """Of trees that each worker alone would add to the model so far; and which worker's were the best."""
    rows, params = make_rows(case), params_of(case)
    parts = [part for part in rows.parts() if len(part.y)]
    loss = make_loss(params, rows.y, rows.weight, rows.group)
    n_parallel = len(parts) if learner == "yu" else 1
    model = TrainOptions(params, CATEGORICAL).make_model([], 5, loss.n_outputs, loss.init_scores(), n_parallel)
    winners = []
    with Team(1) as team:
        shards = [make_shard(part, CATEGORICAL, params, team) for part in parts]
        for iteration in range(N_ITERATIONS):
            candidates = []
            for part, shard in zip(parts, shards, strict=True):
                loop = BoostingLoop(shard, params, Worker.alone(team), model.predict_raw(part.X).T)
                candidates.append(next(loop.iterations(iteration)))
            if learner == "yu":
                every = [tree for candidate in candidates for tree in candidate]
                added = [replace(tree, value=tree.value / len(parts)) for tree in every]
            else:
                tried = [replace(model, trees=(*model.trees, *candidate)) for candidate in candidates]
                winners.append(int(np.argmin([total_loss(case, rows, each.predict_raw(rows.X)) for each in tried])))
                added = candidates[winners[-1]]
            model = replace(model, trees=(*model.trees, *added))
    return model, winners


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("case", CASES)
def test_the_algorithm_step_by_step(case: str, learner: str) -> None:
    """To the last bit, on every worker, also on one without rows, and on any number of threads."""
    expected, winners = made_by_hand(case, learner)
    for n_threads in (1, 2 * len(SIZES)):
        for model, _ in trained_together(case, learner, n_threads):
            assert model == expected
    assert expected.n_iterations == N_ITERATIONS
    assert len(expected.trees) == N_ITERATIONS * expected.n_outputs * (4 if learner == "yu" else 1)
    if learner == "svore" and case != "custom":
        assert len(set(winners)) > 1  # or the test would not tell much
    for tree in expected.trees:
        assert tree.n_leaves > 1


# What it costs


@pytest.mark.parametrize("learner", LEARNERS)
def test_bytes_on_the_wire(learner: str) -> None:
    """One exchange of trees an iteration, whose bytes follow from the number of leaves; svore adds up the losses."""
    model, traffic = trained_together("multiclass", learner)[0]
    n_senders, n_others = 4, len(SIZES) - 1
    assert all(tree.n_leaves == 6 for tree in model.trees)  # all that are allowed, so losers have as many
    n_sets = np.mean([len(tree.cat_sets) for tree in model.trees])
    per_tree = 4 + 20 * 11 + 10 * 5 + 4 * 6
    n_trees = N_ITERATIONS * 3 * n_senders
    sent, calls = traffic.by_phase["trees"].bytes, traffic.by_phase["trees"].calls
    if learner == "yu":
        # Before that, one sum tells how many workers have rows.
        assert sent == n_others * (n_trees * per_tree + 32 * n_sets * n_trees + 2 * 8)
        assert calls == N_ITERATIONS + 1
    else:
        rest = sent - n_others * n_trees * per_tree  # sets of categories, of losers too
        assert rest % (32 * n_others) == 0 and 0 < rest <= 5 * 32 * n_others * n_trees
        assert calls == N_ITERATIONS
    others = trained_together("multiclass", "yu")[0][1].by_phase["scores"]  # initial scores only
    scores = traffic.by_phase["scores"]
    of_losses = 0 if learner == "yu" else N_ITERATIONS
    assert scores.calls - others.calls == of_losses
    assert scores.bytes - others.bytes == of_losses * n_others * 2 * 8 * n_senders
    assert {phase for phase, cost in traffic.by_phase.items() if cost.bytes} == {"bins", "trees", "scores"}


# As estimators

SMALL = {"n_estimators": 6, "num_leaves": 5, "min_child_samples": 5, "verbosity": 0}


def estimator(kind: type, learner: str, n_workers: int = 3, **more: Any) -> Any:
    return kind(tree_learner=learner, n_workers=n_workers, **SMALL | more)


def arguments(kind: type) -> dict[str, Any]:
    rows = make_rows({GBDTRegressor: "regression", GBDTClassifier: "multiclass", GBDTRanker: "ranking"}[kind])
    return {"X": rows.X, "y": rows.y} | ({"group": rows.group} if kind is GBDTRanker else {})


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("kind", [GBDTRegressor, GBDTClassifier, GBDTRanker])
def test_one_worker_makes_the_file_of_serial(kind: type, learner: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = estimator(kind, learner, 1).fit(**arguments(kind))
        together = estimator(kind, learner).fit(**arguments(kind))
    assert alone.model_.to_json() == kind(**SMALL).fit(**arguments(kind)).model_.to_json() != together.model_.to_json()
    assert alone.traffic_.total_bytes == 0


@pytest.mark.parametrize("learner", LEARNERS)
def test_iterations_of_several_trees(learner: str, tmp_path: Any) -> None:
    """Early stopping, files, stages, leaves: all count in iterations, of nine trees with yu and of three with svore."""
    data = arguments(GBDTClassifier)
    held = data["X"][::3] + 0.0, np.roll(data["y"][::3], 5)  # labels of other rows, so that it gets worse soon
    options = {"n_estimators": 30, "early_stopping_rounds": 2, "learning_rate": 0.5}
    fitted = estimator(GBDTClassifier, learner, **options).fit(**data, eval_set=[held], eval_metric="multi_logloss")
    model, losses = fitted.model_, fitted.evals_result_["valid_0"]["multi_logloss"]
    per_iteration = 9 if learner == "yu" else 3
    assert model.trees_per_iteration == per_iteration and model.n_parallel_trees == per_iteration // 3
    assert fitted.best_iteration_ == fitted.n_iter_ == int(np.argmin(losses)) + 1 == len(losses) - 2
    assert len(model.trees) == fitted.n_iter_ * per_iteration
    stages = list(model.staged_raw(held[0]))
    metric = get_metric("multi_logloss", "multiclass")
    assert [metric(held[1], stage.T.copy()) for stage in stages] == losses[: len(stages)]
    assert np.array_equal(fitted._raw(held[0], num_iteration=1), stages[0])
    assert fitted.apply(held[0]).shape == (len(held[0]), len(model.trees))
    model.save(tmp_path / "model.json")
    loaded = Model.load(tmp_path / "model.json")
    assert loaded == model and loaded.n_iterations == model.n_iterations
    assert ('"n_parallel_trees":3' in model.to_json()) == (learner == "yu")


class Interrupted(Exception):
    pass


def interrupt_at(iteration: int) -> Callable[[Any], None]:
    def callback(env: Any) -> None:
        if env.iteration == iteration:
            raise Interrupted

    return callback


@pytest.mark.parametrize("learner", LEARNERS)
def test_going_on(learner: str, tmp_path: Any) -> None:
    """From an earlier model, and from a checkpoint, to the model of a training at a stretch."""
    data, kind = arguments(GBDTClassifier), GBDTClassifier
    whole = estimator(kind, learner, subsample=0.6, subsample_freq=1).fit(**data).model_

    def begin(n_workers: int = 3, **more: Any) -> Any:
        return estimator(kind, learner, n_workers, subsample=0.6, subsample_freq=1, **more)

    half = begin(n_estimators=3).fit(**data)
    assert begin(n_estimators=3).fit(**data, init_model=half).model_ == whole
    with pytest.raises(Interrupted):
        begin().fit(**data, checkpoint=tmp_path, checkpoint_freq=2, callbacks=[interrupt_at(4)])
    assert begin().fit(**data, checkpoint=tmp_path).model_ == whole
    if learner == "svore":
        with pytest.warns(UserWarning, match="distributed differently over the workers; svore resumes"):
            begin(2).fit(**data, checkpoint=tmp_path)
        return
    with pytest.raises(InvalidParameterError, match="the number of workers with rows was 3 and is 2"):
        begin(2).fit(**data, checkpoint=tmp_path)
    for others in (begin(2), kind(**SMALL)):
        with pytest.raises(InvalidParameterError, match=r"init_model adds 3 tree.* would add [12]; train both with"):
            others.fit(**data, init_model=half)


def test_hostile_numbers_of_parallel_trees() -> None:
    model = TrainOptions(params_of("binary")).make_model(made_by_hand("binary", "yu")[0].trees, 5, 1, np.zeros(1), 4)
    assert Model.from_json(model.to_json()) == model
    for value, reason in (
        *((v, "parallel trees is out of range") for v in (1, 0, -4, 2**31)),
        *((v, "n_parallel_trees has the wrong type") for v in (4.0, "4", None, True)),
        (3, "not a multiple"),
    ):
        document = json.loads(model.to_json())
        document["payload"]["n_parallel_trees"] = value
        with pytest.raises(ModelFileError, match=reason):
            Model.from_json(sealed(document))


def sealed(document: dict[str, Any]) -> str:
    """With a checksum that fits."""
    body = json.dumps(document["payload"], sort_keys=True, separators=(",", ":"))
    return json.dumps({**document, "sha256": hashlib.sha256(body.encode()).hexdigest()})


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    "kind", [RandomForestClassifier, RandomForestRegressor, DecisionTreeClassifier, DecisionTreeRegressor]
)
def test_forests_and_single_trees_refuse(kind: type, learner: str) -> None:
    with pytest.raises(InvalidParameterError, match=rf"are for boosting only: use 'voting'\), got '{learner}'\.$"):
        kind(tree_learner=learner, n_workers=2).fit(np.zeros((4, 1)), [0, 1, 0, 1])
    assert f"'{learner}'" in GBDTRegressor.__doc__
