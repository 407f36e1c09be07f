"""A trained model with the methods of LightGBM's Booster."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError, public
from pvtree.front.functional.dataset import Dataset
from pvtree.front.functional.predict_arguments import OF_LIGHTGBM, check_others
from pvtree.model.model import Model
from pvtree.model.prediction_kinds import checked_range, predict_kind
from pvtree.parameters.params import n_threads

if TYPE_CHECKING:
    from pvtree.front.estimators.fit import Fitting

_LIGHTGBM_BEGINS = "tree"  # the first line of LightGBM's text models


@public
class Booster:
    """A model, from a training or from a file: pvtree's own, or a text model of LightGBM's.

    A training that stops early keeps the trees up to ``best_iteration`` only, so that predictions need no
    ``num_iteration``. ``model_`` is the ``pvtree.Model``.
    """

    def __init__(
        self,
        params: dict[str, Any] | None = None,
        train_set: Any = None,
        model_file: str | os.PathLike[str] | None = None,
        model_str: str | None = None,
    ) -> None:
        if train_set is not None or (model_file is None) == (model_str is None):
            raise InvalidParameterError(
                "A Booster is made of model_file or model_str; to train one, call pvtree.train(params, train_set)."
            )
        self.params = dict(params or {})
        self.best_iteration = 0
        self.best_score: dict[str, dict[str, float]] = {}
        self.evals_result: dict[str, dict[str, list[float]]] = {}
        self.model_ = _read(model_file) if model_file is not None else _parsed(str(model_str))

    @classmethod
    def of(cls, estimator: Fitting, params: dict[str, Any] | None = None) -> Booster:
        """The model of a fitted estimator."""
        booster = cls.__new__(cls)
        booster.params = dict(params or {})
        booster.model_ = estimator.model_
        booster.best_iteration = estimator.best_iteration_
        booster.best_score = estimator.best_score_
        booster.evals_result = estimator.evals_result_
        return booster

    def predict(
        self,
        data: Any,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        raw_score: bool = False,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        num_threads: int | None = None,
        **others: Any,
    ) -> Any:
        """Values, or probabilities: (n,) of the second of two classes, (n, n_classes) of more.

        ``num_iteration`` of 0 or less are all, a ``start_iteration`` below 0 is 0. ``pred_leaf`` gives the number of
        each tree's leaf, ``pred_contrib`` SHAP values, which are sparse if the data is. LightGBM's other arguments are
        taken where they ask for what is done anyway.
        """
        check_others(others, OF_LIGHTGBM, Booster.predict)
        kind = {"raw_score": raw_score, "pred_leaf": pred_leaf, "pred_contrib": pred_contrib}
        return self._predict(self.model_, data, checked_range(start_iteration, num_iteration), num_threads, **kind)

    def _predict(
        self, model: Model, data: Any, iterations: Mapping[str, Any], num_threads: int | None = None, **kind: bool
    ) -> Any:
        from pvtree.objectives.losses import predictions

        X = model.encode(data.data if isinstance(data, Dataset) else data)

        def finish(raw: np.ndarray) -> np.ndarray:
            predicted = predictions(model.objective, raw)
            return predicted[:, 1] if model.objective == "binary" else predicted

        return predict_kind(model, X, {**iterations, "n_threads": n_threads(num_threads)}, finish, **kind)

    def save_model(
        self, filename: str | os.PathLike[str], num_iteration: int | None = None, start_iteration: int = 0
    ) -> Booster:
        """Write pvtree's model file, whatever the suffix; ``model_.export_lightgbm`` writes LightGBM's."""
        self._part(num_iteration, start_iteration).save(filename)
        return self

    def model_to_string(self, num_iteration: int | None = None, start_iteration: int = 0) -> str:
        return self._part(num_iteration, start_iteration).to_json()

    def dump_model(self, num_iteration: int | None = None, start_iteration: int = 0) -> dict[str, Any]:
        """What a model file holds."""
        parsed: dict[str, Any] = json.loads(self.model_to_string(num_iteration, start_iteration))
        return parsed

    def feature_importance(self, importance_type: str = "split", iteration: int | None = None) -> np.ndarray:
        """How often each feature splits, or the sum of its "gain"."""
        importance = self._part(iteration).feature_importance(importance_type)
        return importance.astype(np.int64) if importance_type == "split" else importance

    def feature_name(self) -> list[str]:
        return self.model_.column_names()

    def num_trees(self) -> int:
        return len(self.model_.trees)

    def num_feature(self) -> int:
        return self.model_.n_features

    def num_model_per_iteration(self) -> int:
        return self.model_.trees_per_iteration

    def current_iteration(self) -> int:
        return self.model_.n_iterations

    def _part(self, num_iteration: int | None = None, start_iteration: int = 0) -> Model:
        """The model with the trees of some iterations."""
        asked = checked_range(start_iteration, num_iteration)
        first, end = self.model_._tree_range(**asked)
        return replace(self.model_, trees=self.model_.trees[first:end], init_score=self.model_._base(asked["start"]))


def _read(path: str | os.PathLike[str]) -> Model:
    try:
        with open(path, "rb") as file:
            is_lightgbm = file.read(len(_LIGHTGBM_BEGINS)) == _LIGHTGBM_BEGINS.encode()
    except OSError:
        is_lightgbm = False  # Model.load says what is wrong with it
    return Model.from_lightgbm(path) if is_lightgbm else Model.load(path)


def _parsed(text: str) -> Model:
    from pvtree.model import import_lightgbm

    is_lightgbm = text.startswith(_LIGHTGBM_BEGINS)
    return import_lightgbm.parse_text(text, "this text") if is_lightgbm else Model.from_json(text)
