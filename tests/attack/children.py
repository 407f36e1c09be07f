"""Runs cases in child processes, so that a signal or a hang is seen, told from others and survived."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIME_LIMIT = 20.0  # seconds of processor time
TOO_LONG = "for too long"
N_SUSPECTS = 10  # cases of a child before the one that it died in

# One pool of memory for all threads, so that the limit counts what cases ask for.
QUIET = {"MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "2"}


@dataclass(frozen=True)
class Result:
    """What became of a case."""

    kind: str
    seed: int
    verdict: str  # "accepted", "refused" or "failed"
    detail: str = ""
    before: tuple[str, ...] = ()  # cases of a child that died, if this one alone does not kill it
    folder: Path | None = None  # what the case has written, if it failed

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.seed}"

    @property
    def command(self) -> str:
        return " ".join(["python tests/attack", *self.before, self.name])


@dataclass
class Child:
    """One process; ``case`` is what it is busy with."""

    scratch: Path
    seconds: float
    case: tuple[str, int] | None = None
    done: deque[str] = field(default_factory=lambda: deque(maxlen=N_SUSPECTS))

    def __post_init__(self) -> None:
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.folder = self.scratch / "case"
        self.pipe, theirs = Pipe()
        arguments = [str(theirs.fileno()), str(self.folder), str(self.seconds)]
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "child.py"), *arguments],
            env=os.environ | QUIET,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the parent, which stops its children
        )
        theirs.close()

    def start(self, kind: str, seed: int) -> None:
        self.case = (kind, seed)
        self.pipe.send(self.case)

    def finish(self) -> Result:
        """The result of the case that is ready; a process that has ended is one."""
        assert self.case is not None
        kind, seed = self.case
        try:
            verdict, detail = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            crash = self.folder / "crash.txt"
            trace = crash.read_text(errors="replace") if crash.exists() else ""
            return Result(kind, seed, "failed", f"{self._ending(trace)}\n{trace}", tuple(self.done), self.folder)
        self.case = None
        self.done.append(f"{kind}:{seed}")
        return Result(kind, seed, verdict, detail, (), self.folder if verdict == "failed" else None)

    def _ending(self, trace: str) -> str:
        """How the process ended; the watchdog ends one that works by a signal, and one that waits by faulthandler."""
        code = self.process.wait()
        if code == -signal.SIGPROF or trace.startswith("Timeout"):
            return f"It {'worked' if code < 0 else 'waited'} {TOO_LONG}; the limit is {self.seconds:g} s."
        return f"It was ended by {signal.Signals(-code).name}." if code < 0 else f"It ended with exit code {code}."

    def stop(self) -> None:
        self.pipe.close()
        if self.case is not None:
            self.process.kill()
        self.process.wait()


def run_cases(
    cases: Iterable[tuple[str, int]],
    n_children: int = 2,
    keep: Callable[[Result], None] = lambda result: None,
    seconds: float = TIME_LIMIT,
) -> Iterator[Result]:
    """The results as they come. ``keep`` may copy the folder of a failed case before the next one empties it."""
    with tempfile.TemporaryDirectory(prefix="attack-") as scratch:
        places = [Path(scratch) / str(number) for number in range(n_children)]
        children: dict[Connection, Child] = {}
        waiting = iter(cases)
        try:
            for place in places:
                if (case := next(waiting, None)) is not None:
                    _start(children, Child(place, seconds), case)
            while children:
                for pipe in wait(list(children)):
                    child = children.pop(pipe)
                    result = child.finish()
                    if child.case is not None:  # it has died
                        child.stop()
                        result = _attributed(result, child)
                    keep(result)
                    yield result
                    if (case := next(waiting, None)) is not None:
                        _start(children, child if child.case is None else Child(child.scratch, seconds), case)
                    elif child.case is None:
                        child.stop()
        finally:
            for child in children.values():
                child.stop()


def _start(children: dict[Connection, Child], child: Child, case: tuple[str, int]) -> None:
    children[child.pipe] = child
    child.start(*case)


def _attributed(result: Result, child: Child) -> Result:
    """Memory that one case has damaged may kill its child in a later one: find the case that does it alone."""
    if TOO_LONG in result.detail:
        return replace(result, before=())
    for name in [result.name, *reversed(result.before)]:
        kind, _, seed = name.rpartition(":")
        alone = Child(child.scratch / "alone", child.seconds)
        alone.start(kind, int(seed))
        again = alone.finish()
        alone.stop()
        if again.verdict == "failed":
            found = "" if name == result.name else f"Found by the death of {result.name}.\n"
            return replace(again, detail=found + again.detail, before=())
    return result
