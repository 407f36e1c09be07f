"""train(params, train_set): choose the estimator that the parameters ask for, fit it, and return a Booster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, public
from pvtree.front.estimators import GBDTClassifier, GBDTRanker, GBDTRegressor
from pvtree.front.estimators.eval_arguments import ExactMetrics, listed_metrics
from pvtree.front.functional.booster import Booster
from pvtree.front.functional.dataset import Dataset
from pvtree.front.functional.dataset_columns import as_column
from pvtree.parameters.aliases import EVAL_AT, SYNONYMS, agree, ignored, objective_named, precedence, read_names
from pvtree.parameters.loss_table import LOSSES, losses_of
from pvtree.reading.dask_data import is_collection
from pvtree.training.callbacks import early_stopping


@dataclass(frozen=True)
class Family:
    """The estimator classes to choose from."""

    regressor: Callable[..., Any]
    classifier: Callable[..., Any]
    ranker: Callable[..., Any]
    own_objective: Callable[..., Any]
    eval_at: tuple[int, ...] = (1, 2, 3, 4, 5)  # the ranks of ndcg and map, if none are given

    def of(self, task: str, n_classes: int) -> Callable[..., Any]:
        if task in losses_of("relevance"):
            return self.ranker
        if task in losses_of("class") or n_classes > 2:
            return self.classifier
        return self.own_objective if task == "custom" else self.regressor


class OwnObjective(GBDTRegressor):
    """Trains a custom objective. The meaning of its scores is unknown, so every metric is allowed."""

    _metric_objective = "custom"


FAMILY = Family(GBDTRegressor, GBDTClassifier, GBDTRanker, OwnObjective)


@dataclass(frozen=True)
class ParsedParams:
    """What the parameters of a training ask for."""

    task: str  # "custom" if the objective is a function
    n_classes: int  # 0 if not given
    estimator: Any
    metrics: list[Any] | None  # None for the objective's default
    eval_at: Any
    stopping: dict[str, Any] = field(default_factory=dict)  # further arguments of early_stopping


def read_params(params: Mapping[str, Any], family: Family, **more: Any) -> ParsedParams:
    """Parse the parameters. ``more`` are parameters given as arguments of train; ``params`` take precedence."""
    left = dict(params)
    objective = _take(left, ("objective", *SYNONYMS["objective"].split()), None)
    n_classes = int(_take(left, ("num_class", "num_classes"), 0) or 0)
    metrics = _take(left, ("eval_metric", *SYNONYMS["eval_metric"].split()), None)
    top_k = _take(left, ("multi_error_top_k",), 1)
    eval_at = _take(left, EVAL_AT, family.eval_at)
    stopping = {
        "first_metric_only": bool(_take(left, ("first_metric_only",), False)),
        "min_delta": _take(left, ("early_stopping_min_delta",), 0.0),
    }
    _drop_zero_rounds(left)
    task = "custom" if callable(objective) else objective_named(objective or "regression", LOSSES)
    if task is None:
        raise InvalidParameterError(
            f"objective={objective!r} is unknown; use one of {', '.join(LOSSES)}, or pass a function."
        )
    kind = family.of(task, n_classes)
    read = read_names(left, kind._get_param_names(), "train", kind._anyway, objective)  # type: ignore[attr-defined]
    for sentence in [*read.ignored, *read.unknown]:
        warn_user(sentence)
    values = read.values
    given = {name: value for name, value in more.items() if value is not None and name not in values}
    chosen = of_functions(objective) if callable(objective) else objective
    made = kind(**values, **given, objective=chosen)
    listed = listed_metrics(metrics)
    if listed is not None and top_k != 1:
        at = {name: f"multi_error@{top_k}" for name in ("multi_error", "merror", "error")}
        listed = [at.get(each, each) if isinstance(each, str) else each for each in listed]
    return ParsedParams(task, n_classes, made, listed, eval_at, stopping)


@public
def train(
    params: Mapping[str, Any],
    train_set: Dataset,
    num_boost_round: int = 100,
    valid_sets: Any = None,
    valid_names: Any = None,
    feval: Any = None,
    init_model: Any = None,
    keep_training_booster: bool = False,
    callbacks: Any = None,
    *,
    evals: Sequence[tuple[Dataset, str]] | None = None,
    early_stopping_rounds: int | None = None,
    evals_result: dict[str, Any] | None = None,
    verbose_eval: bool | int = False,
    **where: Any,
) -> Booster:
    """Train a model and return it as a Booster.

    Parameters
    ----------
    params : mapping
        Parameters by LightGBM's, XGBoost's or pvtree's names. The objective may be a function,
        ``f(preds, train_set) -> (gradient, hessian)``.
    train_set : Dataset
        The rows to train on.
    num_boost_round : int, default=100
        The number of iterations. At least 1. ``params`` takes precedence.
    valid_sets, valid_names : list or None, default=None
        Sets to evaluate after each iteration, under the names ``valid_names``.
    feval : callable or list or None, default=None
        Custom metrics, ``feval(preds, dataset) -> (name, value, is_higher_better)``.
    init_model : Booster or path or None, default=None
        A model to continue from.
    keep_training_booster : bool, default=False
        Whether ``update`` may continue the training of the Booster, which keeps ``train_set`` and ``valid_sets`` then.
    callbacks : list or None, default=None
        Called after each iteration, or before it if ``before_iteration`` is set.
    evals : list of (Dataset, str) or None, default=None
        Sets and their names, in place of ``valid_sets`` and ``valid_names``.
    early_stopping_rounds : int or None, default=None
        Stop when no metric has improved for this many iterations. At least 1.
    evals_result : dict or None, default=None
        Filled with the metrics of every iteration.
    verbose_eval : bool or int, default=False
        Print metrics after every iteration; a number n prints them after every n-th.
    **where
        Arguments of ``fit`` about where to train: comm, client, timeout, checkpoint, checkpoint_freq.
    """
    check_rounds(num_boost_round)
    parsed = read_params(params, FAMILY, n_estimators=num_boost_round, early_stopping_rounds=early_stopping_rounds)
    if evals is not None:
        valid_sets, valid_names = [each for each, _ in evals], [name for _, name in evals]
    estimator = run(
        parsed, train_set, valid_sets, valid_names, feval, init_model=init_model, callbacks=callbacks,
        verbose=verbose_eval, **where,
    )  # fmt: skip
    if evals_result is not None:
        evals_result.clear()
        evals_result.update(estimator.evals_result_)
    booster = Booster.of(estimator, shown_params(params, train_set))
    if keep_training_booster:
        booster._keep_rows(train_set, _datasets(valid_sets), valid_names)
    return booster


def _class_labels(parsed: ParsedParams, label: Any, name: str) -> Any:
    """Labels of two classes as LightGBM reads them: above 0 is the second class."""
    if label is None or LOSSES.get(parsed.task) is None or parsed.task not in losses_of("class"):
        return label
    if LOSSES[parsed.task].n_outputs != 1 or is_collection(label):
        return label
    column: Any = as_column(label, np.float64, name)
    found = np.unique(column)
    if np.isin(found, (0, 1)).all() or not (found > 0).any() or (found > 0).all():
        return label
    warn_user(f"{name} has labels other than 0 and 1; those above 0 are taken as the second class.")
    return (column > 0).astype(np.int64)


def run(
    parsed: ParsedParams, train_set: Dataset, valid_sets: Any, valid_names: Any, feval: Any, **fit_arguments: Any
) -> Any:
    """Fit the estimator and return it."""
    sets = _datasets(valid_sets)
    rounds = getattr(parsed.estimator, "early_stopping_rounds", None)
    if rounds and any(parsed.stopping.values()):
        parsed.estimator.set_params(early_stopping_rounds=None)
        own = early_stopping(rounds, verbose=False, **parsed.stopping)
        fit_arguments["callbacks"] = [*(fit_arguments.get("callbacks") or []), own]
    if not isinstance(train_set, Dataset):
        raise InvalidTypeError(f"train() only accepts Dataset object, train_set has type '{type(train_set).__name__}'.")
    label, labels = train_set.label, [each.label for each in sets]
    if fit_arguments.get("comm") is None:  # under MPI a rank may lack some classes
        label = _class_labels(parsed, label, "train_set")
        labels = [
            label if each is train_set else _class_labels(parsed, each.label, f"valid_sets[{number}]")
            for number, each in enumerate(sets)
        ]
        _check_labels(parsed, label)
    names = [valid_names] if isinstance(valid_names, str) else valid_names
    _check_names(names)
    given: dict[str, Any] = {"sample_weight": train_set.weight, "verbose": False, **fit_arguments}
    if train_set.init_score is not None:
        given["init_score"] = train_set.init_score
    if not isinstance(train_set.given_names, str):
        given["feature_name"] = train_set.given_names
    if not isinstance(train_set.categorical_feature, str):
        given["categorical_feature"] = train_set.categorical_feature
    ranks = parsed.task in losses_of("relevance")
    if ranks:
        given |= {"group": train_set.group, "qid": train_set.qid, "eval_at": parsed.eval_at}
        given |= {} if train_set.position is None else {"position": train_set.position}
    if sets or parsed.metrics:
        given["eval_metric"] = ExactMetrics(_metrics(parsed, feval) or ())
    if sets:
        given["eval_set"] = [(each.data, its) for each, its in zip(sets, labels, strict=True)]
        given["eval_names"] = names or _names(sets, train_set)
        given["eval_sample_weight"] = _or_none([each.weight for each in sets])
        given["eval_init_score"] = _or_none([each.init_score for each in sets])
        if ranks:
            given["eval_qid"] = [each.query_ids() for each in sets]
    return parsed.estimator.fit(train_set.data, label, **given)


class SeenRows(Dataset):
    """What custom objectives and metrics see: labels and weights as training has them, in float64."""

    def get_label(self) -> Any:
        return self.label

    def get_weight(self) -> Any:
        return self.weight


def of_functions(objective: Callable[..., Any]) -> Callable[..., Any]:
    """Make an estimator's objective of f(preds, dataset), which applies the weights itself."""

    def gradients(y_true: np.ndarray, y_pred: np.ndarray, weight: np.ndarray | None = None) -> Any:
        return objective(y_pred, SeenRows(None, y_true, weight=weight))

    return gradients


def of_feval(feval: Callable[..., Any]) -> Callable[..., Any]:
    """Make an estimator's metric of f(preds, dataset). XGBoost's return pairs, for which lower is better."""

    def metric(y_true: np.ndarray, y_pred: np.ndarray, weight: Any = None, group: Any = None) -> Any:
        answer = feval(y_pred, SeenRows(None, y_true, weight=weight, group=group))
        triples = answer if isinstance(answer, list) else [answer]
        return [(*each, False) if isinstance(each, tuple) and len(each) == 2 else each for each in triples]

    return metric


def check_rounds(num_boost_round: Any) -> None:
    if isinstance(num_boost_round, int) and num_boost_round <= 0:
        raise InvalidParameterError(f"Number of boosting rounds must be greater than 0. Got {num_boost_round}.")


def _drop_zero_rounds(params: dict[str, Any]) -> None:
    """0 and less iterations without improvement turn early stopping off, as in LightGBM."""
    for name in ("early_stopping_rounds", *SYNONYMS["early_stopping_rounds"].split()):
        value = params.get(name)
        if isinstance(value, str):
            raise InvalidTypeError(f"{name} should be an integer. Got 'str'; pass a number of iterations.")
        if isinstance(value, int) and not isinstance(value, bool) and value <= 0:
            del params[name]


def listed_functions(feval: Any) -> list[Any]:
    """One metric or several, as a list."""
    if feval is None:
        return []
    return list(feval) if isinstance(feval, list | tuple) else [feval]


def _take(params: dict[str, Any], names: Sequence[str], default: Any) -> Any:
    """Remove a parameter from ``params``, whatever its name there; of several names the first by precedence counts."""
    given = {name: params.pop(name) for name in names if name in params}
    if not given:
        return default
    first = min(given, key=precedence)
    for name, value in given.items():
        if not agree(value, given[first]):
            warn_user(ignored(name, first))
    return given[first]


def _metrics(parsed: ParsedParams, feval: Any) -> list[Any] | None:
    own = [of_feval(each) for each in listed_functions(feval)]
    named = parsed.metrics
    if named is None:
        named = [] if parsed.task == "custom" else [LOSSES[parsed.task].metric]
    return [*named, *own]


def _datasets(valid_sets: Any) -> list[Dataset]:
    sets = [valid_sets] if isinstance(valid_sets, Dataset) else list(valid_sets or [])
    for number, each in enumerate(sets):
        if not isinstance(each, Dataset):
            raise InvalidTypeError(
                f"Every item in valid_sets must be a Dataset object. Item {number} has type '{type(each).__name__}'."
            )
    return sets


def _check_names(names: Any) -> None:
    for number, name in enumerate(names or []):
        if not isinstance(name, str):
            raise InvalidTypeError(
                f"Every item in valid_names must be a string. Item {number} has type '{type(name).__name__}'."
            )


def _names(sets: Sequence[Dataset], train_set: Dataset) -> list[str]:
    return ["training" if each is train_set else f"valid_{i}" for i, each in enumerate(sets)]


def shown_params(params: Mapping[str, Any], train_set: Dataset) -> dict[str, Any]:
    """``params`` of the finished Booster, as LightGBM shows them: with the Dataset's, and no function as objective."""
    shown = {**train_set.get_params(), **params}
    for name in ("objective", *SYNONYMS["objective"].split()):
        if callable(shown.get(name)):
            del shown[name]
            shown["objective"] = "none"
    for name in ("early_stopping_rounds", *SYNONYMS["early_stopping_rounds"].split()):
        if name in shown and shown[name] is None:
            del shown[name]
    return shown


def _or_none(values: list[Any]) -> list[Any] | None:
    return values if any(value is not None for value in values) else None


def _check_labels(parsed: ParsedParams, label: Any) -> None:
    """Raise unless the classes are numbers from 0: a Booster cannot return other labels."""
    if parsed.task not in losses_of("class") or label is None or is_collection(label):
        return
    n_classes = 2 if LOSSES[parsed.task].n_outputs == 1 else parsed.n_classes
    if n_classes < 2:
        raise InvalidParameterError(
            "Number of classes should be specified and greater than 1 for multiclass training; set num_class in params."
        )
    column: Any = as_column(label, np.float64, "label")
    found = np.unique(column)
    if not np.isin(found, np.arange(n_classes)).all():
        raise InvalidDataError(f"Labels must be the classes 0 to {n_classes - 1}; got {_shown(found)}.")
    if len(found) < n_classes:  # classes that do not occur get scores too
        parsed.estimator._known_classes = np.arange(n_classes)


def _shown(found: np.ndarray) -> str:
    return ", ".join(map(str, found[:5])) + (", ..." if len(found) > 5 else "")
