"""MPICH's shared memory, a file that is left behind when a job is killed: ranks note theirs, and tests remove it."""

from __future__ import annotations

import os
from pathlib import Path


def note_shared_memory(folder: Path) -> None:
    """The files of this rank, once MPI has started."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    paths = {line.split()[-1] for line in lines if "/mpich_shm_" in line}
    (folder / f"{os.getpid()}.shm").write_text("\n".join(sorted(paths)))


def remove_shared_memory(folder: Path) -> None:
    """Remove the shared memory of a job that has ended."""
    for note in folder.glob("*.shm"):
        for path in note.read_text().splitlines():
            Path(path).unlink(missing_ok=True)
