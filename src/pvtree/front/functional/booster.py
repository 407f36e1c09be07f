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
from pvtree.model.model import Model
from pvtree.model.predict_options import PredictOptions, further_names
from pvtree.model.prediction_kinds import checked_range, finished, predict_kind
from pvtree.parameters.params import n_threads

if TYPE_CHECKING:
    from pvtree.front.estimators.fit import Fitting

_LIGHTGBM_BEGINS = "tree"  # the first line of LightGBM's text models


@public
class Booster:
    """A trained model, from ``train`` or from a file.

    A training that stops early keeps only the trees up to ``best_iteration``, so predictions need no
    ``num_iteration``.

    Parameters
    ----------
    params : dict or None, default=None
        Kept as the attribute ``params``.
    train_set : None
        Not supported; call ``pvtree.train`` to train a booster.
    model_file : path or None, default=None
        A model file of pvtree, or a text model of LightGBM.
    model_str : str or None, default=None
        The content of such a file. Exactly one of ``model_file`` and ``model_str`` must be given.

    Attributes
    ----------
    model_ : Model
        The model.
    best_iteration : int
        The number of iterations kept by early stopping; 0 without it.
    best_score : dict
        The metrics at the best iteration, by evaluation set.
    evals_result : dict
        The metrics of every iteration, by evaluation set.
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
                "Booster needs either model_file or model_str; to train one, call pvtree.train(params, train_set)."
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
        validate_features: bool | None = None,
        **others: Any,
    ) -> Any:
        """Predict values, or probabilities: (n,) of the second of two classes, (n, n_classes) of more.

        Parameters
        ----------
        data : array-like, table or Dataset
            The rows: any X that estimators accept.
        start_iteration : int, default=0
            The first iteration to use. Below 0 is 0.
        num_iteration : int or None, default=None
            How many iterations to use. None, 0 or less for all.
        raw_score : bool, default=False
            Predict raw scores.
        pred_leaf : bool, default=False
            Predict the number of the row's leaf in each tree.
        pred_contrib : bool, default=False
            Predict SHAP values, sparse if the data is sparse.
        validate_features : bool or None, default=None
            Whether the names of the columns must be the model's. False takes the columns by position.
        **others
            ``num_threads``; ``pred_early_stop``, ``pred_early_stop_freq`` and ``pred_early_stop_margin``;
            ``predict_disable_shape_check``, as in LightGBM.
        """
        options = PredictOptions.of(
            {**others, "validate_features": validate_features}, "Booster", further_names(Booster.predict)
        )
        kind = {"raw_score": raw_score, "pred_leaf": pred_leaf, "pred_contrib": pred_contrib}
        return self._predict(self.model_, data, checked_range(start_iteration, num_iteration), options, **kind)

    def _predict(
        self, model: Model, data: Any, iterations: Mapping[str, Any], options: PredictOptions, **kind: bool
    ) -> Any:
        X = options.read(data.data if isinstance(data, Dataset) else data, model.columns, "The model")

        which = {**iterations, "n_threads": n_threads(options.num_threads or None)}
        return predict_kind(model, X, which, finished(model), options=options, **kind)

    def save_model(
        self, filename: str | os.PathLike[str], num_iteration: int | None = None, start_iteration: int = 0
    ) -> Booster:
        """Write a model file of pvtree, whatever the suffix; ``model_.export_lightgbm`` writes LightGBM's format."""
        self._trees_of(num_iteration, start_iteration).save(filename)
        return self

    def model_to_string(self, num_iteration: int | None = None, start_iteration: int = 0) -> str:
        """The text of a model file of pvtree."""
        return self._trees_of(num_iteration, start_iteration).to_json()

    def dump_model(self, num_iteration: int | None = None, start_iteration: int = 0) -> dict[str, Any]:
        """The content of a model file of pvtree as a dictionary."""
        parsed: dict[str, Any] = json.loads(self.model_to_string(num_iteration, start_iteration))
        return parsed

    def feature_importance(self, importance_type: str = "split", iteration: int | None = None) -> np.ndarray:
        """The number of splits per feature ("split"), or their total gain ("gain")."""
        importance = self._trees_of(iteration).feature_importance(importance_type)
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

    def _trees_of(self, num_iteration: int | None = None, start_iteration: int = 0) -> Model:
        """The model with the trees of some iterations only."""
        asked = checked_range(start_iteration, num_iteration)
        first, end = self.model_._tree_range(**asked)
        return replace(self.model_, trees=self.model_.trees[first:end], init_score=self.model_._base(asked["start"]))


def _read(path: str | os.PathLike[str]) -> Model:
    try:
        with open(path, "rb") as file:
            is_lightgbm = file.read(len(_LIGHTGBM_BEGINS)) == _LIGHTGBM_BEGINS.encode()
    except OSError:
        is_lightgbm = False  # Model.load reports what is wrong
    return Model.from_lightgbm(path) if is_lightgbm else Model.load(path)


def _parsed(text: str) -> Model:
    from pvtree.model import import_lightgbm

    is_lightgbm = text.startswith(_LIGHTGBM_BEGINS)
    return import_lightgbm.parse_text(text, "this text") if is_lightgbm else Model.from_json(text)
