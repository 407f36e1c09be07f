"""Pictures of models and trainings, by matplotlib and graphviz, with LightGBM's signatures."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.comm.traffic import PHASES, format_bytes
from pvtree.errors import (
    InvalidDataError,
    InvalidParameterError,
    InvalidTypeError,
    MissingDependencyError,
    public,
)
from pvtree.model.tree_graph import MAX_CATEGORIES, Drawn, draw, to_dot
from pvtree.parameters.rules import integer

if TYPE_CHECKING:
    from pvtree.model.model import Model

__all__ = ["create_tree_digraph", "plot_importance", "plot_metric", "plot_traffic", "plot_tree"]

MOST_ONCE = 1.5  # iterations: what was sent once is drawn up to here
INK, FAINT = "#333333", "#dddddd"
BAR, LEAF, SPLIT = "#4477aa", "#e8f3e8", "#e6eef7"
# Colours that stay apart for all kinds of eyes (Paul Tol's bright and muted), one for each phase of traffic.
PHASE_COLOURS = dict(
    zip(
        PHASES,
        ("#bbbbbb", "#ee6677", "#4477aa", "#228833", "#aa3377", "#66ccee", "#ccbb44", "#882255", "#999933"),
        strict=True,
    )
)


@public
def plot_importance(
    booster: Any,
    ax: Any = None,
    height: float = 0.6,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    title: str | None = "Feature importance",
    xlabel: str | None = "Feature importance",
    ylabel: str | None = "Features",
    importance_type: str = "auto",
    max_num_features: int | None = None,
    ignore_zero: bool = True,
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
    precision: int | None = 3,
    **kwargs: Any,
) -> Any:
    """Bars for the features of a model, the most important on top; ``kwargs`` go to matplotlib's ``barh``.

    ``booster`` is an estimator, a Booster or a Model. "auto" is the estimator's ``importance_type``, else "split".
    """
    model = model_of(booster)
    kind = getattr(booster, "importance_type", "split") if importance_type == "auto" else importance_type
    importance = model.feature_importance(kind)
    names = np.asarray(model.column_names())
    order = np.argsort(importance, kind="stable")
    order = order[importance[order] > 0] if ignore_zero else order
    if max_num_features is not None:
        integer("", 1).check("max_num_features", max_num_features)
        order = order[-max_num_features:]
    if not len(order):
        raise InvalidDataError("No feature has an importance above 0: the model has no splits; train more trees.")
    ax = _axes(ax, figsize or (7.0, max(2.0, 0.9 + 0.3 * len(order))), dpi)
    bars = ax.barh(np.arange(len(order)), importance[order], height=height, **{"color": BAR, **kwargs})
    digits = f".{precision}f" if kind == "gain" and precision is not None else "g"
    shown = [f"{value:{digits}}" for value in importance[order]]
    ax.bar_label(bars, shown, padding=3, color=INK, fontsize="small")
    ax.set_yticks(np.arange(len(order)), names[order])
    ax.margins(x=0.12, y=0.02)
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    _finish(ax, xlim, ylim, grid, "x")
    return ax


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
    """A line for each evaluation set: one metric after every iteration.

    ``booster`` is a fitted estimator, a trained Booster, or a dictionary that record_evaluation has filled.
    """
    results = _results(booster)
    names = list(results) if dataset_names is None else list(dataset_names)
    missing = [name for name in names if name not in results]
    if missing:
        raise InvalidParameterError(f"dataset_names has {missing[0]!r}, but evaluated were {', '.join(results)}.")
    known = list(results[names[0]]) if names else []
    if metric is None:
        if len(known) != 1:
            raise InvalidParameterError(f"There are several metrics; choose one with metric=: {', '.join(known)}.")
        metric = known[0]
    if any(metric not in results[name] for name in names):
        raise InvalidParameterError(f"metric={metric!r} was not recorded; choose one of {', '.join(known)}.")
    ax = _axes(ax, figsize or (7.0, 4.0), dpi)
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
    _finish(ax, xlim, ylim, grid, "both")
    return ax


@public
def create_tree_digraph(
    booster: Any,
    tree_index: int = 0,
    show_info: Collection[str] | None = None,
    precision: int | None = 3,
    orientation: str = "horizontal",
    example_case: None = None,
    max_category_values: int = MAX_CATEGORIES,
    **kwargs: Any,
) -> Any:
    """A tree as an object of the graphviz package, which draws it with graphviz's program ``dot``.

    ``kwargs`` go to graphviz's ``Source``. Without the package, ``Model.to_dot`` gives the same text.
    """
    drawn = _drawn(booster, tree_index, show_info, precision, example_case, max_category_values)
    graphviz = _load("graphviz")
    return graphviz.Source(to_dot(drawn, f"tree {tree_index}", _checked(orientation)), **kwargs)


def _drawn(
    booster: Any,
    tree_index: int,
    show_info: Collection[str] | None,
    precision: int | None,
    example_case: None,
    max_categories: int,
) -> Drawn:
    if example_case is not None:
        raise InvalidParameterError("example_case is not known to pvtree; leave it out.")
    return draw(model_of(booster), tree_index, show_info, _digits(precision), max_categories)


@public
def plot_tree(
    booster: Any,
    ax: Any = None,
    tree_index: int = 0,
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    show_info: Collection[str] | None = None,
    precision: int | None = 3,
    orientation: str = "horizontal",
    example_case: None = None,
    max_category_values: int = MAX_CATEGORIES,
) -> Any:
    """A tree, drawn by matplotlib alone: splits in blue, leaves in green, the root left ("vertical": on top)."""
    drawn = _drawn(booster, tree_index, show_info, precision, example_case, max_category_values)
    across = _checked(orientation) == "horizontal"
    ax = _axes(ax, figsize or _size(drawn, across), dpi)
    depth, place = drawn.place.T
    x, y = (depth, -place) if across else (place, -depth)
    for parent, child, word in drawn.edges:
        ax.plot([x[parent], x[child]], [y[parent], y[child]], color="#999999", linewidth=1, zorder=1)
        middle = (x[parent] + x[child]) / 2, (y[parent] + y[child]) / 2
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        ax.text(*middle, word, ha="center", va="center", fontsize=7, color="#666666", bbox=box, zorder=2)
    for node, label in enumerate(drawn.labels):
        colour = LEAF if drawn.is_leaf[node] else SPLIT
        style = {"boxstyle": "round,pad=0.35", "facecolor": colour, "edgecolor": "#8899aa", "linewidth": 0.8}
        ax.text(x[node], y[node], label, ha="center", va="center", fontsize=8, color=INK, bbox=style, zorder=3)
    room = 0.45 if across else 0.6
    ax.set_xlim(x.min() - room, x.max() + room)
    ax.set_ylim(y.min() - 0.6, y.max() + 0.6)
    ax.axis("off")
    return ax


@public
def plot_traffic(
    estimator: Any,
    ax: Any = None,
    title: str | None = "Sent by all workers",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
) -> Any:
    """What workers sent each other: bytes by phase, stacked, for every iteration; below, how far votes agreed.

    What they sent once, bins above all, is the bar at 0; where it is much higher than the others it is cut off, and
    the legend gives its size.
    Returns the axes: one of bytes, and where workers voted a second one of votes. ``ax`` must be as many.
    """
    if not hasattr(estimator, "traffic_"):
        raise InvalidTypeError("plot_traffic needs a fitted estimator; call fit first.")
    sent, once, votes = estimator.traffic_.by_iteration, estimator.traffic_.before_trees, estimator.votes_
    if not sent:
        raise InvalidDataError("Nothing was sent: one worker trained alone; set tree_learner and n_workers.")
    n_axes = 2 if votes else 1
    axes = _stacked_axes(ax, n_axes, figsize or (8.0, 3.6 if n_axes == 1 else 5.6), dpi)
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
    # One bar must not flatten all others.
    ax.set_ylim(0, 1.05 * max(below.max(), min(bottom, MOST_ONCE * below.max())))
    _finish(ax, None, None, True, "y")


def _plot_votes(ax: Any, votes: Sequence[Any], n_iterations: int) -> None:
    """The shares of splits whose feature was on all ballots, on at least half, on fewer."""
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
    _finish(ax, None, None, False, "y")


def model_of(booster: Any) -> Model:
    """The model of an estimator or a Booster; a Model is one."""
    from pvtree.model.model import Model

    model = getattr(booster, "model_", booster)
    if not isinstance(model, Model):
        raise InvalidTypeError(f"A fitted estimator, a Booster or a Model is needed, got {type(booster).__name__}.")
    return model


def _results(booster: Any) -> Mapping[str, Mapping[str, Sequence[float]]]:
    results = booster
    for name in ("evals_result_", "evals_result"):
        if not isinstance(results, Mapping):
            results = getattr(booster, name, booster)
    if not isinstance(results, Mapping):
        raise InvalidTypeError(
            f"A fitted estimator or a dictionary of evaluation results is needed, got {type(booster).__name__}."
        )
    if not results:
        raise InvalidDataError("Nothing was evaluated; pass eval_set to fit, or valid_sets to train.")
    return results


def _load(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        raise MissingDependencyError(f"Pictures need {name}; install it with pip install 'pvtree[plot]'.") from None


def _axes(ax: Any, figsize: tuple[float, float], dpi: int | None) -> Any:
    return _stacked_axes(ax, 1, figsize, dpi)[0]


def _stacked_axes(ax: Any, n_axes: int, figsize: tuple[float, float], dpi: int | None) -> list[Any]:
    if ax is None:
        pyplot = _load("matplotlib.pyplot")
        heights = [2.0, 1.0][:n_axes]
        _, made = pyplot.subplots(
            n_axes, 1, sharex=True, figsize=figsize, dpi=dpi, layout="constrained", squeeze=False,
            gridspec_kw={"height_ratios": heights},
        )  # fmt: skip
        return list(made[:, 0])
    given = list(np.atleast_1d(np.asarray(ax, dtype=object)))
    if len(given) != n_axes:
        raise InvalidParameterError(f"ax must be {n_axes} axes, got {len(given)}.")
    return given


def _finish(ax: Any, xlim: Any, ylim: Any, grid: bool, axis: str) -> None:
    if xlim is not None:
        ax.set_xlim(xlim)
    if ylim is not None:
        ax.set_ylim(ylim)
    if grid:
        ax.grid(axis=axis, color=FAINT, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _size(drawn: Drawn, across: bool) -> tuple[float, float]:
    """Room for all leaves side by side, and for the longest label."""
    n_leaves, depth = int(drawn.is_leaf.sum()), int(drawn.place[:, 0].max())
    lines = max(label.count("\n") + 1 for label in drawn.labels)
    # Inches of the widest split and of the widest leaf: splits of one level are at least one and a half leaves apart.
    split, leaf = (
        0.075 * max((len(line) for n in np.flatnonzero(kind) for line in drawn.labels[n].split("\n")), default=0) + 0.3
        for kind in (~drawn.is_leaf, drawn.is_leaf)
    )
    if across:
        return max(4.0, (depth + 1) * (max(split, leaf) + 0.7)), max(2.5, n_leaves * (0.2 + 0.17 * lines))
    return max(4.0, n_leaves * max(leaf, split / 1.5)), max(3.0, (depth + 1) * (0.6 + 0.2 * lines))


def _digits(precision: int | None) -> int:
    return 3 if precision is None else precision


def _checked(orientation: str) -> str:
    if orientation not in ("horizontal", "vertical"):
        raise InvalidParameterError(f"orientation must be 'horizontal' or 'vertical', got {orientation!r}.")
    return orientation
