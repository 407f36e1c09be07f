"""Parameters as pyspark.ml has them: a Param for each of ours, and for columns by xgboost.spark's names."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasLabelCol,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasValidationIndicatorCol,
    HasWeightCol,
)

from pvtree.errors import InvalidParameterError
from pvtree.front.estimators.fit import Fitting
from pvtree.parameters.aliases import read_names

# Ours, as in xgboost.spark -> Spark's own.
SPARK_NAMES = {
    "features_col": "featuresCol",
    "label_col": "labelCol",
    "weight_col": "weightCol",
    "prediction_col": "predictionCol",
    "probability_col": "probabilityCol",
    "raw_prediction_col": "rawPredictionCol",
    "validation_indicator_col": "validationIndicatorCol",
}
# Parameters of our estimators that mean nothing on a cluster.
LEFT_OUT = {"n_workers"}


def param(name: str, doc: str, converter: Any = None) -> Param[Any]:
    return Param(Params._dummy(), name, doc, converter)


class PredictionParams(HasFeaturesCol, HasPredictionCol, HasProbabilityCol, HasRawPredictionCol):
    """The columns that a model reads and writes."""

    features_cols = param("features_cols", "Names of feature columns.", TypeConverters.toListString)
    pred_contrib_col = param("pred_contrib_col", "Column of SHAP values.", TypeConverters.toString)

    def features(self) -> str | list[str]:
        """The column of vectors or arrays, or the list of columns."""
        chosen: Any = self.getOrDefault("features_cols") if self.isSet("features_cols") else self.getFeaturesCol()
        return chosen

    def column(self, name: str) -> str | None:
        """The column that this Param names, if it is set and not empty."""
        value = self.getOrDefault(name) if self.hasParam(name) and self.isDefined(name) else None
        return value or None

    def setParams(self, **params: Any) -> Self:
        """Set parameters by any of their names; a list for ``features_col`` names several columns."""
        self._set_named(params)
        return self

    def _set_named(self, params: dict[str, Any]) -> None:
        values = {SPARK_NAMES.get(name, name): value for name, value in params.items()}
        features = values.pop("featuresCol", None)
        if isinstance(features, list | tuple):
            values["features_cols"] = list(features)
        elif features is not None:
            values["featuresCol"] = features
            self.clear(self.getParam("features_cols"))
        for name, value in values.items():
            if not self.hasParam(name):
                raise InvalidParameterError(f"{type(self).__name__} has no parameter {name!r}; see explainParams().")
            if value is None:
                self.clear(self.getParam(name))
            else:
                self.set(self.getParam(name), value)


class TrainingParams(PredictionParams, HasLabelCol, HasWeightCol, HasValidationIndicatorCol):
    """The columns and settings of training; ``_local`` is the estimator that trains in the tasks."""

    _local: ClassVar[type[Fitting]]

    qid_col = param("qid_col", "Column of query ids, for rankers.", TypeConverters.toString)
    num_workers = param("num_workers", "Number of tasks that train together.", TypeConverters.toInt)
    checkpoint = param("checkpoint", "Folder of checkpoints, on the executors.", TypeConverters.toString)
    checkpoint_freq = param("checkpoint_freq", "Iterations between two checkpoints.", TypeConverters.toInt)
    timeout = param("timeout", "Seconds that tasks wait for one that does not answer.", TypeConverters.toFloat)
    callbacks = param("callbacks", "Functions that the first task calls after every iteration.")
    init_model = param("init_model", "Model or fitted estimator that training continues from.")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in local_parameters(cls._local):
            rule = cls._local._rules.get(name)
            setattr(cls, name, param(name, "" if rule is None else rule.meaning))

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self._setDefault(
            num_workers=1, checkpoint_freq=10, timeout=600.0, callbacks=None, init_model=None,
            **local_parameters(self._local),
        )  # fmt: skip
        self._set_named(params)

    def _set_named(self, params: dict[str, Any]) -> None:
        """Also by LightGBM's and XGBoost's names."""
        own = {name: value for name, value in params.items() if SPARK_NAMES.get(name, name) in self._column_names()}
        others = {name: value for name, value in params.items() if name not in own}
        read = read_names(others, list(local_parameters(self._local)), type(self).__name__, self._local._anyway)
        super()._set_named({**own, **read.values})

    def _column_names(self) -> set[str]:
        return {each.name for each in self.params} - set(local_parameters(self._local))

    def make_local(self) -> Fitting:
        """The estimator with these parameters, not fitted."""
        return self._local(**{name: self.getOrDefault(name) for name in local_parameters(self._local)})


def local_parameters(kind: type[Fitting]) -> dict[str, Any]:
    """The parameters of an estimator and their defaults."""
    signature = inspect.signature(kind)
    names = [name for name in kind._get_param_names() if name not in LEFT_OUT]
    return {name: signature.parameters[name].default for name in names}
