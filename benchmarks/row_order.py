"""What distributed training makes of rows in order, and of other numbers of workers: LightGBM, XGBoost and pvtree.

Each peer trains in processes of its own that talk over the loopback interface; pvtree trains on virtual machines. The
rows are shuffled first and then sorted by their target, as tables often are: by day, by customer, by outcome.

    python benchmarks/row_order.py

prints the tables of docs/why-not.md in about two minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import platform
import socket
from collections.abc import Callable
from contextlib import nullcontext
from importlib.metadata import version
from typing import Any

import numpy as np

N_FEATURES = 50
N_TEST = 10_000
N_WORKERS = 4
SIZE = {"num_leaves": 31, "learning_rate": 0.1, "min_child_samples": 20}


def make_rows(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A smooth target of ten of the columns, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES)).astype(np.float32)
    y = X[:, 0] * 3 + np.sin(2 * X[:, 1]) * 2 + X[:, 2] * X[:, 3] + X[:, 4] ** 2
    y += X[:, 5:10] @ np.array([1.0, 0.8, 0.6, 0.4, 0.2]) + 0.5 * rng.normal(size=n_rows)
    return X, y.astype(np.float32)


def r2(y: np.ndarray, predicted: np.ndarray) -> float:
    return float(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def in_processes(work: Callable[..., Any], n: int, *arguments: Any) -> Any:
    """What ``work(rank, n, *arguments)`` returns in process 0 of ``n``."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(n) as pool:
        running = [pool.apply_async(work, (rank, n, *arguments)) for rank in range(n)]
        found = [each.get(timeout=600) for each in running]
    return found[0]


def own_part(X: np.ndarray, y: np.ndarray, rank: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.array_split(X, n)[rank], np.array_split(y, n)[rank]


def free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def lightgbm_rank(rank: int, n: int, ports: list[int], learner: str, n_trees: int, X, y, X_test) -> np.ndarray:
    import lightgbm

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # it tells of every connection
    params = {
        **SIZE, "objective": "regression", "tree_learner": learner, "num_machines": n, "num_threads": 1, "verbose": -1,
        "machines": ",".join(f"127.0.0.1:{port}" for port in ports), "local_listen_port": ports[rank],
        "pre_partition": True, "time_out": 2,
    }  # fmt: skip
    booster = lightgbm.train(params, lightgbm.Dataset(*own_part(X, y, rank, n)), n_trees)
    return booster.predict(X_test)


def xgboost_rank(rank: int, n: int, tracker: dict[str, Any] | None, n_trees: int, X, y, X_test) -> np.ndarray:
    import xgboost

    params = {
        "max_leaves": SIZE["num_leaves"], "learning_rate": SIZE["learning_rate"], "grow_policy": "lossguide",
        "max_depth": 0, "nthread": 1, "verbosity": 0,
    }  # fmt: skip
    together = nullcontext()
    if tracker is not None:
        together = xgboost.collective.CommunicatorContext(**tracker, DMLC_TASK_ID=str(rank))
    with together:
        booster = xgboost.train(params, xgboost.DMatrix(*own_part(X, y, rank, n)), n_trees)
        return booster.predict(xgboost.DMatrix(X_test))


def xgboost_predictions(n: int, n_trees: int, X, y, X_test) -> np.ndarray:
    from xgboost.tracker import RabitTracker

    if n == 1:
        return in_processes(xgboost_rank, 1, None, n_trees, X, y, X_test)
    tracker = RabitTracker(n, host_ip="127.0.0.1")
    tracker.start()
    return in_processes(xgboost_rank, n, tracker.worker_args(), n_trees, X, y, X_test)


def xgboost_version() -> str:
    import xgboost

    return str(xgboost.__version__)  # the package may be called xgboost or xgboost-cpu


def pvtree_model(learner: str, n_trees: int, X, y, n_workers: int) -> Any:
    import pvtree

    return pvtree.GBDTRegressor(
        n_estimators=n_trees, tree_learner=learner, n_workers=n_workers, top_k=20, **SIZE
    ).fit(X, y)  # fmt: skip


def digest(model: Any) -> str:
    return hashlib.sha256(model.model_.to_json().encode()).hexdigest()[:12]


def order_lines(rows: dict[str, tuple[np.ndarray, np.ndarray]], test, n_trees: int) -> list[str]:
    """R2 on test rows by library and order of the rows."""
    X_test, y_test = test
    lines = ["| 4 workers | shuffled rows | rows sorted by target |", "|---|---|---|"]
    for learner in ("voting", "data"):
        values = [
            r2(y_test, in_processes(lightgbm_rank, N_WORKERS, free_ports(N_WORKERS), learner, n_trees, X, y, X_test))
            for X, y in rows.values()
        ]
        lines.append(f"| LightGBM, `{learner}` | {values[0]:.3f} | {values[1]:.3f} |")
    for learner in ("exact_voting", "data"):
        models = [pvtree_model(learner, n_trees, X, y, N_WORKERS) for X, y in rows.values()]
        cells = [f"{r2(y_test, model.predict(X_test)):.3f} ({digest(model)})" for model in models]
        lines.append(f"| pvtree, `{learner}` (hash of the model) | {cells[0]} | {cells[1]} |")
    return lines


def worker_lines(rows: tuple[np.ndarray, np.ndarray], test, n_trees: int) -> list[str]:
    """The largest difference to the predictions of one worker, by the number of workers."""
    (X, y), (X_test, y_test) = rows, test
    lines = ["| workers | XGBoost: R2, largest difference to 1 worker | pvtree `data` |", "|---|---|---|"]
    alone: dict[str, np.ndarray] = {}
    for n in (1, 2, 4):
        ours = pvtree_model("data" if n > 1 else "serial", n_trees, X, y, n).predict(X_test)
        found = {"XGBoost": xgboost_predictions(n, n_trees, X, y, X_test), "pvtree": ours}
        cells = []
        for name, predicted in found.items():
            difference = float(np.abs(predicted - alone.setdefault(name, predicted)).max())
            cells.append(f"{r2(y_test, predicted):.4f}, {difference:.3g}")
        lines.append(f"| {n} | {cells[0]} | {cells[1]} |")
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--trees", type=int, default=100)
    given = parser.parse_args(arguments)
    X, y = make_rows(given.rows)
    order = np.argsort(y, kind="stable")
    test = make_rows(N_TEST, seed=1)
    versions = ", ".join(f"{name} {version(name)}" for name in ("pvtree", "lightgbm"))
    versions += f", xgboost {xgboost_version()}"
    print(f"{given.rows:,} x {N_FEATURES} rows, {given.trees} trees; {versions}, Python {platform.python_version()}\n")
    print("\n".join(order_lines({"shuffled": (X, y), "sorted": (X[order], y[order])}, test, given.trees)), end="\n\n")
    print("\n".join(worker_lines((X, y), test, given.trees)))


if __name__ == "__main__":
    main()
