"""Plots of a training: its metrics, and what workers sent and how they voted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pvtree.comm.traffic import PHASES, format_bytes
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, public
from pvtree.front.plotting.axes import INK, finish, make_axes, stacked_axes

MOST_ONCE = 1.5  # the bar of what was sent once is cut off at this multiple of the largest iteration
# One colour per phase of traffic, which colour-blind readers can tell apart (Paul Tol's bright and muted schemes).
PHASE_COLOURS = dict(
    zip(
        PHASES,
        ("#bbbbbb", "#ee6677", "#4477aa", "#228833", "#aa3377", "#66ccee", "#ccbb44", "#882255", "#999933"),
        strict=True,
    )
)


@public
def plot_metric(
    booster: Any,
    metric: str | None = None,
    dataset_names: Sequence[str] | None = None,
    ax: Any = None,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    title: str | None = "Metric during training",
    xlabel: str | None = "Iterations",
    ylabel: str | None = "@metric@",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
) -> Any:
    """Plot a metric after every iteration, one line per evaluation set.

    Parameters
    ----------
    booster : estimator, Booster or dict
        A fitted estimator, a trained Booster, or a dictionary filled by ``record_evaluation``.
    metric : str or None, default=None
        The metric to plot. May be None if only one was measured.
    dataset_names : list of str or None, default=None
        The evaluation sets to plot. None for all.
    ax : matplotlib.axes.Axes or None, default=None
        Where to draw. None for a new figure of ``figsize`` (inches) and ``dpi``.
    xlim, ylim : tuple of float or None, default=None
        The limits of the axes.
    title, xlabel, ylabel : str or None
        The texts of the plot; None for no text. "@metric@" stands for the metric's name.
    grid : bool, default=True
        Whether to draw a grid.
    """
    results = _results(booster)
    names = list(results) if dataset_names is None else list(dataset_names)
    missing = [name for name in names if name not in results]
    if missing:
        raise InvalidParameterError(f"dataset_names has {missing[0]!r}; use some of {', '.join(results)}.")
    known = list(results[names[0]]) if names else []
    if metric is None:
        if len(known) != 1:
            raise InvalidParameterError(f"There are several metrics; set metric to one of {', '.join(known)}.")
        metric = known[0]
    if any(metric not in results[name] for name in names):
        raise InvalidParameterError(f"metric={metric!r} was not recorded; use one of {', '.join(known)}.")
    ax = make_axes(ax, figsize or (7.0, 4.0), dpi)
    for name in names:
        values = results[name][metric]
        ax.plot(np.arange(1, len(values) + 1), values, label=name, linewidth=1.8)
    best = getattr(booster, "best_iteration_", 0)
    if best:
        ax.axvline(best, color=INK, linewidth=1, linestyle=":", label=f"best iteration, {best}")
    ax.legend(frameon=False)
    shown = None if ylabel is None else ylabel.replace("@metric@", metric)
    ax.set(title=title, xlabel=xlabel, ylabel=shown)
    ax.xaxis.get_major_locator().set_params(integer=True)
    finish(ax, xlim, ylim, grid, "both")
    return ax


@public
def plot_traffic(
    estimator: Any,
    ax: Any = None,
    title: str | None = "Sent by all workers",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
) -> Any:
    """Plot what workers sent each other: bytes by phase in every iteration; and below, how far their votes agreed.

    What was sent once, mostly bins, is the bar at 0. If that bar is much higher than the others, it is cut off; the
    legend gives its size.

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
    sent, once, votes = estimator.traffic_.by_iteration, estimator.traffic_.before_trees, estimator.votes_
    if not sent:
        raise InvalidDataError("Nothing was sent because only one worker trained; set tree_learner and n_workers.")
    n_axes = 2 if votes else 1
    axes = stacked_axes(ax, n_axes, figsize or (8.0, 3.6 if n_axes == 1 else 5.6), dpi)
    n_iterations = len(next(iter(sent.values())))
    _plot_bytes(axes[0], sent, once)
    axes[0].set(title=title)
    if votes:
        _plot_votes(axes[1], votes, n_iterations)
    for each in axes:
        each.set_xlim(-0.5 if once else 0.5, n_iterations + 0.5)
    axes[-1].set(xlabel="Iterations")
    axes[-1].xaxis.get_major_locator().set_params(integer=True)
    return axes[0] if n_axes == 1 else axes


def _plot_bytes(ax: Any, sent: Mapping[str, Sequence[int]], once: Mapping[str, int]) -> None:
    largest = max(map(sum, zip(*sent.values(), strict=True)))
    unit, scale = next(((u, s) for u, s in (("MB", 1e6), ("kB", 1e3)) if largest >= s), ("bytes", 1.0))
    n_iterations = len(next(iter(sent.values())))
    edges = np.arange(n_iterations + 1) + 0.5
    below = np.zeros(n_iterations)
    for phase, values in sent.items():
        top = below + np.asarray(values) / scale
        ax.stairs(top, edges, baseline=below, fill=True, color=PHASE_COLOURS[phase], label=phase)
        below = top
    bottom = 0.0
    for phase, n_bytes in once.items():
        label = f"{phase} once, {format_bytes(n_bytes)}"
        ax.bar(0, n_bytes / scale, 1.0, bottom, color=PHASE_COLOURS[phase], label=label, hatch="//", edgecolor="white")
        bottom += n_bytes / scale
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    ax.set(ylabel=f"{unit} per iteration")
    # The bar of what was sent once must not flatten all others.
    ax.set_ylim(0, 1.05 * max(below.max(), min(bottom, MOST_ONCE * below.max())))
    finish(ax, None, None, True, "y")


def _plot_votes(ax: Any, votes: Sequence[Any], n_iterations: int) -> None:
    """Plot the shares of splits whose feature was on all ballots, on at least half of them, or on fewer."""
    by_tree = np.array([vote[:3] for vote in votes], np.float64)
    by_iteration = by_tree.reshape(n_iterations, -1, 3).sum(axis=1)  # a tree for each output
    share = 100 * by_iteration / np.maximum(by_iteration.sum(axis=1, keepdims=True), 1)
    edges = np.arange(n_iterations + 1) + 0.5
    below = np.zeros(n_iterations)
    words = ("on all ballots", "on half or more", "on fewer")
    for part, word, colour in zip(share.T, words, ("#4477aa", "#99bbdd", "#ee9988"), strict=True):
        ax.stairs(below + part, edges, baseline=below, fill=True, color=colour, label=word)
        below = below + part
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    ax.set(ylabel="% of splits", ylim=(0, 100))
    finish(ax, None, None, False, "y")


def _results(booster: Any) -> Mapping[str, Mapping[str, Sequence[float]]]:
    results = booster
    for name in ("evals_result_", "evals_result"):
        if not isinstance(results, Mapping):
            results = getattr(booster, name, booster)
    if not isinstance(results, Mapping):
        raise InvalidTypeError(
            "booster must be a fitted estimator, a Booster or a dictionary of evaluation results, got "
            f"{type(booster).__name__}."
        )
    if not results:
        raise InvalidDataError("Nothing was evaluated; pass eval_set to fit, or valid_sets to train.")
    return results
