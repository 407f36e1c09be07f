"""Compiles the search for splits, half of what a first fit compiles, in a process of its own beside the others."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import joblib
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.np.numpy_support import from_dtype

from pvtree.kernels.cache_folder import folders
from pvtree.kernels.growing.evaluate import evaluate_group
from pvtree.kernels.growing.records import CANDIDATE, FAMILY, NODE, SCRATCH, TREE
from pvtree.kernels.kernel_files import file_name, key_of

_started: list[subprocess.Popen[bytes]] = []


def _arguments() -> tuple[Any, ...]:
    """The types with which trees of one worker, and all strategies without bounds, call ``evaluate_group``."""
    arrays = (types.Array(from_dtype(dtype), n, "C") for dtype, n in ((FAMILY, 1), (NODE, 1), (CANDIDATE, 2)))
    return (types.int64, from_dtype(TREE), *arrays, from_dtype(SCRATCH), types.none)


def compile_beside() -> None:
    """Start the process, unless the kernel is there, nobody could read it, or there is only one core.

    This one waits at the lock of the kernel when it needs it, and compiles it itself if the other has failed.
    """
    kernel = getattr(evaluate_group, "kernel", None)
    if _started or not isinstance(kernel, Dispatcher) or folders().new is None or joblib.cpu_count() < 2:
        return
    args = _arguments()
    name = file_name(kernel, key_of(kernel, args), False)
    if args in kernel.overloads or any((folder / name).exists() for folder in folders().to_read):
        return
    paths = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with suppress(OSError):  # an interpreter inside another program, as a rule
        nowhere = subprocess.DEVNULL
        command = [sys.executable, "-m", "pvtree.kernels.growing.second_process"]
        _started.append(subprocess.Popen(command, env=environment, stdin=nowhere, stdout=nowhere, stderr=nowhere))
        atexit.register(end)


def end() -> None:
    """Do not outlive the process that asked."""
    for process in _started:
        if process.poll() is None:
            process.kill()
        process.wait()
    _started.clear()


if __name__ == "__main__":
    evaluate_group.kernel.compile(types.none(*_arguments()))
