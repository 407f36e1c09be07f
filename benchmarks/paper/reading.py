"""Conclusions from the curves: when a training has converged, and whether the paper's observations are confirmed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainings import Curve, Training

# Differences that count as such. The test rows of clicks tell AUCs apart to about 0.001; the fewer queries of a ranking
# NDCGs to about 0.005, by as much as trainings that differ in nothing but k do so without any order.
TOLERANCE = {"LTR": 0.005, "CTR": 0.001}

Curves = Mapping[Training, Curve]


def best(curve: Curve) -> float:
    return max(curve.metric)


def target(curve: Curve) -> float:
    """The metric at which this training counts as converged."""
    return best(curve) - TOLERANCE[curve.training.task]


def convergence_seconds(curve: Curve) -> float:
    """Virtual seconds until a training has converged."""
    seconds = curve.time_to(target(curve))
    assert seconds is not None  # its best is one of its values
    return seconds


def tree_seconds(curve: Curve) -> float:
    return curve.seconds[-1] / len(curve.seconds)


def fastest_first(seconds: Mapping[str, float | None]) -> list[str]:
    """Trainings that never reach the target come last."""
    return sorted(seconds, key=lambda name: float("inf") if seconds[name] is None else seconds[name])  # type: ignore[arg-type,return-value]


def listed(names: Sequence[str]) -> str:
    """a, b and c"""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def seconds_shown(seconds: float | None) -> str:
    if seconds is None:
        return "not reached"
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.1f}" if seconds >= 10 else f"{seconds:.2f}"
