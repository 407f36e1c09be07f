"""Estimators on Dask: workers that are real processes give the model of one, and a lost one costs no more than time."""

from __future__ import annotations

import os
import pickle
import random
import signal
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "comm"))

import dask.array as da
from distributed import wait
from sklearn.exceptions import DataConversionWarning

from browser import REPORTS, needs_browser, tried
from city_table import city_table
from dask_functions import PRELOADED, addresses_of, open_cluster, wait_until
from dask_rows import place_rows
from pvtree import (
    DecisionTreeClassifier,
    GBDTClassifier,
    GBDTRanker,
    GBDTRegressor,
    RandomForestClassifier,
    record_evaluation,
    reset_parameter,
)
from pvtree.as_xgboost import XGBRanker
from pvtree.comm import Solo
from pvtree.errors import CommunicationError, InvalidDataError, InvalidParameterError, InvalidTypeError
from pvtree.front.estimators import on_dask
from pvtree.training.skew import SkewWarning
from thoroughness import checkered, one_in

pytestmark = pytest.mark.dask
PRELOADED += ["dask.array", "dask.dataframe", "pvtree.training.train", "pvtree.front.estimators.on_dask"]
N_ROWS = 403
# Odd lengths, none and one row, and more partitions than workers.
LENGTHS = [37, 0, 61, 1, 90, 3, 110, 0, 51, 50]
SMALL = {"n_estimators": 4, "num_leaves": 7, "min_child_samples": 5, "max_bin": 63, "verbosity": 0}
N_WORKERS = 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    # The kernels that workers need are compiled here, once, and not by all of them at the same time.
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    for learner in ("data", "voting"):
        GBDTClassifier(tree_learner=learner, n_workers=2, **SMALL).fit(X, y, eval_set=[(X, y)], eval_metric="auc")
    with open_cluster(N_WORKERS, tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """Of a cluster whose lost workers are replaced."""
    n_missing = N_WORKERS - len(cluster.pids())
    if n_missing:
        cluster.start(n_missing)
    return cluster.client


def table():
    return city_table(N_ROWS)


def numbers():
    frame, signal = table()
    return frame[list("abcd")].to_numpy(), signal


def on_workers(client, values, lengths=LENGTHS, workers=None):
    return place_rows(client, values, lengths, workers)


def same(fitted, whole):
    assert fitted.model_.to_json() == whole.model_.to_json()
    assert fitted.evals_result_ == whole.evals_result_
    assert fitted.best_iteration_ == whole.best_iteration_
    assert fitted.best_score_ == whole.best_score_


# The model of one process


@pytest.mark.parametrize(("n_workers", "kind"), checkered([1, 2, 5], ["array", "frame"]))
def test_the_model_of_one_process(client, n_workers, kind):
    """Rows sorted by class, so that workers lack some; weights of which some are zero; sets cut in other places."""
    X, signal = table() if kind == "frame" else numbers()
    y = np.array(["low", "middle", "high"])[np.digitize(signal, [0.0, 1.0])]
    y = y if kind == "frame" else np.unique(y, return_inverse=True)[1].astype(np.int8) * 3
    order = np.argsort(y, kind="stable")
    X, y = (X.iloc[order].reset_index(drop=True) if kind == "frame" else X[order]), y[order]
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.5], N_ROWS)
    held = X[::-1], y[::-1].copy()
    options = {"eval_metric": ["multi_logloss", "multi_error"], "eval_names": "held"}
    whole = GBDTClassifier(**SMALL).fit(X, y, weight, eval_set=[held], **options)

    workers = addresses_of(client)[:n_workers]
    as_series = pd.Series if kind == "frame" else np.asarray
    X_dask, y_dask, weight_dask = (on_workers(client, v, workers=workers) for v in (X, as_series(y), as_series(weight)))
    held_dask = [(on_workers(client, held[0], [400, 3]), on_workers(client, as_series(held[1]), [400, 3]))]
    fitted = GBDTClassifier(tree_learner="data", **SMALL)
    fitted.fit(X_dask, y_dask, weight_dask, eval_set=held_dask, **options)
    same(fitted, whole)
    assert fitted.classes_.tolist() == whole.classes_.tolist()
    assert (kind == "frame") == hasattr(fitted, "feature_names_in_")
    # An ordinary estimator: it goes into a file, and predicts rows in memory.
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), whole.predict(X))


@pytest.mark.parametrize("learner", ["voting", "svore", "yu"])
def test_models_of_a_partition_are_those_of_virtual_workers_with_the_same_rows(client, learner):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 8))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=400)
    options = {"tree_learner": learner, "top_k": 1, **SMALL}
    virtual = GBDTRegressor(n_workers=4, **options).fit(X, y)
    assert virtual.model_.to_json() != GBDTRegressor(**SMALL).fit(X, y).model_.to_json()
    # Two partitions on each worker; the first rows are not on the worker with the first address.
    workers = [address for address in addresses_of(client)[::-1][:4] for _ in range(2)]
    lengths = [30, 70, 99, 1, 50, 50, 0, 100]
    fitted = GBDTRegressor(**options)
    same(fitted.fit(on_workers(client, X, lengths, workers), on_workers(client, y, lengths, workers)), virtual)
    assert fitted.votes_ == virtual.votes_


def test_forests(client):
    X, y = numbers()
    whole = RandomForestClassifier(random_state=3, **SMALL).fit(X, y > 0)
    fitted = RandomForestClassifier(tree_learner="data", random_state=3, **SMALL)
    same(fitted.fit(on_workers(client, X), on_workers(client, y > 0)), whole)


@pytest.mark.parametrize("by", ["qid", "group"])
def test_rankings(client, by):
    """Queries by id go on in the next partitions, which are on other workers; one of them over several."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_ROWS, 5))
    y = rng.integers(0, 3, N_ROWS) + (X[:, 0] > 1)
    whole_options, options = {}, {}
    if by == "qid":
        qid = np.repeat(np.arange(7), [20, 50, 150, 33, 7, 43, 100])
        lengths, workers = LENGTHS, addresses_of(client)
        options = {"qid": on_workers(client, qid), "eval_qid": [on_workers(client, qid)]}
        whole_options = {"qid": qid, "eval_qid": [qid]}
    else:
        sizes, lengths, workers = np.array([20, 80, 100, 3, 100, 100]), [100, 103, 200], addresses_of(client)[:2]
        group = on_workers(client, sizes, [2, 2, 2], workers)
        options = {"group": group, "eval_group": [group]}
        whole_options = {"group": sizes, "eval_group": [sizes]}
    whole = GBDTRanker(**SMALL).fit(X, y, eval_set=[(X[::-1], y)], **whole_options)
    X_dask, y_dask, back = (on_workers(client, values, lengths, workers) for values in (X, y, X[::-1]))
    same(GBDTRanker(tree_learner="data", **SMALL).fit(X_dask, y_dask, eval_set=[(back, y_dask)], **options), whole)


def test_a_column_of_query_ids_and_categories_that_are_not_named(client):
    X, signal = table()
    X["city"] = X["city"].cat.reorder_categories(["Ulm", "Jena", "Trier", "Bonn"])  # not the order of their names
    X["qid"], y = np.arange(N_ROWS) // 20, pd.Series(np.digitize(signal, [0, 1]))
    whole = XGBRanker(**SMALL).fit(X, y, categorical_feature=[])
    assert whole.model_.categories == {4: ("Ulm", "Jena", "Trier", "Bonn")}
    X_dask = on_workers(client, X)
    fitted = XGBRanker(tree_learner="data", **SMALL).fit(X_dask, on_workers(client, y), categorical_feature=[])
    same(fitted, whole)
    np.testing.assert_array_equal(fitted.predict(X_dask).compute(), whole.predict(X))


@needs_browser
def test_the_report_has_the_workers(client, tmp_path):
    X, signal = numbers()
    REPORTS.mkdir(parents=True, exist_ok=True)
    fitted = GBDTClassifier(tree_learner="voting", **SMALL).fit(on_workers(client, X), on_workers(client, signal > 0.5))
    fitted.report(REPORTS / "dask.html", X, signal > 0.5)
    assert tried(REPORTS / "dask.html", 800, tmp_path)["sections"][-1] == "workers"


def test_early_stopping(client):
    """By exact AUC over rows of which some are on workers without rows to train on, and others here in memory."""
    X, signal = numbers()
    y = signal > 0.5
    shifted = X + 0.2
    workers = addresses_of(client)
    X_dask, y_dask = (on_workers(client, values, workers=workers[:2]) for values in (X, y))
    held = [(X_dask, y_dask), (on_workers(client, shifted), on_workers(client, y)), (X[::-1], y)]

    def make(learner):
        return GBDTClassifier(tree_learner=learner, early_stopping_rounds=3, **SMALL | {"n_estimators": 30})

    metrics = ["auc", "logloss"]
    whole = make("serial").fit(X, y, eval_set=[(X, y), (shifted, y), (X[::-1], y)], eval_metric=metrics)
    assert 0 < whole.best_iteration_ < 27
    fitted = make("data").fit(X_dask, y_dask, eval_set=held, eval_metric=metrics)
    same(fitted, whole)
    assert list(fitted.evals_result_) == ["training", "valid_1", "valid_2"]


def test_training_goes_on_from_an_earlier_model(client, monkeypatch):
    monkeypatch.setattr(on_dask, "LARGE_BYTES", 0)  # as large models do, it travels apart from the tasks
    X, y = numbers()
    first = GBDTRegressor(**SMALL).fit(X, y)
    whole = GBDTRegressor(**SMALL).fit(X, y, init_model=first)
    fitted = GBDTRegressor(tree_learner="data", **SMALL)
    same(fitted.fit(on_workers(client, X), on_workers(client, y), init_model=first), whole)


def test_two_fits_at_once(client):
    X, y = numbers()
    wholes = [GBDTRegressor(**SMALL).fit(X, y + X[:, 0] * i) for i in range(2)]
    X_dask, targets = on_workers(client, X), [on_workers(client, y + X[:, 0] * i) for i in range(2)]

    def fit(target):
        return GBDTRegressor(tree_learner="data", **SMALL).fit(X_dask, target, client=client)

    with ThreadPoolExecutor(2) as pool:
        for fitted, whole in zip(pool.map(fit, targets), wholes, strict=True):
            same(fitted, whole)


def test_a_task_may_train(client):
    """It must not hold the only thread of a worker that its own training needs."""

    def fit(X, y):
        model = GBDTRegressor(tree_learner="data", **SMALL)
        return model.fit(da.from_array(X, chunks=(50, -1)), da.from_array(y, chunks=50)).model_.to_json()

    X, y = numbers()
    assert client.submit(fit, X, y, pure=False).result(60) == GBDTRegressor(**SMALL).fit(X, y).model_.to_json()


def test_a_generator_moves_on_as_in_memory(client):
    X, y = numbers()
    options = {"subsample": 0.5, "subsample_freq": 1, **SMALL}
    here = GBDTRegressor(random_state=np.random.default_rng(1), **options)
    there = GBDTRegressor(random_state=np.random.default_rng(1), tree_learner="data", **options)
    X_dask, y_dask = (on_workers(client, values) for values in (X, y))
    firsts = [here.fit(X, y).model_.to_json(), there.fit(X_dask, y_dask).model_.to_json()]
    seconds = [here.fit(X, y).model_.to_json(), there.fit(X_dask, y_dask).model_.to_json()]
    assert firsts[0] == firsts[1] != seconds[0] == seconds[1]


# What the user hears of the workers


def note_iterations(path):
    """A callback that tells who calls it, for which iteration, and with how many threads workers train."""

    def note(env):
        with open(path, "a") as file:
            file.write(f"{os.getpid()} {env.iteration} {env.params.n_threads}\n")

    return note


def test_callbacks_run_once_and_threads_are_the_workers_own(client, cluster, tmp_path):
    X, y = numbers()
    notes = tmp_path / "notes"
    fitted = GBDTRegressor(tree_learner="data", **SMALL)
    workers = addresses_of(client)[1:]
    X_dask, y_dask = (on_workers(client, values, workers=workers) for values in (X, y))
    kept = {}
    rates = reset_parameter(learning_rate=[0.4, 0.3, 0.2, 0.1])
    evaluated = {"eval_set": [(X, y)], "eval_names": ["all"]}
    fitted.fit(X_dask, y_dask, **evaluated, callbacks=[note_iterations(notes), rates, record_evaluation(kept)])
    assert kept == fitted.evals_result_ and len(kept["all"]["l2"]) == 4  # though a worker called the callbacks
    here = GBDTRegressor(tree_learner="data", **SMALL).fit(X, y, **evaluated, callbacks=[rates])
    assert fitted.model_ == here.model_
    assert notes.read_text() == "".join(f"{cluster.pids()[workers[0]]} {i} 1\n" for i in range(4))


def test_warnings_reach_the_user_once_for_every_fit(client):
    X, y = numbers()
    y = np.sort(y > 0)
    X_dask, y_dask = on_workers(client, X), on_workers(client, y[:, None])
    for _ in range(2):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            GBDTClassifier(tree_learner="voting", n_workers=2, **SMALL).fit(X_dask, y_dask)
        assert sorted(w.category.__name__ for w in heard) == ["DataConversionWarning", "SkewWarning", "UserWarning"]
        assert {w.filename for w in heard} == {__file__}
        assert {DataConversionWarning, SkewWarning, UserWarning} == {w.category for w in heard}


def test_the_default_learner_gives_the_model_of_one_machine(client):
    X, y = numbers()
    X_dask, y_dask = (on_workers(client, values) for values in (X, y))
    fitted = GBDTRegressor(top_k=1, **SMALL).fit(X_dask, y_dask)
    assert fitted.model_.to_json() == GBDTRegressor(**SMALL).fit(X, y).model_.to_json()
    assert fitted.traffic_.n_workers == N_WORKERS
    assert len(fitted.certificates_) == SMALL["n_estimators"]


def test_initial_scores(client):
    X, signal = numbers()
    y, score = np.digitize(signal, [0.0, 1.0]), np.column_stack([signal / 2, X[:, 0], X[:, 0] / 3])
    rows = [on_workers(client, values) for values in (X, y)]
    score_dask = on_workers(client, score)
    weights = {"class_weight": "balanced", **SMALL}
    evaluated = {"eval_set": [tuple(rows)], "eval_init_score": [score_dask], "eval_class_weight": ["balanced"]}
    fitted = GBDTClassifier(**weights).fit(*rows, init_score=score_dask, eval_names=["valid_0"], **evaluated)
    whole = GBDTClassifier(**weights).fit(
        X, y, init_score=score, eval_set=[(X, y)], eval_names=["valid_0"], eval_class_weight=["balanced"]
    )
    same(fitted, whole)


def test_serial_is_refused_before_anything_is_sent(client, monkeypatch):
    X, y = numbers()
    X_dask, y_dask = (on_workers(client, values) for values in (X, y))
    for step in ("packed", "spread"):
        monkeypatch.setattr(on_dask, step, lambda *_: pytest.fail("too late"))
    with pytest.raises(InvalidParameterError, match="'serial' trains on one worker, but there are 5"):
        GBDTRegressor(tree_learner="serial", **SMALL).fit(X_dask, y_dask)


def test_serial_trains_one_partition(client):
    X, y = numbers()
    X_dask, y_dask = (on_workers(client, values, [N_ROWS]) for values in (X, y))
    fitted = GBDTRegressor(tree_learner="serial", **SMALL).fit(X_dask, y_dask)
    assert fitted.model_.to_json() == GBDTRegressor(**SMALL).fit(X, y).model_.to_json()


def test_refusals(client):
    X, y = numbers()
    workers = addresses_of(client)
    X_dask, y_dask = (on_workers(client, values, workers=workers[:2]) for values in (X, y))
    data = GBDTRegressor(tree_learner="data", **SMALL)
    ranker = GBDTRanker(tree_learner="data", **SMALL)
    lock = threading.Lock()
    y_wrong = on_workers(client, np.where(np.arange(N_ROWS) == N_ROWS - 1, np.nan, y), workers=workers[:2])
    for error, sentence, fit in [
        (InvalidParameterError, "comm is for the rows of each MPI rank", lambda: data.fit(X_dask, y_dask, comm=Solo())),
        (InvalidParameterError, "client is for Dask collections", lambda: data.fit(X, y, client=client)),
        (InvalidTypeError, "y is a Dask collection, but X is in memory", lambda: data.fit(X, y_dask)),
        (
            InvalidTypeError,
            "eval_X of eval_set 0 is a Dask collection, but X is in memory",
            lambda: data.fit(X, y, eval_set=[(X_dask, y)]),
        ),
        (InvalidTypeError, "y is a ndarray; together with Dask", lambda: data.fit(X_dask, y)),
        (
            InvalidTypeError,
            r"y is a ndarray; .* \(This is about the data of eval_set 0\.\)",
            lambda: data.fit(X_dask, y_dask, eval_set=[(X_dask, y)]),
        ),
        (
            InvalidParameterError,
            "'serial' trains on one worker, but there are 5; leave tree_learner out",
            lambda: GBDTRegressor(tree_learner="serial", **SMALL).fit(X_dask, y_dask),
        ),
        (
            InvalidTypeError,
            "one of them cannot be pickled .*hold no locks",
            lambda: data.fit(X_dask, y_dask, callbacks=[lambda env: lock]),
        ),
        (
            InvalidDataError,
            "Partition 0 has 37 rows of X, but its queries in group add up to 38; .* pass qid",
            lambda: ranker.fit(X_dask, y_dask, group=on_workers(client, np.add(LENGTHS, 1), [1] * 10)),
        ),
        (InvalidDataError, r"y contains NaN; .*worker 1", lambda: data.fit(X_dask, y_wrong)),
    ]:
        with pytest.raises(error, match=sentence):
            fit()
    assert not hasattr(data, "model_")


# Predictions


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_predictions_stay_lazy(client, kind):
    X, signal = table() if kind == "frame" else numbers()
    y = np.array(["no", "yes"])[(signal > 0).astype(int)]
    model = GBDTClassifier(**SMALL).fit(X, y)
    X_dask = on_workers(client, X)
    expected, lazy = {}, {}
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function", "apply"):
        expected[name], lazy[name] = getattr(model, name)(X), getattr(model, name)(X_dask)
        assert isinstance(lazy[name], da.Array)
        assert (lazy[name].dtype, lazy[name].shape[1:]) == (expected[name].dtype, expected[name].shape[1:])
    expected["some"], lazy["some"] = (model.predict_proba(rows, num_iteration=2) for rows in (X, X_dask))
    model.fit(X, y[::-1])  # what was asked for before is not changed by it
    for name, values in expected.items():
        np.testing.assert_array_equal(lazy[name].compute(), values, err_msg=name)

    tree = DecisionTreeClassifier(**{name: SMALL[name] for name in ("num_leaves", "max_bin")}).fit(X, y)
    np.testing.assert_array_equal(tree.apply(X_dask).compute(), tree.apply(X))
    y_dask = on_workers(client, pd.Series(y) if kind == "frame" else y)
    assert model.score(X_dask, y_dask) == model.score(X, y)
    regressor = GBDTRegressor(**SMALL).fit(X, signal)
    np.testing.assert_array_equal(regressor.predict(X_dask).compute(), regressor.predict(X))
    assert regressor.score(X_dask, signal) == regressor.score(X, signal)

    with pytest.raises(InvalidTypeError, match=r"Staged predictions .* pass X\.compute\(\)"):
        model.staged_predict(X_dask)
    with pytest.raises(InvalidDataError, match=r"X has 3 features|not those of fit"):
        model.predict(X_dask[:, :3] if kind == "array" else X_dask[["a", "b", "c"]])
    with pytest.raises(InvalidDataError, match="must be two-dimensional"):
        model.predict(y_dask)


# Lost workers


@pytest.mark.parametrize("seed", one_in(2, range(3)))
def test_a_killed_worker_costs_the_trees_since_the_checkpoint(client, cluster, tmp_path, seed):
    """Killed somewhere in the training; the others go on from the checkpoint, with the rows dealt out anew."""
    chance = random.Random(seed)
    X, y = numbers()
    options = SMALL | {"n_estimators": 30}
    whole = GBDTRegressor(**options).fit(X, y)
    X_dask, y_dask = client.persist([da.from_array(X, chunks=(50, -1)), da.from_array(y, chunks=50)])
    wait(X_dask)
    victim = chance.choice(sorted({worker for workers in client.who_has(X_dask).values() for worker in workers}))
    pid = cluster.pids()[victim]
    n_before, pause = chance.randrange(5, 25), chance.uniform(0, 0.05)
    notes, killed = [tmp_path / "first", tmp_path / "second"], tmp_path / "killed"

    def linger(env):
        """Long enough that the training does not end before the worker."""
        time.sleep(0.01)
        if env.iteration == 29:
            wait_until(killed.exists, 60, "nobody was killed")

    def kill():
        wait_until(lambda: notes[0].exists() and len(notes[0].read_text().split("\n")) > n_before, 60, "no training")
        time.sleep(pause)
        os.kill(pid, signal.SIGKILL)
        killed.touch()

    def fit(path):
        callbacks = [note_iterations(path), linger]
        model = GBDTRegressor(tree_learner="data", **options)
        return model.fit(X_dask, y_dask, callbacks=callbacks, checkpoint=tmp_path / "kept", checkpoint_freq=5)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(CommunicationError, match=victim):
        fit(notes[0])
    killer.join()
    assert len(cluster.pids()) == N_WORKERS - 1
    same(fit(notes[1]), whole)
    first = int(notes[1].read_text().split()[1])
    assert first % 5 == 0 and n_before - 5 <= first < 30
