"""Callbacks that end a worker's process in the middle of a training, on engines that start the workers themselves."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

VICTIMS = "victims"  # a folder with an empty file for each worker that was ended, named by it and the iteration


def itself() -> int:
    return os.getpid()


def executor() -> int:
    """Spark's executor, which has started the daemon that has forked this process."""
    daemon = os.getppid()
    return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])


def partition() -> int:
    """The number of this process's Spark task, which is its worker's."""
    from pyspark import TaskContext

    return TaskContext.get().partitionId()


class Kill:
    """Callback: of the workers that reach an iteration, kill one, once for each of these iterations."""

    on_all_workers = True

    def __init__(
        self,
        folder: Path,
        iterations: list[int],
        which: Callable[[], int] = itself,
        name: Callable[[], object] = itself,
    ) -> None:
        self.folder, self.iterations, self.which, self.name = str(folder), iterations, which, name

    def __call__(self, env: Any) -> None:
        if env.iteration not in self.iterations:
            return
        victims = Path(self.folder) / VICTIMS
        victims.mkdir(exist_ok=True)
        arrivals = Path(self.folder) / f"arrivals at {env.iteration}"
        arrivals.mkdir(exist_ok=True)
        # Not always the first to arrive, which is often the first worker.
        place = len(list(arrivals.iterdir()))
        (arrivals / str(os.getpid())).touch()
        if place < env.iteration % 2:
            return
        try:
            (Path(self.folder) / f"done at {env.iteration}").touch(exist_ok=False)
        except FileExistsError:
            return
        (victims / f"{self.name()} at {env.iteration}").touch()
        os.kill(self.which(), signal.SIGKILL)
        time.sleep(30)  # this process may end a moment after the executor, and must not train on until then


def last_victim(folder: Path) -> Path:
    """The file of the process that was ended last; its time is that of the end."""
    return max((folder / VICTIMS).iterdir(), key=lambda file: file.stat().st_mtime)
