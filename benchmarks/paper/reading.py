"""What is read off the trainings: metrics, times and convergence, each the median of all runs of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from binned_task import Task
from trainings import Curve, Training

# Differences that count as such, with TEST_ROWS rows to test on. These tell AUCs apart to about 0.001; the fewer
# queries of a ranking NDCGs to about 0.005, by as much as trainings that differ in nothing but k do, without any order.
TOLERANCE = {"ranking": 0.005, "binary": 0.001}
TEST_ROWS = 81_920


def tolerance(kind: str, n_test: int) -> float:
    """The error of a metric falls with the root of the rows."""
    return float(TOLERANCE[kind] * (TEST_ROWS / n_test) ** 0.5)


@dataclass(frozen=True)
class Runs:
    """One training, run once or with several seeds."""

    curves: Sequence[Curve]
    tolerance: float  # of its metric

    @property
    def first(self) -> Curve:
        return self.curves[0]

    @cached_property
    def best(self) -> float:
        return median(max(curve.metric) for curve in self.curves)

    @property
    def target(self) -> float:
        """What counts as this training's convergence."""
        return self.best - self.tolerance

    @property
    def tree_seconds(self) -> float:
        return median(curve.seconds[-1] / len(curve.seconds) for curve in self.curves)

    def time_to(self, target: float) -> float | None:
        """Virtual seconds until the metric first reaches the target; None if most runs do not."""
        times = [curve.time_to(target) for curve in self.curves]
        middle = median(float("inf") if seconds is None else seconds for seconds in times)
        return None if middle == float("inf") else middle

    def convergence(self) -> tuple[float, float]:
        """Virtual seconds and trees until a run has reached its own convergence."""
        reached = [
            next(i for i, metric in enumerate(curve.metric) if metric >= max(curve.metric) - self.tolerance)
            for curve in self.curves
        ]
        seconds = median(curve.seconds[i] for curve, i in zip(self.curves, reached, strict=True))
        return seconds, median(i + 1 for i in reached)


@dataclass(frozen=True)
class Results:
    """All trainings of all tasks; those with another seed than 0 are further runs of the same training."""

    tasks: Mapping[str, Task]
    curves: Mapping[Training, Curve]

    @cached_property
    def _runs(self) -> dict[Training, Runs]:
        found: dict[Training, list[Curve]] = {}
        for training, curve in sorted(self.curves.items(), key=lambda item: item[0].seed):
            found.setdefault(training.with_seed(0), []).append(curve)
        return {training: Runs(curves, self.tolerance(training.task)) for training, curves in found.items()}

    def __getitem__(self, training: Training) -> Runs:
        return self._runs[training]

    def tolerance(self, task: str) -> float:
        return tolerance(self.tasks[task].kind, self.tasks[task].n_test)

    def of_task(self, task: str) -> list[Training]:
        return [training for training in self._runs if training.task == task]


def listed(names: Sequence[str]) -> str:
    """a, b and c"""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def seconds_shown(seconds: float | None) -> str:
    if seconds is None:
        return "not reached"
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.1f}" if seconds >= 10 else f"{seconds:.2f}"
