"""What a Booster does with rows: one more iteration, metrics, and leaves fitted to other rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.comm import Solo
from pvtree.errors import InvalidParameterError
from pvtree.front.functional.dataset import Dataset
from pvtree.model.model import Model
from pvtree.parameters.aliases import SYNONYMS
from pvtree.parameters.loss_table import LOSSES
from pvtree.parameters.rule_kinds import Rule
from pvtree.reading.class_weights import ClassWeights
from pvtree.reading.row_ids import RowIds
from pvtree.reading.targets import read_init_score
from pvtree.reading.training_rows import Target, TrainingRows

if TYPE_CHECKING:
    from pvtree.front.functional.training import Family, ParsedParams
    from pvtree.parameters.params import Params

# One iteration is one iteration, whatever the parameters say.
_ROUNDS = frozenset(
    word for name in ("n_estimators", "early_stopping_rounds") for word in (name, *SYNONYMS[name].split())
)
_DECAY = Rule("", "a number from 0 to 1", lambda v: isinstance(v, int | float | np.number), lambda v: 0 <= v <= 1)


def one_more(
    params: Mapping[str, Any], train_set: Dataset, start: Model | None, fobj: Callable[..., Any] | None, family: Family
) -> Model:
    """The model with the next iteration, the same as of a longer training."""
    from pvtree.front.functional.training import run

    known, classes = "custom" if start is None else start.objective, None
    parsed = _parsed(params, fobj, family)
    if getattr(parsed.estimator, "boosting_type", "") == "dart":
        raise InvalidParameterError(
            "Booster.update does not support boosting_type='dart', which changes trees of earlier calls; use train."
        )
    if train_set.position is not None:
        raise InvalidParameterError(
            "Booster.update does not support position, whose biases no model keeps between calls; use train."
        )
    if start is not None and fobj is not None and known != "custom":
        # The gradients are the caller's; the meaning of scores, and the classes, stay.
        classes, start = start.classes, replace(start, objective="custom", classes=None)
    estimator = run(parsed, train_set, None, None, None, init_model=start)
    model: Model = estimator.model_
    return model if fobj is None or known == "custom" else replace(model, objective=known, classes=classes)


def empty_model(params: Mapping[str, Any], train_set: Dataset, family: Family) -> Model:
    """The model before the first iteration: the columns and the initial score, without trees."""
    whole = one_more(params, train_set, None, None, family)
    return replace(whole, trees=())


def _parsed(params: Mapping[str, Any], fobj: Any, family: Family) -> ParsedParams:
    from pvtree.front.functional.training import read_params

    left = {name: value for name, value in params.items() if name not in _ROUNDS}
    chosen = dict(left) if fobj is None else {**_without_objective(left), "objective": fobj}
    if str(chosen.get("objective", "")).lower() in ("none", "custom", "null", "na"):
        raise InvalidParameterError("objective='none' trains with a function of yours; pass it as fobj to update.")
    return read_params(chosen, family, n_estimators=1, verbosity=-1)


def _without_objective(params: Mapping[str, Any]) -> dict[str, Any]:
    words = {"objective", *SYNONYMS["objective"].split()}
    return {name: value for name, value in params.items() if name not in words}


def _parsed_for(model: Model, params: Mapping[str, Any], family: Family) -> ParsedParams:
    """The parameters, read for the model's objective."""
    from pvtree.front.functional.training import read_params

    known = {key: value for key, value in _without_objective(params).items() if key not in _ROUNDS}
    return read_params(known | ({"objective": model.objective} if model.objective in LOSSES else {}), family)


def _settings(model: Model, parsed: ParsedParams) -> Params:
    """The trainer's parameters, for losses and metrics that depend on them."""
    n_classes = 1
    if model.objective in LOSSES and LOSSES[model.objective].target == "class":
        n_classes = max(2, model.n_outputs)
    made: Params = parsed.estimator._params(parsed.estimator._parameters(), model.columns, n_classes)
    return made


def metrics_of(
    model: Model, params: Mapping[str, Any], data: Dataset, name: str, feval: Any, family: Family
) -> list[tuple[str, str, float, bool]]:
    """(set, metric, value, is higher better) of the model on the rows, for each metric of ``params`` and ``feval``."""
    from pvtree.front.estimators.eval_arguments import EvalArguments, read_metrics
    from pvtree.front.functional.training import listed_functions, of_feval
    from pvtree.objectives.metrics import evaluate_together

    parsed = _parsed_for(model, params, family)
    functions = [of_feval(each) for each in listed_functions(feval)]
    named = parsed.metrics if parsed.metrics is not None or model.objective != "custom" else []
    asked = EvalArguments(eval_metric=named, eval_at=parsed.eval_at)
    metrics = [] if named == [] else read_metrics(asked, model.objective, vars(_settings(model, parsed)))
    own = read_metrics(EvalArguments(eval_metric=functions), model.objective) if functions else []
    label, weight = (
        None if each is None else np.asarray(each, np.float64).ravel() for each in (data.label, data.weight)
    )
    if label is None:
        raise InvalidParameterError(f"The set {name!r} has no label to compare with; pass one to its Dataset.")
    scores = model.predict_raw(model.encode(data.data)).T
    start = read_init_score(data.init_score, data.num_data())
    scores = scores if start is None else scores + start.T
    sizes = data.get_group()
    rows = (label, np.ascontiguousarray(scores), weight, None if sizes is None else sizes.astype(np.int64))
    answers = evaluate_together([(metric, rows) for metric in [*metrics, *own]], None)
    return [(name, *each) for evaluations in answers for each in evaluations]


def refit(model: Model, params: Mapping[str, Any], data: Dataset, decay_rate: float, family: Family) -> Model:
    """The model with leaves fitted to the rows of ``data``; see ``tree_values.refitted``."""
    from pvtree.kernels.team import Team
    from pvtree.model.tree_values import refitted
    from pvtree.objectives.losses import make_loss

    _DECAY.check("decay_rate", decay_rate)
    if model.objective == "custom" or model.ensemble != "gbdt" or model.n_parallel_trees != 1:
        raise InvalidParameterError("refit needs a model of boosting with a named objective; train another one.")
    parsed = _parsed_for(model, params, family)
    values = parsed.estimator._parameters()
    X = model.encode(data.data)
    X = X if isinstance(X, np.ndarray) else np.vstack([X[i : i + 1].toarray() for i in range(len(X))])
    label = np.asarray(data.label, np.float64).ravel()
    weight = None if data.weight is None else np.asarray(data.weight, np.float64).ravel()
    ids = RowIds.consecutive(len(label))
    rows = TrainingRows(X, label, weight, ids=ids)
    if LOSSES[model.objective].target == "class":
        classes = Target("class", np.arange(max(2, model.n_outputs)))
        rows = ClassWeights.of(values).applied(rows, classes, Solo())
    sizes = data.get_group()
    groups = None if sizes is None else sizes.astype(np.int64)
    loss = make_loss(_settings(model, parsed), label, rows.weight, groups)
    if model.objective in ("rank_xendcg", "cox"):
        loss.numbers, loss.comm = ids.numbers(), Solo()
    with Team(1) as team:

        def gradients(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            grad, hess = np.empty_like(scores), np.empty_like(scores)
            loss.gradients(scores, grad, hess, team)
            return grad, hess

        return refitted(
            model, X, gradients, decay_rate, values["learning_rate"], values["reg_alpha"], values["reg_lambda"]
        )
