"""Metrics of a model's predictions for whole files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.front.cli.prediction_columns import class_labels
from pvtree.model.model import Model
from pvtree.objectives.metrics import Metric, default_metric, evaluate_together, get_metric
from pvtree.parameters.loss_table import losses_of
from pvtree.reading import targets
from pvtree.reading.files import FileRows, blocks
from pvtree.reading.inputs import check_columns


def measures(model: Model, names: Sequence[str]) -> list[Metric]:
    """The named metrics, or the default metric of the model's task."""
    if not names and model.objective == "custom":
        raise InvalidParameterError("The model was trained with a custom objective; name a metric.")
    return [get_metric(name, model.objective) for name in names or [default_metric(model.objective)]]


def evaluate(
    model: Model, rows: FileRows, metrics: Sequence[Metric], n_iterations: int | None = None, n_threads: int = 1
) -> dict[str, float]:
    """The metrics by name. Of all rows, only labels, weights and scores are in memory together."""
    columns = model.columns
    check_columns(rows.X, columns, "the model")
    label = _label(model, rows)
    weight = targets.read_weight(rows.weight, len(rows), "weight")
    queries = targets.read_queries(None, rows.qid, len(rows))
    if queries is None and any(metric.name.startswith("ndcg") for metric in metrics):
        raise InvalidDataError("NDCG is measured per query; name the column of query ids.")
    scores = np.empty((model.n_outputs, len(rows)))
    start = 0
    for block in blocks(rows.X, columns):
        scores[:, start : start + len(block)] = model.predict_raw(block, n_iterations, n_threads=n_threads).T
        start += len(block)
    arguments = (label, scores, weight, None if queries is None else queries.sizes)
    results = evaluate_together([(metric, arguments) for metric in metrics])
    return {name: value for result in results for name, value, _ in result}


def _label(model: Model, rows: FileRows) -> np.ndarray:
    classes = class_labels(model)
    if classes is not None:
        return targets.read_labels(rows.y, len(rows), np.asarray(classes), "label")
    if model.objective in losses_of("relevance"):
        return targets.read_relevance(rows.y, len(rows), "label")
    return targets.read_values(rows.y, len(rows), "label")
