"""Ray: actors on several nodes train the models of one process, and a killed one is named."""

from __future__ import annotations

import os
import re
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("ray.train")

import pandas as pd
import ray
from ray.train import ScalingConfig

import pvtree
from accidents import Kill, last_victim
from conformance import Conformance
from pvtree.comm import local
from pvtree.comm.ray import Crew
from pvtree.comm.tcp_greeting import CHALLENGE
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, PeerFailedError, WorkerTimeoutError
from pvtree.front.estimators import on_ray
from pvtree.front.estimators.eval_arguments import EvalArguments
from pvtree.front.estimators.fit_options import FitOptions
from pvtree.reading import ray_data
from pvtree.reading.training_rows import GivenRows
from pvtree.training.checkpoint_file import Checkpoint
from tcp_strangers import attack_together, listening_ports

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore::pvtree.SkewWarning")]
SMALL = {"n_estimators": 4, "num_leaves": 7, "min_child_samples": 5, "random_state": 3}
NAMES = ["a", "b", "c", "d"]
N_KILLS = int(os.environ.get("PVTREE_KILLS", 2))
ENDS_WITHIN = 10.0  # seconds, after a worker was lost


def make_frame(n_rows=300):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n_rows, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    signal = np.nan_to_num(X).sum(axis=1) + rng.normal(size=n_rows)
    return pd.DataFrame(X, columns=NAMES).assign(label=np.where(signal > 0, "yes", "no"), value=signal)


def as_dataset(frame, n_blocks):
    bounds = [len(frame) * m // n_blocks for m in range(n_blocks + 1)]
    return ray.data.from_pandas([frame.iloc[a:b] for a, b in pairwise(bounds)])


def workers(n, strategy="PACK"):
    return ScalingConfig(num_workers=n, placement_strategy=strategy)


class TestRay(Conformance):
    """The carrier as Ray's actors meet it. They serve all tests, so a failed run must leave them usable."""

    sizes = (1, 3, 8)

    @pytest.fixture(scope="class", autouse=True)
    def crew(self, cluster):
        with Crew([{"num_cpus": 1, "scheduling_strategy": "SPREAD"}] * 8) as crew:
            assert len({place.node for place in crew.places}) == 3
            assert len({place.pid for place in crew.places}) == 8
            type(self).members = crew
            yield crew

    def run(self, function, size, *, timeout=60.0):
        return self.members.run(function, [()] * size, timeout=timeout)


@pytest.fixture
def dealt(monkeypatch):
    """For each time that rows were dealt out: the pieces of each worker, with their places and rows."""
    calls = []

    def share_out(blocks, nodes):
        pieces = ray_data.share_out(blocks, nodes)
        ends = np.cumsum([block.n_rows for block in blocks])
        first = {block.ref: end - block.n_rows for block, end in zip(blocks, ends, strict=True)}
        rows = [[(p.position, np.arange(p.start, p.stop) + first[p.ref]) for p in own] for own in pieces]
        calls.append(rows)
        return pieces

    monkeypatch.setattr(on_ray, "share_out", share_out)
    return calls


def test_models_are_those_of_one_process_and_of_the_virtual_cluster(cluster, dealt):
    frame = make_frame()
    X, y = frame[NAMES], frame["label"]
    serial = pvtree.GBDTClassifier(**SMALL).fit(X, y).model_.to_json()
    # Blocks on all nodes, so that pieces of several blocks meet on a worker, and not in the order of the rows.
    dataset = as_dataset(frame.drop(columns="value"), 5).map_batches(lambda batch: batch, batch_format="pandas")
    for size, learner in ((1, "data"), (2, "exact_voting"), (4, "data"), (4, "voting")):
        options = {**SMALL, "tree_learner": learner, "top_k": 1}
        fitted = pvtree.GBDTClassifier(**options).fit(dataset, "label", client=workers(size, "SPREAD"))
        assert sorted(row for own in dealt[-1] for _, rows in own for row in rows) == list(range(300))
        if learner != "voting":
            assert fitted.model_.to_json() == serial, (size, learner)

    def train(comm):
        own = dealt[-1][comm.rank]
        rows = np.concatenate([rows for _, rows in own])
        given = GivenRows(X.iloc[rows], y.iloc[rows].to_numpy(), blocks=[(place, len(rows)) for place, rows in own])
        classifier = pvtree.GBDTClassifier(**options)
        checked = classifier._checked(FitOptions(EvalArguments()))
        return classifier._train(given, {}, checked, comm).model.to_json()

    assert fitted.model_.to_json() == local.run(train, 4)[0] != serial
    assert fitted.traffic_.total_bytes > 0 and fitted.votes_ is not None
    assert fitted.score(dataset, "label") == fitted.score(X, y)
    answered = fitted.predict_proba(dataset).to_pandas()  # in Ray's order
    np.testing.assert_array_equal(np.stack(list(answered["prediction"])), fitted.predict_proba(answered[NAMES]))
    seen = answered["a"].to_numpy(float, na_value=np.nan)
    np.testing.assert_array_equal(np.sort(seen), np.sort(X["a"]))


def test_evaluation_sets_weights_text_and_rows_of_arrays(cluster):
    """One worker on each node that holds rows is the default."""
    frame = make_frame(200).assign(city=lambda rows: np.where(rows["b"] > 0, "Bonn", "Ulm"), w=np.arange(200) % 3 + 1.0)
    frame = frame.drop(columns="label")
    train, valid = frame.iloc[:150], frame.iloc[150:]
    options = {**SMALL, "n_estimators": 60, "learning_rate": 0.5, "eval_metric": "l1", "early_stopping_rounds": 2}
    features = [*NAMES, "city"]
    serial = pvtree.GBDTRegressor(**options).fit(
        train[features], train["value"], train["w"],
        eval_set=[(valid[features], valid["value"]), (valid[features], valid["value"])],
        eval_sample_weight=[valid["w"], None],
    )  # fmt: skip
    fitted = pvtree.GBDTRegressor(**options).fit(
        as_dataset(train, 3), "value", "w",
        eval_set=[(as_dataset(valid, 2), "value"), (valid[features], valid["value"])],
        eval_sample_weight=["w", None],
        client=workers(2),
    )  # fmt: skip
    assert fitted.model_.to_json() == serial.model_.to_json()
    assert fitted.evals_result_ == serial.evals_result_ and fitted.best_iteration_ < 60
    X, y = train[NAMES].to_numpy(), train["value"].to_numpy()
    arrays = ray.data.from_items([{"x": row, "y": value} for row, value in zip(X, y, strict=True)])
    of_arrays = pvtree.RandomForestRegressor(n_estimators=2).fit(arrays, "y")
    expected = pvtree.RandomForestRegressor(n_estimators=2).fit(X, y)
    assert of_arrays.model_.to_json() == expected.model_.to_json()
    answered = of_arrays.predict(arrays).to_pandas()
    np.testing.assert_array_equal(answered["prediction"], expected.predict(np.stack(list(answered["x"]))))
    ranked = train[NAMES].assign(relevance=np.digitize(y, [0.0, 1.0]), q=np.repeat(np.arange(15), 10))
    ranker = pvtree.GBDTRanker(**SMALL).fit(as_dataset(ranked, 4), "relevance", qid="q", client=workers(2))
    expected = pvtree.GBDTRanker(**SMALL).fit(ranked[NAMES], ranked["relevance"], qid=ranked["q"])
    assert ranker.model_.to_json() == expected.model_.to_json()


def test_a_killed_actor_is_named_and_the_training_resumes(cluster, tmp_path):
    frame = make_frame().drop(columns="label")
    options = {**SMALL, "n_estimators": N_KILLS + 4, "tree_learner": "exact_voting"}
    serial = pvtree.GBDTRegressor(**SMALL | {"n_estimators": N_KILLS + 4}).fit(frame[NAMES], frame["value"])
    kill = Kill(tmp_path, list(range(2, 2 + N_KILLS)))
    fit = {"client": workers(3), "checkpoint": tmp_path / "kept", "checkpoint_freq": 1, "callbacks": [kill]}
    dataset = as_dataset(frame, 3)
    for number in range(N_KILLS):
        with pytest.raises(PeerFailedError) as caught:
            pvtree.GBDTRegressor(**options).fit(dataset, "value", **fit)
        victim = last_victim(tmp_path)
        assert time.time() - victim.stat().st_mtime < ENDS_WITHIN
        assert re.search(rf"lost .*worker [012] of 3 .*process {victim.name.split()[0]} on ", str(caught.value)), (
            caught.value
        )
        saved = Checkpoint(tmp_path / "kept").load()
        assert saved.model.n_iterations >= 2 + number
    resumed = pvtree.GBDTRegressor(**options).fit(dataset, "value", **fit)
    assert resumed.model_.to_json() == serial.model_.to_json()
    deadline = time.monotonic() + 20  # Ray ends processes and frees their places a little later
    while ray.available_resources().get("CPU") != 8 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert ray.available_resources()["CPU"] == 8
    assert not [table for table in ray.util.placement_group_table().values() if table["state"] != "REMOVED"]


def test_errors_are_ours_and_named(cluster):
    def fails(env):
        raise KeyError("in a callback")

    frame = make_frame(40).drop(columns="label")
    dataset, wrong = as_dataset(frame, 2), as_dataset(frame.assign(value=[*frame["value"][:-1], np.nan]), 2)
    regressor, two = pvtree.GBDTRegressor(**SMALL), {"client": workers(2)}
    with pytest.raises(InvalidDataError, match=r"y .*This is about the data of worker 1"):
        regressor.fit(wrong, "value", **two)
    with pytest.raises(KeyError, match="in a callback"):
        regressor.fit(dataset, "value", callbacks=[fails], **two)
    with pytest.raises(InvalidDataError, match="has no column 'target'; it has 'a', 'b'"):
        regressor.fit(dataset, "target", **two)
    with pytest.raises(InvalidTypeError, match="y is a Series; together with a Ray Dataset, give the name"):
        regressor.fit(dataset, frame["value"], **two)
    with pytest.raises(InvalidTypeError, match="client is a int; together with a Ray Dataset"):
        regressor.fit(dataset, "value", client=2)
    with pytest.raises(InvalidTypeError, match="eval_X of eval_set 0 is a Ray Dataset, but X is in memory"):
        regressor.fit(frame[NAMES], frame["value"], eval_set=[(dataset, "value")])
    with pytest.raises(InvalidParameterError, match="comm is for rows that each worker passes itself"):
        regressor.fit(dataset, "value", comm=pvtree.comm.Solo())
    with pytest.raises(WorkerTimeoutError, match="no room for 40 workers"):
        regressor.fit(dataset, "value", client=workers(40), timeout=0.1)
    assert not hasattr(regressor, "model_")


def test_strangers_at_every_port_are_refused_and_the_run_does_not_notice(cluster, tmp_path):
    """Worker 1 is busy, so the gate of worker 0 stays open until strangers are there. It answers when all have come."""
    here = tmp_path / "here"

    def nap_until_strangers_are_here(comm):
        deadline = time.monotonic() + 60
        while not here.exists() and time.monotonic() < deadline:
            time.sleep(0.1)

    with Crew([{"num_cpus": 1}] * 2) as crew:
        usual = listening_ports(crew.places[0].pid)
        nap = crew._actors[1].work.remote(nap_until_strangers_are_here, crew._meeting, "nap", 0, 1, 60.0)
        answers = []

        def attack_new_ports():
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and not (new := listening_ports(crew.places[0].pid) - usual):
                time.sleep(0.05)
            answers.extend(attack_together(new, here.touch))

        strangers = threading.Thread(target=attack_new_ports)
        strangers.start()
        sums = crew.run(lambda comm: comm.allreduce(np.array([comm.rank + 1]), "rows").tolist(), [()] * 2)
        strangers.join()
        ray.get(nap)
    assert sums == [[3], [3]]
    assert answers == [CHALLENGE.size] * 3  # each gets a challenge and no more
