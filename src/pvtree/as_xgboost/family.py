"""The estimators that train, cv and Booster choose from, and parameters as XGBoost's users write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pvtree.as_xgboost.estimators import OwnObjective, XGBClassifier, XGBRegressor
from pvtree.as_xgboost.ranker import XGBRanker
from pvtree.comm.user_warnings import warn_user
from pvtree.front.functional.training import Family

FAMILY = Family(XGBRegressor, XGBClassifier, XGBRanker, OwnObjective)


def numbers_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with texts of numbers as numbers: XGBoost takes ``{"max_depth": "2"}`` too."""
    return {name: _number(value) if isinstance(value, str) else value for name, value in params.items()}


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def warn_of_method(params: Mapping[str, Any]) -> None:
    """Say that there is one method only."""
    if params.get("tree_method") in ("exact", "approx"):
        warn_user(f"tree_method={params['tree_method']!r} is taken as 'hist', which is the only one here.")
