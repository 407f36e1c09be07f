"""Lazy kernels are compiled when they are first called, and kept in files of their own."""

import os
import subprocess
import sys
from time import sleep

import numpy as np
import pytest
from numba import types

from pvtree.kernels import jit, kernel_files
from pvtree.kernels import lazy as lazy_module
from pvtree.kernels.cache_folder import Folders
from pvtree.kernels.jit import njit
from pvtree.kernels.lazy import lazy


@lazy(types.float64)
def scaled_sum(values, factor):
    """Returns an integer where it has no values, which the caller is told is a float."""
    total = 0.0
    for value in values:
        total += value * factor
    return total if len(values) > 0 else 7


@lazy()
def fill(values, number):
    for i in range(len(values)):
        values[i] = number


@lazy(types.int64)
def without_meaning(values):
    return values.no_such_thing


def use(values, kind):
    """What numba cannot compile is called for kind 2 alone."""
    if kind == 0:
        fill(values, 3)
        return scaled_sum(values, 2)
    if kind == 1:
        return scaled_sum(values[:0], 2)
    return float(without_meaning(values)) if kind == 2 else -1.0


@pytest.fixture
def caller(tmp_path, monkeypatch):
    """The same function, compiled anew into an empty folder."""
    for module in (jit, kernel_files):
        monkeypatch.setattr(module, "folders", lambda: Folders(tmp_path, [tmp_path]))
    for called in (scaled_sum, fill, without_meaning):
        called.kernel.overloads.clear()
    lazy_module._address.cache_clear()
    return njit(use)


def names(folder):
    return sorted(path.name.split("-")[0] for path in folder.glob("*.kernel"))


def test_a_lazy_kernel_is_compiled_when_it_is_first_called(caller, tmp_path):
    values = np.zeros(4)
    assert caller(values, 3) == -1.0
    assert names(tmp_path) == ["use"]
    for _ in range(2):
        assert caller(values, 0) == 24.0 and values.tolist() == [3.0] * 4
    assert names(tmp_path) == ["fill", "scaled_sum", "use"]
    assert caller(values, 1) == 7.0  # as a float, whatever numba finds inside


def test_files_of_lazy_kernels_are_loaded(caller, tmp_path):
    caller(np.zeros(4), 0)
    lazy_module._address.cache_clear()
    for called in (scaled_sum, fill):
        called.kernel.overloads.clear()
        called.kernel._cache_hits.clear()
    again = njit(use)
    assert again(np.zeros(4), 0) == 24.0
    assert all(sum(kernel._cache_hits.values()) == 1 for kernel in (again, scaled_sum.kernel, fill.kernel))


def test_what_cannot_be_compiled_is_an_error_of_its_caller(caller, capfd):
    with pytest.raises(RuntimeError, match="kernel without_meaning cannot be compiled"):
        caller(np.zeros(4), 2)
    assert "no_such_thing" in capfd.readouterr().err
    assert caller(np.zeros(4), 0) == 24.0


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_kernel_is_compiled_before_ctrl_c_ends_the_training(caller, monkeypatch, stop):
    values, real, asked = np.zeros(4), lazy_module._address, []

    def interrupted(what):
        asked.append(what)
        if len(asked) == 1:
            raise stop
        return real(what)

    monkeypatch.setattr(lazy_module, "_address", interrupted)
    with pytest.raises(stop):
        assert caller(values, 0) == 24.0
        for _ in range(500):  # Python raises it soon after the kernel, but not while it sleeps
            sleep(0.01)
    assert values.tolist() == [3.0] * 4 and len(asked) == 3


def test_other_processes_must_be_able_to_find_a_lazy_kernel():
    def inside(x):
        return x

    with pytest.raises(TypeError, match="must be at the top of its module"):
        lazy()(inside)


NUMBERS_ALONE = """
import numpy as np, pvtree
from pvtree.kernels.growing import bundles, constraints, evaluate, families, few_bins, lanes, split
X = np.random.default_rng(0).normal(size=(400, 20)).astype(np.float32)
pvtree.GBDTClassifier(n_estimators=2, min_child_samples=2, verbosity=0).fit(X, X[:, 0] > 0)
modules = bundles, constraints, evaluate, families, few_bins, lanes, split
print(sorted({k for m in modules for k, v in vars(m).items() if hasattr(v, "kernel") and v.kernel.overloads}))
"""


def test_numbers_need_no_kernel_for_categories_bundles_or_constraints():
    result = subprocess.run(
        [sys.executable, "-c", NUMBERS_ALONE], capture_output=True, text=True, timeout=290, env=os.environ, check=True
    )
    assert result.stdout == "['evaluate_group']\n"  # which is lazy for other reasons
