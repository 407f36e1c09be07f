"""Measurements as markdown: one table per task, a summary for the README, and the files they are written to."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from libraries import LIBRARIES

START, END = "<!-- benchmark:start -->", "<!-- benchmark:end -->"
Runs = Mapping[str, Sequence[Mapping[str, float]]]  # library -> its repetitions


@dataclass(frozen=True)
class Column:
    """A figure of the tables; ``scale`` converts it to the unit of its title."""

    field: str
    title: str
    scale: float
    digits: str
    less_is_better: bool = True


COLUMNS = (
    Column("binning_seconds", "binning, s", 1.0, "{:.3f}"),
    Column("tree_seconds", "a tree, ms", 1e3, "{:.2f}"),
    Column("rows_per_second", "prediction, thousand rows/s", 1e-3, "{:,.0f}", less_is_better=False),
    Column("memory_bytes", "memory above the raw data, MB", 1e-6, "{:,.0f}"),
    Column("fit_seconds", "whole fit, s", 1.0, "{:.2f}"),
)
BINNING, TREE, PREDICTION, MEMORY, FIT = COLUMNS


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Padded, so that it is readable in a terminal too."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def typical(runs: Runs, library: str, column: Column) -> float:
    return median(run[column.field] for run in runs[library])


def shown(runs: Runs, library: str, column: Column) -> str:
    return column.digits.format(typical(runs, library, column) * column.scale)


def mean_score(runs: Runs, library: str) -> float:
    return mean(run["metric"] for run in runs[library])


def best_peer(runs: Runs, column: Column) -> str:
    """The library other than pvtree with the best figure."""
    sign = 1 if column.less_is_better else -1
    peers = [name for name in runs if name != "pvtree" and runs[name]]
    return min(peers, key=lambda name: sign * typical(runs, name, column))


def advantage(runs: Runs, library: str, column: Column) -> float:
    """How many times as good as the best peer: above 1 is better."""
    own, peer = typical(runs, library, column), typical(runs, best_peer(runs, column), column)
    if not column.less_is_better:
        own, peer = peer, own
    return peer / own if own > 0 else float("inf")


def has_peers(runs: Runs) -> bool:
    return any(runs[name] for name in runs if name != "pvtree")


def task_table(runs: Runs, metric: str) -> str:
    """The figures of every library; brackets show how many times as good as the best peer each is."""
    header = ["library", *(column.title for column in COLUMNS), f"test {metric}"]
    rows = []
    for name, repetitions in runs.items():
        if not repetitions:
            rows.append([LIBRARIES[name].label, *["n/a"] * (len(header) - 1)])
            continue
        cells = []
        for column in COLUMNS:
            cell = shown(runs, name, column)
            cells.append(f"{cell} ({advantage(runs, name, column):.2f}x)" if has_peers(runs) else cell)
        rows.append([LIBRARIES[name].label, *cells, f"{mean_score(runs, name):.4f}"])
    return markdown(header, rows)


def summary_table(tasks: Mapping[str, tuple[str, str, Runs]]) -> str:
    """One line per task: how much better pvtree is than the best peer of each figure."""
    header = ["data", *(column.title.partition(",")[0] for column in COLUMNS[:4]), "test metric (LightGBM)"]
    rows = []
    for title, metric, runs in tasks.values():
        if runs.get("pvtree") and has_peers(runs):
            scores = [f"{mean_score(runs, name):.4f}" if runs.get(name) else "n/a" for name in ("pvtree", "lightgbm")]
            cells = [f"{advantage(runs, 'pvtree', column):.1f}x" for column in COLUMNS[:4]]
            rows.append([title, *cells, f"{metric} {scores[0]} ({scores[1]})"])
    return markdown(header, rows)


def scaling_table(points: Sequence[Mapping[str, float]]) -> str:
    """Time per tree as rows or attributes double; if growth is linear, the last column is constant."""
    rows = [
        [
            f"{point['n_rows']:,}",
            f"{point['n_features']:,}",
            f"{point['tree_seconds'] * 1e3:.1f}",
            f"{point['tree_seconds'] * 1e9 / (point['n_rows'] * point['n_features']):.3f}",
        ]
        for point in points
    ]
    return markdown(["rows", "attributes", "a tree, ms", "ns per row and attribute"], rows)


def command(script: str, *places: str) -> str:
    """The command that was run, without its output options."""
    words = sys.argv[1:]
    kept = [word for i, word in enumerate(words) if not {word.split("=")[0], *words[i - 1 : i]} & set(places)]
    return shlex.join(["python", f"benchmarks/{script}", *kept])


def write_between_marks(path: Path, text: str) -> None:
    """Replace the text between the benchmark's marks in a file, or write a new file with them."""
    old = path.read_text() if path.exists() else f"# Benchmarks\n\n{START}\n{END}\n"
    if START not in old or END not in old:
        raise SystemExit(f"{path} has no lines {START} and {END}; add them where the tables belong.")
    before, rest = old.split(START, 1)
    after = rest.split(END, 1)[1]
    path.write_text(f"{before}{START}\n\n{text.strip()}\n\n{END}{after}")
