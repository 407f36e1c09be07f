"""Plots of a training on several workers: what they sent, how they voted and what was proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pvtree.comm.traffic import PHASES, TrafficReport, format_bytes
from pvtree.errors import InvalidDataError, InvalidTypeError, public
from pvtree.find_split.certificates import Certificate
from pvtree.front.plotting.axes import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PINK,
    RED,
    SKY,
    finish,
    legend_beside,
    make_axes,
    stacked_axes,
    titled,
)

# One colour per phase of traffic. Phases that lie on each other differ in brightness too.
PHASE_COLOURS = dict(zip(PHASES, ("#444444", ORANGE, BLUE, SKY, RED, "#F0E442", "#332288", GREEN, PINK), strict=True))
VOTES = {"on all ballots": BLUE, "on half or more": SKY, "on fewer": ORANGE}
MOST_BARS = 60  # iterations between which there are white lines


@public
def plot_traffic(
    estimator: Any,
    ax: Any = None,
    title: str | None = "Sent by all workers",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
) -> Any:
    """Plot what workers sent each other: bytes by phase in every iteration; and below, how far their votes agreed.

    A note says what they sent before the first tree, mainly bins. Triangles mark audited trees, which cost proofs.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator that trained on several workers.
    ax : matplotlib.axes.Axes or list of two or None, default=None
        Where to draw: one axes for bytes and, if workers voted, another one for votes. None for a new figure of
        ``figsize`` (inches) and ``dpi``.
    title : str or None, default="Sent by all workers"
        The title; None for no title.

    Returns
    -------
    matplotlib.axes.Axes or list of two
        The axes drawn on.
    """
    if not hasattr(estimator, "traffic_"):
        raise InvalidTypeError("plot_traffic needs a fitted estimator; call fit first.")
    traffic: TrafficReport = estimator.traffic_
    sent, votes = traffic.by_iteration, estimator.votes_
    if not sent:
        raise InvalidDataError("Nothing was sent because only one worker trained; set tree_learner and n_workers.")
    heights = [2.0, 1.0] if votes else [1.0]
    axes = stacked_axes(ax, heights, figsize or (8.0, 5.6 if votes else 3.6), dpi)
    n_iterations = len(next(iter(sent.values())))
    top = _plot_bytes(axes[0], sent)
    _mark_audits(axes[0], estimator, top, n_iterations)
    legend_beside(axes[0])
    titled(axes[0], title, _note(traffic))
    if votes:
        _plot_votes(axes[1], votes, n_iterations)
    for each in axes:
        each.set_xlim(0.5, n_iterations + 0.5)
    axes[-1].set(xlabel="Iterations")
    axes[-1].xaxis.get_major_locator().set_params(integer=True)
    return axes[0] if len(axes) == 1 else axes


@public
def plot_certificates(
    estimator: Any,
    ax: Any = None,
    title: str | None = "Proofs that splits are the best",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
) -> Any:
    """Plot how the splits of each tree were proven, and which of them the vote alone would have missed.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator with ``tree_learner="exact_voting"`` or ``audit``.
    ax : matplotlib.axes.Axes or None, default=None
        Where to draw. None for a new figure of ``figsize`` (inches) and ``dpi``.
    title : str or None, default="Proofs that splits are the best"
        The title; None for no title.
    """
    if not hasattr(estimator, "certificates_"):
        raise InvalidTypeError("plot_certificates needs a fitted estimator; call fit first.")
    found: Sequence[Certificate] = estimator.certificates_
    if not found:
        raise InvalidDataError('No split has a proof; set tree_learner="exact_voting", or "voting" with audit.')
    ax = make_axes(ax, figsize or (8.0, 3.6), dpi)
    trees = np.array([each.tree for each in found])
    is_exact = estimator.tree_learner == "exact_voting"
    parts = {
        "proven at once": ([each.at_once + each.unvoted for each in found], BLUE),
        "after rounded sums": ([each.rounded for each in found], SKY),
        "after further histograms" if is_exact else "not proven": ([each.merged for each in found], ORANGE),
    }
    width = 0.9 * (int(np.diff(trees).min()) if len(trees) > 1 else 1)
    below = np.zeros(len(found))
    for word, (counts, colour) in parts.items():
        ax.bar(trees, counts, width, below, color=colour, label=f"{word}, {sum(counts):,}")
        below = below + np.asarray(counts)
    missed = np.array([each.missed for each in found])
    if missed.any():
        label = f"missed by the vote, {missed.sum():,}"
        ax.plot(
            trees[missed > 0], missed[missed > 0], "D", color=INK, markersize=4, markeredgecolor="white", label=label
        )
    legend_beside(ax)
    cost = sum(each.bound_bytes + each.rounded_bytes + each.extra_bytes for each in found) / len(found)
    titled(ax, title, f"{int(below.sum()):,} splits of {len(found):,} trees; {format_bytes(cost)} per worker and tree")
    ax.set(xlabel="Tree", ylabel="Splits")
    ax.xaxis.get_major_locator().set_params(integer=True)
    finish(ax, None, None, True, "y")
    return ax


def _plot_bytes(ax: Any, sent: Mapping[str, Sequence[int]]) -> float:
    """Stacked bytes by phase. Returns the height of the largest iteration."""
    largest = max(map(sum, zip(*sent.values(), strict=True)))
    unit, scale = next(((u, s) for u, s in (("MB", 1e6), ("kB", 1e3)) if largest >= s), ("bytes", 1.0))
    _stack(ax, {phase: np.asarray(values) / scale for phase, values in sent.items()}, PHASE_COLOURS)
    ax.set(ylabel=f"{unit} per iteration", ylim=(0, 1.12 * largest / scale))
    finish(ax, None, None, True, "y")
    return largest / scale


def _stack(ax: Any, layers: Mapping[str, np.ndarray], colours: Mapping[str, str]) -> None:
    n_iterations = len(next(iter(layers.values())))
    edges, below = np.arange(n_iterations + 1) + 0.5, np.zeros(n_iterations)
    line = 0.6 if n_iterations <= MOST_BARS else 0.0
    for name, values in layers.items():
        style = {"facecolor": colours[name], "edgecolor": "white", "linewidth": line}
        ax.stairs(below + values, edges, baseline=below, fill=True, label=name, **style)
        below = below + values


def _mark_audits(ax: Any, estimator: Any, top: float, n_iterations: int) -> None:
    """Triangles above the iterations with an audited tree; none where every tree is proven."""
    per_iteration = estimator.model_.trees_per_iteration
    audited = np.unique([each.tree // per_iteration for each in estimator.certificates_ or []])
    if 0 < len(audited) < n_iterations:
        ax.plot(audited + 1, np.full(len(audited), 1.06 * top), "v", color=INK, markersize=5, label="audited")


def _note(traffic: TrafficReport) -> str:
    once = ", ".join(f"{phase} {format_bytes(n_bytes)}" for phase, n_bytes in traffic.before_trees.items())
    return f"{traffic.n_workers} workers" + (f"; before the first tree: {once}" if once else "")


def _plot_votes(ax: Any, votes: Sequence[Any], n_iterations: int) -> None:
    """Plot the shares of splits whose feature was on all ballots, on at least half of them, or on fewer."""
    by_tree = np.array([vote[:3] for vote in votes], np.float64)
    by_iteration = by_tree.reshape(n_iterations, -1, 3).sum(axis=1)  # a tree for each output
    share = 100 * by_iteration / np.maximum(by_iteration.sum(axis=1, keepdims=True), 1)
    _stack(ax, dict(zip(VOTES, share.T, strict=True)), VOTES)
    legend_beside(ax)
    titled(ax, "Ballots that named the feature of a split", "")
    ax.set(ylabel="% of splits", ylim=(0, 100))
    finish(ax, None, None, False, "y")
