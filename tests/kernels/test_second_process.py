"""The first fit has a second process compile the search for splits, if that can help, and with the right types."""

import subprocess
import sys

import joblib
import numpy as np
import pytest

import pvtree
from pvtree.kernels.cache_folder import Folders
from pvtree.kernels.growing import second_process
from pvtree.kernels.growing.evaluate import evaluate_group
from pvtree.kernels.kernel_files import file_name, key_of


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Lists the commands of processes, which wait for a minute instead of compiling."""
    commands, popen = [], subprocess.Popen

    def start(command, **options):
        commands.append(command)
        return popen([sys.executable, "-c", "import time; time.sleep(60)"], **options)

    monkeypatch.setattr(second_process, "folders", lambda: Folders(tmp_path, [tmp_path]))
    monkeypatch.setattr(second_process.subprocess, "Popen", start)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    monkeypatch.setattr(evaluate_group.kernel, "overloads", {})
    second_process.end()
    yield commands
    second_process.end()


def test_one_process_is_started_and_does_not_outlive_this_one(started):
    for _ in range(2):
        second_process.compile_beside()
    assert len(started) == 1 and started[0][-1] == second_process.__name__
    [process] = second_process._started
    assert process.poll() is None
    second_process.end()
    assert process.returncode is not None


def test_no_process_is_started_in_vain(started, tmp_path, monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 1)
    second_process.compile_beside()
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    kernel = evaluate_group.kernel
    path = tmp_path / file_name(kernel, key_of(kernel, second_process._arguments()), False)
    path.touch()
    second_process.compile_beside()
    path.unlink()
    monkeypatch.setattr(second_process, "folders", lambda: Folders(None, [], "no reason"))
    second_process.compile_beside()
    assert started == []


def test_it_compiles_what_trees_and_strategies_call():
    X = np.random.default_rng(0).normal(size=(400, 20)).astype(np.float32)
    pvtree.GBDTClassifier(n_estimators=1, min_child_samples=2, verbosity=0).fit(X, X[:, 0] > 0)
    assert second_process._arguments() in evaluate_group.kernel.overloads
