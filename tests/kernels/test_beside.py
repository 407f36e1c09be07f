"""The first fit has other processes compile what takes longest, if that can help, and with the right types."""

import subprocess
import sys

import joblib
import numpy as np
import pytest

import pvtree
from pvtree.kernels import beside, compile_lock
from pvtree.kernels.cache_folder import Folders
from pvtree.kernels.kernel_files import file_name, key_of
from pvtree.kernels.slow_kernels import SLOW, read


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Lists the commands of processes, which wait for a minute instead of compiling."""
    commands, popen = [], subprocess.Popen

    def start(command, **options):
        commands.append(command)
        return popen([sys.executable, "-c", "import time; time.sleep(60)"], **options)

    monkeypatch.setattr(beside, "folders", lambda: Folders(tmp_path, [tmp_path]))
    monkeypatch.setattr(beside.subprocess, "Popen", start)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 3)
    for line in beside.lines_of(SLOW):
        monkeypatch.setattr(kernel_of(line), "overloads", {})
    beside.end()
    yield commands
    beside.end()


def kernel_of(line):
    called, _ = read(line)
    return getattr(called, "kernel", called)


def path_of(line, folder):
    kernel, (_, args) = kernel_of(line), read(line)
    return folder / file_name(kernel, key_of(kernel, args), False)


def test_each_free_core_has_a_process_which_does_not_outlive_this_one(started):
    for _ in range(2):
        beside.compile_beside(["voting"])
    assert len(started) == 2 and [command[-1] for command in started] == ["voting"] * 2
    processes = list(beside._started)
    assert [process.poll() for process in processes] == [None, None]
    beside.end()
    assert None not in [process.returncode for process in processes]


def test_no_process_is_started_in_vain(started, tmp_path, monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 1)
    beside.compile_beside(["serial"])
    monkeypatch.setattr(joblib, "cpu_count", lambda: 3)
    monkeypatch.setattr(beside, "folders", lambda: Folders(None, [], "no reason"))
    beside.compile_beside(["serial"])
    monkeypatch.setattr(beside, "folders", lambda: Folders(tmp_path, [tmp_path]))
    for line in SLOW["serial"]:
        path_of(line, tmp_path).touch()
    beside.compile_beside(["serial"])
    assert started == []
    beside.compile_beside(["data"])  # needs more
    assert len(started) == 2
    beside.end()
    beside.compile_alone()
    beside.compile_beside(SLOW)
    assert len(started) == 2


def test_kernels_that_are_there_or_under_way_are_left_out(started, tmp_path, monkeypatch):
    compiled = []
    first, second, third, *_ = SLOW["data"]
    for line in (first, second, third):
        monkeypatch.setattr(kernel_of(line), "compile", compiled.append)
    path_of(first, tmp_path).touch()
    with compile_lock.alone(tmp_path, path_of(second, tmp_path).name):
        for line in (first, second, third):
            beside.compile_line(line)
    assert [tuple(each) for each in compiled] == [read(third)[1]]


@pytest.mark.parametrize("strategy", ["voting", "exact_voting"])
def test_fits_call_kernels_with_these_types(strategy):
    X = np.random.default_rng(0).normal(size=(400, 20)).astype(np.float32)
    options = {"n_estimators": 2, "min_child_samples": 2, "top_k": 2, "verbosity": 0}
    y = X[:, 0] + X[:, 1] * X[:, 2] > 0
    pvtree.GBDTClassifier(**options).fit(X, y).predict(X)
    pvtree.GBDTClassifier(tree_learner=strategy, n_workers=4, **options).fit(X, y)
    for line in SLOW[strategy]:
        called, args = read(line)
        assert args in kernel_of(line).overloads, f"{line} has other types by now; see kernels/slow_kernels.py"
        if called is not kernel_of(line):
            assert called.returns == kernel_of(line).overloads[args].signature.return_type
