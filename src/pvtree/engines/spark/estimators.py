"""The estimators of pvtree.spark: pyspark.ml's interface around one barrier stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.ml import Estimator
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable

from pvtree.engines.spark.models import PvtreeModel
from pvtree.engines.spark.params import TrainingParams
from pvtree.engines.spark.rows import IS_VALID, LABEL, QUERY, WEIGHT
from pvtree.engines.spark.training import fit_on_spark
from pvtree.errors import InvalidParameterError
from pvtree.front import estimators as local
from pvtree.front.estimators.eval_arguments import EvalArguments
from pvtree.front.estimators.fit import Fitting
from pvtree.front.estimators.fit_options import FitOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class GBDTClassifierModel(PvtreeModel):
    """A fitted ``GBDTClassifier``."""

    _local = local.GBDTClassifier
    _is_classifier = True


class GBDTRegressorModel(PvtreeModel):
    """A fitted ``GBDTRegressor``."""

    _local = local.GBDTRegressor


class GBDTRankerModel(PvtreeModel):
    """A fitted ``GBDTRanker``."""

    _local = local.GBDTRanker


class RandomForestClassifierModel(PvtreeModel):
    """A fitted ``RandomForestClassifier``."""

    _local = local.RandomForestClassifier
    _is_classifier = True


class RandomForestRegressorModel(PvtreeModel):
    """A fitted ``RandomForestRegressor``."""

    _local = local.RandomForestRegressor


class SparkEstimator(TrainingParams, Estimator[Any], DefaultParamsWritable, DefaultParamsReadable[Any]):
    """Base of the estimators. All parameters are keywords, by our names, LightGBM's or XGBoost's.

    Parameters
    ----------
    features_col : str or list of str, default="features"
        A column of vectors or of arrays of numbers, or the names of several columns; text columns are categories.
    label_col : str, default="label"
        The target. Classes may be numbers or text.
    weight_col, validation_indicator_col, qid_col : str or None, default=None
        The weights of rows; whether a row is for evaluation and not for training; the query of a row (rankers).
    prediction_col, probability_col, raw_prediction_col : str, default="prediction", "probability", "rawPrediction"
        What ``transform`` adds. The last two are for classifiers, and "" leaves them out.
    pred_contrib_col : str or None, default=None
        A column of SHAP values that ``transform`` adds.
    num_workers : int, default=1
        How many tasks train together. All of them must run at the same time.
    checkpoint, checkpoint_freq, timeout, callbacks, init_model
        As of ``fit`` of pvtree's estimators. The folder of checkpoints must be one that all executors see.
    **params
        The parameters of the estimator of the same name in ``pvtree``.
    """

    _model: ClassVar[type[PvtreeModel]]
    _local: ClassVar[type[Fitting]] = local.GBDTModel

    def _fit(self, dataset: DataFrame) -> PvtreeModel:
        num_workers = self.getOrDefault("num_workers")
        if num_workers < 1:
            raise InvalidParameterError(f"num_workers is {num_workers}; give the number of tasks, at least 1.")
        estimator = self.make_local()
        columns = {
            LABEL: self.column("labelCol"),
            WEIGHT: self.column("weightCol"),
            QUERY: self.column("qid_col"),
            IS_VALID: self.column("validationIndicatorCol"),
        }
        options = FitOptions(
            evaluation=self._evaluation(),
            callbacks=self.getOrDefault("callbacks"),
            init_model=self.getOrDefault("init_model"),
            timeout=self.getOrDefault("timeout"),
            checkpoint=self.column("checkpoint"),
            checkpoint_freq=self.getOrDefault("checkpoint_freq"),
        )
        fit_on_spark(estimator, dataset, self.features(), columns, num_workers, options)
        model = self._model(estimator)
        model._resetUid(self.uid)
        return self._copyValues(model)

    def _evaluation(self) -> EvalArguments:
        return EvalArguments()


class GBDTClassifier(SparkEstimator):
    """Gradient boosting for classes, on Spark."""

    _local, _model = local.GBDTClassifier, GBDTClassifierModel


class GBDTRegressor(SparkEstimator):
    """Gradient boosting for values, on Spark."""

    _local, _model = local.GBDTRegressor, GBDTRegressorModel


class GBDTRanker(SparkEstimator):
    """Gradient boosting for rankings, on Spark. ``qid_col`` names the queries; their rows may lie anywhere."""

    _local, _model = local.GBDTRanker, GBDTRankerModel

    def _evaluation(self) -> EvalArguments:
        return EvalArguments(eval_at=(1, 2, 3, 4, 5))

    def _fit(self, dataset: DataFrame) -> PvtreeModel:
        if self.column("qid_col") is None:
            raise InvalidParameterError("GBDTRanker needs qid_col, the column of query ids; name it.")
        return super()._fit(dataset)


class RandomForestClassifier(SparkEstimator):
    """A random forest for classes, on Spark."""

    _local, _model = local.RandomForestClassifier, RandomForestClassifierModel


class RandomForestRegressor(SparkEstimator):
    """A random forest for values, on Spark."""

    _local, _model = local.RandomForestRegressor, RandomForestRegressorModel
