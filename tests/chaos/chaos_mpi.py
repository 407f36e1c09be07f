"""Trainings under mpiexec: what the ranks print tells who was lost."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from runs import STARTS_WITHIN, TIMEOUT, Disturbed, Hung, time_limit, wait_for_end
from scenarios import DISKS, Scenario, Training

from moments import HAPPENED
from mpi_jobs import outputs, processes_of, started, wait_until
from mpi_trainings import N_TREES, train_model
from pvtree.comm import local
from pvtree.training.checkpoint_file import FILE_NAME

# Before the exchanges of the training itself the ranks meet, and in the end they leave together.
N_MEETING = 2


class MPIEngine:
    def __init__(self) -> None:
        self.model = cache(self._model)
        self.saved = cache(self._saved)
        self.n_exchanges = cache(self._n_exchanges)

    def checkpoint(self, training: Training, folder: Path) -> Path:
        return folder / f"{training.learner} checkpoint" / FILE_NAME

    def disturb(self, scenario: Scenario, folder: Path) -> Disturbed:
        training = scenario.training
        exchange = scenario.exchange(self.n_exchanges(training))
        moment = (scenario.victim, exchange, scenario.seconds, scenario.kind)
        options = (training.case, scenario.way, time_limit(scenario))
        with started(training.size, "trainings", "training", folder, training.learner, *moment, *options) as process:

            def has_ended(seconds: float) -> bool:
                try:
                    process.wait(seconds)
                except subprocess.TimeoutExpired:
                    return False
                return not processes_of(folder)

            try:
                seconds = wait_for_end(has_ended, scenario, folder)
            except Hung as hung:
                raise Hung(f"{hung}\n{outputs(folder)}") from None
        told = outputs(folder)
        is_named = (folder / HAPPENED).exists() and process.returncode != 0 and names(scenario, folder, told)
        return Disturbed(is_named, told, seconds)

    def train(self, training: Training, folder: Path, size: int) -> tuple[str | None, str]:
        if size == 0:
            return self._train_here(training, N_TREES, self.checkpoint(training, folder).parent), ""
        model = folder / f"{training.learner}-{size - 1}.json"
        model.unlink(missing_ok=True)
        options = (-1, 0, 0, "kill", training.case)
        with started(size, "trainings", "training", folder, training.learner, *options) as process:
            try:
                code = process.wait(STARTS_WITHIN)
            except subprocess.TimeoutExpired:
                raise Hung(f"An undisturbed training does not end.\n{outputs(folder)}") from None
        wait_until(lambda: not processes_of(folder), 5.0, "a process stays behind")
        return (model.read_text() if code == 0 else None), outputs(folder)

    def _train_here(self, training: Training, n_trees: int, checkpoint: Path | None) -> str:
        def work(comm: local.LocalCommunicator) -> str:
            return train_model(training.case, training.learner, comm, n_trees, checkpoint)

        return local.run(work, training.size)[0]

    def _model(self, training: Training) -> str:
        return self._train_here(training, N_TREES, None)

    def _saved(self, training: Training) -> bytes:
        with TemporaryDirectory() as folder:
            self._train_here(training, N_TREES // 2, Path(folder))
            return (Path(folder) / FILE_NAME).read_bytes()

    def _n_exchanges(self, training: Training) -> int:
        expected = self.model(training)  # and the kernels are compiled
        with TemporaryDirectory() as name:
            folder = Path(name)
            model, told = self.train(training, folder, training.size)
            assert model == expected, told
            return N_MEETING + int((folder / f"{training.learner} exchanges").read_text())


def names(scenario: Scenario, folder: Path, told: str) -> bool:
    """Whether the ranks blame the right one."""
    size, victim = scenario.training.size, str(scenario.victim)
    if scenario.kind in DISKS:
        failed = re.findall(rf"Worker (\d) of {size}, on \S+, has failed and ends all others", told)
        return set(failed) == {"0"} and "ModelFileError: Cannot write the checkpoint" in told
    if scenario.kind == "kill":
        pid = (folder / f"{victim}.pid").read_text()
        return re.findall(rf"Worker (\d) of {size}, process (\d+) on \S+, was killed", told) == [(victim, pid)]
    # A rank stopped half-way through an exchange has answered some of the others, who then miss those that wait too.
    late = re.findall(rf"WorkerTimeoutError: Worker \d waited {TIMEOUT:g} s for workers? ([\d, ]+) of {size} at", told)
    return bool(late) and all(victim in ranks.split(", ") for ranks in late)
