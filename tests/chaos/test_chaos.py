"""A handful of seeded disturbances; and that whatever goes wrong is counted, saved and told."""

from __future__ import annotations

import os
import re
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("mpi4py")
pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "comm"))

import chaos_dask
import chaos_mpi
import session
from runs import TIMEOUT, Disturbed, Hung, Outcome, damaged, run
from scenarios import DAMAGED, WEIGHTS, Training, draw

from pvtree.errors import ModelFileError, PeerFailedError, WorkerTimeoutError
from thoroughness import IS_THOROUGH

KILL = replace(draw(0, 0), engine="mpi", kind="kill", training=Training("binary", "data", 3), victim=1, n_after=0)


# Real ones


@pytest.fixture(scope="module")
def engines():
    made = {"mpi": chaos_mpi.MPIEngine(), "dask": chaos_dask.DaskEngine()}
    yield made
    made["dask"].close()


@pytest.mark.parametrize(
    ("engine", "kind", "at"),
    [
        pytest.param(engine, kind, at, marks=getattr(pytest.mark, engine))
        for engine, kind, at in [
            ("mpi", "kill", 0.7),
            ("mpi", "full device", 0.5),
            ("mpi", "flipped bits", 0.5),
            ("dask", "file limit", 0.5),
            ("dask", "swapped", 0.5),
            *([("dask", "kill", 0.7)] if IS_THOROUGH else []),  # as tests of its estimators do
        ]
    ],
)
@pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")
def test_disturbed_trainings_end_with_the_right_name_and_go_on(engine, kind, at, engines, tmp_path):
    scenario = replace(KILL, engine=engine, kind=kind, at=at, victim=1 if kind == "kill" else 0)
    outcome = run(engines[engine], scenario, tmp_path)
    assert outcome.is_right, outcome.told
    assert outcome.is_identical
    assert outcome.is_named if scenario.moves else outcome.is_refused


# The choice of scenarios


def test_a_number_gives_the_same_scenario_and_all_kinds_come():
    drawn = [draw(5, number) for number in range(400)]
    assert drawn == [draw(5, number) for number in range(400)] != [draw(6, number) for number in range(400)]
    assert {scenario.kind for scenario in drawn} == set(WEIGHTS)
    assert sum(scenario.kind == "kill" for scenario in drawn) > 220
    assert all(1 <= scenario.exchange(10) <= 10 for scenario in drawn)
    assert all(scenario.victim < scenario.training.size for scenario in drawn)


def test_damaged_files_differ_from_the_good_one():
    good = bytes(range(256)) * 4
    for number in range(50):
        for kind in ("flipped bits", "cut off"):
            assert damaged(replace(draw(1, number), kind=kind), good) != good


# What counts as the right name


def test_only_the_lost_rank_is_the_right_one(tmp_path):
    (tmp_path / "1.pid").write_text("77")

    def is_right(told, **changes):
        return chaos_mpi.names(replace(KILL, **changes), tmp_path, told)

    lost = "Worker {} of 3, process {} on here, was killed or has crashed;\n"
    assert is_right(lost.format(1, 77))
    assert not is_right("")
    assert not is_right(lost.format(0, 77))
    assert not is_right(lost.format(1, 78))
    assert not is_right(lost.format(1, 77) + lost.format(2, 79))
    late = f"WorkerTimeoutError: Worker 0 waited {TIMEOUT:g} s for worker{{}} of 3 at x"
    assert is_right(late.format(" 1"), kind="stop")
    assert is_right(late.format("s 1, 2"), kind="stop")
    assert not is_right(late.format(" 2"), kind="stop")
    assert not is_right(late.format(" 1") + late.format(" 2"), kind="stop")
    failed = "Worker {} of 3, on here, has failed and ends all others\nModelFileError: Cannot write the checkpoint"
    assert is_right(failed.format(0), kind="file limit")
    assert not is_right(failed.format(1), kind="file limit")


def test_only_the_lost_worker_is_the_right_one():
    victim, other = "tcp://127.0.0.1:1", "tcp://127.0.0.1:2"

    def is_right(error, kind="kill"):
        return chaos_dask.names(replace(KILL, kind=kind), victim, error)

    assert is_right(PeerFailedError(f"The cluster lost worker 1 ({victim}) of 3"))
    assert not is_right(PeerFailedError(f"The cluster lost worker 2 ({other}) of 3"))
    assert not is_right(PeerFailedError(f"The cluster lost worker 1 ({victim}), worker 2 ({other}) of 3"))
    assert not is_right(WorkerTimeoutError(f"Worker 0 waited for worker 1 ({victim})"))
    assert is_right(WorkerTimeoutError(f"Worker 0 waited for worker 1 ({victim})"), "stop")
    error = ModelFileError("Cannot write the checkpoint")
    assert not is_right(error, "file limit")
    error.rank = 0
    assert is_right(error, "file limit")


# What is counted and saved


class Scripted:
    """An engine in which everything goes as told."""

    def __init__(self, is_named=True, model="good", refuses=True, hangs=False):
        self.is_named, self.its_model, self.refuses, self.hangs = is_named, model, refuses, hangs

    def model(self, training):
        return "good"

    def saved(self, training):
        return f"file of {training}".encode()

    def checkpoint(self, training, folder):
        return folder / "kept" / "file"

    def disturb(self, scenario, folder):
        if self.hangs:
            raise Hung("still there")
        return Disturbed(self.is_named, "the ranks' words", 1.5)

    def train(self, training, folder, size):
        path = self.checkpoint(training, folder)
        if self.refuses and path.exists() and path.read_bytes() != self.saved(training):
            return None, f"{path}: delete the file or point checkpoint= elsewhere"
        return self.its_model, ""


def run_all(folder, n_scenarios=60, **script):
    told = []
    engine = Scripted(**script)
    with session.Session(4, folder, told.append, {"mpi": engine, "dask": engine}) as made:
        for number in range(n_scenarios):
            made.run(number)
    return made.table, told


def test_nothing_is_wrong_when_all_goes_well(tmp_path):
    table, told = run_all(tmp_path / "chaos")
    n_moved, n_damaged = (
        sum(test(draw(4, number)) for number in range(60)) for test in (lambda s: s.moves, lambda s: s.kind in DAMAGED)
    )
    assert (table.n_wrong, table.count("tried"), table.count("named right")) == (0, 60, n_moved)
    assert table.count("refused") == n_damaged > 3
    assert (told, os.listdir(tmp_path)) == ([], [])
    assert re.search(r"\| all +\| +\| 60 ", str(table))


def test_the_engines_work_side_by_side_and_share_the_numbers(tmp_path, monkeypatch):
    both, met = threading.Barrier(2, timeout=30), []

    def meet(engine, scenario, folder):
        met.append(scenario.number)
        both.wait()  # breaks if one engine waits for the other
        if scenario.number > 3:
            made.end()
        return Outcome()

    monkeypatch.setattr(session, "run", meet)
    engine = Scripted()
    with session.Session(4, tmp_path, lambda line: None, {"mpi": engine, "dask": engine}) as made:
        made.run_for(60)
    assert sorted(met) == [0, 1, 2, 3, 4, 5]
    assert made.table.n_wrong == 0


@pytest.mark.parametrize(
    ("script", "column"),
    [
        ({"is_named": False}, "named wrong"),
        ({"hangs": True}, "hung"),
        ({"model": "bad"}, "resumed different"),
        ({"refuses": False}, "not refused"),
    ],
)
def test_what_goes_wrong_is_counted_and_saved(script, column, tmp_path):
    table, told = run_all(tmp_path / "chaos", **script)
    assert table.n_wrong == table.count(column) == len(told) == len(os.listdir(tmp_path / "chaos")) > 3
    number = next(number for number in range(60) if (tmp_path / "chaos" / f"4-{number}").exists())
    report = (tmp_path / "chaos" / f"4-{number}" / "report.txt").read_text()
    assert f"python tests/chaos --seed 4 --only {number}\n" in report
    assert str(draw(4, number)) in report


def test_a_scenario_that_breaks_is_wrong_too(tmp_path):
    engine = Scripted()
    engine.disturb = engine.saved = None
    with session.Session(4, tmp_path / "chaos", lambda line: None, {"mpi": engine, "dask": engine}) as made:
        made.run(0)
    assert made.table.n_wrong == 1
    assert "TypeError" in (tmp_path / "chaos" / "4-0" / "report.txt").read_text()
