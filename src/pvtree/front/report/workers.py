"""The section about the workers: bytes, votes, proofs and waiting, where several trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pvtree.comm.traffic import TrafficReport, format_bytes
from pvtree.find_split.certificates import Certificate
from pvtree.front.report.charts import bar_chart, stacked_bars
from pvtree.front.report.page import Section
from pvtree.front.report.subject import Subject

MOST_BARS = 60  # iterations of a chart; longer trainings are drawn in groups of iterations
VOTES = ("on all ballots", "on half or more", "on fewer")


def section(subject: Subject) -> Section | None:
    estimator = subject.estimator
    traffic: TrafficReport | None = getattr(estimator, "traffic_", None)
    if traffic is None or traffic.n_workers == 1:
        return None
    found = Section("workers", "Workers")
    found.text(
        f"{traffic.n_workers} workers sent {format_bytes(traffic.total_bytes)} in all: "
        f"{format_bytes(traffic.bytes_per_tree)} per worker and tree in {traffic.calls_per_tree:.0f} exchanges, and "
        f"{format_bytes(traffic.bytes_before_trees)} per worker before the first tree, most of it for the bins."
    )
    add_bytes(found, traffic)
    if estimator.votes_:
        add_votes(found, estimator.votes_, subject.model.trees_per_iteration)
    if estimator.certificates_:
        add_proofs(found, estimator.certificates_)
    if len(traffic.seconds_by_worker) > 1:
        add_waiting(found, traffic)
    return found


def add_bytes(found: Section, traffic: TrafficReport) -> None:
    bars = [
        (first + 1, round(float(np.mean(values)) / 1e3, 3), phase)
        for phase, sent in traffic.by_iteration.items()
        for first, values in grouped(sent)
    ]
    found.heading("Sent by all workers, by iteration")
    if bars:
        found.chart(stacked_bars(bars, ("iteration", "kB")), "Bytes by what they were sent for.")
    total = max(1, traffic.total_bytes)
    cells = [
        (phase, format_bytes(cost.bytes), f"{100 * cost.bytes / total:.1f} %", cost.calls, f"{cost.seconds:.3f}")
        for phase, cost in traffic.by_phase.items()
        if cost.calls
    ]
    found.table(["sent for", "bytes", "share", "exchanges", "seconds waiting"], cells)


def add_votes(found: Section, votes: Sequence[Any], trees_per_iteration: int) -> None:
    by_tree = np.array([vote[:3] for vote in votes], np.float64)
    n_iterations = len(by_tree) // trees_per_iteration
    by_iteration = by_tree[: n_iterations * trees_per_iteration].reshape(n_iterations, -1, 3).sum(axis=1)
    bars = []
    for first, values in grouped(list(by_iteration)):
        counts = np.sum(values, axis=0)
        shares = 100 * counts / max(1.0, counts.sum())
        bars += [(first + 1, round(float(share), 2), word) for share, word in zip(shares, VOTES, strict=True)]
    chart = stacked_bars(bars, ("iteration", "% of splits"))
    found.heading("Votes for the columns that won")
    found.chart(chart, "The share of splits whose column was on all ballots, on at least half of them, or on fewer.")


def add_proofs(found: Section, certificates: Sequence[Certificate]) -> None:
    found.heading("Proofs that splits are the best")
    shown = list(certificates)[-10:]
    for each in shown:
        found.text(proof_sentence(each))
    if len(shown) < len(certificates):
        found.text(f"These are the last {len(shown)} of {len(certificates)} trees with proofs.")


def proof_sentence(each: Certificate) -> str:
    cost = each.bound_bytes + each.rounded_bytes + each.extra_bytes
    return (
        f"Tree {each.tree}: {each.splits} splits, {each.at_once + each.unvoted} proven at once, {each.rounded} after "
        f"rounded sums, {each.merged} after further histograms; {each.missed} would have been missed by the vote; "
        f"{format_bytes(cost)} per worker."
    )


def add_waiting(found: Section, traffic: TrafficReport) -> None:
    names = [f"worker {rank}" for rank in range(traffic.n_workers)]
    seconds = list(traffic.seconds_by_worker)
    found.heading("Waiting")
    found.chart(
        bar_chart(names, [round(each, 4) for each in seconds], "seconds in exchanges"),
        f"A worker that waits less than the others keeps them waiting: {names[int(np.argmin(seconds))]} here.",
    )


def grouped(values: Sequence[Any]) -> list[tuple[int, Sequence[Any]]]:
    """(first, values) of at most MOST_BARS groups of equally many iterations."""
    size = -(-len(values) // MOST_BARS) or 1
    return [(first, values[first : first + size]) for first in range(0, len(values), size)]
