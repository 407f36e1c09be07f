"""Which of a model's numbers a call of predict asks for: one choice behind estimators and Booster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.params import Rule

if TYPE_CHECKING:
    from pvtree.model import Model

_FLAG = Rule("", "True or False", lambda v: isinstance(v, bool | np.bool_ | int) and v in (0, 1))
Finish = Callable[[np.ndarray], np.ndarray]  # of raw scores, (n_rows, n_outputs)


def predict_kind(
    model: Model,
    X: Any,
    iterations: Mapping[str, Any],
    finish: Finish,
    raw_score: bool = False,
    pred_leaf: bool = False,
    pred_contrib: bool = False,
) -> np.ndarray:
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
