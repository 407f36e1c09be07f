"""Every parallel strategy makes the model of the sequential algorithm, byte for byte, however rows are spread.

``quantized`` looks at coarser bins, so it is compared with itself on one worker, which grows a leaf at a time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pvtree
from pvtree.binning.shard import split_by_columns
from pvtree.comm import local
from pvtree.growing.tree_memory import TreeMemory
from pvtree.reading.training_rows import TrainingRows
from pvtree.training.options import TrainOptions
from pvtree.training.train import train_worker
from small_data import categories_of, make_columns
from strategy_cases import ANYTHING, CASES, LEARNERS, WORKERS, Case, as_model, make_rows, model_of, split_at
from thoroughness import checkered, examples

pytestmark = pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")


@cache
def reference(name: str, learner: str) -> str:
    """What one worker makes, one leaf after another."""
    return model_of(CASES[name], "quantized" if learner == "quantized" else "serial", 1).to_json()


def size_of(name: str, learner: str) -> int:
    """A number of workers for each case and learner: every learner meets all numbers, and every case most of them."""
    return WORKERS[(list(CASES).index(name) + LEARNERS.index(learner)) % len(WORKERS)]


PAIRS = checkered(CASES, LEARNERS)


def test_every_learner_meets_all_numbers_of_workers_and_every_case_different_ones() -> None:
    for name in CASES:
        sizes = [size_of(name, learner) for case, learner in PAIRS if case == name]
        assert len(set(sizes)) == len(sizes) > 1
    for learner in LEARNERS:
        sizes = [size_of(name, its) for name, its in PAIRS if its == learner]
        assert min(map(sizes.count, WORKERS)) > 1


@pytest.mark.parametrize(("name", "learner"), PAIRS)
def test_models_are_those_of_one_worker(name: str, learner: str) -> None:
    n_workers = size_of(name, learner)
    assert model_of(CASES[name], learner, n_workers).to_json() == reference(name, learner), n_workers


FEW_ROWS = {
    **{name: Case(name) for name in ("regression", "binary", "lambdarank", "custom", "classes", "values")},
    "rows sampled": Case("custom", {"subsample": 0.5, "subsample_freq": 1}),
    "forest of classes": Case("classes", {"bootstrap": True}, weights="some"),
    "forest of values": Case("values", {"bootstrap": True}),
}


@pytest.mark.parametrize(("name", "learner"), checkered(FEW_ROWS, LEARNERS))
def test_fewer_rows_than_workers(name: str, learner: str) -> None:
    # Every learner meets all of these, and every case.
    for n_rows in [(1, 4), (2, 7)][LEARNERS.index(learner) // 2]:
        expected = with_few_rows(name, n_rows, "quantized" if learner == "quantized" else "serial", 1)
        assert with_few_rows(name, n_rows, learner, 8) == expected, n_rows


@cache
def with_few_rows(name: str, n_rows: int, learner: str, n_workers: int) -> str:
    # The first workers have the rows, and of the columns that help none: those are up to workers without rows.
    kinds = ("constant", "constant", "missing", "few", "gaps", "many", "category")
    everything = {"min_child_samples": 1, "num_leaves": 0, "n_estimators": 2, **FEW_ROWS[name].params}
    case = replace(FEW_ROWS[name], kinds=kinds, n_classes=2, n_rows=n_rows, params=everything)
    return model_of(case, learner, n_workers).to_json()


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


@pytest.mark.parametrize(
    ("name", "learner"),
    checkered(["regression", "multiclass", "rows sampled", "lambdarank", "forest of classes"], LEARNERS),
)
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


@cache
def fitted_alone(name: str, stops_early: bool = False) -> Any:
    return fit(name, "serial", 1, stops_early)


@pytest.mark.parametrize(("learner", "n_workers"), [("data", 2), ("attribute", 5), ("feature", 2), ("voting", 5)])
def test_early_stopping_stops_all_workers_at_the_same_iteration(learner: str, n_workers: int) -> None:
    alone = fitted_alone("GBDTClassifier", stops_early=True)
    together = fit("GBDTClassifier", learner, n_workers, stops_early=True)
    assert 0 < together.best_iteration_ == alone.best_iteration_ < 60
    assert together.evals_result_ == alone.evals_result_
    assert together.model_.to_json() == alone.model_.to_json()


@pytest.mark.parametrize(
    ("name", "learner"),
    checkered(
        ["GBDTRegressor", "RandomForestClassifier", "RandomForestRegressor", "DecisionTreeClassifier",
         "DecisionTreeRegressor"],
        ["data", "attribute", "voting"],
    ),
)  # fmt: skip
def test_estimators_give_the_same_models(name: str, learner: str) -> None:
    alone = fitted_alone(name)
    assert alone.model_.trees[0].n_nodes > 3
    assert fit(name, learner, 4).model_.to_json() == alone.model_.to_json()


# Any partition of the rows


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


@examples(30)
@given(ANYTHING, st.sampled_from(LEARNERS), st.sampled_from(WORKERS), st.sampled_from([1, 2]), st.booleans())
def test_any_training_on_any_partition(case: Case, learner: str, n_workers: int, n_threads: int, packs: bool) -> None:
    check_partition(case, learner, n_workers, n_threads, packs)
