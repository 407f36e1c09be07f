"""MPI: ranks started by mpiexec keep the common rules, make the models of the virtual cluster, and never hang."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from mpi_program import CASES, LEARNERS, train_model

from pvtree.comm import Solo, local, mpi
from pvtree.errors import MissingDependencyError

PROGRAM = Path(__file__).with_name("mpi_program.py")
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
ENDS_WITHIN = 10.0  # seconds, after a rank was lost


@contextmanager
def started(n_ranks, task, folder, *arguments):
    """A running mpiexec; whatever is left of it in the end is killed."""
    command = [MPIEXEC, "-n", str(n_ranks), sys.executable, str(PROGRAM), task, str(folder), *arguments]
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pid in pids(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def run_to_end(n_ranks, task, folder, *arguments, timeout):
    """The exit code, and what all ranks printed."""
    with started(n_ranks, task, folder, *arguments) as process:
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{task} did not end in {timeout} s:\n{outputs(folder)}")
    return code, outputs(folder)


def outputs(folder):
    return (folder / "out").read_text() + (folder / "err").read_text()


def pids(folder):
    return [int(path.read_text() or 0) or os.getpid() for path in folder.glob("*.pid")]


def is_alive(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def wait_until_busy(process, n_ranks, folder):
    wait_until(lambda: process.poll() is not None or len(list(folder.glob("*.busy"))) == n_ranks, 60, "nobody works")
    assert process.poll() is None, outputs(folder)


def test_conformance(tmp_path):
    code, printed = run_to_end(8, "conformance", tmp_path, timeout=150)
    assert code == 0, printed
    n_passed = int(re.search(r"^(\d+) passed", printed, re.MULTILINE)[1])
    assert n_passed > 150
    assert "skipped" not in printed


# Models


@cache
def virtual_models(case, learner, size):
    return local.run(lambda comm: train_model(case, learner, comm), size)


@pytest.mark.filterwarnings("ignore::pvtree.skew.SkewWarning")
@pytest.mark.parametrize("n_ranks", [1, 2, 5])
def test_models_are_those_of_the_virtual_cluster(n_ranks, tmp_path):
    expected = {(case, learner): virtual_models(case, learner, n_ranks) for case in CASES for learner in LEARNERS}
    code, printed = run_to_end(n_ranks, "equality", tmp_path, timeout=120)
    assert code == 0, printed
    for (case, learner), models in expected.items():
        assert len(set(models)) == 1
        made = {(tmp_path / f"{case}-{learner}-{rank}.json").read_text() for rank in range(n_ranks)}
        assert made == set(models), (case, learner)
        if learner in ("data", "attribute"):
            assert made == {train_model(case, "serial", Solo())}, (case, learner)
    if n_ranks == 5:  # otherwise equal models would say little
        assert expected["binary", "voting"][0] != expected["binary", "data"][0]


# What goes wrong


@pytest.mark.parametrize("how", ["others wait", "others compute", "others have returned", "all fail"])
def test_an_exception_ends_all_ranks_and_is_shown_once(how, tmp_path):
    start = time.monotonic()
    code, printed = run_to_end(3, "failing", tmp_path, how, timeout=ENDS_WITHIN)
    assert code != 0
    assert time.monotonic() - start < ENDS_WITHIN
    guilty = 0 if how == "all fail" else 1
    assert re.findall(r"Worker (\d) of 3, on \S+, has failed and ends all others:\n", printed) == [str(guilty)]
    assert re.findall(r"^KeyError: 'broken shard'$", printed, re.MULTILINE) == ["KeyError: 'broken shard'"]
    assert "in work\n" in printed  # where it happened
    assert sorted(re.findall(r"^worker (\d) is here$", printed, re.MULTILINE)) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("what", "seed"), [("messages", 0), ("messages", 1), ("messages", 2), ("trainings", 3), ("trainings", 4)]
)
@pytest.mark.filterwarnings("ignore::pvtree.skew.SkewWarning")
def test_a_killed_rank_ends_all_others(what, seed, tmp_path):
    moment = random.Random(seed)
    n_ranks = 3
    virtual_models("binary", "voting", n_ranks)  # compiles the kernels, so that the ranks find them ready
    with started(n_ranks, "endless", tmp_path, what) as process:
        wait_until_busy(process, n_ranks, tmp_path)
        time.sleep(moment.random() * 0.5)
        victim = moment.randrange(n_ranks)
        all_pids = pids(tmp_path)
        os.kill(int((tmp_path / f"{victim}.pid").read_text()), signal.SIGKILL)
        try:
            code = process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            pytest.fail("mpiexec still runs")
        wait_until(lambda: not any(map(is_alive, all_pids)), 2.0, "a rank stays behind")
    assert code != 0
    assert len(all_pids) == n_ranks
    assert re.search(r"(?i)signal 9|killed", outputs(tmp_path))


def test_a_stopped_rank_is_named_and_ends_all(tmp_path):
    with started(3, "endless", tmp_path, "messages", "1.0") as process:
        wait_until_busy(process, 3, tmp_path)
        all_pids = pids(tmp_path)
        os.kill(int((tmp_path / "2.pid").read_text()), signal.SIGSTOP)
        try:
            code = process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            pytest.fail(f"mpiexec still runs:\n{outputs(tmp_path)}")
        wait_until(lambda: not any(map(is_alive, all_pids)), 2.0, "a rank stays behind")
    assert code != 0
    assert re.search(r"WorkerTimeoutError: Worker \d waited 1 s for worker 2 of 3 at", outputs(tmp_path))


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
