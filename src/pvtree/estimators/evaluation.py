"""The evaluation arguments of fit -> the sets and metrics that the trainer reports after every iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree import inputs, targets
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError
from pvtree.params import integer

if TYPE_CHECKING:
    from pvtree.metrics import CustomMetric, Metric
    from pvtree.watching import EvalSet


@dataclass(frozen=True)
class Evaluation:
    """What the user passed to fit, each a list with one entry per evaluation set."""

    eval_set: Any = None
    eval_names: Any = None
    eval_sample_weight: Any = None
    eval_group: Any = None
    eval_qid: Any = None
    eval_metric: Any = None
    eval_at: Any = ()


def read_eval_sets(
    evaluation: Evaluation,
    train_data: tuple[Any, Any],
    columns: inputs.Columns,
    read_target: Callable[[Any, int, str], np.ndarray],
) -> list[EvalSet]:
    from pvtree.watching import EvalSet

    pairs = _pairs(evaluation.eval_set)
    names = _names(evaluation.eval_names, pairs, train_data)
    weights = _one_each(evaluation.eval_sample_weight, len(pairs), "eval_sample_weight")
    groups = _one_each(evaluation.eval_group, len(pairs), "eval_group")
    qids = _one_each(evaluation.eval_qid, len(pairs), "eval_qid")
    sets = []
    for i, (X, y) in enumerate(pairs):
        matrix = inputs.read_like(X, columns, "the model")
        n_rows = len(matrix)
        target = read_target(y, n_rows, f"y of eval_set {i}")
        weight = targets.read_weight(weights[i], n_rows, f"eval_sample_weight of eval_set {i}")
        group = targets.read_group(groups[i], qids[i], n_rows, "eval_")
        sets.append(EvalSet(names[i], matrix, target, weight, group))
    return sets


def read_metrics(evaluation: Evaluation, objective: str) -> list[Metric | CustomMetric]:
    """The metrics asked for, else the objective's own; a ranker's "ndcg" becomes one metric per eval_at."""
    from pvtree.metrics import CustomMetric, default_metric, get_metric

    asked = evaluation.eval_metric
    if asked is None:
        asked = "ndcg" if objective == "lambdarank" else default_metric(objective)
    asked = [asked] if isinstance(asked, str) or callable(asked) else asked
    if not isinstance(asked, list | tuple) or not all(isinstance(m, str) or callable(m) for m in asked):
        given = repr(evaluation.eval_metric)
        raise InvalidTypeError(f"eval_metric must be a metric's name, a function or a list of these, got {given}.")
    names = [name for name in asked if isinstance(name, str)]
    if objective == "lambdarank" and "ndcg" in names:
        at = names.index("ndcg")
        names[at : at + 1] = [f"ndcg@{rank}" for rank in _ranks(evaluation.eval_at)]
    named = {metric.name: metric for metric in (get_metric(name, objective) for name in names)}
    return [*named.values(), *(CustomMetric(function, objective) for function in asked if callable(function))]


def _ranks(eval_at: Any) -> list[int]:
    ranks = list(eval_at) if isinstance(eval_at, list | tuple | np.ndarray) else [eval_at]
    if not ranks:
        raise InvalidParameterError("eval_at must hold at least one rank, such as eval_at=[10].")
    for rank in ranks:
        integer("", 1).check("eval_at", rank)
    return ranks


def _pairs(eval_set: Any) -> list[tuple[Any, Any]]:
    if eval_set is None:
        return []
    if isinstance(eval_set, tuple) and len(eval_set) == 2 and not isinstance(eval_set[0], tuple):
        eval_set = [eval_set]  # one pair, as it is often written
    if not isinstance(eval_set, list | tuple) or not all(isinstance(p, list | tuple) and len(p) == 2 for p in eval_set):
        raise InvalidTypeError("eval_set must be a list of pairs (X, y), such as eval_set=[(X_valid, y_valid)].")
    return [(X, y) for X, y in eval_set]


def _names(eval_names: Any, pairs: list[tuple[Any, Any]], train_data: tuple[Any, Any]) -> list[str]:
    if eval_names is None:
        # The training data is told apart by its name, because it never decides about stopping.
        is_train = [X is train_data[0] and y is train_data[1] for X, y in pairs]
        return ["training" if same and not any(is_train[:i]) else f"valid_{i}" for i, same in enumerate(is_train)]
    eval_names = [eval_names] if isinstance(eval_names, str) else eval_names
    names = _one_each(eval_names, len(pairs), "eval_names")
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InvalidDataError(f"eval_names must be different strings, got {list(names)!r}.")
    return list(names)


def _one_each(values: Any, n_sets: int, name: str) -> Sequence[Any]:
    if values is None:
        return [None] * n_sets
    if not isinstance(values, list | tuple) or len(values) != n_sets:
        raise InvalidDataError(f"{name} must be a list with one entry for each of the {n_sets} sets of eval_set.")
    return values
