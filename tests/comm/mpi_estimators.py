"""Estimators fitted on every rank, as scripts do it: ``mpi_estimators.py TASK FOLDER [ARGUMENT]``."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pvtree import GBDTClassifier, GBDTRanker, GBDTRegressor, record_evaluation, reset_parameter
from pvtree.comm.partition import row_bounds
from pvtree.errors import CommunicationError, InvalidDataError

SIZES = (1, 2, 5)
SHARES = {1: (0, 1), 2: (0, 0.3, 1), 5: (0, 0.1, 0.1, 0.45, 0.9, 1)}  # of the rows; one of the five has none
SMALL = {"n_estimators": 4, "num_leaves": 7, "min_child_samples": 5, "max_bin": 63, "verbosity": 0}
N_ROWS = 240
N_FAILING = 3  # ranks of which one is late after all those fits
FORCED = Path(__file__).resolve().parents[1] / "support" / "forced_splits.json"
OF_PARTITION = ("voting", "svore", "yu")  # models that depend on how rows are spread


class Case:
    """An estimator, rows for it, and rows to evaluate it on."""

    def __init__(self, kind: type, rows: dict[str, Any], held: dict[str, Any] | None = None, **options: Any) -> None:
        self.kind, self.rows, self.held = kind, rows, held or {}
        self.metric = options.pop("eval_metric", None)
        self.options = SMALL | options

    def fit(self, comm: Any = None, learner: str = "data", bounds: Any = None, **more: Any) -> Any:
        """On all rows, or on this rank's."""
        own, held = self.rows, self.held
        if comm is not None:
            own, held = ({name: cut(each, comm, bounds) for name, each in rows.items()} for rows in (own, held))
        if held:
            more |= {"eval_set": [(held["X"], held["y"])], "eval_metric": self.metric}
            if "qid" in held:
                more["eval_qid"] = [held["qid"]]
        options = {"tree_learner": learner, **self.options}
        return self.kind(**options | more.pop("options", {})).fit(**own, comm=comm, **more)


def cut(values: Any, comm: Any, bounds: Any = None) -> Any:
    if bounds is None:
        bounds = np.rint(np.array(SHARES[comm.size]) * len(values)).astype(int)
    return values[bounds[comm.rank] : bounds[comm.rank + 1]]


def make_cases() -> dict[str, Case]:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(N_ROWS, 4)), columns=list("abcd"))
    frame["b"] = frame["b"].where(rng.random(N_ROWS) < 0.7)
    frame["city"] = pd.Categorical(np.sort(rng.choice(["Bonn", "Ulm", "Trier", "Jena"], N_ROWS)))
    signal = frame["a"] + frame["b"].fillna(1) + (frame["city"] == "Ulm") + rng.normal(size=N_ROWS) / 3
    names = np.sort(np.array(["low", "middle", "high"])[np.digitize(signal, [0.0, 1.0])])  # ranks lack some
    numbers = frame[list("abcd")].to_numpy()
    weight = rng.choice([0.0, 1.0, 2.5], N_ROWS)
    held = {"X": frame.sample(frac=0.9, random_state=1), "y": (signal > 0.4).to_numpy()[: round(N_ROWS * 0.9)]}
    relevance, qid = np.digitize(signal, [0.0, 1.0]), np.repeat([7, 3, 9, 1, 4], [2, 50, 53, 120, 15])
    queries = {"X": numbers, "y": relevance, "qid": qid}
    return {
        "classes": Case(GBDTClassifier, {"X": frame, "y": names, "sample_weight": weight}),
        "stopping": Case(
            GBDTClassifier, {"X": frame, "y": (signal > 0.5).to_numpy()}, held,
            eval_metric=["auc", "logloss"], n_estimators=30, early_stopping_rounds=2,
        ),
        "ranking": Case(GBDTRanker, queries, queries | {"X": numbers[::-1]}, eval_metric="ndcg"),
        "few rows": Case(GBDTRegressor, {"X": numbers[:3], "y": numbers[:3, 0]}, min_child_samples=1),
        "values": Case(GBDTRegressor, {"X": numbers, "y": signal.to_numpy()}, top_k=1),
        "medians": Case(
            GBDTRegressor, {"X": numbers, "y": signal.to_numpy(), "init_score": numbers[:, 0] / 2}, objective="l1"
        ),
        **make_more_cases(numbers, signal.to_numpy(), queries),
    }  # fmt: skip


def make_more_cases(numbers: np.ndarray, signal: np.ndarray, queries: dict[str, Any]) -> dict[str, Case]:
    """What ranks must agree on beside splits: leaves' functions, iterations left out, given splits, positions."""
    values = {"X": numbers, "y": signal}
    zeros = values | {"X": np.where(np.abs(numbers) < 0.4, 0.0, numbers)}
    shown = np.concatenate([np.arange(size) % 7 for size in np.unique(queries["qid"], return_counts=True)[1]])
    return {
        "linear": Case(GBDTRegressor, values, linear_tree=True, linear_lambda=0.1),
        "dart of zeros": Case(
            GBDTRegressor, zeros, boosting_type="dart", zero_as_missing=True, drop_rate=0.7, skip_drop=0.0
        ),
        "forced": Case(GBDTRegressor, values, forcedsplits_filename=str(FORCED)),
        "positions": Case(GBDTRanker, queries | {"position": shown}),
    }  # fmt: skip


def schedules(name: str) -> list[Any]:
    """Callbacks that change what all ranks do."""
    return [reset_parameter(learning_rate=lambda i: 0.3 / (i + 1))] if name == "classes" else []


def outcome(fitted: Any, n_calls: int = 0) -> dict[str, Any]:
    """Everything that must be equal on every rank, and how often this rank's callback was called."""
    return {
        "model": fitted.model_.to_json(),
        "evaluations": fitted.evals_result_,
        "best": [fitted.best_iteration_, fitted.best_score_],
        "classes": None if not hasattr(fitted, "classes_") else fitted.classes_.tolist(),
        "n_calls": n_calls,
    }


def fits(folder: Path) -> None:
    """Every case on the first 1, 2 and 5 ranks; then a fit in which a rank is late, and one that works."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    # All at once: MPI's own waiting takes the cores from the ranks that work.
    first = {size: world.Split(int(world.rank >= size)) for size in {*SIZES, N_FAILING}}
    for size in SIZES:
        comm = first[size]
        if world.rank >= size:
            continue

        def keep(name: str, fitted: Any, calls: list[int], comm: Any = comm) -> None:
            (folder / f"{name} {comm.size} {comm.rank}.json").write_text(json.dumps(outcome(fitted, len(calls))))

        for name, case in make_cases().items():
            calls: list[int] = []
            recorded: dict[str, Any] = {}
            counted = [lambda env, calls=calls: calls.append(env.iteration), record_evaluation(recorded)]
            fitted = case.fit(comm, callbacks=[*counted, *schedules(name)])
            assert recorded == fitted.evals_result_  # on all ranks, though rank 0 alone has called it
            keep(name, fitted, calls)
        for learner in OF_PARTITION:
            keep(learner, make_cases()["values"].fit(comm, learner, row_bounds(N_ROWS, size)), [])
        kept = folder / f"checkpoint of {size}"
        keep("restart", make_cases()["values"].fit(comm, options={"n_estimators": 8}, checkpoint=kept), [])
    if world.rank < N_FAILING:
        failing(folder, "late", first[N_FAILING])
    arrived = world.Ibarrier()
    while not arrived.Test():
        time.sleep(0.01)


# What goes wrong in a script that does not use mpi.run.


def failing(folder: Path, how: str, comm: Any = None) -> None:
    """Wrong input on rank 1, which the script handles; then a fit that works; then an error, chosen by ``how``."""
    if comm is None:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
    case, n_calls = make_cases()["values"], [0]

    def objective(y: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n_calls[0] += 1
        if n_calls[0] == 3:
            (folder / "now").touch()
            if how == "raises" and comm.rank == 1:
                raise ZeroDivisionError("on rank 1 only")
            if how.startswith("stopped") and comm.rank == 2:
                os.kill(os.getpid(), signal.SIGSTOP)
            if how == "late" and comm.rank == 2:
                time.sleep(2.0)
        return scores - y, np.ones_like(y)

    def fit(**more: Any) -> Any:
        bounds = row_bounds(N_ROWS, comm.size)
        return case.fit(comm, bounds=bounds, **more)

    y = case.rows["y"].copy()
    case.rows["y"] = np.where(np.arange(N_ROWS) == N_ROWS // 2, np.nan, y)
    if how == "wrong":
        (folder / "now").touch()
        fit()
    try:
        fit()
    except InvalidDataError as error:
        (folder / f"{comm.rank}.sentence").write_text(str(error))
    case.rows["y"] = y
    fit()
    limit = 2.0 if how.startswith("stopped") else 0.5 if how == "late" else 60.0
    try:
        fit(timeout=limit, options={"objective": objective})
    except CommunicationError:
        if how not in ("stopped, handled", "late"):
            raise
        sys.stdout.write("handled\n")
    if how == "late":
        fit()
        sys.stdout.write("all is well\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    tasks = {task.__name__: task for task in (fits, failing)}
    tasks[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
