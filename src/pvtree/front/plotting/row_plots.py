"""Plots of an estimator on given rows: partial dependence, and calibration of probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, public
from pvtree.front.curves import N_BARS, Calibration, Dependence, calibration, partial_dependence, sampled_rows
from pvtree.front.plotting.axes import BLUE, INK, SOFT, distribution, finish, make_axes, titled
from pvtree.front.scikit_learn import check_is_fitted
from pvtree.parameters.rule_kinds import integer
from pvtree.reading import targets

Z = 1.959964  # of a 95 % interval


@public
def plot_partial_dependence(
    estimator: Any,
    X: Any,
    feature: int | str,
    ax: Any = None,
    target: Any = None,
    n_points: int = 40,
    title: str | None = "Partial dependence",
    xlabel: str | None = "@feature@",
    ylabel: str | None = "auto",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
) -> Any:
    """Plot the mean prediction if a feature had a given value in all rows, and where its values lie.

    The bars at the foot are the distribution of the feature. The curve leaves out the outermost 2 % on both sides.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator.
    X : array-like or sparse matrix of shape (n_rows, n_features)
        Rows; up to 500 of them, evenly spaced, are averaged.
    feature : int or str
        The number or the name of a feature.
    ax : matplotlib.axes.Axes or None, default=None
        Where to draw. None for a new figure of ``figsize`` (inches) and ``dpi``.
    target : class label, int or None, default=None
        The class whose probability is plotted; of a regressor with several targets, the number of the target. None for
        the last one.
    n_points : int, default=40
        The most values of the feature to predict with. At least 2.
    title, xlabel, ylabel : str or None
        The texts of the plot; None for no text. "@feature@" is replaced; the ylabel "auto" says what is averaged.
    grid : bool, default=True
        Whether to draw a grid.
    """
    check_is_fitted(estimator, "model_")
    integer("", 2).check("n_points", n_points)
    found, name, what = _dependence(estimator, X, feature, target, n_points)
    ax = make_axes(ax, figsize or (7.0, 4.0), dpi)
    (_draw_values if found.names is None else _draw_categories)(ax, found)
    axis = ax.set_xlabel if found.names is None else ax.set_ylabel
    other = ax.set_ylabel if found.names is None else ax.set_xlabel
    if xlabel is not None:
        axis(xlabel.replace("@feature@", name), parse_math=False)
    if ylabel is not None:
        other(what if ylabel == "auto" else ylabel, parse_math=False)
    titled(ax, title, "")
    finish(ax, None, None, grid, "both" if found.names is None else "x")
    return ax


@public
def plot_calibration(
    estimator: Any,
    X: Any,
    y: Any,
    ax: Any = None,
    sample_weight: Any = None,
    target: Any = None,
    n_groups: int = 10,
    title: str | None = "Calibration",
    xlabel: str | None = "Predicted probability of @class@",
    ylabel: str | None = "Share that is @class@",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
) -> Any:
    """Plot predicted probabilities against the shares that came true, in groups of equally many rows.

    Lines through the points are 95 % intervals (Wilson). The bars at the foot show where the probabilities lie.

    Parameters
    ----------
    estimator : classifier
        A fitted classifier.
    X : array-like or sparse matrix of shape (n_rows, n_features)
        Rows that the estimator was not trained on.
    y : array-like of shape (n_rows,)
        Their classes.
    ax : matplotlib.axes.Axes or None, default=None
        Where to draw. None for a new figure of ``figsize`` (inches) and ``dpi``.
    sample_weight : array-like of shape (n_rows,) or None, default=None
        Weights of the rows.
    target : class label or None, default=None
        The class whose probability is plotted. None for the last one.
    n_groups : int, default=10
        The number of groups. At least 2.
    title, xlabel, ylabel : str or None
        The texts of the plot; None for no text. "@class@" is replaced.
    grid : bool, default=True
        Whether to draw a grid.
    """
    if not hasattr(estimator, "predict_proba"):
        raise InvalidTypeError(f"plot_calibration needs a classifier, got {type(estimator).__name__}.")
    check_is_fitted(estimator, "model_")
    integer("", 2).check("n_groups", n_groups)
    output, _ = _output(estimator, target)
    score, found = _calibration(estimator, X, y, sample_weight, output, n_groups)
    ax = make_axes(ax, figsize or (5.5, 5.0), dpi)
    distribution(ax, *np.histogram(score, N_BARS, (0.0, 1.0))[::-1])
    ax.plot([0, 1], [0, 1], color=SOFT, linewidth=1, linestyle=":")
    low, high = _interval(found.share, found.n_rows)
    ax.vlines(found.predicted, low, high, color=BLUE, linewidth=1.2)
    ax.plot(found.predicted, found.share, "o-", color=BLUE, linewidth=1.8, markersize=5)
    name = str(estimator.classes_[output])
    for words, put in ((xlabel, ax.set_xlabel), (ylabel, ax.set_ylabel)):
        if words is not None:
            put(words.replace("@class@", name), parse_math=False)
    titled(ax, title, f"{len(found.n_rows)} groups of {_size(found)} rows; dotted: perfect")
    finish(ax, (0, 1), (0, 1), grid, "both")
    return ax


def _dependence(estimator: Any, X: Any, feature: int | str, target: Any, n_points: int) -> tuple[Dependence, str, str]:
    """The curve, the name of the feature, and what is averaged."""
    model, names = estimator.model_, estimator.model_.column_names()
    if feature not in (names if isinstance(feature, str) else range(len(names))):
        raise InvalidParameterError(f"There is no feature {feature!r}; use the name or the number of a column.")
    number = names.index(feature) if isinstance(feature, str) else int(feature)
    output, what = _output(estimator, target)
    rows, _ = sampled_rows(estimator._matrix(X))
    labels = model.categories.get(number)
    found = partial_dependence(_predict(estimator), rows, number, labels, n_points, output) if len(rows) else None
    if found is None:
        raise InvalidDataError(f"The feature {feature!r} has no value in X; pass rows in which it is known.")
    return found, names[number], what


def _calibration(
    estimator: Any, X: Any, y: Any, sample_weight: Any, output: int, n_groups: int
) -> tuple[np.ndarray, Calibration]:
    """The probabilities of the rows, and their groups."""
    score = np.asarray(estimator.predict_proba(X))[:, output]
    if not len(score):
        raise InvalidDataError("X has no rows; pass rows to compare probabilities with.")
    labels = targets.read_labels(y, len(score), np.asarray(estimator.classes_), "y")
    weight = targets.read_weight(sample_weight, len(score), "sample_weight")
    return score, calibration(score, labels == output, np.ones(len(score)) if weight is None else weight, n_groups)


def _size(found: Calibration) -> str:
    fewest, most = int(found.n_rows.min()), int(found.n_rows.max())
    return f"{fewest:,}" if fewest == most else f"{fewest:,} or {most:,}"


def _draw_values(ax: Any, found: Dependence) -> None:
    ax.plot(found.grid, found.mean, color=BLUE, linewidth=1.8, marker="o" if len(found.grid) == 1 else None)
    distribution(ax, found.edges, found.counts)
    low, high = ax.get_ylim()
    ax.set_ylim(low - 0.18 * (high - low), high)  # the curve stays above the bars


def _draw_categories(ax: Any, found: Dependence) -> None:
    """Points by category, the highest on top."""
    order = np.argsort(found.mean, kind="stable")
    places = np.arange(len(order))
    ax.hlines(places, found.mean.min(), found.mean[order], color=BLUE, linewidth=1.2)
    ax.plot(found.mean[order], places, "o", color=BLUE, markersize=6)
    ax.set_yticks(places, [found.names[i] for i in order] if found.names else [], parse_math=False)
    ax.margins(y=0.04)
    ax.tick_params(axis="y", length=0, labelcolor=INK)


def _predict(estimator: Any) -> Callable[[np.ndarray], np.ndarray]:
    finish_scores = estimator._probabilities if hasattr(estimator, "classes_") else estimator._values_of
    return lambda rows: np.asarray(finish_scores(estimator.model_.predict_raw(rows)))


def _output(estimator: Any, target: Any) -> tuple[int, str]:
    """The place of the target among the predictions of a row, and what is predicted."""
    if not hasattr(estimator, "classes_"):
        n_outputs = estimator.model_.n_outputs
        if target is not None:
            integer("", 0, n_outputs - 1).check("target", target)
        return (-1 if target is None else int(target)), "Mean prediction"
    if estimator.model_.target_sizes:
        raise InvalidTypeError("This plot does not support several columns of classes; train one model per column.")
    classes = list(estimator.classes_)
    if target is not None and target not in classes:
        raise InvalidParameterError(f"target={target!r} is no class; use one of {', '.join(map(str, classes))}.")
    place = len(classes) - 1 if target is None else classes.index(target)
    return place, f"Mean probability of {classes[place]}"


def _interval(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's 95 % interval of a share among ``n``."""
    middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * np.sqrt(share * (1 - share) / n + (Z / (2 * n)) ** 2)
    return middle - half, middle + half
