"""Accidents in the middle of a training: what happens to a rank or worker at its n-th exchange, or shortly after."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import Any

HAPPENED = "happened"  # a file that appears in the folder just before it happens
FULL, ASIDE = "/dev/full", "aside"


class Moment:
    """Some seconds after this process has reached its n-th exchange; 0 is the moment before the first one."""

    def __init__(self, folder: Path, act: Callable[[], None], exchange: int, seconds: float = 0.0) -> None:
        self._folder, self._act, self._exchange, self._seconds = folder, act, exchange, seconds
        self.n_seen = 0

    def pass_by(self) -> None:
        if self.n_seen == self._exchange:
            if self._seconds == 0:
                self._happen()
            else:
                Timer(self._seconds, self._happen).start()  # Python does not end before it has happened
        self.n_seen += 1

    def _happen(self) -> None:
        (self._folder / HAPPENED).touch()
        self._act()

    def watch(self, kind: type[Any]) -> Callable[[], None]:
        """Count the exchanges of this kind of communicator; return a function that ends the counting."""
        exchange = kind._exchange

        def counted(comm: Any, *arguments: Any) -> Any:
            self.pass_by()
            return exchange(comm, *arguments)

        kind._exchange = counted
        return lambda: setattr(kind, "_exchange", exchange)


def disturbance(name: str, checkpoint: Path) -> Callable[[], None]:
    """What happens, by its name."""
    return {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
        "file limit": lambda: limit_files(100),
        "full device": lambda: lead_to_full_device(checkpoint),
    }[name]


def limit_files(n_bytes: int | None) -> None:
    """Make this process fail to write longer files, as on a full disk; None for no limit."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if n_bytes is None else n_bytes, hard))


def lead_to_full_device(path: Path) -> None:
    """Make writing to this path fail for lack of space; an existing file is moved aside."""
    if path.exists():
        path.rename(path.with_name(ASIDE))
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(FULL)


def lead_back(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    if path.with_name(ASIDE).exists():
        path.with_name(ASIDE).rename(path)
