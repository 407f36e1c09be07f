"""The section about the training: metrics after every iteration, and the time of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pvtree.front.plotting.metric_plots import greater_is_better, place_of_best, spelt
from pvtree.front.report.charts import line_chart, points, thinned, vertical
from pvtree.front.report.page import Section
from pvtree.front.report.subject import Subject
from pvtree.model.number_text import shown_number
from pvtree.training.callbacks import TRAINING_NAMES


def section(subject: Subject) -> Section | None:
    estimator = subject.estimator
    seconds = getattr(estimator, "iteration_seconds_", [])
    if not estimator.evals_result_ and len(seconds) < 2:
        return None
    found = Section("training", "Training")
    add_metrics(found, estimator.evals_result_, estimator.best_iteration_)
    if len(seconds) > 1:
        each = np.diff([0.0, *seconds]) * 1e3
        at = thinned(len(each))
        chart = line_chart([i + 1 for i in at], each[at].tolist(), ("iteration", "ms"))
        found.heading("Milliseconds per iteration")
        found.chart(chart, f"Median {shown_number(np.median(each))} ms, longest {shown_number(each.max())} ms.")
    return found


def add_metrics(found: Section, results: Mapping[str, Mapping[str, Sequence[float]]], best: int) -> None:
    """A chart for each metric, with the sets as lines and the best iteration marked."""
    metrics = list(dict.fromkeys(metric for values in results.values() for metric in values))
    for metric in metrics:
        curves = {name: values[metric] for name, values in results.items() if metric in values}
        shown = [(i + 1, values[i], name) for name, values in curves.items() for i in thinned(len(values))]
        x, y, by = zip(*shown, strict=True)
        titles = "iteration", spelt(metric)
        chart = line_chart(x, y, titles, by)
        ends = ", ".join(f"{name} {values[best - 1 if best else -1]:.5g}" for name, values in curves.items())
        caption = f"At iteration {best or max(map(len, curves.values()))}: {ends}.{gap(curves, best)}"
        found.heading(spelt(metric))
        if best:
            chart, caption = chart + vertical(best, "iteration"), f"{caption} The dotted line is the best iteration."
        elif tops := best_values(curves, metric):
            chart += points([at for at, _ in tops.values()], [value for _, value in tops.values()], titles, 60)
            best_ones = ", ".join(f"{name} {value:.5g} at iteration {at}" for name, (at, value) in tops.items())
            caption = f"{caption} Best (the points): {best_ones}."
        found.chart(chart, caption)


def best_values(curves: Mapping[str, Sequence[float]], metric: str) -> dict[str, tuple[int, float]]:
    """The iteration and the value that was best, of each set that is not for training."""
    rises = greater_is_better(metric)
    if rises is None:
        return {}
    watched = [name for name in curves if name not in TRAINING_NAMES] or list(curves)
    return {name: (at := place_of_best(curves[name], rises), curves[name][at - 1]) for name in watched}


def gap(curves: Mapping[str, Sequence[float]], best: int) -> str:
    """How far the training rows are ahead of the others: a measure of overfitting."""
    own = [name for name in curves if name in TRAINING_NAMES]
    others = [name for name in curves if name not in TRAINING_NAMES]
    if not own or not others:
        return ""
    at = best - 1 if best else -1
    return f" Gap between {own[0]} and {others[0]}: {abs(curves[own[0]][at] - curves[others[0]][at]):.4g}."
