"""Fitted models in Spark: ``transform`` predicts Arrow batch by Arrow batch, and files open in plain pvtree too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from pyspark.ml import Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter
from pyspark.sql import functions as F

from pvtree.engines.spark.params import PredictionParams
from pvtree.engines.spark.rows import ARRAY, as_matrix
from pvtree.engines.spark.training import feature_columns
from pvtree.front.estimators.fit import Fitting
from pvtree.front.estimators.loading import restored
from pvtree.model.model import Model as Trees

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What a row gets: the field of the result, its type and the Param that names the column.
FIELDS = {
    "prediction": "predictionCol",
    "probability": "probabilityCol",
    "raw": "rawPredictionCol",
    "contrib": "pred_contrib_col",
}


class PvtreeModel(Model, PredictionParams, MLReadable, MLWritable):
    """A fitted model. Attributes such as ``model_``, ``evals_result_`` and ``traffic_`` are those of the estimator."""

    _local: ClassVar[type[Fitting]]
    _is_classifier: ClassVar[bool] = False

    def __init__(self, estimator: Fitting | None = None) -> None:
        super().__init__()
        self.estimator = estimator  # fitted, and independent of Spark

    def __getattr__(self, name: str) -> Any:
        """What training has found out: ``model_``, ``traffic_``, ``votes_``, ``certificates_``, ``evals_result_``."""
        if name.endswith("_") and not name.startswith("_"):
            return getattr(self.__dict__.get("estimator"), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _transform(self, dataset: DataFrame) -> DataFrame:
        wanted = {field: name for field, param in FIELDS.items() if (name := self._column_of(field, param))}
        if not wanted:
            return dataset
        chosen, names = feature_columns(dataset, self.features())
        texts = self._is_classifier and np.asarray(self.classes_).dtype.kind not in "biuf"
        kinds = {field: "array<double>" for field in wanted} | {"prediction": "string" if texts else "double"}
        ddl = ", ".join(f"{field} {kinds[field]}" for field in wanted)
        predictor = Predictor(self.estimator, list(wanted), names)

        def predict(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
            yield from map(predictor.predict, batches)

        result = "__pvtree"
        udf: Any = F.arrow_udf  # its stubs know functions with annotations only by a constant
        answered = dataset.withColumn(result, udf(predict, ddl)(F.struct(*chosen)))
        for field, name in wanted.items():
            column = F.col(f"{result}.{field}")
            answered = answered.withColumn(name, array_to_vector(column) if field in ("probability", "raw") else column)
        return answered.drop(result)

    def _column_of(self, field: str, param: str) -> str | None:
        return None if field in ("probability", "raw") and not self._is_classifier else self.column(param)

    def write(self) -> MLWriter:
        return ModelWriter(self)

    @classmethod
    def read(cls) -> MLReader[Self]:
        return ModelReader(cls)

    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the model alone to a local file, which ``pvtree.load`` reads without Spark."""
        self.model_.save(path)


class Predictor:
    """Predicts the rows of Arrow batches; pickled once for each task."""

    def __init__(self, estimator: Any, fields: list[str], names: tuple[str, ...] | None) -> None:
        self.estimator, self.fields, self.names = estimator, fields, names

    def predict(self, batch: pa.StructArray) -> pa.StructArray:
        estimator = self.estimator
        if self.names is None:
            X: Any = (
                as_matrix(batch.field(ARRAY), estimator.n_features_in_, np.dtype(np.float64)) if len(batch) else None
            )
        else:
            X = pa.Table.from_arrays([batch.field(i) for i in range(len(self.names))], names=list(self.names))
        return pa.StructArray.from_arrays([self._field(name, X, len(batch)) for name in self.fields], self.fields)

    def _field(self, name: str, X: Any, n_rows: int) -> pa.Array:
        if n_rows == 0:
            return pa.array([], pa.float64() if name == "prediction" else pa.list_(pa.float64()))
        if name == "prediction":
            values = np.asarray(self.estimator.predict(X))
            return pa.array(values.astype(np.float64) if values.dtype.kind in "biuf" else values.astype(str))
        if name == "probability":
            values = self.estimator.predict_proba(X)
        elif name == "contrib":
            values = self.estimator.predict(X, pred_contrib=True)
        else:
            values = np.asarray(self.estimator.predict(X, raw_score=True))
            if values.ndim == 1 or values.shape[1] == 1:  # as Spark has it: a score for each of both classes
                values = np.column_stack([-values.reshape(-1), values.reshape(-1)])
        values = np.ascontiguousarray(values, np.float64)
        ends = pa.array(np.arange(n_rows + 1, dtype=np.int32) * values.shape[1])
        return pa.ListArray.from_arrays(ends, pa.array(values.reshape(-1)))


class ModelWriter(MLWriter):
    """Writes ``metadata`` as Spark does, and ``model``: text files of Spark, one of which is a model file of pvtree."""

    def __init__(self, instance: PvtreeModel) -> None:
        super().__init__()
        self.instance = instance

    def saveImpl(self, path: str) -> None:
        DefaultParamsWriter.saveMetadata(self.instance, path, self.sparkSession)
        text = self.sparkSession.createDataFrame([(self.instance.model_.to_json(),)], schema=["value"])
        text.coalesce(1).write.text(os.path.join(path, "model"))


class ModelReader(MLReader[Any]):
    def __init__(self, kind: type[PvtreeModel]) -> None:
        super().__init__()
        self.kind = kind

    def load(self, path: str) -> Any:
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        row = self.sparkSession.read.text(os.path.join(path, "model"), wholetext=True).first()
        assert row is not None
        model = self.kind(restored(self.kind._local(), Trees.from_json(row[0])))
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model
