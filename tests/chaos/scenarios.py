"""What happens to which training, to whom and when: the same seed and number always give the same scenario."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

SIGNALS = ("kill", "stop")  # to one of the processes
DISKS = ("file limit", "full device")  # worker 0 cannot write its checkpoint
DAMAGED = ("flipped bits", "cut off", "swapped")  # a checkpoint that must be refused
HARMLESS = ("older", "stale partial")  # a checkpoint that is gone on from
# Three of four are kills; a stopped process takes as long as its time limit.
WEIGHTS = dict.fromkeys(DISKS + DAMAGED + HARMLESS, 1) | {"kill": 24, "stop": 2}
ENGINES = ("mpi", "dask")
CASES = {
    "mpi": [("binary", "data"), ("binary", "voting"), ("binary", "exact_voting"), ("binary", "attribute"),
            ("ranking", "data"), ("forest", "data")],
    "dask": [("binary", "data"), ("binary", "voting"), ("binary", "exact_voting")],
}  # fmt: skip
SIZES = (2, 3, 4)
HERE = 0.75  # how often threads of this process go on from a checkpoint
LONGEST_DELAY = 0.005  # seconds after an exchange has begun; an exchange takes less


@dataclass(frozen=True)
class Training:
    case: str
    learner: str
    size: int

    @property
    def other(self) -> Training:
        """One that cannot go on from a checkpoint of this."""
        return Training("ranking" if self.case == "binary" else "binary", "data", self.size)


@dataclass(frozen=True)
class Scenario:
    seed: int
    number: int
    engine: str
    kind: str
    training: Training
    victim: int
    at: float  # which of the exchanges, as a share of all
    seconds: float  # after that exchange has begun
    way: str  # how MPI's ranks meet: mpi.run or mpi.join
    n_after: int  # workers that go on from the checkpoint; 0 for threads of this process

    def exchange(self, n_exchanges: int) -> int:
        """From 1, where the workers meet, to the last one."""
        return 1 + int(self.at * n_exchanges)

    def random(self) -> Random:
        """For what is left to chance beyond the fields."""
        return Random(f"{self.seed} {self.number}")

    def __str__(self) -> str:
        moment = f", worker {self.victim} at {self.at:.0%} + {self.seconds * 1000:.1f} ms" if self.moves else ""
        training = f"{self.training.case} {self.training.learner} on {self.training.size}"
        return f"{self.engine}: {self.kind}{moment}, {training}"

    @property
    def moves(self) -> bool:
        return self.kind in SIGNALS + DISKS


def draw(seed: int, number: int) -> Scenario:
    chance = Random(f"{number} of {seed}")
    engine = ENGINES[number % len(ENGINES)]
    [kind] = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
    training = Training(*chance.choice(CASES[engine]), chance.choice(SIZES))
    # A disk is full from a moment after the start and before the last checkpoint.
    at = chance.random() if kind in SIGNALS else chance.uniform(0.2, 0.6)
    # Late in a training the process must not be so slow to die that its work is done.
    seconds = chance.choice([0, LONGEST_DELAY * chance.random()]) if at < 0.8 and kind in SIGNALS else 0.0
    victim = 0 if kind in DISKS else chance.randrange(training.size)
    # The models of voting are those of a partition, so the same workers must go on. New processes take long to start.
    n_after = 0 if chance.random() < HERE else training.size if training.learner == "voting" else chance.choice(SIZES)
    return Scenario(seed, number, engine, kind, training, victim, at, seconds, chance.choice(["run", "join"]), n_after)
