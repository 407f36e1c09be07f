"""A plot of the metrics of a training, iteration by iteration."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, public
from pvtree.front.plotting.axes import COLOURS, DASHES, SOFT, finish, stacked_axes
from pvtree.model.number_text import trimmed
from pvtree.objectives.metrics import get_metric
from pvtree.training.callbacks import TRAINING_NAMES

Results = Mapping[str, Mapping[str, Sequence[float]]]
ABBREVIATIONS = ("auc", "ndcg", "map", "rmse", "mape", "rmsle", "mphe")
APART = 11.0  # points between two labels at the end of lines


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
    """Plot metrics after every iteration, one line per evaluation set, with the best value marked.

    Parameters
    ----------
    booster : estimator, Booster or dict
        A fitted estimator, a trained Booster, or a dictionary filled by ``record_evaluation``.
    metric : str or None, default=None
        The metric to plot. None for all: each has a panel of its own.
    dataset_names : list of str or None, default=None
        The evaluation sets to plot. None for all.
    ax : matplotlib.axes.Axes, list of them or None, default=None
        Where to draw. None for a new figure of ``figsize`` (inches) and ``dpi``. If there are several metrics and a
        single axes is passed, only the first metric is drawn, with a warning.
    xlim, ylim : tuple of float or None, default=None
        The limits of the axes.
    title, xlabel, ylabel : str or None
        The texts of the plot; None for no text. "@metric@" stands for the metric's name.
    grid : bool, default=True
        Whether to draw a grid.

    Returns
    -------
    matplotlib.axes.Axes or list of them
        The axes drawn on: a list if there are several.
    """
    results = _results(booster)
    names = list(results) if dataset_names is None else list(dataset_names)
    missing = [name for name in names if name not in results]
    if missing:
        raise InvalidParameterError(f"dataset_names has {missing[0]!r}; use some of {', '.join(results)}.")
    metrics = _metrics(results, names, metric)
    if ax is not None and np.size(np.asarray(ax, dtype=object)) == 1 and len(metrics) > 1:
        warnings.warn(
            f"There are several metrics, but one axes; only {metrics[0]} is drawn. Set metric, or leave ax out.",
            stacklevel=2,
        )
        metrics = metrics[:1]
    axes = stacked_axes(ax, [1.0] * len(metrics), figsize or (7.0, 1.2 + 2.8 * len(metrics)), dpi)
    for own, each in zip(axes, metrics, strict=True):
        finish(own, xlim, ylim, grid, "both")
        _draw(own, {name: results[name][each] for name in names if each in results[name]}, each, _best(booster))
        own.set(ylabel=None if ylabel is None else ylabel.replace("@metric@", spelt(each)))
        own.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set(title=title)
    axes[-1].set(xlabel=xlabel)
    return axes[0] if len(axes) == 1 else axes


def _draw(ax: Any, curves: Mapping[str, Sequence[float]], metric: str, best: int) -> None:
    for place, values in enumerate(curves.values()):
        style = {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}
        ax.plot(np.arange(1, len(values) + 1), values, linewidth=1.8, **style)
    _label_ends(ax, curves)
    rises = greater_is_better(metric)
    watched = [name for name in curves if name not in TRAINING_NAMES] or list(curves)
    for place, (name, values) in enumerate(curves.items()):
        at = best or place_of_best(values, rises)
        if name in watched and 0 < at <= len(values):
            _mark(ax, at, values[at - 1], bool(rises), COLOURS[place % len(COLOURS)])
    if best:
        ax.axvline(best, color=SOFT, linewidth=1, linestyle=":", zorder=0)


def _label_ends(ax: Any, curves: Mapping[str, Sequence[float]]) -> None:
    """The name of each line at its end, moved up or down where two would overlap."""
    by_end = sorted((float(values[-1]), place, name) for place, (name, values) in enumerate(curves.items()))
    scale = 72.0 / ax.figure.dpi
    wanted = np.array([ax.transData.transform((1.0, end))[1] * scale for end, _, _ in by_end])
    placed = wanted.copy()
    for below, above in pairwise(range(len(placed))):
        placed[above] = max(placed[above], placed[below] + APART)
    placed -= (placed - wanted).mean()
    for (end, place, name), shift in zip(by_end, placed - wanted, strict=True):
        last = len(curves[name])
        colour = COLOURS[place % len(COLOURS)]
        ax.annotate(
            name, (last, end), (6, shift), textcoords="offset points", color=colour, va="center", parse_math=False
        )


def _mark(ax: Any, iteration: int, value: float, rises: bool, colour: str) -> None:
    ax.plot([iteration], [value], "o", color=colour, markersize=6, markeredgecolor="white", zorder=4)
    words, shift = f"{trimmed(value, 4)} at {iteration}", 9 if rises else -9
    ax.annotate(
        words, (iteration, value), (0, shift), textcoords="offset points", ha="center", color=colour,
        va="bottom" if rises else "top", fontsize="small", bbox={"fc": "white", "ec": "none", "pad": 0.5, "alpha": 0.8},
    )  # fmt: skip


def _metrics(results: Results, names: Sequence[str], metric: str | None) -> list[str]:
    known = list(dict.fromkeys(each for name in names for each in results[name]))
    if metric is None:
        return known
    if any(metric not in results[name] for name in names):
        raise InvalidParameterError(f"metric={metric!r} was not recorded; use one of {', '.join(known)}.")
    return [metric]


def _best(booster: Any) -> int:
    """The best iteration by early stopping; 0 if there is none."""
    found = getattr(booster, "best_iteration_", None)
    return int(found if found is not None else max(0, getattr(booster, "best_iteration", 0) or 0))


def place_of_best(values: Sequence[float], rises: bool | None) -> int:
    if rises is None:
        return 0
    return 1 + int(np.argmax(values) if rises else np.argmin(values))


def greater_is_better(metric: str) -> bool | None:
    """Whether greater is better; None for a metric that pvtree does not know."""
    for objective in ("custom", "cox", "aft", "hinge"):
        try:
            return get_metric(metric, objective).greater_is_better
        except InvalidParameterError:
            continue
    return None


def spelt(metric: str) -> str:
    """The name of a metric as people write it: AUC, NDCG@10."""
    word, at, rank = metric.partition("@")
    return f"{word.upper()}{at}{rank}" if word in ABBREVIATIONS else metric


def _results(booster: Any) -> Results:
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
