"""One scenario after the other on each engine, until the time is over; what goes wrong is saved with its command."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from tempfile import TemporaryDirectory

from chaos_dask import DaskEngine
from chaos_mpi import MPIEngine
from runs import Engine, Outcome, run
from scenarios import ENGINES, Scenario, draw
from table import Table

TELL_SECONDS = 30.0


class Session:
    def __init__(
        self, seed: int, saved: Path, tell: Callable[[str], None], engines: dict[str, Engine] | None = None
    ) -> None:
        self._seed, self._saved, self._tell = seed, saved, tell
        self._engines = engines or {"mpi": MPIEngine(), "dask": DaskEngine()}
        self.table = Table()
        self._lock, self._is_over = threading.Lock(), threading.Event()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._engines:
            self._close(name)

    def _close(self, name: str) -> None:
        if hasattr(self._engines[name], "close"):
            self._engines[name].close()

    def run_for(self, seconds: float) -> None:
        """The engines take turns in the numbers and work side by side, as either of them mostly waits."""
        begun = time.monotonic()

        def run_each(first: int) -> None:
            for number in itertools.count(first, len(ENGINES)):
                if self._is_over.is_set() or time.monotonic() - begun > seconds:
                    break
                self.run(number)
            self._close(ENGINES[first])  # here, because Dask's client must be closed by the thread that opened it

        with ThreadPoolExecutor(len(ENGINES)) as pool:
            running = [pool.submit(run_each, first) for first in range(len(ENGINES))]
            try:
                while wait(running, TELL_SECONDS).not_done:
                    self._tell(self.table.progress(time.monotonic() - begun))
            finally:  # after Ctrl-C too
                self.end()
        for each in running:
            each.result()

    def end(self) -> None:
        """Let each engine come to the end of its scenario."""
        self._is_over.set()

    def run(self, number: int) -> None:
        scenario = draw(self._seed, number)
        with TemporaryDirectory(prefix="pvtree-chaos-") as name:
            folder = Path(name)
            try:
                outcome = run(self._engines[scenario.engine], scenario, folder)
            except Exception:
                outcome = Outcome(traceback.format_exc(), is_identical=False)
            with self._lock:
                self.table.add(scenario, outcome)
                if not outcome.is_right:
                    self._save(scenario, outcome, folder)

    def _save(self, scenario: Scenario, outcome: Outcome, folder: Path) -> None:
        kept = self._saved / f"{scenario.seed}-{scenario.number}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept / "folder", symlinks=True)
        command = f"python tests/chaos --seed {scenario.seed} --only {scenario.number}"
        (kept / "report.txt").write_text(f"{scenario}\n{command}\n\n{scenario!r}\n{outcome!r}\n\n{outcome.told}\n")
        self._tell(f"{scenario}: wrong; {command} repeats it.")
