"""What a call of predict returns: scores, leaves or SHAP values. Estimators and Booster share this choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.parameters.loss_table import losses_of
from pvtree.parameters.rule_kinds import Rule, integer, optional
from pvtree.reading.label_columns import classes_of_columns, split_classes

if TYPE_CHECKING:
    from pvtree.model.model import Model
    from pvtree.model.predict_options import PredictOptions

_FLAG = Rule("", "True or False", lambda v: isinstance(v, bool | np.bool_ | int) and v in (0, 1))
Finish = Callable[[np.ndarray], np.ndarray]  # raw scores (n_rows, n_outputs) -> predictions
_START_ITERATION = Rule("The first iteration; negative numbers mean 0.", "an integer", integer("", 0).has_type)
_NUM_ITERATION = optional(Rule("How many iterations; 0 and less are all.", "an integer", _START_ITERATION.has_type))


def checked_range(start_iteration: int, num_iteration: int | None) -> dict[str, Any]:
    """Translate LightGBM's two arguments into those of the model's methods.

    0 iterations mean all: that is the best iteration of a training that did not stop early.
    """
    _START_ITERATION.check("start_iteration", start_iteration)
    _NUM_ITERATION.check("num_iteration", num_iteration)
    n_iterations = None if num_iteration is None or num_iteration <= 0 else int(num_iteration)
    return {"n_iterations": n_iterations, "start": max(0, int(start_iteration))}


def finished(model: Model) -> Finish:
    """What turns the model's raw scores into LightGBM's predictions: of two classes, the second's probability."""
    from pvtree.objectives.losses import predictions

    def finish(raw: np.ndarray) -> np.ndarray:
        predicted = predictions(model.objective, raw)
        is_of_two = model.n_outputs == 1 and model.objective in losses_of("class")
        return predicted[:, 1] if is_of_two else predicted

    return finish


def most_probable(model: Model, raw: np.ndarray) -> np.ndarray:
    """The most probable class of each row, or its value if the model has no classes."""
    from pvtree.objectives.losses import class_probabilities

    if model.classes is None:
        return finished(model)(raw)
    if model.target_sizes:
        return classes_of_columns(raw, split_classes(model.classes, model.target_sizes))
    # Scores of a custom objective are read as log-odds; those of a forest of classes are probabilities.
    probabilities = raw if model.objective == "classification" else class_probabilities(raw, model.objective)
    chosen: np.ndarray = np.asarray(model.classes)[probabilities.argmax(axis=1)]
    return chosen


def predict_kind(
    model: Model,
    X: Any,
    iterations: Mapping[str, Any],
    finish: Finish,
    raw_score: bool = False,
    pred_leaf: bool = False,
    pred_contrib: bool = False,
    options: PredictOptions | None = None,
) -> Any:
    """Predict what LightGBM's flags ask for; leaves take precedence over contributions, and these over scores.

    ``iterations`` are the keyword arguments of the model's methods; ``finish`` turns raw scores into predictions.
    ``options`` say whether rows may stop early.
    """
    for name, flag in (("raw_score", raw_score), ("pred_leaf", pred_leaf), ("pred_contrib", pred_contrib)):
        _FLAG.check(name, flag)
    if pred_leaf:
        return model.predict_leaf(X, **iterations)
    if pred_contrib:
        return model.predict_contrib(X, **iterations)
    raw = model.predict_raw(X, **iterations) if options is None else options.raw(model, X, iterations)
    if raw_score:
        return raw[:, 0] if raw.shape[1] == 1 else raw
    return finish(raw)
