"""train(params, train_set): which estimator the parameters ask for, fitted, and its model as a Booster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, public
from pvtree.front.estimators import GBDTClassifier, GBDTRanker, GBDTRegressor
from pvtree.front.estimators.eval_arguments import listed_metrics
from pvtree.front.functional.booster import Booster
from pvtree.front.functional.dataset import Dataset
from pvtree.parameters.aliases import SYNONYMS, objective_named, right_names
from pvtree.reading.dask_data import is_collection

TASKS = ("regression", "binary", "multiclass", "lambdarank")
_EVAL_AT = ("eval_at", "ndcg_eval_at", "ndcg_at", "map_eval_at", "map_at")


@dataclass(frozen=True)
class Family:
    """The estimators that train."""

    regressor: Callable[..., Any]
    classifier: Callable[..., Any]
    ranker: Callable[..., Any]
    own_objective: Callable[..., Any]

    def of(self, task: str, n_classes: int) -> Callable[..., Any]:
        if task == "lambdarank":
            return self.ranker
        if task in ("binary", "multiclass") or n_classes > 2:
            return self.classifier
        return self.own_objective if task == "custom" else self.regressor


class OwnObjective(GBDTRegressor):
    """For an objective that says nothing about what its scores mean: every metric may be asked for."""

    _metric_objective = "custom"


FAMILY = Family(GBDTRegressor, GBDTClassifier, GBDTRanker, OwnObjective)


@dataclass(frozen=True)
class Asked:
    """What the parameters of a training ask for."""

    task: str  # "custom" for a function
    n_classes: int  # 0 if not said
    estimator: Any
    metrics: list[Any] | None  # None: the objective's own
    eval_at: Any


def read_params(params: Mapping[str, Any], family: Family, **more: Any) -> Asked:
    """``more`` are arguments of train that are parameters of estimators: parameters win, as in LightGBM."""
    left = dict(params)
    objective = _take(left, ("objective", *SYNONYMS["objective"].split()), None)
    n_classes = int(_take(left, ("num_class", "num_classes"), 0) or 0)
    metrics = _take(left, ("eval_metric", *SYNONYMS["eval_metric"].split()), None)
    eval_at = _take(left, _EVAL_AT, (1, 2, 3, 4, 5))
    task = "custom" if callable(objective) else objective_named(objective or "regression", TASKS)
    if task is None:
        raise InvalidParameterError(
            f"objective={objective!r} is unknown: choose {', '.join(TASKS)} or give a function."
        )
    kind = family.of(task, n_classes)
    values = right_names(left, kind._get_param_names(), "train", kind._anyway)  # type: ignore[attr-defined]
    given = {name: value for name, value in more.items() if value is not None and name not in values}
    chosen = of_functions(objective) if callable(objective) else objective
    return Asked(task, n_classes, kind(**values, **given, objective=chosen), listed_metrics(metrics), eval_at)


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
    """Train a model with parameters under LightGBM's, XGBoost's or our names.

    ``valid_sets`` (with ``valid_names``) or ``evals``, pairs of a set and its name, are evaluated after each iteration;
    ``feval(preds, dataset) -> (name, value, is_higher_better)`` is a metric of the user's own, and a function as
    objective is called ``f(preds, train_set) -> (gradient, hessian)``. ``where`` are fit's arguments about where to
    train: comm, client, timeout, checkpoint, checkpoint_freq.
    """
    asked = read_params(params, FAMILY, n_estimators=num_boost_round, early_stopping_rounds=early_stopping_rounds)
    if evals is not None:
        valid_sets, valid_names = [each for each, _ in evals], [name for _, name in evals]
    estimator = run(
        asked, train_set, valid_sets, valid_names, feval, init_model=init_model, callbacks=callbacks,
        verbose=verbose_eval, **where,
    )  # fmt: skip
    if evals_result is not None:
        evals_result.clear()
        evals_result.update(estimator.evals_result_)
    return Booster.of(estimator, dict(params))


def run(asked: Asked, train_set: Dataset, valid_sets: Any, valid_names: Any, feval: Any, **fit_arguments: Any) -> Any:
    """The estimator, fitted."""
    sets = _datasets(valid_sets)
    if fit_arguments.get("comm") is None:  # a rank may lack some classes
        _check_labels(asked, train_set)
    names = [valid_names] if isinstance(valid_names, str) else valid_names
    given: dict[str, Any] = {"sample_weight": train_set.weight, **fit_arguments}
    if not isinstance(train_set.feature_name, str):
        given["feature_name"] = train_set.feature_name
    if not isinstance(train_set.categorical_feature, str):
        given["categorical_feature"] = train_set.categorical_feature
    if asked.task == "lambdarank":
        given |= {"group": train_set.group, "qid": train_set.qid, "eval_at": asked.eval_at}
    if sets or asked.metrics:
        given["eval_metric"] = _metrics(asked, feval)
    if sets:
        given["eval_set"] = [(each.data, each.label) for each in sets]
        given["eval_names"] = names or _names(sets, train_set)
        given["eval_sample_weight"] = _or_none([each.weight for each in sets])
        if asked.task == "lambdarank":
            given["eval_qid"] = [each.query_ids() for each in sets]
    return asked.estimator.fit(train_set.data, train_set.label, **given)


def of_functions(objective: Callable[..., Any]) -> Callable[..., Any]:
    """An estimator's objective out of f(preds, dataset), which applies weights itself."""

    def gradients(y_true: np.ndarray, y_pred: np.ndarray, weight: np.ndarray | None = None) -> Any:
        return objective(y_pred, Dataset(None, y_true, weight=weight))

    return gradients


def of_feval(feval: Callable[..., Any]) -> Callable[..., Any]:
    """An estimator's metric out of f(preds, dataset); XGBoost's have no third value, and lower is better."""

    def metric(y_true: np.ndarray, y_pred: np.ndarray, weight: Any = None, group: Any = None) -> Any:
        answer = feval(y_pred, Dataset(None, y_true, weight=weight, group=group))
        triples = answer if isinstance(answer, list) else [answer]
        return [(*each, False) if isinstance(each, tuple) and len(each) == 2 else each for each in triples]

    return metric


def _take(params: dict[str, Any], names: Sequence[str], default: Any) -> Any:
    found = [name for name in names if name in params]
    if len(found) > 1:
        raise InvalidParameterError(f"{found[0]} and {found[1]} are two names of one parameter; give one of them.")
    return params.pop(found[0]) if found else default


def _metrics(asked: Asked, feval: Any) -> list[Any] | None:
    from pvtree.objectives.metrics import DEFAULTS

    own = [] if feval is None else [of_feval(each) for each in (feval if isinstance(feval, list | tuple) else [feval])]
    named = asked.metrics
    if named is None:
        named = [] if asked.task == "custom" else ["ndcg" if asked.task == "lambdarank" else DEFAULTS[asked.task]]
    if not named and not own:
        raise InvalidParameterError("There is no metric for the evaluation sets; give metric in params, or feval.")
    return [*named, *own]


def _datasets(valid_sets: Any) -> list[Dataset]:
    sets = [valid_sets] if isinstance(valid_sets, Dataset) else list(valid_sets or [])
    if not all(isinstance(each, Dataset) for each in sets):
        raise InvalidTypeError("valid_sets must be a Dataset or a list of Datasets.")
    return sets


def _names(sets: Sequence[Dataset], train_set: Dataset) -> list[str]:
    return ["training" if each is train_set else f"valid_{i}" for i, each in enumerate(sets)]


def _or_none(values: list[Any]) -> list[Any] | None:
    return values if any(value is not None for value in values) else None


def _check_labels(asked: Asked, train_set: Dataset) -> None:
    """Classes are numbers from 0: a Booster has no way to give other labels back."""
    if not isinstance(train_set, Dataset):
        raise InvalidTypeError(f"train_set must be a Dataset, got {type(train_set).__name__}.")
    if asked.task not in ("binary", "multiclass") or train_set.label is None or is_collection(train_set.label):
        return
    n_classes = 2 if asked.task == "binary" else asked.n_classes
    if asked.task == "multiclass" and n_classes < 2:
        raise InvalidParameterError("objective='multiclass' needs the number of classes; give num_class in params.")
    found = np.unique(np.asarray(train_set.label))
    if not np.array_equal(found, np.arange(n_classes)):
        raise InvalidDataError(
            f"Labels must be the classes 0 to {n_classes - 1}, each of which occurs, got {_shown(found)}."
        )


def _shown(found: np.ndarray) -> str:
    return ", ".join(map(str, found[:5])) + (", ..." if len(found) > 5 else "")
