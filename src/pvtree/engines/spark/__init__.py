"""Estimators for Spark: pyspark.ml's interface, trained in one barrier stage (``pip install 'pvtree[spark]'``)."""

from pvtree.errors import MissingDependencyError

try:
    from pyspark.sql.functions import arrow_udf as _needed  # noqa: F401
except ImportError as error:
    raise MissingDependencyError(
        f"pvtree.spark needs PySpark 4.1 or later ({error}); install it: pip install 'pvtree[spark]'."
    ) from error

from pvtree.engines.spark.estimators import (
    GBDTClassifier,
    GBDTClassifierModel,
    GBDTRanker,
    GBDTRankerModel,
    GBDTRegressor,
    GBDTRegressorModel,
    RandomForestClassifier,
    RandomForestClassifierModel,
    RandomForestRegressor,
    RandomForestRegressorModel,
)

_CLASSES = (
    GBDTClassifier, GBDTClassifierModel, GBDTRanker, GBDTRankerModel, GBDTRegressor, GBDTRegressorModel,
    RandomForestClassifier, RandomForestClassifierModel, RandomForestRegressor, RandomForestRegressorModel,
)  # fmt: skip
for _each in _CLASSES:
    _each.__module__ = "pvtree.spark"  # where Spark's files look for them

__all__ = [
    "GBDTClassifier",
    "GBDTClassifierModel",
    "GBDTRanker",
    "GBDTRankerModel",
    "GBDTRegressor",
    "GBDTRegressorModel",
    "RandomForestClassifier",
    "RandomForestClassifierModel",
    "RandomForestRegressor",
    "RandomForestRegressorModel",
]
