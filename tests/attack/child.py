"""The process that cases run in, one after the other, each within limits of time and memory."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from case import Case, judge
from numba.core import event
from self_cases import SELF

IDLE = 15  # times the limit: how long a case may take by the clock, as others may be compiling a kernel that it needs
COMPILING = 300.0  # seconds for a kernel that has not been compiled yet, which is not the case's fault
MEMORY_LIMIT = 2**30  # bytes above what the process had before


class Watchdog(event.Listener):
    """Ends the process, with all threads' tracebacks, when a case takes too long: also when nobody waits for it.

    The limit is of processor time, so that a busy machine fails no case; SIGPROF ends the process. A case that waits
    for ever takes none, so there is a longer limit by the clock.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.file, self.n_compiling = seconds, sys.__stderr__, 0

    def on_start(self, _event: Any) -> None:
        self.n_compiling += 1
        signal.setitimer(signal.ITIMER_PROF, COMPILING)

    def on_end(self, _event: Any) -> None:
        self.n_compiling -= 1
        if not self.n_compiling:  # kernels that this one calls are compiled within
            self.arm()

    def arm(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        faulthandler.dump_traceback_later(IDLE * self.seconds, exit=True, file=self.file)

    @contextlib.contextmanager
    def watching(self, file: Any) -> Iterator[None]:
        self.file = file
        faulthandler.enable(file)
        faulthandler.register(signal.SIGPROF, file, chain=True)
        self.arm()
        try:
            with event.install_listener("numba:compile", self):
                yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.cancel_dump_traceback_later()
            faulthandler.unregister(signal.SIGPROF)
            faulthandler.enable(sys.__stderr__)


@contextlib.contextmanager
def limited_memory(n_bytes: int) -> Iterator[None]:
    """RLIMIT_DATA counts what could be written, zeros that nobody has touched too, but not reserved addresses, of
    which threads and allocators have gigabytes. Only Linux counts so."""
    if not sys.platform.startswith("linux"):
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with open("/proc/self/status") as status:
        n_kilobytes = next(int(line.split()[1]) for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (n_kilobytes * 1024 + n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def _function_of(kind: str) -> Callable[[Case], None]:
    if kind in SELF:
        return SELF[kind]
    from kinds import KINDS  # most of the package, and the libraries that it is compared with

    return KINDS[kind]


def run(kind: str, seed: int, folder: Path, watchdog: Watchdog) -> tuple[str, str]:
    """A case in a folder that holds nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    function = _function_of(kind)  # imported outside of the limits
    gc.freeze()  # what is there already is not looked at again
    os.chdir(folder)  # relative names in hostile input stay in here
    with (folder / "crash.txt").open("w") as file, watchdog.watching(file), limited_memory(MEMORY_LIMIT):
        verdict = judge(function, Case(kind, seed, folder))
        gc.collect()  # damaged memory is found where it is freed: now, and not in a later case
    return verdict


def main() -> None:
    pipe, folder, seconds = Connection(int(sys.argv[1])), Path(sys.argv[2]), float(sys.argv[3])
    tempfile.tempdir = str(folder.parent)  # what a killed case leaves is deleted with the parent's folder
    warnings.simplefilter("ignore")
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    watchdog = Watchdog(seconds)
    with contextlib.suppress(EOFError):  # the parent has gone or has no more cases
        while True:
            kind, seed = pipe.recv()
            pipe.send(run(kind, seed, folder, watchdog))


if __name__ == "__main__":
    main()
