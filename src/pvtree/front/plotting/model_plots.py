"""A plot of the importance of a model's features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidTypeError, public
from pvtree.front.plotting.axes import BLUE, INK, finish, make_axes
from pvtree.model.number_text import shown_number
from pvtree.parameters.rule_kinds import integer

if TYPE_CHECKING:
    from pvtree.model.model import Model

COUNTED = {"gain": "Total gain", "split": "Number of splits"}
LONGEST_NAME = 40  # characters


@public
def plot_importance(
    booster: Any,
    ax: Any = None,
    height: float = 0.6,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    title: str | None = "Feature importance",
    xlabel: str | None = "auto",
    ylabel: str | None = None,
    importance_type: str = "auto",
    max_num_features: int | None = None,
    ignore_zero: bool = True,
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
    precision: int | str | None = "auto",
    **kwargs: Any,
) -> Any:
    """Plot the importance of features as bars, the most important on top.

    Parameters
    ----------
    booster : estimator, Booster or Model
        The model; an estimator must be fitted.
    ax : matplotlib.axes.Axes or None, default=None
        Where to draw. None for a new figure of ``figsize`` (inches) and ``dpi``.
    height : float, default=0.6
        The height of a bar. Greater than 0.
    xlim, ylim : tuple of float or None, default=None
        The limits of the axes.
    title, xlabel, ylabel : str or None
        The texts of the plot; None for no text. The xlabel "auto" says what is counted; "@importance_type@" in it is
        replaced.
    importance_type : {"auto", "split", "gain"}, default="auto"
        Count splits, or sum up their gains. "auto" is the estimator's ``importance_type``, otherwise "split".
    max_num_features : int or None, default=None
        Show only this many features. At least 1.
    ignore_zero : bool, default=True
        Leave out features that no tree splits on.
    grid : bool, default=True
        Whether to draw a grid.
    precision : int, "auto" or None, default="auto"
        Digits after the decimal point of gains. None for all; "auto" for rounded numbers such as 19,024.
    **kwargs
        Passed to matplotlib's ``barh``.
    """
    model = model_of(booster)
    kind = getattr(booster, "importance_type", "split") if importance_type == "auto" else importance_type
    importance = model.feature_importance(kind)
    if xlabel is not None:
        xlabel = COUNTED[kind] if xlabel == "auto" else xlabel.replace("@importance_type@", kind)
    names = np.asarray(model.column_names())
    order = np.argsort(importance, kind="stable")
    order = order[importance[order] > 0] if ignore_zero else order
    if max_num_features is not None:
        integer("", 1).check("max_num_features", max_num_features)
        order = order[-max_num_features:]
    if not len(order):
        raise InvalidDataError("The model has no splits, so no feature has an importance above 0; train more trees.")
    ax = make_axes(ax, figsize or (7.0, max(2.0, 0.9 + 0.3 * len(order))), dpi)
    bars = ax.barh(np.arange(len(order)), importance[order], height=height, **{"color": BLUE, **kwargs})
    ax.bar_label(bars, [_shown(value, kind, precision) for value in importance[order]], padding=3, color=INK)
    ax.set_yticks(np.arange(len(order)), [_fitted(name) for name in names[order]], parse_math=False)
    ax.margins(x=0.12, y=0.02)
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    finish(ax, xlim, ylim, grid, "x")
    return ax


def model_of(booster: Any) -> Model:
    """The model of an estimator or a Booster, or the Model itself."""
    from pvtree.model.model import Model

    model = getattr(booster, "model_", booster)
    if not isinstance(model, Model):
        raise InvalidTypeError(
            f"booster must be a fitted estimator, a Booster or a Model, got {type(booster).__name__}."
        )
    return model


def _shown(value: float, kind: str, precision: int | str | None) -> str:
    if precision == "auto":
        return shown_number(float(value))
    return f"{value:.{precision}f}" if kind == "gain" and precision is not None else str(value)


def _fitted(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
