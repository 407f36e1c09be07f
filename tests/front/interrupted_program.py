"""A child of test_interrupts.py: begins long work on two threads, gets a SIGINT in the middle of a kernel's call, and
prints what happened then."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import pvtree
from pvtree.growing import grower
from pvtree.kernels.predict import contributions
from pvtree.kernels.predict import trees as predict
from random_trees import chain


def interrupt(module, name, work, at_call=4):
    """Run ``work`` and send a SIGINT while the ``at_call``-th call of a kernel is under way."""
    kernel, calls, begun, sent = getattr(module, name), [], threading.Event(), []

    def counted(*args):
        calls.append(threading.current_thread().name)
        if len(calls) == at_call:
            begun.set()
        return kernel(*args)

    def send():
        begun.wait()
        sent.append(len(calls))
        os.kill(os.getpid(), signal.SIGINT)

    setattr(module, name, counted)
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        work()
        ending = "finished"
    except KeyboardInterrupt:
        ending = "interrupted"
    setattr(module, name, kernel)
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("pvtree")]
    return {"ending": ending, "calls_after": len(calls) - (sent or [0])[0], "threads": threads}


def deep_model(n_trees):
    """Trees 4,000 deep, of 30 features: a row takes about half a millisecond a tree."""
    model = chain(4000, 30)
    return replace(model, trees=model.trees * n_trees)


def peeled(n_rows):
    """Rows of which each split takes a few away, so that a small tree reads them very often."""
    X = np.random.default_rng(0).random((n_rows, 20)).astype(np.float32)
    X[:, 0] = np.arange(n_rows)
    return X, np.exp(np.minimum(X[:, 0] / n_rows * 60, 60))


def main():
    warnings.simplefilter("ignore")
    # Rows that repeat one and the same in memory: more than anybody would wait for.
    deep, rows = deep_model(20), np.broadcast_to(np.zeros(30), (100_000, 30))
    deeper, many_rows = deep_model(50), np.broadcast_to(np.zeros(30), (1_000_000, 30))
    few = {"n_jobs": 2, "num_leaves": 600, "min_child_samples": 1, "min_child_weight": 0}
    X, y = peeled(60_000)
    boosting = pvtree.GBDTRegressor(n_estimators=1000, **few)
    forest = pvtree.RandomForestRegressor(n_estimators=1000, n_jobs=2, num_leaves=600)
    for model in (deep, deeper):  # compiled before
        model.predict_contrib(rows[:1])
        model.predict_raw(rows[:1])
    boosting.set_params(n_estimators=1).fit(X[:2000], y[:2000])
    forest.set_params(n_estimators=2).fit(X[:2000], y[:2000])
    boosting.set_params(n_estimators=1000)
    forest.set_params(n_estimators=1000)
    told = {
        "contributions": interrupt(contributions, "add_contributions", lambda: deep.predict_contrib(rows, n_threads=2)),
        "prediction": interrupt(predict, "run_trees", lambda: deeper.predict_raw(many_rows, n_threads=2)),
        "tree": interrupt(grower, "grow_tree", lambda: boosting.fit(X, y)),
        "forest": interrupt(grower, "grow_tree", lambda: forest.fit(X, y)),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
