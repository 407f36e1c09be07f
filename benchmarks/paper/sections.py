"""The sections of docs/paper.md: each table or figure with the paper's figures, ours, and how far they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from binned_task import Task
from experiments import (
    FEW_AND_MANY,
    MACHINE_NUMBERS,
    MACHINES,
    PAPER_BY_SIZE,
    PAPER_SECONDS,
    TOP_K,
    VOTING_SIZES,
    boosters,
    comparison,
    machine_numbers,
    voting_sizes,
)
from pvtree.comm.traffic import format_bytes
from pvtree.planning.formulas import paper_setting
from reading import (
    TOLERANCE,
    Curves,
    best,
    convergence_seconds,
    fastest_first,
    listed,
    seconds_shown,
    target,
    tree_seconds,
)
from tables import markdown
from traffic import PAPER_MB
from trainings import NAMES, Training

MADE = ("LTR", "CTR")
WHY_COARSE = {"CTR": " (most of these attributes have fewer values than the coarse histogram has bins)"}


@dataclass(frozen=True)
class Section:
    """One table or figure: its text on the page and the content of NAME.csv."""

    name: str  # of its files
    title: str
    paper: str  # what the paper reports
    ours: str  # a table, where the picture alone would not do
    verdict: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]] = field(repr=False)


def curve_rows(curves: Curves, trainings: Sequence[Training]) -> list[list[Any]]:
    return [
        [t.task, t.learner, t.n_workers, t.top_k, tree + 1, f"{seconds:.4f}", f"{metric:.5f}"]
        for t in trainings
        for tree, (seconds, metric) in enumerate(zip(curves[t].seconds, curves[t].metric, strict=True))
    ]


CURVE_HEADER = ("task", "learner", "machines", "k", "tree", "virtual_seconds", "metric")


def table_2(curves: Curves) -> Section:
    rows, csv_rows, verdicts = [], [], []
    for task in MADE:
        by_learner = {t.learner: curves[t] for t in comparison(task)}
        goal = target(by_learner["serial"])
        ours = {learner: curve.time_to(goal) for learner, curve in by_learner.items()}
        for learner, seconds in ours.items():
            reported = PAPER_SECONDS[task].get(learner)
            curve = by_learner[learner]
            rows.append(
                [
                    task, NAMES[learner], "not reached" if reported is None else f"{reported:,}",
                    seconds_shown(seconds), speed_up(ours["serial"], seconds),
                    "-" if reported is None else f"{PAPER_SECONDS[task]['serial'] / reported:.1f}",
                    f"{best(curve):.4f}", f"{tree_seconds(curve) * 1e3:.0f}", format_bytes(curve.bytes_per_tree),
                ]
            )  # fmt: skip
            ends = [f"{best(curve):.5f}", f"{tree_seconds(curve):.5f}", f"{curve.bytes_per_tree:.0f}"]
            machines = curve.training.n_workers
            csv_rows.append([task, learner, machines, reported or "", seconds or "", f"{goal:.5f}", *ends])
        verdicts.append(order_verdict(task, ours))
    header = [
        "data", "algorithm", "paper, s", "here, virtual s", "times sequential's speed", "in the paper", "best metric",
        "ms a tree", "sent per machine and tree",
    ]  # fmt: skip
    return Section(
        "table2", "Table 2: time to the sequential algorithm's convergence",
        "Seconds on 8 (LTR) and 32 (CTR) machines of 12 cores with 1 Gbit/s, rows of 11 and 235 million.",
        markdown(header, rows), " ".join(verdicts),
        ("task", "learner", "machines", "paper_seconds", "virtual_seconds", "target_metric", "best_metric",
         "seconds_per_tree", "bytes_per_machine_and_tree"), csv_rows,
    )  # fmt: skip


def speed_up(sequential: float | None, seconds: float | None) -> str:
    return "-" if sequential is None or seconds is None else f"{sequential / seconds:.1f}"


def order_verdict(task: str, ours: dict[str, float | None]) -> str:
    """Whether the four algorithms rank as in the paper's table."""
    reported = PAPER_SECONDS[task]
    here = fastest_first({learner: ours[learner] for learner in reported})
    there = fastest_first(dict(reported))
    gain = speed_up(ours["serial"], ours["voting"])
    paper = f"in the paper {reported['serial'] / reported['voting']:.1f} times."
    tail = f"PV-Tree is {gain} times as fast as the sequential algorithm on {MACHINES[task]} machines, {paper}"
    if ours["voting"] is None:
        tail = f"PV-Tree does not come so far; it is faster than the sequential algorithm {paper}"
    if here == there:
        return f"{task}: agrees, the order from fastest to slowest is the paper's ({named(here)}); {tail}"
    return f"{task}: differs, from fastest to slowest it is {named(here)} here and {named(there)} in the paper; {tail}"


def named(learners: Sequence[str]) -> str:
    return listed([NAMES[learner] for learner in learners])


def figure_2(curves: Curves) -> Section:
    verdicts = []
    for task in MADE:
        ends = {t.learner: best(curves[t]) for t in comparison(task)}
        lost, cost = ends["serial"] - ends["quantized"], ends["serial"] - ends["voting"]
        same = "as in the paper" if lost > TOLERANCE[task] else f"unlike in the paper{WHY_COARSE.get(task, '')}"
        reaches = "as" if cost <= TOLERANCE[task] else "unlike"
        verdicts.append(
            f"{task}: with 10 % of the bins the best metric is {-lost:+.4f} against the sequential algorithm's, "
            f"{same}; with PV-Tree {-cost:+.4f}, {reaches} in the paper, where it reaches the same point."
        )
    trainings = [t for task in MADE for t in comparison(task)]
    return Section(
        "figure2", "Figure 2: metric against time",
        "PV-Tree reaches the sequential algorithm's best point first; data-parallel with 10 % of the bins is quick but "
        "ends lower; attribute-parallel is slow on CTR, full data-parallel on LTR.",
        "", " ".join(verdicts), CURVE_HEADER, curve_rows(curves, trainings),
    )  # fmt: skip


def table_3(n_machines: int) -> Section:
    rows, csv_rows, worst = [], [], 1.0
    for (n_rows, n_features), reported in PAPER_MB.items():
        ours = paper_setting(n_rows, n_features, n_machines)
        for learner, megabytes in zip(("attribute", "data", "voting"), reported, strict=True):
            ratio = ours[learner] / 1e6 / megabytes
            worst = max(worst, ratio, 1.0 / ratio)
            shown = [f"{n_rows:,}", f"{n_features:,}", NAMES[learner], f"{megabytes} MB", format_bytes(ours[learner])]
            rows.append([*shown, f"{ratio:.2f}"])
            csv_rows.append([n_rows, n_features, learner, megabytes * 1_000_000, f"{ours[learner]:.0f}"])
    verdict = (
        f"{'Agrees' if worst < 2 else 'Differs'}: no cell is more than {worst:.2f} times away from the paper's; "
        "PV-Tree's cost depends neither on the rows nor on the attributes. What is sent in practice is less, as "
        "histograms are packed and only one child of a pair sends its own (docs/traffic.md)."
    )
    return Section(
        "table3", f"Table 3: bytes sent for one tree of depth 6, k = 15, {n_machines} machines",
        "Megabytes for each algorithm at two sizes of rows and attributes.",
        markdown(["rows", "attributes", "algorithm", "paper", "here, by formula", "here / paper"], rows), verdict,
        ("rows", "attributes", "learner", "paper_bytes", "bytes"), csv_rows,
    )  # fmt: skip


def table_4(curves: Curves) -> Section:
    rows, csv_rows, verdicts = [], [], []
    for task in MADE:
        spans = {}
        for n_workers in FEW_AND_MANY[task]:
            line = [curves[t] for t in voting_sizes(task, n_workers)]
            spans[n_workers] = best(line[-1]) - best(line[0])
            reported = PAPER_BY_SIZE[task, n_workers]
            rows.append([f"{task}, M = {n_workers}, paper", *(f"{s:,} / {metric:.4f}" for s, metric in reported)])
            ours = [(convergence_seconds(curve), best(curve)) for curve in line]
            rows.append(["here", *(f"{seconds_shown(s)} / {metric:.4f}" for s, metric in ours)])
            csv_rows += [
                [task, n_workers, k, *there, f"{here[0]:.4f}", f"{here[1]:.5f}", f"{tree_seconds(curve):.5f}"]
                for k, there, here, curve in zip(VOTING_SIZES, reported, ours, line, strict=True)
            ]
        few, many = FEW_AND_MANY[task]
        grows = spans[many] > spans[few]
        verdicts.append(
            f"{task}: {'agrees' if grows else 'differs'}, k = 1 costs {spans[few]:+.4f} against k = 40 on {few} "
            f"machines and {spans[many]:+.4f} on {many}; in the paper, too, a small k costs more the fewer rows a "
            f"machine has. {with_more_machines(curves, task)}"
        )
    return Section(
        "table4", "Table 4: time and accuracy by k",
        "Seconds to convergence / accuracy of PV-Tree, by the number of attributes that a machine votes for.",
        markdown(["", *(f"k = {k}" for k in VOTING_SIZES)], rows), " ".join(verdicts),
        ("task", "machines", "k", "paper_seconds", "paper_accuracy", "virtual_seconds", "best_metric",
         "seconds_per_tree"), csv_rows,
    )  # fmt: skip


def with_more_machines(curves: Curves, task: str) -> str:
    """The speedup from few to many machines at k = 20."""
    few, many = FEW_AND_MANY[task]
    here = [convergence_seconds(curves[Training(task, "voting", n)]) for n in (few, many)]
    there = [PAPER_BY_SIZE[task, n][VOTING_SIZES.index(TOP_K)][0] for n in (few, many)]
    told = (
        f"From {few} to {many} machines PV-Tree converges in {here[1] / here[0]:.2f} times the seconds (k = {TOP_K}), "
        f"in the paper in {there[1] / there[0]:.2f}."
    )
    if here[1] > here[0] and there[1] < there[0]:
        calls = curves[Training(task, "voting", many)].calls_per_tree
        told += (
            f" Here {many} machines have too few rows each: {calls:.0f} exchanges a tree, in which each machine writes "
            f"to {many - 1} others, and the search of all attributes at every node take longer than the rows."
        )
    return told


def figure_3(curves: Curves) -> Section:
    verdicts = []
    for task in MADE:
        by_number = {t.n_workers: curves[t] for t in machine_numbers(task)}
        per_tree = {n: tree_seconds(curve) * 1e3 for n, curve in by_number.items()}
        quickest = min(per_tree, key=lambda n: per_tree[n])
        most = MACHINE_NUMBERS[task][-1]
        gain = per_tree[MACHINE_NUMBERS[task][-2]] / per_tree[most]
        verdicts.append(
            f"{task}: a tree takes {listed([f'{ms:.0f} ms on {n}' for n, ms in per_tree.items()])} machines, and the "
            f"best metric is {listed([f'{best(curve):.4f}' for curve in by_number.values()])}; the last step, to "
            f"{most}, {'brings' if gain > 1 else 'costs'} a factor of {max(gain, 1 / gain):.2f}, and {quickest} are "
            "the quickest. In the paper, too, more machines help up to a point."
        )
    trainings = [t for task in MADE for t in machine_numbers(task)]
    return Section(
        "figure3", "Figure 3: PV-Tree on different numbers of machines",
        "LTR: much faster from 2 to 8 machines, slower to converge on 16 than on 8; similar for CTR.",
        "", " ".join(verdicts), CURVE_HEADER, curve_rows(curves, trainings),
    )  # fmt: skip


def figure_4(curves: Curves) -> Section:
    rows, verdicts = [], []
    for task in MADE:
        ends = {t.learner: curves[t] for t in boosters(task)}
        for curve in ends.values():
            rows.append(
                [
                    task, curve.training.name, f"{best(curve):.4f}", seconds_shown(convergence_seconds(curve)),
                    f"{tree_seconds(curve) * 1e3:.0f}", format_bytes(curve.bytes_per_tree),
                ]
            )  # fmt: skip
        lost = {name: best(ends["voting"]) - best(ends[name]) for name in ("svore", "yu")}
        worse = [NAMES[name] for name, loss in lost.items() if loss > TOLERANCE[task]]
        agrees = "agrees" if len(worse) == 2 else f"agrees for {worse[0]} only" if worse else "differs"
        verdicts.append(
            f"{task}: {agrees}, against PV-Tree Svore ends at {-lost['svore']:+.4f} and Yu at {-lost['yu']:+.4f}."
        )
    header = ["data", "booster", "best metric", "virtual s to convergence", "ms a tree", "sent per machine and tree"]
    trainings = [t for task in MADE for t in boosters(task)]
    return Section(
        "figure4", "Figure 4: against Svore and Yu",
        "Both converge about as quickly as PV-Tree, but at a much worse point.",
        markdown(header, rows), " ".join(verdicts), CURVE_HEADER, curve_rows(curves, trainings),
    )  # fmt: skip


def real_data(curves: Curves, tasks: Sequence[Task]) -> Section:
    rows, csv_rows, verdicts = [], [], []
    for task in tasks:
        own = [curve for training, curve in curves.items() if training.task == task.name]
        size = f"{task.name}, {task.n_rows:,} x {task.n_features:,}, {task.metric}"
        for curve in own:
            cells = [f"{best(curve):.4f}", f"{tree_seconds(curve) * 1e3:.1f}", format_bytes(curve.bytes_per_tree)]
            rows.append([size, f"{curve.training.name}{votes(curve.training)}", *cells])
            csv_rows.append([task.name, task.n_rows, task.n_features, task.metric, curve.training.learner,
                             curve.training.n_workers, curve.training.top_k, f"{best(curve):.5f}",
                             f"{tree_seconds(curve):.5f}", f"{curve.bytes_per_tree:.0f}"])  # fmt: skip
        ends = {curve.training.learner: best(curve) for curve in own}
        verdicts.append(f"{task.name} {ends['voting'] - ends['serial']:+.4f}")
    return Section(
        "real", "Real data sets, 8 machines",
        "The paper's own data are not public.",
        markdown(["data", "algorithm", "best metric", "ms a tree", "sent per machine and tree"], rows),
        f"PV-Tree against the sequential algorithm: {', '.join(verdicts)}. On so few rows sending takes longer than "
        "computing, and with so few test queries a few hundredths of NDCG mean little.",
        ("data", "rows", "attributes", "metric", "learner", "machines", "k", "best_metric", "seconds_per_tree",
         "bytes_per_machine_and_tree"), csv_rows,
    )  # fmt: skip


def votes(training: Training) -> str:
    return f", k = {training.top_k}" if training.learner == "voting" else ""
