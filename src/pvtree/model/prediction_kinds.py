"""What a call of predict returns: scores, leaves or SHAP values. Estimators and Booster share this choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.parameters.rules import Rule, integer, optional

if TYPE_CHECKING:
    from pvtree.model.model import Model

_FLAG = Rule("", "True or False", lambda v: isinstance(v, bool | np.bool_ | int) and v in (0, 1))
Finish = Callable[[np.ndarray], np.ndarray]  # raw scores (n_rows, n_outputs) -> predictions
_COUNT = integer("How many iterations to predict with; 0 and -1 are all.", -1)
_NUM_ITERATION = optional(_COUNT)
_START_ITERATION = Rule("The first iteration to predict with; negative numbers mean 0.", "an integer", _COUNT.has_type)


def checked_range(start_iteration: int, num_iteration: int | None) -> dict[str, Any]:
    """Translate LightGBM's two arguments into those of the model's methods.

    0 iterations mean all: that is the best iteration of a training that did not stop early.
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
    """Predict what LightGBM's flags ask for; leaves take precedence over contributions, and these over scores.

    ``iterations`` are the keyword arguments of the model's methods; ``finish`` turns raw scores into predictions.
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
