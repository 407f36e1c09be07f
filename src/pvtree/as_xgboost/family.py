"""The estimators that train, cv and Booster choose from, and parameters as XGBoost's users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pvtree.as_xgboost.config import other_methods
from pvtree.as_xgboost.estimators import OwnObjective, XGBClassifier, XGBRegressor
from pvtree.as_xgboost.ranker import XGBRanker
from pvtree.comm.user_warnings import warn_user
from pvtree.front.functional.training import Family

FAMILY = Family(XGBRegressor, XGBClassifier, XGBRanker, OwnObjective, eval_at=(32,))


def numbers_of(params: Mapping[str, Any] | Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The parameters, a mapping or pairs, with texts of numbers as numbers: XGBoost takes ``{"max_depth": "2"}``."""
    values = dict(params)
    if not isinstance(params, Mapping):
        metrics = [value for name, value in params if name == "eval_metric"]  # pairs may name several
        values |= {"eval_metric": metrics} if len(metrics) > 1 else {}
    return {name: _number(value) if isinstance(value, str) else value for name, value in values.items()}


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def warn_of_method(params: Mapping[str, Any]) -> None:
    """Say that there is one method only."""
    for sentence in other_methods(params):
        warn_user(sentence)
