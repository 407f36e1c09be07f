"""The losses of parameters/loss_table.py whose gradients need one row at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.kernels.elementary import exp, log
from pvtree.kernels.objectives import gradients as kernels
from pvtree.kernels.objectives import row_losses
from pvtree.kernels.team import Team, in_pieces
from pvtree.objectives.fixed_point import Term, exact_mean, exact_means
from pvtree.objectives.loss import SMALLEST_PROBABILITY, Loss, log_odds
from pvtree.objectives.quantiles import exact_quantile
from pvtree.parameters.loss_table import LossKind

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.parameters.params import Params


class RowLoss(Loss):
    """A loss by its record: its kernels are found by its name and compiled when they are first called."""

    def __init__(self, y: np.ndarray, weight: np.ndarray | None, kind: LossKind, params: Params) -> None:
        super().__init__(y, weight)
        self.kind = kind
        self.constant = float(getattr(params, kind.constant)) if kind.constant else 0.0
        self.constant_hessian = kind.constant_hessian
        if kind.renewal is not None:
            self.renewal_level = 0.5 if kind.renewal == "median" else self.constant

    @property
    def quantile_weight(self) -> np.ndarray | None:
        if self.kind.name != "mape":
            return self.weight
        relative = 1.0 / np.maximum(1.0, np.abs(self.y))
        return relative if self.weight is None else relative * self.weight

    def init_scores(self, comm: Communicator | None = None) -> np.ndarray:
        start = self.kind.start
        if start == "zero":
            return np.zeros(1)
        if start in ("median", "quantile_alpha"):
            level = 0.5 if start == "median" else self.constant
            return np.array([exact_quantile(self.y, level, self.quantile_weight, comm)])
        if start == "log-odds":
            return np.array([log_odds(exact_mean(self.y, self.weight, comm))])
        if start == "log1p":
            logs = np.empty(self.y.size)
            in_pieces(row_losses.log1ps, self.y.size, self.y, logs)
            return np.array([float(exp(exact_mean(logs, self.weight, comm))) - 1.0])
        return np.array([self._inverse(exact_mean(self.y, self.weight, comm))])

    def raw_score(self, prediction: float) -> float:
        if self.kind.link in ("exp", "softplus") and prediction <= 0.0:
            raise InvalidParameterError(f"base_score must be above 0 for this objective, got {prediction}.")
        if self.kind.link == "sigmoid" and not 0.0 < prediction < 1.0:
            raise InvalidParameterError(
                f"base_score must be a probability between 0 and 1 for this objective, got {prediction}."
            )
        return self._inverse(prediction)

    def _inverse(self, prediction: float) -> float:
        """The raw score of a prediction."""
        if self.kind.link == "sigmoid":
            return log_odds(prediction)
        prediction = max(prediction, SMALLEST_PROBABILITY) if self.kind.link in ("exp", "softplus") else prediction
        if self.kind.link == "exp":
            return float(log(prediction))
        if self.kind.link == "softplus":  # log(e^x - 1), which is log(x) + x / 2 for small x
            small = prediction < 1e-5
            return float(log(prediction) + 0.5 * prediction if small else log(exp(prediction) - 1.0))
        return prediction

    def _fill(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        kernel = getattr(row_losses, f"{self.kind.name}_gradients")
        team.for_blocks(kernel, self.y.size, self.y, scores[0], self.constant, grad[0], hess[0])

    def _losses(self, scores: np.ndarray) -> Term:
        return row_values(self.kind.name, self.y, scores[0], self.constant), self.weight


class CrossEntropyLambda(RowLoss):
    """Cross-entropy whose weights are exponents instead of factors."""

    def gradients(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        """Fill OUT ``grad`` and ``hess``."""
        weight = np.ones(self.y.size) if self.weight is None else self.weight
        kernel = row_losses.cross_entropy_lambda_gradients
        team.for_blocks(kernel, self.y.size, self.y, scores[0], weight, grad[0], hess[0])

    def _losses(self, scores: np.ndarray) -> Term:
        weight = np.ones(self.y.size) if self.weight is None else self.weight
        return row_values("cross_entropy_lambda", self.y, scores[0], weight), None


class OneAgainstOthers(Loss):
    """y in 0..K-1; the score of each class is the log-odds of that class against the others."""

    def __init__(self, y: np.ndarray, weight: np.ndarray | None, n_classes: int) -> None:
        super().__init__(y, weight)
        self.n_outputs = n_classes

    def init_scores(self, comm: Communicator | None = None) -> np.ndarray:
        classes = range(self.n_outputs)
        shares = exact_means(lambda: ((self.y == k).astype(np.float64) for k in classes), self.weight, comm)
        return np.array([log_odds(share) for share in shares])

    def _fill(self, scores: np.ndarray, grad: np.ndarray, hess: np.ndarray, team: Team) -> None:
        team.for_blocks(row_losses.ova_gradients, self.y.size, self.y, scores, grad, hess)

    def _losses(self, scores: np.ndarray) -> Term:
        losses = np.empty(self.y.size)
        in_pieces(row_losses.ova_losses, self.y.size, self.y, scores, losses)
        return losses, self.weight


def row_values(name: str, y: np.ndarray, score: np.ndarray, constant: Any, kernel: str = "losses") -> np.ndarray:
    """The loss of each row, or another value of it that a kernel computes."""
    out = np.empty(y.size)
    in_pieces(getattr(row_losses, f"{name}_{kernel}" if name else kernel), y.size, y, score, constant, out)
    return out


def linked(link: str, raw: np.ndarray) -> np.ndarray:
    """Predictions (n,) or (n, n_classes) from raw scores (n, n_outputs)."""
    n = raw.shape[0]
    if link == "sigmoids":
        probabilities = np.empty((raw.shape[1], n))
        in_pieces(row_losses.ova_probabilities, n, np.ascontiguousarray(raw.T), probabilities)
        return np.ascontiguousarray(probabilities.T)
    if link == "sign":
        second = (raw[:, 0] > 0.0).astype(np.float64)
        return np.column_stack((1.0 - second, second))
    if raw.shape[1] > 1:
        return np.column_stack([linked(link, column[:, None]) for column in raw.T])
    out = np.empty(n)
    kernel = {"exp": row_losses.exps, "sigmoid": kernels.sigmoids, "softplus": row_losses.softpluses}[link]
    in_pieces(kernel, n, np.ascontiguousarray(raw[:, 0]), out)
    return out
