"""XGBoost's train, DMatrix and Booster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pvtree.as_xgboost.estimators import OwnObjective, XGBClassifier, XGBRanker, XGBRegressor
from pvtree.as_xgboost.results import best_iteration, last_score, renamed, trees_of
from pvtree.errors import InvalidParameterError
from pvtree.front.functional import Booster as LightGBMBooster
from pvtree.front.functional import Dataset
from pvtree.front.functional.predict_arguments import OF_XGBOOST, check_others
from pvtree.front.functional.training import Family, read_params, run
from pvtree.model.predict_options import PredictOptions
from pvtree.reading.tables import as_dense


class DMatrix(Dataset):
    """``Dataset`` with XGBoost's arguments.

    Parameters
    ----------
    data, label, weight, group, qid
        As in ``Dataset``.
    base_margin : None
        Not supported.
    feature_names : list of str or None, default=None
        Names of the columns.
    enable_categorical : bool, default=False
        No effect: categories are always supported.
    nthread : int or None, default=None
        No effect.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        feature_names: Any = None,
        group: Any = None,
        qid: Any = None,
        enable_categorical: bool = False,
        nthread: int | None = None,
    ) -> None:
        names = "auto" if feature_names is None else feature_names
        super().__init__(data, label, None, weight, group, base_margin, names, qid=qid)

    def num_row(self) -> int:
        return self.num_data()

    def num_col(self) -> int:
        return self.num_feature()


class Booster(LightGBMBooster):
    """A trained model with the methods of XGBoost's Booster; the best iteration counts from 0."""

    def predict(  # type: ignore[override]
        self,
        data: Any,
        output_margin: bool = False,
        pred_leaf: bool = False,
        pred_contribs: bool = False,
        iteration_range: tuple[int, int] = (0, 0),
        **others: Any,
    ) -> np.ndarray:
        """Predict values, probabilities or, with the objective multi:softmax, classes.

        Parameters
        ----------
        data : DMatrix or any X that estimators accept
            The rows to predict.
        output_margin : bool, default=False
            Predict raw scores.
        pred_leaf : bool, default=False
            Predict the number of the row's leaf in each tree.
        pred_contribs : bool, default=False
            Predict SHAP values.
        iteration_range : (int, int), default=(0, 0)
            The first iteration to use and the one to stop before; (0, 0) for all.
        **others
            XGBoost's other arguments, if they ask for what pvtree does anyway.
        """
        check_others(others, OF_XGBOOST, Booster.predict)
        kind = {"raw_score": output_margin, "pred_leaf": pred_leaf, "pred_contrib": pred_contribs}
        predicted = as_dense(self._predict(trees_of(self.model_, *iteration_range), data, {}, PredictOptions(), **kind))
        gives_classes = self.params.get("objective") == "multi:softmax"
        if gives_classes and not (output_margin or pred_leaf or pred_contribs):
            return predicted.argmax(axis=1).astype(np.float32)
        return predicted

    def get_score(self, fmap: str = "", importance_type: str = "weight") -> dict[str, float]:
        """The importance of each feature that splits, by name.

        ``importance_type`` is "weight" (the number of splits), "gain" (their mean gain) or "total_gain".
        """
        names = self.model_.feature_names or [f"f{j}" for j in range(self.model_.n_features)]
        splits, gains = (self.model_.feature_importance(kind) for kind in ("split", "gain"))
        kinds = {"weight": splits, "gain": gains / np.maximum(splits, 1), "total_gain": gains}
        if importance_type not in kinds:
            raise InvalidParameterError(
                f"importance_type={importance_type!r} is unknown; use one of {', '.join(map(repr, kinds))}."
            )
        return {names[j]: float(kinds[importance_type][j]) for j in np.flatnonzero(splits)}


def train(
    params: Mapping[str, Any],
    dtrain: Dataset,
    num_boost_round: int = 10,
    evals: Sequence[tuple[Dataset, str]] | None = None,
    obj: Any = None,
    *,
    early_stopping_rounds: int | None = None,
    evals_result: dict[str, Any] | None = None,
    verbose_eval: bool | int = False,
    xgb_model: Any = None,
    callbacks: Any = None,
    custom_metric: Any = None,
    **where: Any,
) -> Booster:
    """Train a model with XGBoost's arguments and return it as a Booster.

    Parameters
    ----------
    params : mapping
        Parameters by XGBoost's, LightGBM's or pvtree's names.
    dtrain : DMatrix
        The rows to train on.
    num_boost_round : int, default=10
        The number of iterations. At least 1.
    evals : list of (DMatrix, str) or None, default=None
        Sets to evaluate after each iteration, with their names.
    obj : callable or None, default=None
        A custom objective, ``obj(preds, dtrain) -> (gradient, hessian)``.
    early_stopping_rounds : int or None, default=None
        Stop when the last metric of the last set has not improved for this many iterations. At least 1.
    evals_result : dict or None, default=None
        Filled with the metrics of every iteration.
    verbose_eval : bool or int, default=False
        Print metrics after every iteration, or after every so many. Unlike XGBoost, False is the default.
    xgb_model : Booster, Model or path or None, default=None
        A model to continue from.
    callbacks : list or None, default=None
        Callbacks, as in ``pvtree.train``.
    custom_metric : callable or None, default=None
        A custom metric, ``custom_metric(preds, dataset) -> (name, value)``; lower is better.
    **where
        Arguments of ``fit`` about where to train: comm, client, timeout, checkpoint, checkpoint_freq.
    """
    values = dict(params) if obj is None else {**params, "objective": obj}
    parsed = read_params(
        values, Family(XGBRegressor, XGBClassifier, XGBRanker, OwnObjective), n_estimators=num_boost_round,
        early_stopping_rounds=early_stopping_rounds,
    )  # fmt: skip
    if parsed.metrics is None and parsed.task == "regression":
        parsed = replace(parsed, metrics=[XGBRegressor._default_metric])
    sets, names = [each for each, _ in evals or []], [name for _, name in evals or []]
    estimator = run(
        parsed, dtrain, sets, names, custom_metric, xgb_model=xgb_model, callbacks=callbacks, verbose=verbose_eval,
        **where,
    )  # fmt: skip
    if evals_result is not None:
        evals_result.clear()
        evals_result.update(renamed(estimator.evals_result_))
    booster = Booster.of(estimator, values)
    if booster.best_iteration:
        booster.best_iteration = best_iteration(booster.best_iteration)
        booster.best_score = last_score(booster.best_score)  # type: ignore[assignment]
    return booster  # type: ignore[return-value]
