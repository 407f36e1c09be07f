"""A scenario from its training to its outcome: disturbed, looked at, gone on with, and compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scenarios import DAMAGED, Scenario, Training

from moments import HAPPENED, lead_back

STARTS_WITHIN = 600.0  # seconds until it happens: four processes that exchange often get little of a busy machine
ENDS_WITHIN = 30.0  # seconds after it has happened, and after the time limit of a training whose worker is stopped
TIMEOUT = 15.0  # that time limit: longer than a healthy worker is late on a busy machine
REFUSAL = "delete the file or point checkpoint= elsewhere"


class Hung(Exception):
    """Somebody still waits."""


@dataclass
class Disturbed:
    """What came of a training that was disturbed."""

    is_named: bool  # the right worker, and no other
    told: str
    seconds: float  # from the disturbance to the end of all


@dataclass
class Outcome:
    """None where a scenario does not come to a question."""

    told: str = ""
    seconds: float = 0.0
    is_named: bool | None = None
    is_hung: bool = False
    is_identical: bool | None = None
    is_refused: bool | None = None

    @property
    def is_right(self) -> bool:
        return not self.is_hung and False not in (self.is_named, self.is_identical, self.is_refused)


class Engine(Protocol):
    def model(self, training: Training) -> str:
        """Of an undisturbed training, on threads of this process."""

    def saved(self, training: Training) -> bytes:
        """The checkpoint after half of the iterations of an undisturbed training."""

    def checkpoint(self, training: Training, folder: Path) -> Path: ...

    def disturb(self, scenario: Scenario, folder: Path) -> Disturbed: ...

    def train(self, training: Training, folder: Path, size: int) -> tuple[str | None, str]:
        """The model, None if there is none, and what was said; goes on from the folder's checkpoint."""


def run(engine: Engine, scenario: Scenario, folder: Path) -> Outcome:
    outcome = Outcome()
    try:
        if scenario.moves:
            disturb(engine, scenario, folder, outcome)
        else:
            damage(engine, scenario, folder, outcome)
        model, told = engine.train(scenario.training, folder, scenario.n_after)
        outcome.is_identical = model == engine.model(scenario.training)
        outcome.told += told
    except Hung as hung:
        outcome.is_hung = True
        outcome.told += f"\n{hung}"
    return outcome


def disturb(engine: Engine, scenario: Scenario, folder: Path, outcome: Outcome) -> None:
    disturbed = engine.disturb(scenario, folder)
    lead_back(engine.checkpoint(scenario.training, folder))
    outcome.is_named, outcome.told, outcome.seconds = disturbed.is_named, disturbed.told, disturbed.seconds


def damage(engine: Engine, scenario: Scenario, folder: Path, outcome: Outcome) -> None:
    """Lay a checkpoint for the training to find. One that is damaged must be refused; then the good one is laid."""
    training, good = scenario.training, engine.saved(scenario.training)
    path = engine.checkpoint(training, folder)
    path.parent.mkdir(exist_ok=True)
    if scenario.kind in DAMAGED:
        path.write_bytes(engine.saved(training.other) if scenario.kind == "swapped" else damaged(scenario, good))
        model, outcome.told = engine.train(training, folder, training.size)
        outcome.is_refused = model is None and REFUSAL in outcome.told and str(path) in outcome.told
    elif scenario.kind == "stale partial":
        path.with_name(path.name + ".partial").write_bytes(good[: scenario.random().randrange(len(good))])
    path.write_bytes(good)


def damaged(scenario: Scenario, good: bytes) -> bytes:
    chance = scenario.random()
    if scenario.kind == "cut off":
        return good[: chance.randrange(len(good))]
    data = bytearray(good)
    for place in chance.sample(range(len(data)), chance.randint(1, 3)):
        data[place] ^= 1 << chance.randrange(8)
    return bytes(data)


def time_limit(scenario: Scenario) -> float:
    """Of the training: who is lost must be known without it, so only a stopped worker is given a short one."""
    return TIMEOUT if scenario.kind == "stop" else 600.0


def wait_for_end(has_ended: Callable[[float], bool], scenario: Scenario, folder: Path) -> float:
    """Seconds from the disturbance until ``has_ended``, which may take so many seconds to answer."""
    begun, happened = time.monotonic(), None
    limit = ENDS_WITHIN + (TIMEOUT if scenario.kind == "stop" else 0)
    while not has_ended(0.02):
        now = time.monotonic()
        if happened is None and (folder / HAPPENED).exists():
            happened = now
        if happened is not None and now - happened > limit:
            raise Hung(f"Somebody still waits {limit:g} s after the disturbance.")
        if happened is None and now - begun > STARTS_WITHIN:
            raise Hung(f"The training has not come to its disturbance in {STARTS_WITHIN:g} s.")
    return 0.0 if happened is None else time.monotonic() - happened
