"""What workers send each other: the paper's table by formula and measured, a leaf-wise tree by phase, and what
virtual machines cost. Everything runs on virtual machines, which are threads of this process.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np

from made_data import make_binary
from pvtree.binning.shard import split_by_rows
from pvtree.comm import PHASES, local
from pvtree.comm.traffic import format_bytes
from pvtree.parameters.params import Params, n_threads
from pvtree.planning.formulas import Wire, of_training, of_tree, paper_setting
from pvtree.reading.training_rows import TrainingRows
from pvtree.training.options import TrainOptions
from pvtree.training.skew import SkewWarning
from pvtree.training.train import TrainResult, train, train_worker
from recorded_growth import Record, depth_of, recording
from single_machine import environment, names_of
from tables import command, markdown, write_between_marks

PAPER_MB = {  # (rows, attributes): attribute-parallel, data-parallel, PV-Tree with k = 15; one tree of depth 6
    (10**9, 1200): (750, 424, 10),
    (10**8, 1200): (75, 424, 10),
    (10**9, 200): (750, 70, 10),
    (10**8, 200): (75, 70, 10),
}
LEARNERS = {"attribute": "attribute", "data": "data", "voting": "PV-Tree"}
DEPTH, TOP_K, MAX_BIN, NUM_LEAVES = 6, 15, 255, 63
TABLES = ("paper", "measured", "leaf-wise", "cores")
TARGETS = {"voting": 2e6, "data": 115e6}  # bytes per worker and tree of the full leaf-wise setting
COST_TARGET = 1.3


def main() -> None:
    options = read_options()
    warnings.simplefilter("ignore", SkewWarning)
    sections = {"paper": paper_table, "measured": measured_table, "leaf-wise": leaf_wise_tables, "cores": cost_of_cores}
    parts = [f"`{command('traffic.py', '--output')}`; {environment()}."]
    for name in options.tables:
        parts.append(sections[name](options))
        print(f"\n{parts[-1]}", flush=True)
    if options.output:
        write_between_marks(options.output, "\n\n".join(parts))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=names_of(TABLES), default=list(TABLES), help=",".join(TABLES) + " (all)")
    parser.add_argument("--paper-workers", type=int, default=8, help="machines of the paper's table (8)")
    parser.add_argument("--workers", type=int, default=4, help="virtual machines of the measurements (4)")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the largest measured data (100,000)")
    parser.add_argument("--features", type=int, default=1_200, help="its attributes (1,200)")
    parser.add_argument("--trees", type=int, default=10, help="trees of each training (10)")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of timed runs (3)")
    parser.add_argument("--output", type=Path, help="markdown file to write the tables into")
    return parser.parse_args()


def sized(n_rows: int, n_features: int) -> str:
    return f"N = {n_rows:,}, d = {n_features:,}"


# The paper's table, by formula


def paper_table(options: argparse.Namespace) -> str:
    rows = []
    for (n_rows, n_features), paper in PAPER_MB.items():
        whole, halves = (
            paper_setting(n_rows, n_features, options.paper_workers, subtracts=subtracts) for subtracts in (False, True)
        )
        for learner, reported in zip(LEARNERS, paper, strict=True):
            own = format_bytes(halves[learner]) if learner != "attribute" else "the same"
            rows.append(
                [
                    sized(n_rows, n_features),
                    LEARNERS[learner],
                    f"{reported} MB",
                    format_bytes(whole[learner]),
                    own,
                    f"{whole[learner] / 1e6 / reported:.2f}",
                ]
            )
    header = ["data", "algorithm", "paper", "formula, as in the paper", "with subtraction", "formula / paper"]
    title = (
        f"## The paper's table by formula: one tree of depth {DEPTH}, k = {TOP_K}, {options.paper_workers} machines\n\n"
        "Bytes sent by the average worker, nothing packed."
    )
    return f"{title}\n\n{markdown(header, rows)}"


# The same three, measured


def base_params(options: argparse.Namespace, tree_learner: str, **others: Any) -> Params:
    settled: dict[str, Any] = {
        "objective": "binary", "n_classes": 2, "tree_learner": tree_learner, "n_workers": options.workers,
        "top_k": TOP_K, "max_bin": MAX_BIN, "n_estimators": options.trees, "n_threads": n_threads(None),
    }  # fmt: skip
    return Params(**settled | others)


def wire_of(params: Params, n_features: int) -> Wire:
    votes = params.tree_learner == "voting" and int(params.election_size * params.top_k) < n_features
    return Wire(params.n_workers, n_features, params.top_k if votes else 0, params.tree_learner == "attribute")


def train_recorded(X: np.ndarray, y: np.ndarray, params: Params) -> tuple[TrainResult, Record]:
    with recording() as record:
        return train(X, y, params), record


def measured_table(options: argparse.Namespace) -> str:
    rows, n_exact = [], 0
    for n_rows in (options.rows, options.rows // 5):
        for n_features in (options.features, options.features // 6):
            X, y, _ = make_binary(n_rows, n_features, seed=0)
            whole, halves = (
                paper_setting(n_rows, n_features, options.workers, subtracts=subtracts) for subtracts in (False, True)
            )
            for learner in LEARNERS:
                params = base_params(options, learner, num_leaves=0, max_depth=DEPTH)
                packed = train(X, y, params).traffic.bytes_per_tree
                plain, record = train_recorded(X, y, Params(**vars(params) | {"packs_histograms": False}))
                expected = of_training(record.trees, wire_of(params, n_features))
                n_exact += record.by_phase() == expected
                figures = (whole[learner], halves[learner], plain.traffic.bytes_per_tree, packed)
                if learner == "attribute":
                    cells = [format_bytes(figures[0]), "the same", format_bytes(figures[2]), "the same"]
                else:
                    cells = [format_bytes(figure) for figure in figures]
                rows.append([sized(n_rows, n_features), LEARNERS[learner], *cells])
                print(*rows[-1], sep=" | ", flush=True)
    header = [
        "data", "algorithm", "formula, complete tree, as in the paper", "with subtraction", "measured, plain",
        "measured, packed",
    ]  # fmt: skip
    title = (
        f"## Measured: trees of depth {DEPTH}, k = {TOP_K}, {options.workers} workers, mean of {options.trees} trees\n"
        f"\nBytes sent per worker and tree. In {n_exact} of {len(rows)} trainings the plain bytes and calls of every "
        "phase equal the formula for the trees as they grew."
    )
    return f"{title}\n\n{markdown(header, rows)}"


# A leaf-wise tree by phase


def leaf_wise_tables(options: argparse.Namespace) -> str:
    X, y, _ = make_binary(options.rows, options.features, seed=0)
    found = {}
    for learner in ("voting", "data"):
        params = base_params(options, learner, num_leaves=NUM_LEAVES)
        found[learner] = (params, *train_recorded(X, y, params))
    by_phase = [phase_row(phase, found, options) for phase in PHASES]
    rows = [row for row in by_phase if any(cell != "-" for cell in row[1:])]
    rows.append(["all", *(f"**{cell}**" for cell in totals(found))])
    header = ["phase"]
    for learner in found:
        header += [f"{LEARNERS[learner]}, bytes", "calls"]
    title = (
        f"## Leaf-wise: {options.rows:,} x {options.features:,}, {MAX_BIN} bins, {NUM_LEAVES} leaves, k = {TOP_K}, "
        f"{options.workers} workers, mean of {options.trees} trees\n\n"
        "Per worker and tree, packed, speculation included."
    )
    limits = [against_limits(learner, *found[learner], options) for learner in found]
    return "\n\n".join([title, markdown(header, rows), "\n".join(limits)])


def phase_row(phase: str, found: dict[str, tuple[Params, TrainResult, Record]], options: argparse.Namespace) -> list:
    cells = [phase]
    for _, _, record in found.values():
        cost = record.by_phase().get(phase)
        share = options.workers * options.trees
        cells += [format_bytes(cost.bytes / share), f"{cost.calls / options.trees:.1f}"] if cost else ["-", "-"]
    return cells


def totals(found: dict[str, tuple[Params, TrainResult, Record]]) -> list[str]:
    cells = []
    for _, result, _ in found.values():
        cells += [format_bytes(result.traffic.bytes_per_tree), f"{result.traffic.calls_per_tree:.1f}"]
    return cells


def against_limits(
    learner: str, params: Params, result: TrainResult, record: Record, options: argparse.Namespace
) -> str:
    """One list item: bytes against the target, calls against the depth, and what speculation cost."""
    depths = [depth_of(tree.left_child) for tree in result.model.trees]
    wire = wire_of(params, options.features)
    calls = [sum(cost.calls for cost in of_tree(growth, wire).values()) for growth in record.trees]
    within = sum(n <= 3 * (depth + 2) for n, depth in zip(calls, depths, strict=True))
    tried = record.speculation
    return (
        f"- {LEARNERS[learner]}: {format_bytes(result.traffic.bytes_per_tree)} (to reach in the full setting: "
        f"{format_bytes(TARGETS[learner])}). Trees are {min(depths)} to {max(depths)} splits deep and take "
        f"{mean(calls):.1f} calls; 3 x (depth + 2) is {mean(3 * (depth + 2) for depth in depths):.1f}, and {within} of "
        f"{len(calls)} trees stay within theirs. {share_of(tried.n_dropped, tried.n_made)} of all splits were made in "
        f"advance and dropped; {share_of(tried.dropped_words, tried.plain_words)} of the histograms' bytes, counted "
        "plain, belong to their children."
    )


def share_of(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0 %"


# What virtual machines cost on few cores


def cost_of_cores(options: argparse.Namespace) -> str:
    X, y, _ = make_binary(options.rows, options.features, seed=0)
    n_cores = local.usable_cores()
    load = os.getloadavg()[0]
    rows = []
    for learner in ("voting", "data"):
        params = base_params(options, learner, num_leaves=NUM_LEAVES, n_threads=1)
        seconds_of(X[:2_000], y[:2_000], params, n_running=n_cores)  # compiles, starts threads
        timed = []
        for _ in range(options.repeats):
            together = seconds_of(X, y, params, n_running=n_cores)
            in_turns = seconds_of(X, y, params, n_running=1)
            ratio = together.wall * min(n_cores, options.workers) / in_turns.computing
            timed.append((together.wall, in_turns.computing, ratio, together.processor / in_turns.processor))
            print(f"{learner}: {together}, in turns {in_turns}", flush=True)
        figures = [f"{median(column):.2f}" for column in zip(*timed, strict=True)]
        rows.append([LEARNERS[learner], *figures[:2], f"**{figures[2]}**", figures[3]])
    header = [
        "algorithm", "seconds together", "seconds of computing, in turns", "cores x together / in turns",
        "processor seconds, together / in turns",
    ]  # fmt: skip
    title = (
        f"## {options.workers} virtual machines on {n_cores} cores: {options.rows:,} x {options.features:,}, "
        f"{NUM_LEAVES} leaves, {options.trees} trees\n\n"
        f"Binning included; median of {options.repeats}, load {load:.1f} before the start. Cores x together / in turns "
        f"is to be at most {COST_TARGET}; other work on the machine raises it, but not the last column."
    )
    return f"{title}\n\n{markdown(header, rows)}"


class Seconds(NamedTuple):
    """Seconds of one training on all workers."""

    wall: float
    computing: float  # summed over workers: neither waiting for others nor for a core
    processor: float  # of the whole process


def seconds_of(X: np.ndarray, y: np.ndarray, params: Params, n_running: int) -> Seconds:
    """Train with this many workers computing at the same time."""
    parts = split_by_rows(TrainingRows(X, y), params.n_workers)
    options = TrainOptions(params)

    def work(comm: local.LocalCommunicator) -> float:
        train_worker(parts[comm.rank], options, comm)
        return comm.compute_seconds

    wall, processor = time.perf_counter(), time.process_time()
    computing = sum(local.run(work, params.n_workers, n_running=n_running))
    return Seconds(time.perf_counter() - wall, computing, time.process_time() - processor)


if __name__ == "__main__":
    main()
