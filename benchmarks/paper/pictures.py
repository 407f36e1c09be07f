"""A PNG for every table and figure that has something to draw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from experiments import FEW_AND_MANY, MADE, VOTING_SIZES, boosters, comparison, machine_numbers, voting_sizes
from reading import Results
from sections import Section
from trainings import NAMES, Training

COLOURS = {
    "serial": "0.2", "attribute": "tab:blue", "data": "tab:green", "quantized": "tab:orange", "voting": "tab:red",
    "svore": "tab:purple", "yu": "tab:brown",
}  # fmt: skip
METRICS = {"LTR": "NDCG@10", "CTR": "AUC"}


def draw(section: Section, results: Results, path: Path) -> bool:
    """Whether there is a picture of this section."""
    drawn = {
        "table2": bars_of_times, "figure1": lambda r: lines(r, comparison, by_name),
        "table3": lambda _: traffic(section),
        "table4": by_voting_size, "figure2": lambda r: lines(r, machine_numbers, by_number),
        "figure3": lambda r: lines(r, boosters, by_name), "real": lambda _: real(section),
    }.get(section.name)  # fmt: skip
    if drawn is None:
        return False
    figure = drawn(results)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})  # the same bytes from the same figures
    plt.close(figure)
    return True


def by_name(training: Training) -> tuple[str, Any]:
    return training.name, COLOURS[training.learner]


def by_number(training: Training) -> tuple[str, Any]:
    return f"{training.n_workers} machines", plt.get_cmap("viridis")(min(0.95, training.n_workers.bit_length() / 9))


def lines(results: Results, trainings: Any, look: Any) -> Any:
    """The metric against virtual time of each first run, one panel a task."""
    figure, panels = plt.subplots(1, len(MADE), figsize=(11, 4))
    for panel, task in zip(panels, MADE, strict=True):
        for training in trainings(task):
            label, colour = look(training)
            curve = results[training].first
            panel.plot(curve.seconds, curve.metric, label=label, color=colour)
        panel.set(title=task, xlabel="virtual seconds", ylabel=METRICS[task], xscale="log")
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    return figure


def bars_of_times(results: Results) -> Any:
    figure, panels = plt.subplots(1, len(MADE), figsize=(11, 3.2))
    for panel, task in zip(panels, MADE, strict=True):
        goal = results[comparison(task)[0]].target
        for training in comparison(task):
            seconds = results[training].time_to(goal)
            panel.barh(training.name, seconds or 0.0, color=COLOURS[training.learner])
            if seconds is None:
                panel.text(0.0, training.name, " not reached", va="center")
        panel.invert_yaxis()
        panel.set(title=task, xlabel="virtual seconds to the sequential algorithm's convergence")
    return figure


def traffic(section: Section) -> Any:
    figure, panel = plt.subplots(figsize=(8, 3.6))
    settings = list(dict.fromkeys((row[0], row[1]) for row in section.rows))
    for offset, learner in enumerate(("attribute", "data", "voting")):
        for shade, column in ((0.45, 3), (1.0, 4)):
            heights = [float(row[column]) / 1e6 for row in section.rows if row[2] == learner]
            places = [i + 0.27 * offset + (0.12 if shade == 1.0 else 0.0) for i in range(len(settings))]
            label = f"{NAMES[learner]}, {'here' if shade == 1.0 else 'paper'}"
            panel.bar(places, heights, 0.12, color=COLOURS[learner], alpha=shade, label=label)
    panel.set(yscale="log", ylabel="MB a machine and tree")
    panel.set_xticks([i + 0.33 for i in range(len(settings))], [f"N = {n:.0e}, d = {d}" for n, d in settings])
    panel.legend(fontsize=7, ncol=3)
    return figure


def by_voting_size(results: Results) -> Any:
    figure, panels = plt.subplots(2, len(MADE), figsize=(11, 6), sharex=True)
    for column, task in enumerate(MADE):
        for n_workers, style in zip(FEW_AND_MANY[task], ("o-", "s--"), strict=True):
            found = [results[training] for training in voting_sizes(task, n_workers)]
            label = f"{n_workers} machines"
            panels[0, column].plot(VOTING_SIZES, [runs.best for runs in found], style, label=label)
            panels[1, column].plot(VOTING_SIZES, [runs.convergence()[0] for runs in found], style, label=label)
        panels[0, column].set(title=task, ylabel=f"best {METRICS[task]}")
        panels[1, column].set(xlabel="k", ylabel="virtual seconds to convergence", ylim=(0, None))
        for panel in panels[:, column]:
            panel.grid(alpha=0.3)
            panel.legend(fontsize=8)
    return figure


def real(section: Section) -> Any:
    """The best metric of each algorithm, one panel per data set."""
    names: Sequence[str] = list(dict.fromkeys(row[0] for row in section.rows))
    figure, panels = plt.subplots(1, len(names), figsize=(3.4 * len(names), 3.2), squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        own = [row for row in section.rows if row[0] == name]
        values = [float(row[7]) for row in own]
        panel.barh([NAMES[row[4]] for row in own], values, color=[COLOURS[row[4]] for row in own])
        panel.set(title=name, xlabel=own[0][3], xlim=(max(0.0, min(values) - 0.1), None))
        panel.invert_yaxis()
        if panel is not panels[0][0]:
            panel.set_yticks([])
    return figure
