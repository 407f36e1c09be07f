"""XGBoost's random forests: one iteration of many parallel trees."""

from __future__ import annotations

from typing import Any, ClassVar

from pvtree.as_xgboost.estimators import XGBClassifier, XGBRegressor
from pvtree.errors import InvalidParameterError

FOREST_DEFAULTS = {"learning_rate": 1.0, "subsample": 0.8, "colsample_bynode": 0.8, "reg_lambda": 1e-5}


class _OneIteration:
    """``n_estimators`` are the trees of a single iteration, which are averaged."""

    _own_defaults: ClassVar[dict[str, Any]] = FOREST_DEFAULTS

    def fit(self, X: Any, y: Any, **arguments: Any) -> Any:
        """Fit with the arguments of ``XGBRegressor.fit``, without early stopping."""
        rounds = arguments.get("early_stopping_rounds") or self.early_stopping_rounds  # type: ignore[attr-defined]
        if rounds:
            raise InvalidParameterError(
                f"{type(self).__name__} trains one iteration, so it cannot stop early; leave early_stopping_rounds out."
            )
        return super().fit(X, y, **arguments)  # type: ignore[misc]

    def _trained_with(self, values: dict[str, Any], n_classes: int) -> dict[str, Any]:
        values = values | {"num_parallel_tree": values["n_estimators"], "n_estimators": 1}
        return super()._trained_with(values, n_classes)  # type: ignore[misc, no-any-return]

    def get_num_boosting_rounds(self) -> int:
        return 1

    def get_xgb_params(self) -> dict[str, Any]:
        """The parameters of training, by name."""
        params: dict[str, Any] = super().get_xgb_params()  # type: ignore[misc]
        return params | {"num_parallel_tree": self.n_estimators}  # type: ignore[attr-defined]


class XGBRFRegressor(_OneIteration, XGBRegressor):  # type: ignore[misc]
    """A forest with XGBoost's defaults: the mean of ``n_estimators`` trees, fitted to the gradients of the initial
    score."""


class XGBRFClassifier(_OneIteration, XGBClassifier):  # type: ignore[misc]
    """A forest with XGBoost's defaults: the mean of ``n_estimators`` trees, fitted to the gradients of the initial
    score."""
