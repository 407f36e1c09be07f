"""From fit's evaluation arguments to the sets and metrics that the trainer reports after every iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.comm import Communicator
from pvtree.comm.agreement import share
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError
from pvtree.parameters.loss_table import losses_of
from pvtree.parameters.rule_kinds import integer
from pvtree.parameters.rules import RULES

if TYPE_CHECKING:
    from pvtree.objectives.metrics import CustomMetric, Metric
    from pvtree.reading.tables import Columns
    from pvtree.reading.training_rows import GivenRows, Target
    from pvtree.training.evaluator import EvalSet

OWN_METRIC = "(of the objective)"  # stands for the objective's own metric in a list of metrics
_NO_METRIC = ("", "none", "null", "custom", "na")  # LightGBM's names for no metric


@dataclass(frozen=True)
class EvalArguments:
    """The evaluation arguments of fit, as the user wrote them; lists have one entry per evaluation set."""

    eval_set: Any = None
    eval_names: Any = None
    eval_sample_weight: Any = None
    eval_class_weight: Any = None
    eval_init_score: Any = None
    eval_group: Any = None
    eval_qid: Any = None
    eval_metric: Any = None
    eval_at: Any = ()


def paired(eval_set: Any, eval_X: Any, eval_y: Any) -> Any:
    """``eval_set``, or the same made from LightGBM's newer ``eval_X`` and ``eval_y``: one set or several."""
    if eval_X is None and eval_y is None:
        return eval_set
    if eval_set is not None:
        raise InvalidParameterError("Specify either 'eval_set' or 'eval_X' and 'eval_y'; they are the same sets.")
    if eval_X is None or eval_y is None:
        raise InvalidDataError("You must specify eval_X and eval_y, not just one of them.")
    # A list of rows is one set, a list of matrices is several.
    is_many = isinstance(eval_X, tuple) or (
        isinstance(eval_X, list) and bool(eval_X) and all(len(getattr(X, "shape", ())) == 2 for X in eval_X)
    )
    if not is_many and not isinstance(eval_y, tuple):
        return [(eval_X, eval_y)]
    if not is_many or not isinstance(eval_y, list | tuple) or len(eval_X) != len(eval_y):
        raise InvalidDataError("If eval_X is a tuple, y_val must be a tuple of same length, and vice versa.")
    return list(zip(eval_X, eval_y, strict=True))


def given_sets(evaluation: EvalArguments, train: GivenRows) -> dict[str, GivenRows]:
    """The evaluation sets by name, as the user passed them."""
    pairs = set_pairs(evaluation.eval_set)
    names = _names(evaluation.eval_names, pairs, (train.X, train.y))
    more = [
        one_each(getattr(evaluation, name), len(pairs), name)
        for name in ("eval_sample_weight", "eval_group", "eval_qid", "eval_init_score")
    ]
    sets = {}
    for i, (name, (X, y), weight, group, qid, score) in enumerate(zip(names, pairs, *more, strict=True)):
        if score is None and X is train.X and y is train.y:
            score = train.init_score  # the training data starts from the same scores here and there
        sets[name] = replace(
            train, X=X, y=y, weight=weight, group=group, qid=qid, init_score=score, position=None,
            prefix="eval_", suffix=f" of eval_set {i}",
        )  # fmt: skip
    return sets


def read_eval_sets(
    sets: dict[str, GivenRows], columns: Columns, target: Target, comm: Communicator, class_weights: Any = None
) -> list[EvalSet]:
    """This worker's rows of every evaluation set; ``class_weights`` holds a class_weight for each."""
    from pvtree.reading.class_weights import ClassWeights
    from pvtree.reading.sources import as_source
    from pvtree.reading.sparse_rows import SparseRows
    from pvtree.reading.training_rows import open_rows, read_rows
    from pvtree.training.evaluator import EvalSet

    if len({tuple(names) for names in share(list(sets), comm)}) > 1:
        raise InvalidDataError(
            "eval_set differs between workers; pass the same sets on all of them, each with the worker's own rows."
        )
    read = []
    for (name, given), factors in zip(
        sets.items(), one_each(class_weights, len(sets), "eval_class_weight"), strict=True
    ):
        RULES["class_weight"].check("eval_class_weight", factors)
        rows = read_rows(open_rows(given, comm), columns, target, "the model", comm)
        rows = ClassWeights(factors, name="eval_class_weight").applied(rows, target, comm)
        X = rows.X if isinstance(rows.X, SparseRows) else as_source(rows.X).matrix()
        read.append(EvalSet(name, X, rows.y, rows.weight, rows.group, rows.init_score))
    return read


def read_metrics(
    evaluation: EvalArguments, objective: str, constants: Mapping[str, Any] | None = None
) -> list[Metric | CustomMetric]:
    """The metrics that were asked for, or the objective's own; a ranker's "ndcg" becomes one metric per eval_at.

    ``constants`` are the parameters that some metrics depend on.
    """
    from pvtree.objectives.metrics import CustomMetric, default_metric, get_metric

    asked, ranks = listed_metrics(evaluation.eval_metric), objective in losses_of("relevance")
    asked = [OWN_METRIC] if asked is None else asked
    names = []
    for each in (each for each in asked if isinstance(each, str)):
        name = each if each != OWN_METRIC else "ndcg" if ranks else default_metric(objective)
        is_at_ranks = ranks and name.lower() in ("ndcg", "map", "pre", "mean_average_precision")
        names += [f"{name.lower()}@{rank}" for rank in _ranks(evaluation.eval_at)] if is_at_ranks else [name]
    named = {metric.name: metric for metric in (get_metric(name, objective, constants) for name in names)}
    return [*named.values(), *(CustomMetric(function, objective) for function in asked if callable(function))]


def listed_metrics(asked: Any) -> list[Any] | None:
    """A list from a name, names with commas, a function, or a list or set of these; names for none are dropped."""
    if asked is None:
        return None
    if isinstance(asked, str):
        asked = [name.strip() for name in asked.split(",")]
    if isinstance(asked, set | frozenset):
        asked = sorted(asked, key=str)  # the same order on every worker
    listed = [asked] if callable(asked) else asked
    if isinstance(listed, list | tuple):
        listed = [each for each in listed if each is not None]
    if not isinstance(listed, list | tuple) or not all(isinstance(m, str) or callable(m) for m in listed):
        raise InvalidTypeError(f"eval_metric must be a metric's name, a function or a list of these, got {asked!r}.")
    return [each for each in listed if not (isinstance(each, str) and each.lower() in _NO_METRIC)]


class ExactMetrics(list[Any]):
    """The metrics of ``train`` and ``cv``, which hold the objective's own already if it is wanted."""


def joined_metrics(of_fit: Any, of_estimator: Any, adds_own: bool = False) -> list[Any] | None:
    """Both are reported, fit's first, as in LightGBM; None stands for the objective's own metric.

    If ``adds_own``, the objective's own metric is added to fit's, unless the estimator names some.
    """
    named, own = listed_metrics(of_fit), listed_metrics(of_estimator)
    if named is None or own is None:
        adds_own = adds_own and not isinstance(of_fit, ExactMetrics)
        return own if named is None else [*named, OWN_METRIC] if adds_own else named
    return [metric for metric in named if metric not in own] + own


def _ranks(eval_at: Any) -> list[int]:
    ranks = list(eval_at) if isinstance(eval_at, list | tuple | np.ndarray) else [eval_at]
    if not ranks:
        raise InvalidParameterError("eval_at must hold at least one rank, such as eval_at=[10].")
    for rank in ranks:
        integer("", 1).check("eval_at", rank)
    return ranks


def set_pairs(eval_set: Any) -> list[tuple[Any, Any]]:
    """``eval_set`` as a list of pairs (X, y)."""
    if eval_set is None:
        return []
    if isinstance(eval_set, tuple) and len(eval_set) == 2 and not isinstance(eval_set[0], tuple):
        eval_set = [eval_set]  # a pair without its list, as it is often written
    if not isinstance(eval_set, list | tuple) or not all(isinstance(p, list | tuple) and len(p) == 2 for p in eval_set):
        raise InvalidTypeError("eval_set must be a list of pairs (X, y), such as eval_set=[(X_valid, y_valid)].")
    return [(X, y) for X, y in eval_set]


def _names(eval_names: Any, pairs: list[tuple[Any, Any]], train_data: tuple[Any, Any]) -> list[str]:
    if eval_names is None:
        # The training data gets a name of its own, because it never decides when to stop.
        is_train = [X is train_data[0] and y is train_data[1] for X, y in pairs]
        return ["training" if same and not any(is_train[:i]) else f"valid_{i}" for i, same in enumerate(is_train)]
    eval_names = [eval_names] if isinstance(eval_names, str) else eval_names
    names = one_each(eval_names, len(pairs), "eval_names")
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InvalidDataError(f"eval_names must be different strings, got {list(names)!r}.")
    return list(names)


def one_each(values: Any, n_sets: int, name: str) -> Sequence[Any]:
    """The values, one per evaluation set; None for each if there are none."""
    if values is None:
        return [None] * n_sets
    if not isinstance(values, list | tuple):
        raise InvalidDataError(f"{name} must be a list with one entry for each of the {n_sets} sets of eval_set.")
    if len(values) != n_sets:
        raise InvalidDataError(
            f"Length of {name} ({len(values)}) not equal to length of eval_set ({n_sets}); pass one entry for each set."
        )
    return values
