"""mpiexec jobs that tests start and watch. Nothing of them is left when a test ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mpi_memory import note_shared_memory, remove_shared_memory

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
SUPPORT = Path(__file__).resolve().parents[1] / "support"
MARK = "PVTREE_TEST_JOB"  # in the environment of all processes of a job
ENDS_WITHIN = 10.0  # seconds, after a rank was lost
TERMINATES_WITHIN = 3.0  # seconds, until mpiexec is killed


@contextmanager
def started(n_ranks: int, program: str, task: str, folder: Path, *arguments: object) -> Iterator[subprocess.Popen]:
    """A running mpiexec, whose remaining processes are killed in the end."""
    path = Path(__file__).with_name(f"mpi_{program}.py")
    command = [MPIEXEC, "-n", str(n_ranks), sys.executable, str(path), task, str(folder), *map(str, arguments)]
    paths = [str(SUPPORT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {MARK: str(folder), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment)
    try:
        yield process
    finally:
        end_job(process, folder)
        remove_shared_memory(folder)


def end_job(process: subprocess.Popen, folder: Path) -> None:
    living = processes_of(folder)
    if living:
        note_shared_memory(folder, living)
        process.terminate()  # mpiexec then removes its files too
        with suppress(subprocess.TimeoutExpired):
            process.wait(TERMINATES_WITHIN)
    for pid in processes_of(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def processes_of(folder: Path) -> list[int]:
    """All live processes of a job: mpiexec, ranks, and what they have started."""
    mark, found = f"{MARK}={folder}".encode(), []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, belongs to another user, or is a zombie, which has no environment
            if mark in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return found


def run_to_end(
    n_ranks: int, program: str, task: str, folder: Path, *arguments: object, timeout: float
) -> tuple[int, str]:
    """The exit code, and what all ranks printed."""
    with started(n_ranks, program, task, folder, *arguments) as process:
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{task} did not end in {timeout} s:\n{outputs(folder)}")
    return code, outputs(folder)


def outputs(folder: Path) -> str:
    return (folder / "out").read_text() + (folder / "err").read_text()


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def wait_for_all_to_end(process: subprocess.Popen, folder: Path) -> int:
    """mpiexec's exit code, soon after a rank was lost. Fails if a process is left behind."""
    try:
        code = process.wait(ENDS_WITHIN)
    except subprocess.TimeoutExpired:
        pytest.fail(f"mpiexec still runs:\n{outputs(folder)}")
    wait_until(lambda: not processes_of(folder), 2.0, "a process stays behind")
    return code
