"""MPICH's shared memory, a file that is left behind when a job is killed: ranks note theirs, and tests remove it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def note_shared_memory(folder: Path, pids: Iterable[int] = ()) -> None:
    """The files of these processes, of this one unless given, once MPI has started."""
    for pid in pids or [os.getpid()]:
        try:
            lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        except OSError:  # it has ended, or this is no Linux
            continue
        paths = {line.split()[-1] for line in lines if "/mpich_shm_" in line}
        if paths:
            (folder / f"{pid}.shm").write_text("\n".join(sorted(paths)))


def remove_shared_memory(folder: Path) -> None:
    """Remove the shared memory of a job that has ended."""
    for note in folder.glob("*.shm"):
        for path in note.read_text().splitlines():
            Path(path).unlink(missing_ok=True)
