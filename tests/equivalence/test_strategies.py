"""Every parallel strategy makes the model of the sequential algorithm, byte for byte, however rows are spread.

``quantized`` looks at coarser bins, so it is compared with itself on one worker, which grows a leaf at a time.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pvtree
from pvtree.binning.shard import split_by_columns
from pvtree.comm import Communicator, local
from pvtree.errors import CommunicationError, DivergedError
from pvtree.find_split import Strategy, voting
from pvtree.find_split.exchange import Exchange
from pvtree.growing.frontier import Frontier
from pvtree.growing.frontier_records import Elected
from pvtree.growing.tree_memory import TreeMemory
from pvtree.model import Model, Tree
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds
from pvtree.reading.training_rows import TrainingRows
from pvtree.training import boosting, forest
from pvtree.training.options import TrainOptions
from pvtree.training.train import TrainResult, train, train_worker
from small_data import KINDS, categories_of, make_columns

pytestmark = pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")
QUICK = settings(deadline=None, derandomize=True, database=None)
LEARNERS = ("data", "attribute", "voting", "quantized")
WORKERS = (1, 2, 3, 5, 8)


def steep_loss(y: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An objective of the user's own, row by row, in operations that are exact to the last bit everywhere."""
    distance = score - y
    return distance * (1.0 + np.abs(distance)), 1.0 + 2.0 * np.abs(distance)


# Trainings with everything that users may ask for


@dataclass(frozen=True)
class Case:
    """One training on a small matrix; its labels, weights and queries follow from the seed."""

    objective: str  # of boosting; or "classes" and "values" of a forest
    params: dict[str, Any] = field(default_factory=dict)
    n_rows: int = 80
    kinds: tuple[str, ...] = ("many", "few", "gaps", "category", "many", "infinite", "few")
    n_classes: int = 3  # of "multiclass" and "classes"
    weights: str = "none"  # "none" | "some" | "with zeros"
    max_bin: int = 31
    seed: int = 1

    @property
    def n_labels(self) -> int:
        return {"binary": 2, "multiclass": self.n_classes, "classes": self.n_classes}.get(self.objective, 1)

    def settled(self) -> Params:
        forest = self.objective in ("classes", "values")
        names = {"classes": "classification", "values": "regression", "custom": steep_loss}
        given = {name: value for name, value in self.params.items() if forest or name != "bootstrap"}
        small = {"n_estimators": 2, "num_leaves": 7, "min_child_samples": 3, "min_child_weight": 0.0}
        return Params(
            ensemble="forest" if forest else "gbdt", objective=names.get(self.objective, self.objective),
            criterion={"classes": "entropy", "values": "variance"}.get(self.objective, "gradient"),
            n_classes=self.n_labels, max_bin=self.max_bin, verbosity=0, quantized_bins=0.4, **{**small, **given},
        )  # fmt: skip

    @property
    def has_queries(self) -> bool:
        return self.objective == "lambdarank"


@dataclass(frozen=True)
class Rows:
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    group: np.ndarray | None


def make_rows(case: Case) -> Rows:
    rng = np.random.default_rng(case.seed)
    n, n_labels = case.n_rows, case.n_labels
    X = make_columns(case.kinds, n, rng)
    signal = np.nan_to_num(X[:, :3], nan=-0.5, posinf=2.0, neginf=-2.0).clip(-3, 3).sum(axis=1) + rng.normal(size=n)
    y = np.floor(signal * 2) % n_labels if n_labels > 1 else signal
    group = None
    if case.has_queries:
        y = np.clip(np.floor(signal + 2), 0, 4)
        ends = np.unique(np.append(rng.integers(0, n + 1, n // 9), [0, n]))
        group = np.diff(ends)
    weight = None if case.weights == "none" else rng.choice([0.25, 1.0, 3.1], n)
    if weight is not None and case.weights == "with zeros":
        weight[rng.permutation(n)[: n // 3]] = 0.0
    return Rows(X, y, weight, group)


def model_of(case: Case, learner: str, n_workers: int, init_model: Model | None = None) -> Model:
    rows = make_rows(case)
    d = len(case.kinds)
    params = replace(case.settled(), tree_learner=learner, n_workers=n_workers, top_k=(d + 1) // 2)
    return train(
        rows.X, rows.y, params, weight=rows.weight, group=rows.group, categorical=categories_of(case.kinds),
        init_model=init_model,
    ).model  # fmt: skip


CASES = {
    "regression": Case("regression"),
    "binary": Case("binary", {"reg_lambda": 1.0, "reg_alpha": 0.1}),
    "multiclass": Case("multiclass"),
    "lambdarank": Case("lambdarank", n_rows=150),
    "custom": Case("custom"),
    "weights": Case("regression", weights="some"),
    "binary with zero weights": Case("binary", weights="with zeros"),
    "ranking with zero weights": Case("lambdarank", weights="with zeros", n_rows=150),
    "custom with zero weights": Case("custom", weights="with zeros"),
    "rows sampled": Case("binary", {"subsample": 0.5, "subsample_freq": 1, "n_estimators": 4}),
    "rows sampled with zero weights": Case("custom", {"subsample": 0.6, "subsample_freq": 2}, weights="with zeros"),
    "columns of trees": Case("regression", {"colsample_bytree": 0.6}),
    "columns of nodes": Case("binary", {"colsample_bynode": 0.4, "colsample_bytree": 0.8, "num_leaves": 12}),
    "all leaves": Case("regression", {"num_leaves": 0, "min_child_samples": 1}),
    "depth": Case("binary", {"num_leaves": 0, "max_depth": 3}),
    "depth and leaves": Case("regression", {"num_leaves": 9, "max_depth": 4, "min_split_gain": 0.05}),
    "tree of classes": Case("classes", {"n_estimators": 1, "num_leaves": 0, "min_child_samples": 1}),
    "tree of 12 classes": Case("classes", {"n_estimators": 1, "num_leaves": 15}, n_classes=12, n_rows=200),
    "tree of weighted classes": Case("classes", {"num_leaves": 0}, weights="with zeros", n_classes=4),
    "tree of values": Case("values", {"n_estimators": 1, "num_leaves": 0, "min_child_samples": 1}),
    "tree of weighted values": Case("values", {"n_estimators": 1, "num_leaves": 0}, weights="with zeros"),
    "forest of classes": Case("classes", {"bootstrap": True, "colsample_bynode": 0.4}, n_classes=2),
    "forest of 12 classes": Case("classes", {"bootstrap": True, "num_leaves": 0}, n_classes=12, weights="some"),
    "forest of values": Case("values", {"bootstrap": True, "colsample_bynode": 0.5}),
    "forest of weighted values": Case("values", {"bootstrap": True}, weights="with zeros"),
    "one column": Case("regression", kinds=("many",)),
    "two columns": Case("binary", kinds=("gaps", "many")),
    "nothing to split": Case("binary", kinds=("constant", "missing", "constant")),
    "constant and missing columns": Case("regression", kinds=("missing", "many", "constant", "few", "missing")),
    "only categories": Case("binary", kinds=("category", "many categories", "category")),
    "more than a block of columns": Case("regression", kinds=(KINDS * 5)[:37], n_rows=120),
    "packed words too short": Case("values", {"num_leaves": 20}, weights="some", n_rows=1500),
}


@cache
def reference(name: str, learner: str) -> str:
    """What one worker makes, one leaf after another."""
    return model_of(CASES[name], "quantized" if learner == "quantized" else "serial", 1).to_json()


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", CASES)
def test_models_are_those_of_one_worker(name: str, learner: str) -> None:
    for n_workers in WORKERS:
        assert model_of(CASES[name], learner, n_workers).to_json() == reference(name, learner), n_workers


FEW_ROWS = {
    **{name: Case(name) for name in ("regression", "binary", "lambdarank", "custom", "classes", "values")},
    "rows sampled": Case("custom", {"subsample": 0.5, "subsample_freq": 1}),
    "forest of classes": Case("classes", {"bootstrap": True}, weights="some"),
    "forest of values": Case("values", {"bootstrap": True}),
}


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", FEW_ROWS)
def test_fewer_rows_than_workers(name: str, learner: str) -> None:
    # The first workers have the rows, and of the columns that help none: those are up to workers without rows.
    kinds = ("constant", "constant", "missing", "few", "gaps", "many", "category")
    case = replace(FEW_ROWS[name], kinds=kinds, n_classes=2)
    everything = {"min_child_samples": 1, "num_leaves": 0, "n_estimators": 2, **case.params}
    for n_rows in range(1, 8):
        case = replace(case, n_rows=n_rows, params=everything)
        expected = model_of(case, "quantized" if learner == "quantized" else "serial", 1).to_json()
        assert model_of(case, learner, 8).to_json() == expected, n_rows


@pytest.mark.parametrize("learner", LEARNERS)
def test_nothing_is_read_before_it_is_written(learner: str) -> None:
    """More workers than columns or rows: a worker that finds no split must not offer what memory held before."""
    make_room = TreeMemory.make_evaluation_room

    def make_dirty_room(self: TreeMemory, n_nodes: int) -> None:
        make_room(self, n_nodes)
        self.best["gain"], self.best["feature"], self.best["split_bin"] = 1e300, 0, 1

    case = Case("regression", n_rows=40, kinds=("many", "few", "gaps"))
    expected = model_of(case, "quantized" if learner == "quantized" else "serial", 1).to_json()
    with patch.object(TreeMemory, "make_evaluation_room", make_dirty_room):
        assert model_of(case, learner, 8).to_json() == expected


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", ["regression", "multiclass", "rows sampled", "lambdarank", "forest of classes"])
def test_training_goes_on_from_a_model(name: str, learner: str) -> None:
    start = model_of(CASES[name], "serial", 1)
    expected = model_of(CASES[name], "quantized" if learner == "quantized" else "serial", 1, start).to_json()
    assert len(expected) > len(start.to_json())
    assert model_of(CASES[name], learner, 3, start).to_json() == expected


# Estimators: what users see beside the model


def fit(name: str, learner: str, n_workers: int, stops_early: bool = False) -> Any:
    rng = np.random.default_rng(4)
    X = make_columns(("many", "few", "gaps", "many", "few"), 150, rng)
    y = (X[:, 0] + X[:, 1] + rng.normal(size=150) > 0).astype(int)
    weight = np.where(rng.random(100) < 0.2, 0.0, 1.5)
    params: dict[str, Any] = {"num_leaves": 7, "verbosity": 0, "random_state": 3, "tree_learner": learner, "top_k": 3}
    if "Tree" not in name:
        params["n_estimators"] = 60 if stops_early else 4
    evaluated: dict[str, Any] = {"eval_set": [(X[100:], y[100:])]} if stops_early else {}
    if stops_early:
        params["early_stopping_rounds"] = 3
    estimator = getattr(pvtree, name)(**params, n_workers=n_workers)
    return estimator.fit(X[:100], y[:100], sample_weight=weight, **evaluated)


@pytest.mark.parametrize("learner", ["data", "attribute", "feature", "voting"])
@pytest.mark.parametrize("n_workers", [2, 5])
def test_early_stopping_stops_all_workers_at_the_same_iteration(learner: str, n_workers: int) -> None:
    alone = fit("GBDTClassifier", "serial", 1, stops_early=True)
    together = fit("GBDTClassifier", learner, n_workers, stops_early=True)
    assert 0 < together.best_iteration_ == alone.best_iteration_ < 60
    assert together.evals_result_ == alone.evals_result_
    assert together.model_.to_json() == alone.model_.to_json()


@pytest.mark.parametrize("learner", ["data", "attribute", "voting"])
@pytest.mark.parametrize(
    "name",
    ["GBDTRegressor", "RandomForestClassifier", "RandomForestRegressor", "DecisionTreeClassifier",
     "DecisionTreeRegressor"],
)  # fmt: skip
def test_estimators_give_the_same_models(name: str, learner: str) -> None:
    alone = fit(name, "serial", 1)
    assert alone.model_.trees[0].n_nodes > 3
    assert fit(name, learner, 4).model_.to_json() == alone.model_.to_json()


# Any partition of the rows


def split_at(rows: Rows, bounds: list[int]) -> list[TrainingRows]:
    """Blocks of rows of any size; queries stay whole, because their ends are among the bounds."""
    parts = []
    ends = None if rows.group is None else np.concatenate(([0], np.cumsum(rows.group)))
    for start, stop in pairwise(bounds):
        weight = None if rows.weight is None else rows.weight[start:stop]
        group = None if ends is None else np.diff(ends[(ends >= start) & (ends <= stop)])
        ids = RowIds.consecutive(stop - start, start, len(rows.y))
        parts.append(TrainingRows(rows.X[start:stop], rows.y[start:stop], weight, group, ids))
    return parts


def as_model(result: TrainResult, like: Model) -> Model:
    model = result.model
    return replace(like, trees=model.trees, n_outputs=model.n_outputs, init_score=model.init_score)


def check_partition(case: Case, learner: str, n_workers: int, n_threads: int = 1, packs: bool = True) -> None:
    rows, d = make_rows(case), len(case.kinds)
    rng = np.random.default_rng(case.seed + 1)
    ends = np.arange(case.n_rows + 1) if rows.group is None else np.concatenate(([0], np.cumsum(rows.group)))
    bounds = [0, *np.sort(rng.choice(ends, n_workers - 1)).tolist(), case.n_rows]
    params = replace(
        case.settled(), tree_learner=learner, n_workers=n_workers, top_k=(d + 1) // 2, packs_histograms=packs,
        n_threads=n_threads * n_workers,
    )  # fmt: skip
    parts = split_at(rows, bounds)
    if learner == "attribute":
        parts = split_by_columns(TrainingRows(rows.X, rows.y, rows.weight, rows.group), n_workers)
    options = TrainOptions(params, categories_of(case.kinds))
    alone = model_of(case, "quantized" if learner == "quantized" else "serial", 1)
    for trained in local.run(lambda comm: train_worker(parts[comm.rank], options, comm), n_workers):
        assert as_model(trained, alone).to_json() == alone.to_json(), bounds


ANYTHING = st.builds(
    Case,
    objective=st.sampled_from(["regression", "binary", "multiclass", "lambdarank", "custom", "classes", "values"]),
    params=st.fixed_dictionaries(
        {
            "n_estimators": st.integers(1, 2),
            "num_leaves": st.sampled_from([0, 2, 5, 9, 16]),
            "max_depth": st.sampled_from([-1, -1, -1, 1, 4]),
            "min_child_samples": st.sampled_from([1, 1, 2, 4]),
            "min_child_weight": st.sampled_from([0.0, 0.0, 0.5]),
            "min_split_gain": st.sampled_from([0.0, 0.0, 0.01]),
            "reg_lambda": st.sampled_from([0.0, 1.0]),
            "reg_alpha": st.sampled_from([0.0, 0.0, 0.2]),
            "subsample": st.sampled_from([1.0, 0.7, 0.2]),
            "subsample_freq": st.sampled_from([0, 1]),
            "bootstrap": st.booleans(),
            "colsample_bytree": st.sampled_from([1.0, 1.0, 0.5]),
            "colsample_bynode": st.sampled_from([1.0, 1.0, 0.6, 0.2]),
            "seed": st.integers(0, 5),
        }
    ),
    n_rows=st.one_of(st.integers(1, 12), st.integers(13, 120)),
    kinds=st.one_of(
        st.lists(st.sampled_from([*KINDS, "many categories"]), min_size=1, max_size=6).map(tuple),
        st.integers(16, 36).map(lambda d: (KINDS * 5)[:d]),
    ),
    n_classes=st.sampled_from([2, 3, 12]),
    weights=st.sampled_from(["none", "none", "some", "with zeros"]),
    max_bin=st.sampled_from([2, 6, 255]),
    seed=st.integers(0, 2**32),
)


@settings(QUICK, max_examples=150)
@given(ANYTHING, st.sampled_from(LEARNERS), st.sampled_from(WORKERS), st.sampled_from([1, 2]), st.booleans())
def test_any_training_on_any_partition(case: Case, learner: str, n_workers: int, n_threads: int, packs: bool) -> None:
    check_partition(case, learner, n_workers, n_threads, packs)


# Rounds


def depth_of(tree: Tree) -> int:
    depth = np.zeros(tree.n_nodes, np.int64)
    for node in np.flatnonzero(tree.feature >= 0):  # parents come before their children
        depth[tree.left_child[node] : tree.left_child[node] + 2] = depth[node] + 1
    return int(depth.max())


@contextmanager
def counted_rounds() -> Iterator[list[tuple[int, int]]]:
    """(rounds, collectives) of each tree, as worker 0 sees them."""
    seen: list[tuple[int, int]] = []
    make = boosting.make_strategy

    def make_counted(params: Params, comm: Communicator) -> Strategy:
        strategy = make(params, comm)
        begin_tree, find_splits, finish_tree = strategy.begin_tree, strategy.find_splits, strategy.finish_tree
        now = {"rounds": 0, "calls": 0}

        def begin(frontier: Frontier) -> None:
            now.update(rounds=0, calls=comm.traffic.total().calls)
            begin_tree(frontier)

        def find(frontier: Frontier) -> None:
            now["rounds"] += 1
            find_splits(frontier)

        def finish(frontier: Frontier, is_split: np.ndarray) -> None:
            finish_tree(frontier, is_split)
            if comm.rank == 0:
                seen.append((now["rounds"], comm.traffic.total().calls - now["calls"]))

        strategy.begin_tree, strategy.find_splits, strategy.finish_tree = begin, find, finish  # type: ignore[method-assign]
        return strategy

    with patch.object(boosting, "make_strategy", make_counted), patch.object(forest, "make_strategy", make_counted):
        yield seen


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("top_k", [1, 4])
@pytest.mark.parametrize("num_leaves", [0, 2, 6, 15, 31])
def test_rounds_follow_the_depth_and_not_the_leaves(learner: str, top_k: int, num_leaves: int) -> None:
    case = Case("regression", {"num_leaves": num_leaves}, n_rows=400)
    rows = make_rows(case)
    params = replace(case.settled(), tree_learner=learner, n_workers=3, top_k=top_k)
    with counted_rounds() as seen:
        model = train(rows.X, rows.y, params, categorical=categories_of(case.kinds)).model
    assert len(seen) == len(model.trees) == 2
    for (n_rounds, n_collectives), tree in zip(seen, model.trees, strict=True):
        assert tree.n_nodes > 2
        assert depth_of(tree) <= n_rounds <= depth_of(tree) + 2
        assert n_collectives <= 3 * n_rounds


# Workers that part company


@dataclass
class Outcome:
    errors: list[BaseException | None]  # by worker
    raised: BaseException | None
    seconds: float


class Here(threading.local):
    rank = -1


HERE = Here()  # which worker the present thread is


def run_all(case: Case, learner: str, n_workers: int) -> Outcome:
    rows = make_rows(case)
    params = replace(case.settled(), tree_learner=learner, n_workers=n_workers, top_k=1)
    parts = split_at(rows, [m * case.n_rows // n_workers for m in range(n_workers + 1)])
    if learner == "attribute":
        parts = split_by_columns(TrainingRows(rows.X, rows.y, rows.weight, rows.group), n_workers)
    options = TrainOptions(params, categories_of(case.kinds))
    errors: list[BaseException | None] = [None] * n_workers

    def work(comm: Communicator) -> TrainResult:
        HERE.rank = comm.rank
        try:
            return train_worker(parts[comm.rank], options, comm)
        except BaseException as error:
            errors[comm.rank] = error
            raise

    raised = None
    began = time.perf_counter()
    try:
        local.run(work, n_workers)
    except Exception as error:
        raised = error
    return Outcome(errors, raised, time.perf_counter() - began)


def assert_all_noticed(outcome: Outcome) -> None:
    assert isinstance(outcome.raised, DivergedError)
    for error in outcome.errors:
        # Who is told by another worker names its error as the cause.
        assert isinstance(error, CommunicationError)
        assert isinstance(error, DivergedError) or isinstance(error.__cause__, DivergedError)
    assert outcome.seconds < 1.0


# Nothing is exchanged after this one: only the check at the end is left.
ONE_SPLIT = Case("binary", {"n_estimators": 1, "max_depth": 1})


@pytest.mark.parametrize("case", [CASES["binary"], ONE_SPLIT], ids=["training", "single split"])
@pytest.mark.parametrize("broken", [0, 1, 3])
def test_a_wrong_election_is_noticed_by_all(case: Case, broken: int) -> None:
    assert run_all(case, "voting", 4).raised is None  # compiles what is needed, too
    elect = voting.elect

    def elect_wrongly(ballots: np.ndarray, n_elected: int, frontier: Frontier) -> Elected:
        elected = elect(ballots, n_elected, frontier)
        if HERE.rank == broken and len(elected.feature):
            others = np.setdiff1d(np.arange(frontier.n_features), elected.feature[: elected.start[1]])
            first = np.sort(np.append(elected.feature[1 : elected.start[1]], others[0]))
            elected.feature[: elected.start[1]] = first
        return elected

    with patch.object(voting, "elect", elect_wrongly):
        assert_all_noticed(run_all(case, "voting", 4))


@pytest.mark.parametrize("case", [CASES["binary"], ONE_SPLIT], ids=["training", "single split"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_wrong_split_is_noticed_by_all(case: Case, learner: str) -> None:
    """One worker hears other gains than were said: even after the very last split somebody looks."""
    assert run_all(case, learner, 3).raised is None
    allgather = Exchange.allgather

    def hear_wrongly(self: Exchange, buffer: np.ndarray, phase: str) -> list[np.ndarray]:
        parts = allgather(self, buffer, phase)
        if HERE.rank == 1 and phase == "splits" and buffer.dtype.names and len(buffer):
            best = max(range(len(parts)), key=lambda m: parts[m]["gain"][0])
            parts[best]["gain"][0] = -np.inf
        return parts

    with patch.object(Exchange, "allgather", hear_wrongly):
        assert_all_noticed(run_all(case, learner, 3))


@pytest.mark.parametrize("learner", ["data", "voting", "quantized"])
def test_an_error_in_an_objective_ends_the_fit_with_the_workers_rank(learner: str) -> None:
    def choosy(y: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if y.max() == 7.0:
            raise ArithmeticError("seven is too much")
        return score - y, np.ones(len(y))

    X, y = np.arange(90.0)[:, None] % 13, np.arange(90) % 5
    y[70] = 7  # a row of the third worker
    estimator = pvtree.GBDTRegressor(objective=choosy, tree_learner=learner, n_workers=4, n_estimators=3, verbosity=0)
    with pytest.raises(ArithmeticError, match="seven is too much") as caught:
        estimator.fit(X, y)
    assert caught.value.rank == 3  # type: ignore[attr-defined]
    assert any("worker 3 of 4" in note for note in caught.value.__notes__)
    assert not hasattr(estimator, "model_")
    y[70] = 0
    estimator.fit(X, y)
    assert math.isfinite(estimator.predict(X).sum())
