"""Which of a model's numbers a call of predict asks for: one choice behind estimators and Booster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.parameters.rules import Rule, integer, optional

if TYPE_CHECKING:
    from pvtree.model.model import Model

_FLAG = Rule("", "True or False", lambda v: isinstance(v, bool | np.bool_ | int) and v in (0, 1))
Finish = Callable[[np.ndarray], np.ndarray]  # of raw scores, (n_rows, n_outputs)
_START_ITERATION = replace(
    integer("The first iteration to predict with; below 0 it is 0.", -sys.maxsize), allowed="an integer"
)
_NUM_ITERATION = optional(replace(_START_ITERATION, meaning="How many iterations to predict with; 0 and less are all."))


def checked_range(start_iteration: int, num_iteration: int | None) -> dict[str, Any]:
    """LightGBM's two arguments as the model's methods take them.

    0 iterations are all of them: so many has the best iteration of a training that did not stop early.
    """
    _START_ITERATION.check("start_iteration", start_iteration)
    _NUM_ITERATION.check("num_iteration", num_iteration)
    n_iterations = None if num_iteration is None or num_iteration <= 0 else int(num_iteration)
    return {"n_iterations": n_iterations, "start": max(0, int(start_iteration))}


def predict_kind(
    model: Model,
    X: Any,
    iterations: Mapping[str, Any],
    finish: Finish,
    raw_score: bool = False,
    pred_leaf: bool = False,
    pred_contrib: bool = False,
) -> Any:
    """LightGBM's arguments, of which leaves win over contributions, and these over scores.

    ``iterations`` are what the model's methods take beside X; ``finish`` makes predictions of raw scores.
    """
    for name, flag in (("raw_score", raw_score), ("pred_leaf", pred_leaf), ("pred_contrib", pred_contrib)):
        _FLAG.check(name, flag)
    if pred_leaf:
        return model.predict_leaf(X, **iterations)
    if pred_contrib:
        return model.predict_contrib(X, **iterations)
    raw = model.predict_raw(X, **iterations)
    if raw_score:
        return raw[:, 0] if raw.shape[1] == 1 else raw
    return finish(raw)
