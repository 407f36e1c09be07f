"""LightGBM's further arguments of predict: how strictly columns are checked, and rows that need not see every tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.parameters.loss_table import losses_of
from pvtree.parameters.rule_kinds import Rule, integer, non_negative
from pvtree.parameters.suggestions import closest
from pvtree.reading.column_fitting import fit_columns
from pvtree.reading.inputs import read_like

if TYPE_CHECKING:
    from pvtree.model.model import Model
    from pvtree.reading.tables import Columns

_SWITCH = Rule("", "True or False", lambda v: v is None or isinstance(v, bool | np.bool_ | int))
_RULES = {
    "validate_features": _SWITCH,
    "predict_disable_shape_check": _SWITCH,
    "pred_early_stop": _SWITCH,
    "pred_early_stop_freq": integer("", 1),
    "pred_early_stop_margin": non_negative(""),
    "num_threads": integer("", -1),
}
_IDLE = ("data_has_header", "verbose", "verbosity")  # accepted for compatibility, without effect


@dataclass(frozen=True)
class PredictOptions:
    """How to read the rows of a prediction, and when a row's score is certain enough."""

    validate_features: bool | None = None  # False: by position, whatever the names
    predict_disable_shape_check: bool = False
    pred_early_stop: bool = False
    pred_early_stop_freq: int = 10
    pred_early_stop_margin: float = 10.0
    num_threads: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], owner: str, own: Any = ()) -> PredictOptions:
        """The options among the further arguments of a predict; ``own`` are the names of its other arguments."""
        aliases = {"n_jobs": "num_threads", "nthread": "num_threads"}
        chosen = {}
        for name, value in given.items():
            right = aliases.get(name, name)
            if right not in _RULES and name not in _IDLE:
                near = closest(name, [*_RULES, *own])
                known = ", ".join(dict.fromkeys([*own, *_RULES]))
                remedy = f"did you mean {near}?" if near else f"its arguments are {known}."
                raise InvalidParameterError(f"{name} is no argument of {owner}.predict; {remedy}")
            if right in _RULES and value is not None:
                _RULES[right].check(name, value)
                chosen[right] = value
        return cls(**chosen)

    def read(self, X: Any, columns: Columns, owner: str) -> Any:
        """X as numbers; its columns must be those of ``columns``, unless they need not."""
        fitted = fit_columns(X, columns, self.validate_features is False, bool(self.predict_disable_shape_check))
        return read_like(fitted, replace(columns, of_named_rows=False) if fitted is not X else columns, owner)

    def raw(self, model: Model, X: Any, iterations: Mapping[str, Any]) -> np.ndarray:
        """Raw scores (n, n_outputs); with ``pred_early_stop`` a row stops at the first score beyond the margin."""
        if not self.pred_early_stop or not stops_early(model):
            return model.predict_raw(X, **iterations)
        first = int(iterations.get("start", 0))
        asked = iterations.get("n_iterations")
        stop = model.n_iterations if asked is None else min(model.n_iterations, first + asked)
        n_rows = len(X)
        active = np.ones(n_rows, bool)
        scores = np.zeros((n_rows, model.n_outputs))
        for start in range(first, max(stop, first + 1), self.pred_early_stop_freq):
            block = {**iterations, "start": start, "n_iterations": min(self.pred_early_stop_freq, stop - start)}
            if isinstance(X, np.ndarray):
                scores[active] += model.predict_raw(X[active], **block)
            else:  # sparse rows: every row is predicted, but a certain one keeps its score
                scores[active] += model.predict_raw(X, **block)[active]
            active &= ~(_margins(scores) > self.pred_early_stop_margin)
            if not active.any():
                break
        return scores


def stops_early(model: Model) -> bool:
    """Only the sign or the order of these scores matters, so a certain one needs no more trees."""
    return model.ensemble == "gbdt" and model.objective in losses_of("class")


def _margins(scores: np.ndarray) -> np.ndarray:
    """LightGBM's certainty: twice the log-odds, or the lead of the best class over the second."""
    if scores.shape[1] == 1:
        doubled: np.ndarray = 2 * np.abs(scores[:, 0])
        return doubled
    best: np.ndarray = np.partition(scores, -2, axis=1)
    lead: np.ndarray = best[:, -1] - best[:, -2]
    return lead


def further_names(predict: Callable[..., Any]) -> list[str]:
    """The names of a method's own arguments, for suggestions."""
    import inspect

    signature = inspect.signature(predict).parameters.values()
    return [each.name for each in signature if each.name != "self" and each.kind is not each.VAR_KEYWORD]
