"""One process of a machine compiles a kernel, the others wait and load it.

Ranks that start together would each compile all kernels, on cores that they share, and overwrite each other's entries
in numba's index of what is compiled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from numba.core.compiler_lock import global_compiler_lock

from pvtree.kernels.compile_notice import BETWEEN_LINES, NOTICE

try:
    import fcntl
except ImportError:  # Windows: every process compiles for itself
    fcntl = None  # type: ignore[assignment]

PATIENCE = 180.0  # seconds: then a process that hangs, or a file system that forgets locks, no longer holds up others
_BETWEEN_TRIES = 0.02


@contextmanager
def alone(folder: Path | None, name: str) -> Iterator[None]:
    """Hold the lock of kernel ``name``, unless that is impossible: then go on without.

    Threads of this process queue up first. A thread that waits here holds kernels that call this one, and no process
    holds a kernel while it waits for its caller, so no two can wait for each other.
    """
    with global_compiler_lock:
        handle = _open(folder, name)
        try:
            if handle is not None:
                _wait_for(handle, name)
            yield
        finally:
            if handle is not None:
                os.close(handle)  # which also unlocks


def is_held(folder: Path | None, name: str) -> bool:
    """Whether another process is compiling kernel ``name``."""
    handle = _open(folder, name)
    if handle is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        return isinstance(problem, BlockingIOError)
    finally:
        os.close(handle)
    return False


def _open(folder: Path | None, name: str) -> int | None:
    if fcntl is None or folder is None:
        return None
    with suppress(OSError):  # nothing will be written there either
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    return None


def _wait_for(handle: int, name: str) -> None:
    until = monotonic() + PATIENCE
    next_line = monotonic() + BETWEEN_LINES
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if monotonic() > until:
                return
            if monotonic() > next_line:
                next_line = monotonic() + BETWEEN_LINES
                NOTICE.on_wait(name)
            sleep(_BETWEEN_TRIES)
        except OSError:  # a file system without locks
            return
