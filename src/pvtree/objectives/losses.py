"""What boosting minimises: gradients and hessians with respect to raw scores, and the initial scores.

Scores, gradients and hessians are float64 (n_outputs, n_rows), C-contiguous.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.kernels.elementary import log
from pvtree.kernels.hashing import hash_pair
from pvtree.kernels.objectives import gradients as kernels
from pvtree.kernels.objectives import metrics as row_losses
from pvtree.kernels.objectives.average_precision import average_precision_gradients
from pvtree.kernels.objectives.ranking import lambdarank_gradients
from pvtree.kernels.objectives.xendcg import xendcg_gradients
from pvtree.kernels.team import Team, in_pieces
from pvtree.objectives.aft import FailureTimes
from pvtree.objectives.cox import Cox
from pvtree.objectives.fixed_point import Term, exact_mean, exact_means, exact_sum
from pvtree.objectives.loss import SMALLEST_PROBABILITY, Loss, log_odds
from pvtree.objectives.many_targets import ManyTargets
from pvtree.objectives.position_bias import PositionBias
from pvtree.objectives.queries import Queries
from pvtree.objectives.row_losses import CrossEntropyLambda, OneAgainstOthers, RowLoss, linked
from pvtree.parameters.loss_table import LOSSES, losses_of

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.parameters.params import Params

QUERY_BLOCK = 8  # fewer queries are not worth another thread


class SquaredError(Loss):
    constant_hessian = True

    def init_scores(self, comm: Communicator | None = None) -> np.ndarray:
        return np.array([exact_mean(self.y, self.weight, comm)])

    def _fill(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        team.for_blocks(kernels.squared_error_gradients, self.y.size, self.y, scores[0], grad[0], hess[0])

    def _losses(self, scores: np.ndarray) -> Term:
        return np.square(scores[0] - self.y), self.weight


class BinaryLogLoss(Loss):
    """y in {0, 1}; the score is the log-odds of class 1."""

    def init_scores(self, comm: Communicator | None = None) -> np.ndarray:
        return np.array([log_odds(exact_mean(self.y, self.weight, comm))])

    def raw_score(self, prediction: float) -> float:
        if not 0.0 < prediction < 1.0:
            raise InvalidParameterError(
                f"base_score must be a probability between 0 and 1 for this objective, got {prediction}."
            )
        return log_odds(prediction)

    def _fill(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        team.for_blocks(kernels.binary_gradients, self.y.size, self.y, scores[0], grad[0], hess[0])

    def _losses(self, scores: np.ndarray) -> Term:
        losses = np.empty(self.y.size)
        in_pieces(row_losses.binary_log_losses, self.y.size, self.y, scores[0], losses)
        return losses, self.weight


class MulticlassLogLoss(Loss):
    """y in 0..K-1; one score per class, probabilities by softmax."""

    def __init__(self, y: np.ndarray, weight: np.ndarray | None, n_classes: int) -> None:
        super().__init__(y, weight)
        self.n_outputs = n_classes

    def init_scores(self, comm: Communicator | None = None) -> np.ndarray:
        classes = range(self.n_outputs)
        priors = exact_means(lambda: ((self.y == k).astype(np.float64) for k in classes), self.weight, comm)
        return np.array([log(max(prior, SMALLEST_PROBABILITY)) for prior in priors])

    def _fill(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        team.for_blocks(kernels.multiclass_gradients, self.y.size, self.y, scores, grad, hess)

    def _losses(self, scores: np.ndarray) -> Term:
        losses = np.empty(self.y.size)
        in_pieces(row_losses.multiclass_log_losses, self.y.size, self.y, scores, losses)
        return losses, self.weight


class LambdaRank(Loss):
    """y holds relevance labels. Each pair of a query's documents is weighted by how much swapping it changes NDCG; with
    the objective ``pairwise``, all pairs weigh the same."""

    def __init__(self, y: np.ndarray, weight: np.ndarray | None, group: np.ndarray | None, params: Params) -> None:
        """y may be (n_rows, 2): relevance, and the number of the position where a document was shown."""
        super().__init__(y if y.ndim == 1 else y[:, 0], weight)
        self.bias = None if y.ndim == 1 else PositionBias(y[:, 1], params)
        self.level, self.normalises = params.lambdarank_truncation_level, params.lambdarank_norm
        self.counts_pairs = params.objective == "pairwise"
        self.queries = Queries(self.y, group, params.label_gain)
        self.ideal = np.ones(len(self.queries)) if self.counts_pairs else self.queries.ideal_dcgs(self.level)

    def gradients(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        """Fill OUT ``grad`` and ``hess``; with positions, at the scores plus their biases, which then move."""
        if self.bias is None:
            super().gradients(scores, grad, hess, team)
        else:
            super().gradients(scores + self.bias.of_rows(self.comm), grad, hess, team)
            self.bias.move(grad[0], hess[0], self.comm)

    def _fill(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        team.for_blocks(self._fill_queries, self.ideal.size, scores[0], grad[0], hess[0], min_block=QUERY_BLOCK)

    def _fill_queries(self, start: int, stop: int, score: np.ndarray, grad: np.ndarray, hess: np.ndarray) -> None:
        q = self.queries
        q.sort(start, stop, score)
        lambdarank_gradients(
            start, stop, q.bounds, q.label, q.gain_of, score, q.order, self.level, q.discount, self.ideal,
            self.normalises, self.counts_pairs, grad, hess,
        )  # fmt: skip

    def _losses(self, scores: np.ndarray) -> Term:
        """1 - NDCG of each query. LambdaRank's gradients are not those of a loss, but they reduce this one."""
        weight = None if self.weight is None else self.queries.weights(self.weight)
        return 1.0 - self.queries.ndcgs(scores[0], self.level), weight


class AveragePrecision(LambdaRank):
    """Pairs of a relevant document (a label above 0) and another, weighted by how much swapping them changes the
    average precision of their query."""

    def _fill_queries(self, start: int, stop: int, score: np.ndarray, grad: np.ndarray, hess: np.ndarray) -> None:
        q = self.queries
        q.sort(start, stop, score)
        average_precision_gradients(
            start, stop, q.bounds, q.label, score, q.order, self.level, self.normalises, grad, hess
        )  # fmt: skip

    def _losses(self, scores: np.ndarray) -> Term:
        weight = None if self.weight is None else self.queries.weights(self.weight)
        return 1.0 - self.queries.average_precisions(scores[0], self.level), weight


class CrossEntropyNDCG(Loss):
    """Cross-entropy of the softmax of a query's scores with gains drawn around its labels' (Bruch, 2021)."""

    def __init__(self, y: np.ndarray, weight: np.ndarray | None, group: np.ndarray | None, params: Params) -> None:
        super().__init__(y, weight)
        self.queries, self.level = Queries(self.y, group), params.lambdarank_truncation_level
        self.seed = params.seed if params.objective_seed is None else params.objective_seed

    def _fill(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        key = np.uint64(hash_pair(np.uint64(self.seed), np.uint64(self.iteration)))
        q, numbers = self.queries, np.arange(self.y.size) if self.numbers is None else self.numbers
        team.for_blocks(
            xendcg_gradients, len(q), q.bounds, q.label, numbers, key, scores[0], grad[0], hess[0],
            min_block=QUERY_BLOCK,
        )  # fmt: skip

    def _losses(self, scores: np.ndarray) -> Term:
        weight = None if self.weight is None else self.queries.weights(self.weight)
        return 1.0 - self.queries.ndcgs(scores[0], self.level), weight


class CustomLoss(Loss):
    """``function(y_true, y_pred[, weight]) -> (grad, hess)`` on raw scores, (n,) or (n, n_outputs).

    A function that takes the weight applies it itself; otherwise its gradients are multiplied by the weight.
    """

    def __init__(self, y: np.ndarray, weight: np.ndarray | None, function: Callable[..., Any], n_outputs: int) -> None:
        self.function = function
        self.n_outputs = n_outputs
        self.takes_weight = "weight" in further_arguments(function)
        super().__init__(y, weight)

    def gradients(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        """Check the function's answer and fill OUT ``grad`` and ``hess`` from it."""
        if self.y.size == 0:  # few functions expect the empty arrays of a worker without rows
            return
        predicted = scores[0].copy() if self.n_outputs == 1 else scores.T.copy()
        answer = call_with(self.function, self.y, predicted, weight=self.weight)
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise InvalidParameterError(
                f"A custom objective must return (grad, hess), but returned {type(answer).__name__}: return two arrays."
            )
        for name, values, out in zip(("grad", "hess"), answer, (grad, hess), strict=True):
            out[:] = _checked_gradient(name, values, predicted.shape).T
        if self.weight is not None and not self.takes_weight:
            team.for_blocks(kernels.multiply_by_weight, len(self.y), self.weight, grad, hess)

    def total(self, moved: np.ndarray, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray) -> float:
        """The change of the loss to second order, because the function gives only its derivatives."""
        if self.y.size == 0:
            return 0.0  # grad and hess were not filled
        step = moved - scores
        return exact_sum(step * (grad + 0.5 * hess * step))


def _checked_gradient(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise InvalidParameterError(
            f"A custom objective must return {name} of shape {shape}, like y_pred, but returned shape {array.shape}: "
            "return one value per score."
        )
    if not np.isfinite(array).all():
        raise InvalidParameterError(
            f"A custom objective returned NaN or infinity in {name}: return finite numbers for every row."
        )
    return array


def make_loss(params: Params, y: np.ndarray, weight: np.ndarray | None, group: np.ndarray | None) -> Loss:
    """The loss of ``params.objective`` on these rows."""
    objective = params.objective
    if callable(objective):
        return CustomLoss(y, weight, objective, max(params.n_classes if params.n_classes > 2 else 1, params.n_targets))
    if isinstance(params.quantile_alpha, tuple):
        of_levels = [replace(params, quantile_alpha=level) for level in params.quantile_alpha]
        return ManyTargets([make_loss(each, y, weight, group) for each in of_levels])
    # Columns of aft are bounds of one target; those of rankings are relevance and position.
    if y.ndim == 2 and objective != "aft" and objective not in losses_of("relevance"):
        return ManyTargets([make_loss(params, column, weight, group) for column in y.T])
    makers: dict[str, Callable[[], Loss]] = {
        "regression": lambda: SquaredError(y, weight),
        "binary": lambda: BinaryLogLoss(y, weight),
        "multiclass": lambda: MulticlassLogLoss(y, weight, params.n_classes),
        "multiclassova": lambda: OneAgainstOthers(y, weight, params.n_classes),
        "lambdarank": lambda: LambdaRank(y, weight, group, params),
        "pairwise": lambda: LambdaRank(y, weight, group, params),
        "rank_map": lambda: AveragePrecision(y, weight, group, params),
        "aft": lambda: FailureTimes(y, weight, params.aft_loss_distribution, params.aft_loss_distribution_scale),
        "cox": lambda: Cox(y, weight),
        "rank_xendcg": lambda: CrossEntropyNDCG(y, weight, group, params),
        "cross_entropy_lambda": lambda: CrossEntropyLambda(y, weight, LOSSES[objective], params),
    }
    if objective in makers:
        return makers[objective]()
    if objective in LOSSES:
        return RowLoss(y, weight, LOSSES[objective], params)
    raise InvalidParameterError(
        f"objective={objective!r} is unknown to boosting: use one of {', '.join(LOSSES)} or a function."
    )


def class_probabilities(raw: np.ndarray, objective: str = "custom") -> np.ndarray:
    """(n, n_classes) from boosting's raw scores. One score of a custom objective is the log-odds of the second class,
    more go to softmax."""
    if objective not in LOSSES:
        objective = "binary" if raw.shape[1] == 1 else "multiclass"
    return predictions(objective, raw)


def predictions(objective: str, raw: np.ndarray) -> np.ndarray:
    """Probabilities (n, n_classes) or values (n,) from raw scores (n, n_outputs).

    The raw scores of a classification forest are probabilities already. Those of a custom objective have no known
    meaning and are returned unchanged.
    """
    raw = np.ascontiguousarray(raw, dtype=np.float64)
    n = raw.shape[0]
    if objective == "binary":
        out = np.empty((n, 2))
        positive = np.empty(n)
        in_pieces(kernels.sigmoids, n, raw.ravel(), positive)
        out[:, 0] = 1.0 - positive
        out[:, 1] = positive
        return out
    if objective == "multiclass":
        probabilities = np.empty((raw.shape[1], n))
        in_pieces(kernels.softmax, n, np.ascontiguousarray(raw.T), probabilities)
        return np.ascontiguousarray(probabilities.T)
    link = LOSSES[objective].link if objective in LOSSES else "identity"
    if link != "identity":
        return linked(link, raw)
    return raw if objective == "classification" or raw.shape[1] > 1 else raw[:, 0]


_FURTHER = {"weight": "weight", "sample_weight": "weight", "group": "group"}  # by argument name


def further_arguments(function: Callable[..., Any]) -> dict[str, str | None]:
    """What a user's f(y_true, y_pred, ...) takes besides these two, and by which keyword; None if by position.

    An argument is recognised by its name, whether or not it has a default. Otherwise the third argument is the weight
    and the fourth the group, if they have no default. Others, such as the ``eps`` of a log loss, keep their defaults.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have no signature
        return {}
    in_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][2:]
    wanted: dict[str, str | None] = {}
    for what, parameter in zip(("weight", "group"), in_place, strict=False):
        is_named = parameter.name in _FURTHER and parameter.kind is not parameter.POSITIONAL_ONLY
        if not is_named and parameter.default is parameter.empty:
            wanted[what] = None
    by_keyword = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return wanted | {_FURTHER[p.name]: p.name for p in by_keyword if p.name in _FURTHER}


def call_with(function: Callable[..., Any], y_true: Any, y_pred: Any, **known: Any) -> Any:
    """Call the function with those of the known arguments (weight, group) that it takes."""
    wanted = {what: name for what, name in further_arguments(function).items() if what in known}
    in_place = [known[what] for what, name in wanted.items() if name is None]
    return function(y_true, y_pred, *in_place, **{name: known[what] for what, name in wanted.items() if name})
