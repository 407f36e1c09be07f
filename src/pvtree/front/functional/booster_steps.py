"""What a Booster does with rows: one more iteration, metrics, and leaves fitted to other rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.comm import Solo
from pvtree.errors import InvalidParameterError
from pvtree.front.functional.dataset import Dataset
from pvtree.front.functional.stepwise import Stepwise
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

# One iteration is one iteration, whatever the parameters say, and has no progress to show.
_ROUNDS = frozenset(
    word for name in ("n_estimators", "early_stopping_rounds", "verbosity") for word in (name, *SYNONYMS[name].split())
)
_ENDLESS = 2**31 - 1  # iterations; the training waits after each
_DECAY = Rule("", "a number from 0 to 1", lambda v: isinstance(v, int | float | np.number), lambda v: 0 <= v <= 1)


def one_more(
    params: Mapping[str, Any],
    train_set: Dataset,
    start: Model | None,
    fobj: Callable[..., Any] | None,
    family: Family,
    steps: Steps | None = None,
) -> Model:
    """The model with the next iteration, the same as of one longer training, which ``steps`` keeps for the next."""
    steps = Steps() if steps is None else steps
    known, classes = "custom" if start is None else start.objective, None
    if train_set.position is not None:
        raise InvalidParameterError(
            "Booster.update does not support position, whose biases no model keeps between calls; use train."
        )
    if start is not None and fobj is not None:
        # The gradients are the caller's; the meaning of scores, and the classes, stay.
        classes = start.classes
    if not steps.continues(params, train_set, start, fobj):
        steps.begin(params, train_set, _without_meaning(start) if fobj is not None else start, fobj, family)
    model = steps.step(params, fobj)
    if fobj is not None and known != "custom":
        model = replace(model, objective=known, classes=classes)
    steps.returned(model)
    return model


def _without_meaning(start: Model | None) -> Model | None:
    return start and replace(start, objective="custom", classes=None)


class Steps:
    """The training of which a Booster's ``update`` asks for one iteration after the other."""

    def __init__(self) -> None:
        self._running: Stepwise | None = None
        self._own: list[Any] = []  # the custom objective of the present iteration

    def continues(self, params: Mapping[str, Any], train_set: Dataset, start: Model | None, fobj: Any) -> bool:
        running = self._running
        is_kind = bool(self._own) == (fobj is not None)
        return running is not None and is_kind and running.continues(params, train_set, start)

    def begin(
        self, params: Mapping[str, Any], train_set: Dataset, start: Model | None, fobj: Any, family: Family
    ) -> None:
        """Begin another training, which continues ``start``."""
        from pvtree.front.functional.training import run

        own: list[Any] = [] if fobj is None else [fobj]
        objective = None if fobj is None else (lambda preds, data: own[0](preds, data))
        parsed = _parsed(params, objective, family)
        estimator = parsed.estimator
        if getattr(estimator, "boosting_type", "") == "dart" and start is not None:
            raise InvalidParameterError(
                "boosting_type='dart' changes trees of earlier iterations, so update cannot go on from another model "
                "or with other parameters; use train."
            )
        waits = estimator.n_workers == 1  # several would wait for each other's messages between two calls
        estimator.set_params(n_estimators=_ENDLESS if waits else 1)
        train = partial(run, parsed, train_set, None, None, None, init_model=start)
        is_scaled = hasattr(estimator, "_hessian_scale")
        self._own, self._running = own, Stepwise(train, params, train_set, waits, is_scaled)

    def step(self, params: Mapping[str, Any], fobj: Any) -> Model:
        assert self._running is not None  # begin has made one
        self._own[:] = [] if fobj is None else [fobj]
        return self._running.step(params)

    def returned(self, model: Model) -> None:
        """Remember the model that the Booster has now."""
        assert self._running is not None
        self._running.last = model


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
    return read_params(chosen, family, verbosity=-1)


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
