"""Compiles the kernels that take longest in processes of their own, beside the fit that will need them."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import joblib
from numba.core.dispatcher import Dispatcher

from pvtree.kernels.cache_folder import folders
from pvtree.kernels.compile_lock import is_held
from pvtree.kernels.kernel_files import file_name, key_of
from pvtree.kernels.slow_kernels import SLOW, read

MOST_PROCESSES = 3  # there are not more long ones than they can take
_looked_at: set[str] = set()
_started: list[subprocess.Popen[bytes]] = []


def compile_beside(strategies: Iterable[str]) -> None:
    """Start processes for what these strategies need, unless it is there, nobody could read it, or no core is free.

    This process waits at the lock of a kernel when it needs it, and compiles it itself if the other one has failed.
    """
    new = [strategy for strategy in dict.fromkeys(strategies) if strategy not in _looked_at]
    n_processes = min(joblib.cpu_count() - 1, MOST_PROCESSES)
    if not new or folders().new is None or n_processes < 1:
        return
    _looked_at.update(new)
    n_missing = sum(_is_missing(*read(line)) for line in lines_of(new))
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    nowhere = subprocess.DEVNULL
    for number in range(min(n_processes, n_missing)):
        command = [sys.executable, "-m", __name__, str(os.getpid()), str(number), *new]
        with suppress(OSError):  # an interpreter inside another program, as a rule
            _started.append(subprocess.Popen(command, env=environment, stdin=nowhere, stdout=nowhere, stderr=nowhere))
    if len(_started) > 0:
        atexit.register(end)


def end() -> None:
    """Do not outlive the process that asked."""
    for process in _started:
        if process.poll() is None:
            process.kill()
        process.wait()
    _started.clear()
    _looked_at.clear()


def compile_alone() -> None:
    """Start no processes from here on: this one is among several that share the work already."""
    _looked_at.update(SLOW)


def _is_missing(kernel: Any, args: tuple[Any, ...]) -> bool:
    kernel = getattr(kernel, "kernel", kernel)  # of a lazy one
    if not isinstance(kernel, Dispatcher) or args in kernel.overloads:
        return False
    name = file_name(kernel, key_of(kernel, args), False)
    return not any((folder / name).exists() for folder in folders().to_read)


def compile_line(line: str) -> None:
    """Compile a kernel of ``SLOW`` that is missing and that no other process is compiling."""
    called, args = read(line)
    kernel = getattr(called, "kernel", called)
    if _is_missing(called, args) and not is_held(folders().new, file_name(kernel, key_of(kernel, args), False)):
        kernel.compile(called.returns(*args) if kernel is not called else args)


def lines_of(strategies: Iterable[str]) -> list[str]:
    """What strategies need, each once."""
    return list(dict.fromkeys(line for strategy in strategies for line in SLOW.get(strategy, ())))


if __name__ == "__main__":
    parent, place = int(sys.argv[1]), int(sys.argv[2])
    lines = lines_of(sys.argv[3:])
    for each in [*lines[place:], *lines[:place]]:  # each process begins with another one
        if os.getppid() == parent:
            compile_line(each)
