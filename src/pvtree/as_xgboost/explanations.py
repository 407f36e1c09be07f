"""What features add to predictions, in the shapes that XGBoost's Booster.predict returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.front.functional.dataset import rows_in
from pvtree.model.interactions import interactions, path_values
from pvtree.model.model import Model
from pvtree.model.predict_options import PredictOptions
from pvtree.parameters.params import n_threads
from pvtree.reading.tables import as_dense


def explained(model: Model, data: Any, approximate: bool, pairs: bool, strict_shape: bool) -> np.ndarray:
    """SHAP values, (n, n_outputs, n_features + 1), or interactions; one output has no axis unless it is strict."""
    if approximate and pairs:
        raise InvalidParameterError("approx_contribs=True is for pred_contribs; leave it out with pred_interactions.")
    X = PredictOptions().read(rows_in(data), model.columns, "The model")
    if pairs:
        values = interactions(model, X, n_threads(None))
    else:
        found = path_values(model, X) if approximate else model.predict_contrib(X, n_threads=n_threads(None))
        flat = as_dense(found)
        values = flat.reshape(len(flat), model.n_outputs, model.n_features + 1)
    return values[:, 0] if model.n_outputs == 1 and not strict_shape else values
