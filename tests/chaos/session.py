"""One scenario after the other, until the time is over; what goes wrong is saved with the command that repeats it."""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from chaos_dask import DaskEngine
from chaos_mpi import MPIEngine
from runs import Engine, Outcome, run
from scenarios import Scenario, draw
from table import Table

TELL_SECONDS = 30.0


class Session:
    def __init__(
        self, seed: int, saved: Path, tell: Callable[[str], None], engines: dict[str, Engine] | None = None
    ) -> None:
        self._seed, self._saved, self._tell = seed, saved, tell
        self._engines = engines or {"mpi": MPIEngine(), "dask": DaskEngine()}
        self.table = Table()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self._engines.values():
            if hasattr(engine, "close"):
                engine.close()

    def run_for(self, seconds: float) -> None:
        begun, told, number = time.monotonic(), 0.0, 0
        while (elapsed := time.monotonic() - begun) < seconds:
            self.run(number)
            number += 1
            if elapsed - told > TELL_SECONDS:
                told = elapsed
                self._tell(self.table.progress(elapsed))

    def run(self, number: int) -> None:
        scenario = draw(self._seed, number)
        with TemporaryDirectory(prefix="pvtree-chaos-") as name:
            folder = Path(name)
            try:
                outcome = run(self._engines[scenario.engine], scenario, folder)
            except Exception:
                outcome = Outcome(traceback.format_exc(), is_identical=False)
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
