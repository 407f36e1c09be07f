"""What boosting minimises: gradients and hessians with respect to raw scores, and the initial scores.

Scores, gradients and hessians are float64 (n_outputs, n_rows), C-contiguous.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.kernels.elementary import log
from pvtree.kernels.objectives import gradients as kernels
from pvtree.kernels.objectives import metrics as row_losses
from pvtree.kernels.objectives.ranking import lambdarank_gradients
from pvtree.kernels.team import Team, in_pieces
from pvtree.objectives.fixed_point import Term, exact_mean, exact_means, exact_sum
from pvtree.objectives.queries import Queries

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.parameters.params import Params

SMALLEST_PROBABILITY = 1e-15  # the prior of a class that does not occur, which avoids a score of -inf
OBJECTIVES = ("regression", "binary", "multiclass", "lambdarank")
QUERY_BLOCK = 8  # fewer queries are not worth another thread


class Loss:
    """One objective on one set of rows."""

    n_outputs: int = 1
    constant_hessian: bool = False  # True: the hessian is the row's weight, or 1

    def __init__(self, y: np.ndarray, weight: np.ndarray | None = None) -> None:
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        self.weight = None if weight is None else np.ascontiguousarray(weight, dtype=np.float64)

    def init_scores(self, comm: Communicator | None = None) -> np.ndarray:
        """The best constant score per output, independent of the order of rows and of which worker holds them."""
        return np.zeros(self.n_outputs)

    def gradients(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        """Fill OUT ``grad`` and ``hess``, multiplied by the weights."""
        self._fill(scores, grad, hess, team)
        if self.weight is not None:
            team.for_blocks(kernels.multiply_by_weight, self.y.size, self.weight, grad, hess)

    def _fill(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        raise NotImplementedError

    def total(self, moved: np.ndarray, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray) -> float:
        """The loss of the scores ``moved``, summed over this worker's rows or queries, in any units.

        ``grad`` and ``hess`` are those at ``scores``; of a custom loss nothing else is known.
        """
        losses, weight = self._losses(moved)
        return exact_sum(losses if weight is None else losses * weight)

    def _losses(self, scores: np.ndarray) -> Term:
        raise NotImplementedError


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
        mean = exact_mean(self.y, self.weight, comm)
        mean = min(max(mean, SMALLEST_PROBABILITY), 1.0 - SMALLEST_PROBABILITY)
        return np.array([log(mean) - log(1.0 - mean)])

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
    """y holds relevance labels. Each pair of a query's documents is weighted by how much swapping it changes NDCG."""

    def __init__(self, y: np.ndarray, weight: np.ndarray | None, group: np.ndarray | None, level: int) -> None:
        super().__init__(y, weight)
        self.level = level
        self.queries = Queries(self.y, group)
        self.ideal = self.queries.ideal_dcgs(level)

    def _fill(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        team.for_blocks(self._fill_queries, self.ideal.size, scores[0], grad[0], hess[0], min_block=QUERY_BLOCK)

    def _fill_queries(self, start: int, stop: int, score: np.ndarray, grad: np.ndarray, hess: np.ndarray) -> None:
        q = self.queries
        q.sort(start, stop, score)
        lambdarank_gradients(
            start, stop, q.bounds, q.label, score, q.order, self.level, q.discount, self.ideal, grad, hess
        )

    def _losses(self, scores: np.ndarray) -> Term:
        """1 - NDCG of each query. LambdaRank's gradients are not those of a loss, but they reduce this one."""
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
            team.for_blocks(kernels.multiply_by_weight, self.y.size, self.weight, grad, hess)

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
        return CustomLoss(y, weight, objective, params.n_classes if params.n_classes > 2 else 1)
    if objective == "regression":
        return SquaredError(y, weight)
    if objective == "binary":
        return BinaryLogLoss(y, weight)
    if objective == "multiclass":
        return MulticlassLogLoss(y, weight, params.n_classes)
    if objective == "lambdarank":
        return LambdaRank(y, weight, group, params.lambdarank_truncation_level)
    raise InvalidParameterError(
        f"objective={objective!r} is unknown to boosting: use one of {', '.join(OBJECTIVES)} or a function."
    )


def class_probabilities(raw: np.ndarray) -> np.ndarray:
    """(n, n_classes) from boosting's raw scores: one score is the log-odds of the second class, more go to softmax."""
    return predictions("binary" if raw.shape[1] == 1 else "multiclass", raw)


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
