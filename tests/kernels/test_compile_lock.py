"""Processes that start together compile each kernel once."""

import os
import subprocess
import sys
import threading

import pytest

from pvtree.kernels import compile_lock
from pvtree.kernels.compile_lock import alone

KERNELS = """
from pvtree.kernels.jit import njit

@njit
def inner(x):
    return x * 2.5

@njit
def outer(x):
    return inner(x) + 1
"""
PROGRAM = """
import sys
from numba.core import event

compiled = []

class Count(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

event.register("numba:compile", Count())
import lock_kernels
sys.stdin.readline()
lock_kernels.outer(1.0), lock_kernels.outer(1)
print(len(compiled))
"""


@pytest.fixture
def programs(tmp_path):
    (tmp_path / "lock_kernels.py").write_text(KERNELS)
    (tmp_path / "program.py").write_text(PROGRAM)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths}
    started = [
        subprocess.Popen(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    yield started
    for program in started:
        program.kill()
        program.communicate()


def test_each_kernel_is_compiled_by_one_of_two_processes(programs):
    for program in programs:
        program.stdin.write("go\n")
        program.stdin.flush()
    counts = [int(program.communicate(timeout=120)[0]) for program in programs]
    assert sum(counts) == 4  # two kernels for two types


def test_a_lock_is_taken_by_one_at_a_time_and_given_up_on(tmp_path, monkeypatch):
    entered = threading.Event()

    def enter():
        with alone(tmp_path, "kernel"):
            entered.set()

    handle = compile_lock._open(tmp_path, "kernel")
    compile_lock._wait_for(handle, "kernel")  # as another process would hold it
    waiting = threading.Thread(target=enter)
    waiting.start()
    assert not entered.wait(0.2)
    os.close(handle)
    waiting.join(10)
    assert entered.is_set()

    entered.clear()
    handle = compile_lock._open(tmp_path, "kernel")
    compile_lock._wait_for(handle, "kernel")
    monkeypatch.setattr(compile_lock, "PATIENCE", 0.1)
    enter()
    assert entered.is_set()
    os.close(handle)


def test_without_a_folder_to_write_to_work_goes_on(tmp_path):
    (tmp_path / "file").write_text("")
    done = []
    with alone(tmp_path / "file" / "below", "kernel"):
        done.append("work")
    assert done == ["work"] and [path.name for path in tmp_path.iterdir()] == ["file"]
