"""The table of a run: what was tried and what came of it, by engine and kind of disturbance."""

from __future__ import annotations

from collections import defaultdict

from runs import Outcome
from scenarios import ENGINES, WEIGHTS, Scenario

COLUMNS = {
    "tried": lambda outcome: True,
    "named right": lambda outcome: outcome.is_named is True,
    "named wrong": lambda outcome: outcome.is_named is False,
    "hung": lambda outcome: outcome.is_hung,
    "resumed identical": lambda outcome: outcome.is_identical is True,
    "resumed different": lambda outcome: outcome.is_identical is False,
    "refused": lambda outcome: outcome.is_refused is True,
    "not refused": lambda outcome: outcome.is_refused is False,
}
LONGEST = "longest wait, s"  # from the disturbance until all have ended


class Table:
    def __init__(self) -> None:
        self._outcomes: dict[tuple[str, str], list[Outcome]] = defaultdict(list)

    def add(self, scenario: Scenario, outcome: Outcome) -> None:
        self._outcomes[scenario.engine, scenario.kind].append(outcome)

    def count(self, column: str, kind: str | None = None) -> int:
        return sum(
            sum(map(COLUMNS[column], outcomes))
            for (_, its_kind), outcomes in self._outcomes.items()
            if kind in (None, its_kind)
        )

    @property
    def n_wrong(self) -> int:
        return sum(not outcome.is_right for outcomes in self._outcomes.values() for outcome in outcomes)

    def __str__(self) -> str:
        head = ["engine", "disturbance", *COLUMNS, LONGEST]
        rows = [
            [engine, kind, *self._figures(self._outcomes[engine, kind])]
            for engine in ENGINES
            for kind in WEIGHTS
            if (engine, kind) in self._outcomes
        ]
        everything = [outcome for outcomes in self._outcomes.values() for outcome in outcomes]
        rows.append(["all", "", *self._figures(everything)])
        widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
        lines = [head, ["-" * width for width in widths], *rows]
        return "\n".join(
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines
        )

    def _figures(self, outcomes: list[Outcome]) -> list[str]:
        counts = [str(sum(map(is_counted, outcomes))) for is_counted in COLUMNS.values()]
        return [*counts, f"{max((outcome.seconds for outcome in outcomes), default=0.0):.1f}"]

    def progress(self, seconds: float) -> str:
        return (
            f"{seconds / 60:.1f} min: {self.count('tried')} tried, {self.count('tried', 'kill')} of them kills; "
            f"{self.n_wrong} wrong"
        )
