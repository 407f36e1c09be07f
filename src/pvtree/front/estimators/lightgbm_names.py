"""LightGBM's estimators under its own names: its constructors, and its answers where pvtree's differ (ADR 0063)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidParameterError, public
from pvtree.front.estimators.gbdt import GBDTClassifier, GBDTModel, GBDTRegressor
from pvtree.front.estimators.ranker import GBDTRanker


class LightGBMNames:
    """Constructor and ``get_params`` with LightGBM's nineteen names; every other parameter is a keyword."""

    def __init__(
        self,
        *,
        boosting_type: str = "gbdt",
        num_leaves: int = 31,
        max_depth: int = -1,
        learning_rate: float = 0.1,
        n_estimators: int = 100,
        subsample_for_bin: int = 200000,
        objective: Any = None,
        class_weight: Any = None,
        min_split_gain: float = 0.0,
        min_child_weight: float = 1e-3,
        min_child_samples: int = 20,
        subsample: float = 1.0,
        subsample_freq: int = 0,
        colsample_bytree: float = 1.0,
        reg_alpha: float = 0.0,
        reg_lambda: float = 0.0,
        random_state: Any = None,
        n_jobs: int | None = None,
        importance_type: str = "split",
        **kwargs: Any,
    ) -> None:
        arguments = locals()
        # A default gives way to another name of the parameter in kwargs.
        named = {name: arguments[name] for name, usual in _SHOWN.items() if not _is_same(arguments[name], usual)}
        if isinstance(self, GBDTRanker):  # which has no such parameter
            self.class_weight = named.pop("class_weight", None)
        super().__init__(**named, **kwargs)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """LightGBM's nineteen parameters, and whatever else was set to another value than its default."""
        params: dict[str, Any] = super().get_params(deep)  # type: ignore[misc]
        usual = _defaults(isinstance(self, GBDTRanker))
        return {
            name: value
            for name, value in params.items()
            if name in _SHOWN or name not in usual or not _is_same(value, usual[name])
        }


_SHOWN = {
    each.name: each.default
    for each in inspect.signature(LightGBMNames.__init__).parameters.values()
    if each.name not in ("self", "kwargs")
}


def _is_same(value: Any, usual: Any) -> bool:
    """Whether it is the default; arrays and other objects never are."""
    return value is usual or (isinstance(value, str | int | float) and type(value) is type(usual) and value == usual)


@cache
def _defaults(ranks: bool) -> Mapping[str, Any]:
    """The defaults of the pvtree estimator that an estimator of LightGBM stands for."""
    trainer = GBDTRanker if ranks else GBDTModel
    return {each.name: each.default for each in inspect.signature(trainer.__init__).parameters.values()}


@public
class LGBMModel(LightGBMNames, GBDTModel):
    """``GBDTModel`` with LightGBM's constructor: trains the task that ``objective`` names. The base of the others."""


@public
class LGBMRegressor(LGBMModel, GBDTRegressor):
    """``GBDTRegressor`` with LightGBM's constructor."""


@public
class LGBMClassifier(LGBMModel, GBDTClassifier):
    """``GBDTClassifier`` with LightGBM's constructor. With a function as objective it predicts raw scores."""

    def _of_kind(
        self,
        X: Any,
        finish: Any,
        num_iteration: int | None,
        start_iteration: int,
        others: Mapping[str, Any],
        **kind: bool,
    ) -> np.ndarray:
        if callable(self.objective) and not any(kind.values()):
            warn_user(
                "The objective is a function, so the meaning of scores is yours: raw scores are returned in place of "
                "classes or probabilities."
            )
            kind["raw_score"] = True
        return super()._of_kind(X, finish, num_iteration, start_iteration, others, **kind)


@public
class LGBMRanker(LGBMModel, GBDTRanker):
    """``GBDTRanker`` with LightGBM's constructor."""

    def _checked_parameters(self) -> dict[str, Any]:
        if self.class_weight is not None:
            raise InvalidParameterError(
                "class_weight is for classes, which a ranking has not; pass sample_weight to fit."
            )
        return super()._checked_parameters()
