"""TCP between processes: models are those of one process, a killed worker is named by all others, and fits resume."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from moments import HAPPENED
from mpi_trainings import CASES, N_TREES, train_model
from pvtree.comm import Solo, local
from pvtree.training.checkpoint_file import Checkpoint
from tcp_program import LEARNERS

PROGRAM = Path(__file__).with_name("tcp_program.py")
ENDS_WITHIN = 10.0  # seconds, after a worker was lost
N_WORKERS = 3  # of a training in which one is killed

pytestmark = pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")


@contextmanager
def started(task, folder, size, *arguments):
    """The processes of all workers, of which none is left in the end."""
    environment = os.environ | {"PYTHONPATH": str(PROGRAM.parent)}
    processes = []
    with (folder / "out").open("a") as out:
        for rank in range(size):
            command = [sys.executable, str(PROGRAM), task, str(folder), str(rank), str(size), *map(str, arguments)]
            processes.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment)
            )
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run_to_end(task, folder, size, *arguments):
    with started(task, folder, size, *arguments) as processes:
        codes = [process.wait(200) for process in processes]
    assert codes == [0] * size, (folder / "out").read_text()


@cache
def virtual_model(case, learner, size):
    return local.run(lambda comm: train_model(case, learner, comm), size)[0]


def test_models_are_those_of_one_process_and_of_the_virtual_cluster(tmp_path):
    serial_models = {case: train_model(case, "serial", Solo()) for case in CASES}
    assert virtual_model("binary", "voting", 4) != serial_models["binary"]  # otherwise equal models would prove little
    run_to_end("equality", tmp_path, 4)
    for case, serial in serial_models.items():
        for size in (1, 2, 4):
            for learner in LEARNERS:
                made = {(tmp_path / f"{case}-{learner}-{rank}-of-{size}.json").read_text() for rank in range(size)}
                expected = virtual_model(case, learner, size) if learner == "voting" else serial
                assert made == {expected}, (case, learner, size)
    assert not list(tmp_path.glob("meeting*"))


@pytest.mark.parametrize(("learner", "victim", "exchange"), [("data", 0, 0), ("voting", 2, 150)])
def test_a_killed_worker_is_named_by_all_others_and_the_training_resumes(learner, victim, exchange, tmp_path):
    with started("training", tmp_path, N_WORKERS, learner, victim, exchange) as processes:
        assert processes[victim].wait(150) == -signal.SIGKILL
        codes = [process.wait(60) for rank, process in enumerate(processes) if rank != victim]
    assert codes == [0] * (N_WORKERS - 1), (tmp_path / "out").read_text()
    killed = (tmp_path / HAPPENED).stat().st_mtime
    pid = (tmp_path / f"{victim}.pid").read_text()
    for rank in set(range(N_WORKERS)) - {victim}:
        heard = (tmp_path / f"{rank}.lost").read_text()
        assert (tmp_path / f"{rank}.lost").stat().st_mtime - killed < ENDS_WITHIN
        lost = f"Worker {rank} lost its connection to worker {victim} of {N_WORKERS} at "
        direct = rf"{lost}.*\(process {pid} on \S+, 127.0.0.1\)"
        assert re.search(rf"{direct}|PeerFailedError about worker {victim} ", heard), heard
    saved = Checkpoint(tmp_path / "kept").load()
    if exchange == 0:
        assert saved is None
        return
    assert 0 < saved.model.n_iterations < N_TREES
    run_to_end("training", tmp_path, N_WORKERS, learner, -1, 0)
    whole = local.run(lambda comm: train_model("binary", learner, comm, N_TREES), N_WORKERS)[0]
    assert {(tmp_path / f"{learner}-{rank}.json").read_text() for rank in range(N_WORKERS)} == {whole}
    assert not list(tmp_path.glob("meeting*"))


def test_a_stopped_worker_is_named_and_ends_all(tmp_path):
    with started("endless", tmp_path, 3) as processes:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("*.busy"))) < 3:
            assert time.monotonic() < deadline, (tmp_path / "out").read_text()
            time.sleep(0.01)
        os.kill(processes[2].pid, signal.SIGSTOP)
        for process in processes[:2]:
            assert process.wait(60) == 1
    # A worker stopped half-way through an exchange has answered one of the others: that one misses both in the next.
    named = r"WorkerTimeoutError: Worker \d waited 4 s for workers? (?:[01], )?2 of 3"
    assert re.search(named, (tmp_path / "out").read_text())
