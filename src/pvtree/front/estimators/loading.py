"""Saved models as estimators again, ready to predict."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import public
from pvtree.front.estimators.forest import RandomForestClassifier, RandomForestRegressor
from pvtree.front.estimators.gbdt import GBDTClassifier, GBDTRegressor
from pvtree.front.estimators.ranker import GBDTRanker
from pvtree.parameters.loss_table import LOSSES
from pvtree.reading.label_columns import split_classes

if TYPE_CHECKING:
    from pvtree.front.estimators.fit import Fitting
    from pvtree.model.model import Model


@public
def load(path: str | os.PathLike[str]) -> Any:
    """Read a saved model as an estimator that predicts, explains and can be trained further with ``init_model``.

    A file does not hold the parameters of the training, so the estimator has the default ones.

    Parameters
    ----------
    path : str or path-like
        A file of ``estimator.save``, ``Model.save`` or ``Booster.save_model``, a text model of LightGBM, or a JSON or
        UBJSON model of XGBoost. Classes of the latter two are 0, 1, ...

    Returns
    -------
    estimator
        A classifier, a regressor or a ranker, by the model's objective.
    """
    from pvtree.model.any_file import read_any

    model = read_any(path)
    return restored(_kind_of(model)(n_estimators=max(1, model.n_iterations)), model)


def restored(estimator: Fitting, model: Model) -> Fitting:
    """The estimator, fitted with the model."""
    estimator.model_ = model
    estimator.evals_result_, estimator.best_score_, estimator.best_iteration_ = {}, {}, 0
    estimator.timings_, estimator.votes_, estimator.certificates_ = {}, None, None
    estimator.n_iter_, estimator.n_features_in_ = model.n_iterations, model.n_features
    estimator._of_named_rows = False
    if model.feature_names is not None:
        estimator.feature_names_in_ = np.asarray(model.feature_names, dtype=object)
    if estimator._target_kind == "class":
        n_classes = max(2, model.n_outputs)
        labels = np.arange(n_classes) if model.classes is None else np.asarray(model.classes)
        of_columns = tuple(split_classes(model.classes, model.target_sizes))
        estimator._keep_classes(of_columns or labels)
    return estimator


def _kind_of(model: Model) -> Any:
    target = "class" if model.objective == "classification" or model.classes is not None else "value"
    if model.objective in LOSSES:
        target = LOSSES[model.objective].target
    if model.ensemble == "forest" and model.objective in ("classification", "regression"):
        return RandomForestClassifier if target == "class" else RandomForestRegressor
    return {"class": GBDTClassifier, "relevance": GBDTRanker, "value": GBDTRegressor}[target]
