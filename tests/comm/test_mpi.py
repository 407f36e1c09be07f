"""MPI: ranks started by mpiexec pass the conformance tests, train the models of the virtual cluster, and never hang."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import SimpleNamespace

import pytest

from moments import HAPPENED
from mpi_jobs import ENDS_WITHIN, outputs, run_to_end, started, wait_for_all_to_end, wait_until
from mpi_trainings import CASES, LEARNERS, N_TREES, train_model
from pvtree.comm import Solo, local, mpi
from pvtree.errors import MissingDependencyError
from pvtree.training.checkpoint_file import Checkpoint
from thoroughness import IS_THOROUGH, one_in

pytestmark = pytest.mark.mpi


def test_conformance(tmp_path):
    code, printed = run_to_end(8, "conformance", "conformance", tmp_path, timeout=150)
    assert code == 0, printed
    n_passed = int(re.search(r"^(\d+) passed", printed, re.MULTILINE)[1])
    assert n_passed > 70
    assert "skipped" not in printed


# Models


@cache
def virtual_models(case, learner, size):
    return local.run(lambda comm: train_model(case, learner, comm), size)


@pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")
@pytest.mark.parametrize("n_ranks", [1, 5])
def test_models_are_those_of_the_virtual_cluster(n_ranks, tmp_path):
    expected = {(case, learner): virtual_models(case, learner, n_ranks) for case in CASES for learner in LEARNERS}
    code, printed = run_to_end(n_ranks, "trainings", "equality", tmp_path, timeout=120)
    assert code == 0, printed
    for (case, learner), models in expected.items():
        assert len(set(models)) == 1
        made = {(tmp_path / f"{case}-{learner}-{rank}.json").read_text() for rank in range(n_ranks)}
        assert made == set(models), (case, learner)
        if learner in ("data", "attribute"):
            assert made == {train_model(case, "serial", Solo())}, (case, learner)
    if n_ranks == 5:  # otherwise equal models would prove little
        assert expected["binary", "voting"][0] != expected["binary", "data"][0]


# What goes wrong


def wait_until_busy(process, n_ranks, folder):
    wait_until(lambda: process.poll() is not None or len(list(folder.glob("*.busy"))) == n_ranks, 60, "nobody works")
    assert process.poll() is None, outputs(folder)


@pytest.mark.parametrize("how", ["others wait", "others compute", "others have returned", "all fail"])
def test_an_exception_ends_all_ranks_and_is_shown_once(how, tmp_path):
    start = time.monotonic()
    code, printed = run_to_end(3, "endings", "failing", tmp_path, how, timeout=ENDS_WITHIN)
    assert code != 0
    assert time.monotonic() - start < ENDS_WITHIN
    guilty = 0 if how == "all fail" else 1
    assert re.findall(r"Worker (\d) of 3, on \S+, has failed and ends all others:\n", printed) == [str(guilty)]
    assert re.findall(r"^KeyError: 'broken shard'$", printed, re.MULTILINE) == ["KeyError: 'broken shard'"]
    assert "in work\n" in printed  # where it happened
    assert sorted(re.findall(r"^worker (\d) is here$", printed, re.MULTILINE)) == ["0", "1", "2"]


@pytest.mark.parametrize("seed", one_in(2, [0, 1]))
def test_a_rank_killed_among_long_messages_ends_all_others(seed, tmp_path):
    moment = random.Random(seed)
    n_ranks = 3
    with started(n_ranks, "endings", "endless", tmp_path) as process:
        wait_until_busy(process, n_ranks, tmp_path)
        time.sleep(moment.random() * 0.3)
        os.kill(int((tmp_path / f"{moment.randrange(n_ranks)}.pid").read_text()), signal.SIGKILL)
        assert wait_for_all_to_end(process, tmp_path) != 0
    assert re.search(r"(?i)signal 9|killed", outputs(tmp_path))


def train_on_threads(learner, n_workers, checkpoint=None):
    return local.run(lambda comm: train_model("binary", learner, comm, N_TREES, checkpoint), n_workers)[0]


def killed_training(folder, learner, victim, exchange, seconds, n_after):
    """Number of trees in the checkpoint of a training in which a rank was killed, and the model of the next one.

    That goes on with ``n_after`` ranks, or on threads with the least number that must give the same model.
    """
    n_ranks = 3
    folder.mkdir()
    with started(n_ranks, "trainings", "training", folder, learner, victim, exchange, seconds) as process:
        wait_until(lambda: (folder / HAPPENED).exists() or process.poll() is not None, 60, "nobody dies")
        assert wait_for_all_to_end(process, folder) != 0
    printed = outputs(folder)
    assert (folder / HAPPENED).exists(), printed
    assert "Traceback" not in printed
    if exchange > 0:  # before that there is nothing of pvtree in the process
        named = r"^Worker (\d) of 3, process (\d+) on \S+, was killed or has crashed;"
        pid = (folder / f"{victim}.pid").read_text()
        assert re.findall(named, printed, re.MULTILINE) == [(str(victim), pid)], printed
    checkpoint = folder / f"{learner} checkpoint"
    saved = Checkpoint(checkpoint).load()
    n_trees = 0 if saved is None else saved.model.n_iterations
    if not n_after:
        return n_trees, train_on_threads(learner, 1 if learner == "data" else n_ranks, checkpoint)
    assert run_to_end(n_after, "trainings", "training", folder, learner, timeout=60)[0] == 0, outputs(folder)
    return n_trees, (folder / f"{learner}-{n_after - 1}.json").read_text()


# The learner; the part of the training, but for the first kill, before ranks meet, the second, when they meet, and the
# last, at the end; and how many ranks go on, if not threads.
KILLS = [("data", 0, None), ("voting", 0, None), ("data", 0.55, None), ("voting", 1, 3)]
if IS_THOROUGH:
    KILLS[2:] = [("data", 0.3, None), ("voting", 0.8, None), ("data", 0.55, 2), ("voting", 1, 3)]


@pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")
def test_trainings_killed_at_random_moments_go_on_from_their_checkpoint(tmp_path):
    """All others end, the lost rank can be read, and the model is that of an uninterrupted training.

    ``make chaos`` kills some hundred more.
    """
    learners = ("data", "voting")
    whole = {"data": train_on_threads("data", 1), "voting": train_on_threads("voting", 3)}
    assert whole["voting"] != whole["data"] == train_on_threads("data", 3)  # and the kernels are compiled
    assert run_to_end(3, "trainings", "training", tmp_path, "+".join(learners), timeout=60)[0] == 0
    assert whole == {learner: (tmp_path / f"{learner}-2.json").read_text() for learner in learners}
    # Exchanges of a training are numbered from 2 on: 0 is before the ranks meet, 1 when they meet.
    ends = {learner: 2 + int((tmp_path / f"{learner} exchanges").read_text()) for learner in learners}
    moment, results = random.Random(2016), []
    with ThreadPoolExecutor(2) as pool:  # mpiexec leaves much of the time unused when it starts and ends a job
        for kill, (learner, part, n_after) in enumerate(KILLS):
            between = int(ends[learner] * (part + 0.15 * moment.random()))
            exchange = {0: 0, 1: 1, len(KILLS) - 1: ends[learner]}.get(kill, between)
            victim, seconds = moment.randrange(3), moment.choice([0, 0.005 * moment.random()])
            given = (tmp_path / str(kill), learner, victim, exchange, seconds, n_after)
            results.append((learner, pool.submit(killed_training, *given)))
    for learner, result in results:
        assert result.result()[1] == whole[learner]
    n_trees = {result.result()[0] for _, result in results}  # the moments were spread over the training
    assert n_trees >= ({0, 3, 6, 9} if IS_THOROUGH else {0, 6}) and max(n_trees) >= 9


def test_a_stopped_rank_is_named_and_ends_all(tmp_path):
    with started(3, "endings", "endless", tmp_path, "3.0") as process:
        wait_until_busy(process, 3, tmp_path)
        os.kill(int((tmp_path / "2.pid").read_text()), signal.SIGSTOP)
        assert wait_for_all_to_end(process, tmp_path) != 0
    # A rank stopped half-way through an exchange has answered one of the others: that one misses both in the next.
    assert re.search(r"WorkerTimeoutError: Worker \d waited 3 s for workers? (?:[01], )?2 of 3 at", outputs(tmp_path))


def test_of_requests_that_end_together_only_the_broken_ones_are_blamed():
    class BrokenMPI:
        Exception = OSError
        REQUEST_NULL = None
        Get_error_string = staticmethod("code {}:\n  gone".format)

        class Request:
            @staticmethod
            def Testsome(requests, statuses):
                if requests[0] is not None:
                    requests[0] = None
                    return [0]
                requests[1] = requests[3] = None
                statuses[:] = [SimpleNamespace(error=0), SimpleNamespace(error=7)]
                raise OSError("see the statuses")

    with pytest.raises(mpi.BrokenRequests, match="code 7: gone") as caught:
        mpi.wait_politely(BrokenMPI, ["a", "b", "c", "d"], 1.0, lambda done: None, TimeoutError)
    assert caught.value.indices == [3]


# Without MPI


def test_importing_the_engine_does_not_start_mpi():
    code = "import sys, pvtree.comm.mpi; assert 'mpi4py' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("use", [mpi.MPICommunicator, lambda: mpi.run(print)])
def test_missing_mpi4py_is_answered_with_the_command(use, monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pvtree\[mpi\]'"):
        use()
