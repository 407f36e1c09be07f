"""XGBoost's train and cv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pvtree.as_xgboost.booster import Booster
from pvtree.as_xgboost.callback import (
    EarlyStopping,
    EvaluationMonitor,
    LearningRateScheduler,
    TrainingCallback,
    adapted,
)
from pvtree.as_xgboost.estimators import XGBRegressor
from pvtree.as_xgboost.family import FAMILY, numbers_of, warn_of_method
from pvtree.as_xgboost.matrix import DMatrix
from pvtree.as_xgboost.results import best_iteration, last_score, names_of, renamed
from pvtree.errors import InvalidParameterError
from pvtree.front.functional import Dataset
from pvtree.front.functional.booster_steps import empty_model
from pvtree.front.functional.cross_validation import make_folds, mean_of_folds, run_callbacks, train_fold
from pvtree.front.functional.training import read_params, run


def train(
    params: Mapping[str, Any],
    dtrain: Dataset,
    num_boost_round: int = 10,
    evals: Sequence[tuple[Dataset, str]] | None = None,
    obj: Any = None,
    *,
    early_stopping_rounds: int | None = None,
    evals_result: dict[str, Any] | None = None,
    verbose_eval: bool | int | None = True,
    xgb_model: Any = None,
    callbacks: Any = None,
    custom_metric: Any = None,
    feval: Any = None,
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
    verbose_eval : bool, int or None, default=True
        Print the metrics of ``evals`` after every iteration; a number n prints them after every n-th.
    xgb_model : Booster, Model, path, bytes or None, default=None
        A model to continue from; bytes are those of ``Booster.save_raw``.
    callbacks : list or None, default=None
        Objects of ``as_xgboost.callback``, or callbacks as in ``pvtree.train``.
    custom_metric : callable or None, default=None
        A custom metric, ``custom_metric(preds, dataset) -> (name, value)``; lower is better.
    feval : callable or None, default=None
        The older name of ``custom_metric``.
    **where
        Arguments of ``fit`` about where to train: comm, client, timeout, checkpoint, checkpoint_freq.
    """
    values = numbers_of(params) if obj is None else {**numbers_of(params), "objective": obj}
    warn_of_method(values)
    if num_boost_round == 0 and xgb_model is None:
        empty = Booster(values)
        empty.model_ = empty_model({"objective": "regression", **values}, dtrain, FAMILY)
        return empty
    parsed = read_params(values, FAMILY, n_estimators=num_boost_round, early_stopping_rounds=early_stopping_rounds)
    _check_draws(dtrain, parsed.estimator)
    if isinstance(xgb_model, bytes | bytearray):
        xgb_model = Booster(model_file=xgb_model)
    if parsed.metrics is None and parsed.task == "regression":
        parsed = replace(parsed, metrics=[XGBRegressor._default_metric])
    if verbose_eval and evals:
        callbacks = [*(callbacks or []), EvaluationMonitor(period=1 if verbose_eval is True else int(verbose_eval))]
    sets, names = [each for each, _ in evals or []], [name for _, name in evals or []]
    theirs = [each for each in callbacks or [] if isinstance(each, TrainingCallback)]
    for each in theirs:
        each.before_training(Booster(values))
    scale = parsed.estimator._hessian_scale(parsed.n_classes)
    attributes: dict[str, str] = {}  # what callbacks set stays with the model
    estimator = run(
        parsed, dtrain, sets, names, feval if custom_metric is None else custom_metric, xgb_model=xgb_model,
        callbacks=adapted(callbacks, scale, partial(Booster._with_model, attributes=attributes)), **where,
    )  # fmt: skip
    if evals_result is not None:
        evals_result.clear()
        evals_result.update(renamed(estimator.evals_result_, values.get("eval_metric")))
    booster = Booster.of(estimator, values)
    booster._attributes, booster.feature_types = attributes, getattr(dtrain, "feature_types", None)
    if estimator.best_iteration_:
        booster.best_iteration = best_iteration(estimator.best_iteration_)
        booster.best_score = last_score(estimator.best_score_)  # type: ignore[assignment]
    for each in theirs:
        booster = each.after_training(booster)
    return booster


def _check_draws(rows: Dataset, estimator: Any) -> None:
    """Raise if columns are drawn and have chances of their own."""
    drawn = [
        name
        for name in ("colsample_bytree", "colsample_bylevel", "colsample_bynode")
        if getattr(estimator, name) not in (None, 1)
    ]
    if drawn and getattr(rows, "feature_weights", None) is not None:
        raise InvalidParameterError(f"feature_weights are not supported with {drawn[0]}; leave out one of them.")


def _rows_of(rows: Dataset, numbers: Any) -> Dataset:
    return rows.slice(numbers, allow_groups=True) if isinstance(rows, DMatrix) else rows.subset(numbers)


class Fold(NamedTuple):
    """The rows of one fold."""

    dtrain: Dataset
    dtest: Dataset


class Folds(NamedTuple):
    """What callbacks see as the model of a cross-validation."""

    cvfolds: list[Fold]


def cv(
    params: Mapping[str, Any],
    dtrain: Dataset,
    num_boost_round: int = 10,
    nfold: int = 3,
    stratified: bool = False,
    folds: Any = None,
    metrics: Any = (),
    obj: Any = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    fpreproc: Any = None,
    as_pandas: bool = True,
    verbose_eval: Any = None,
    show_stdv: bool = True,
    seed: int = 0,
    callbacks: Any = None,
    shuffle: bool = True,
    custom_metric: Any = None,
) -> Any:
    """Cross-validate with XGBoost's arguments.

    Parameters
    ----------
    params : mapping
        Parameters by XGBoost's, LightGBM's or pvtree's names.
    dtrain : DMatrix
        The rows of all folds.
    num_boost_round : int, default=10
        The number of iterations. At least 1.
    nfold, stratified, folds, shuffle, seed
        How to make folds, as in ``pvtree.cv``.
    metrics : str or list, default=()
        Metrics in place of those of ``params``.
    obj : callable or None, default=None
        A custom objective, ``obj(preds, dtrain) -> (gradient, hessian)``.
    maximize : bool or None, default=None
        Whether a higher value of the watched metric is better; None for its own direction.
    early_stopping_rounds : int or None, default=None
        Stop when the last metric of the held-out rows has not improved for this many iterations. At least 1.
    fpreproc : callable or None, default=None
        Called for each fold, ``fpreproc(dtrain, dtest, params) -> (dtrain, dtest, params)``.
    as_pandas : bool, default=True
        Return a DataFrame instead of a dictionary.
    verbose_eval : bool, int or None, default=None
        Print the means after every iteration, or after every so many.
    show_stdv : bool, default=True
        Whether to print standard deviations too.
    callbacks : list or None, default=None
        Objects of ``as_xgboost.callback``; they see the means.
    custom_metric : callable or None, default=None
        As in ``train``.

    Returns
    -------
    DataFrame or dict
        The columns train-rmse-mean, train-rmse-std, test-rmse-mean, test-rmse-std and so on, a row per iteration.
    """
    values = numbers_of(params) if obj is None else {**numbers_of(params), "objective": obj}
    asked = [metrics] if isinstance(metrics, str) else list(metrics or ())
    if asked:
        values = {name: value for name, value in values.items() if name not in ("eval_metric", "metric")}
        values["eval_metric"] = asked
    parsed = read_params(values, FAMILY, n_estimators=num_boost_round)
    schedulers = [each for each in callbacks or [] if isinstance(each, LearningRateScheduler)]
    watching = [each for each in callbacks or [] if each not in schedulers]
    in_folds = [each for each in adapted(watching, 1.0, Booster._with_model) if each.before_iteration]
    in_folds += adapted(schedulers, parsed.estimator._hessian_scale(parsed.n_classes), Booster._with_model)
    histories, parts = [], []
    for chosen, held in make_folds(parsed, dtrain, folds, nfold, stratified, shuffle, seed):
        train_part, valid_part, own = _rows_of(dtrain, chosen), _rows_of(dtrain, held), values
        if fpreproc is not None:
            train_part, valid_part, own = fpreproc(train_part, valid_part, dict(values))
        fold = read_params(own, FAMILY, n_estimators=num_boost_round)
        if fold.metrics is None and fold.task == "regression":
            fold = replace(fold, metrics=[XGBRegressor._default_metric])
        _, history = train_fold(fold, train_part, valid_part, custom_metric, None, in_folds, True)
        histories.append(history)
        parts.append(Fold(train_part, valid_part))
    means = [mean_of_folds(results) for results in zip(*histories, strict=True)]
    means = [[("test" if row[0] == "valid" else row[0], *row[1:]) for row in rows] for rows in means]
    if early_stopping_rounds:
        watching.append(EarlyStopping(rounds=early_stopping_rounds, data_name="test", maximize=maximize))
    if verbose_eval:
        watching.append(EvaluationMonitor(period=int(verbose_eval), show_stdv=show_stdv))
    ours = [each for each in adapted(watching, 1.0, Booster._with_model) if not each.before_iteration]
    n_kept, _ = run_callbacks(sorted(ours, key=lambda each: each.order), means, Folds(parts))
    for each in watching:
        if isinstance(each, TrainingCallback):
            each.after_training(None)
    table: dict[str, list[float]] = {}
    names = names_of(values.get("eval_metric"))
    for rows in means[:n_kept]:
        for name, metric, mean, _, deviation in rows:
            theirs = names.get(metric, metric)
            table.setdefault(f"{name}-{theirs}-mean", []).append(mean)
            table.setdefault(f"{name}-{theirs}-std", []).append(deviation)
    if not as_pandas:
        return table
    import pandas as pd

    return pd.DataFrame(table)
