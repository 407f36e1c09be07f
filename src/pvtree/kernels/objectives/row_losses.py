"""Gradients, hessians and values of the losses that need one row at a time, on blocks of rows.
One kernel each, so that a training compiles only its own. ``c`` is the loss's constant, such as a quantile's level."""

from __future__ import annotations

import math

from pvtree.kernels.elementary import exp, log, select, sigmoid, softplus
from pvtree.kernels.jit import njit

FARTHEST = 160.0  # e^160 is about 1e70: larger scores would give gradients whose squares are not finite
LEAST_HESSIAN = 1e-6  # where the squared log error is not convex, as in XGBoost
FARTHEST_BELOW = -1.0 + 1e-6  # of scores that stand in a logarithm, log(1 + score)


@njit
def bounded(score):
    return min(max(score, -FARTHEST), FARTHEST)


@njit
def sign(x):
    return select(x > 0.0, 1.0, select(x < 0.0, -1.0, 0.0))


@njit
def l1_gradients(start, stop, y, score, c, grad, hess):  # OUT: grad, hess
    for i in range(start, stop):
        grad[i] = sign(score[i] - y[i])
        hess[i] = 1.0


@njit
def l1_losses(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        out[i] = abs(score[i] - y[i])


@njit
def quantile_gradients(start, stop, y, score, c, grad, hess):  # OUT: grad, hess
    for i in range(start, stop):
        grad[i] = select(score[i] >= y[i], 1.0 - c, -c)
        hess[i] = 1.0


@njit
def quantile_losses(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        error = y[i] - score[i]
        out[i] = select(error > 0.0, c * error, (c - 1.0) * error)


@njit
def mape_gradients(start, stop, y, score, c, grad, hess):  # OUT: grad, hess
    for i in range(start, stop):
        grad[i] = sign(score[i] - y[i]) / max(1.0, abs(y[i]))
        hess[i] = 1.0


@njit
def mape_losses(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        out[i] = abs(score[i] - y[i]) / max(1.0, abs(y[i]))


@njit
def huber_gradients(start, stop, y, score, c, grad, hess):  # OUT: grad, hess
    for i in range(start, stop):
        grad[i] = min(max(score[i] - y[i], -c), c)
        hess[i] = 1.0


@njit
def huber_losses(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        size = abs(score[i] - y[i])
        out[i] = select(size <= c, 0.5 * size * size, c * (size - 0.5 * c))


@njit
def fair_gradients(start, stop, y, score, c, grad, hess):  # OUT: grad, hess
    for i in range(start, stop):
        error = score[i] - y[i]
        size = abs(error) + c
        grad[i] = c * error / size
        hess[i] = c * c / (size * size)


@njit
def fair_losses(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        ratio = abs(score[i] - y[i]) / c
        out[i] = c * c * (ratio - log(1.0 + ratio))


@njit
def pseudohuber_gradients(start, stop, y, score, c, grad, hess):  # OUT: grad, hess
    for i in range(start, stop):
        error = score[i] - y[i]
        ratio = error / c
        square = 1.0 + ratio * ratio
        root = math.sqrt(square)
        grad[i] = error / root
        hess[i] = 1.0 / (square * root)


@njit
def pseudohuber_losses(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        ratio = (score[i] - y[i]) / c
        out[i] = c * c * (math.sqrt(1.0 + ratio * ratio) - 1.0)


@njit
def squared_log_gradients(start, stop, y, score, c, grad, hess):  # OUT: grad, hess
    for i in range(start, stop):
        value = 1.0 + max(score[i], FARTHEST_BELOW)
        error = log(value) - log(1.0 + y[i])
        grad[i] = error / value
        hess[i] = max((1.0 - error) / (value * value), LEAST_HESSIAN)


@njit
def squared_log_losses(start, stop, y, score, c, out):  # OUT: out
    """Half the squared error of log(1 + y)."""
    for i in range(start, stop):
        error = log(1.0 + max(score[i], FARTHEST_BELOW)) - log(1.0 + y[i])
        out[i] = 0.5 * error * error


@njit
def poisson_gradients(start, stop, y, score, c, grad, hess):  # OUT: grad, hess
    """``c`` makes the hessian larger and hence the steps smaller, as in both libraries."""
    for i in range(start, stop):
        s = bounded(score[i])
        grad[i] = exp(s) - y[i]
        hess[i] = exp(s + c)


@njit
def poisson_losses(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        out[i] = exp(score[i]) - y[i] * score[i]


@njit
def gamma_gradients(start, stop, y, score, c, grad, hess):  # OUT: grad, hess
    for i in range(start, stop):
        ratio = y[i] * exp(-bounded(score[i]))
        grad[i] = 1.0 - ratio
        hess[i] = ratio


@njit
def gamma_losses(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        out[i] = y[i] * exp(-score[i]) + score[i]


@njit
def gamma_deviances(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        ratio = y[i] * exp(-score[i])
        out[i] = 2.0 * (ratio - log(ratio) - 1.0)


@njit
def tweedie_gradients(start, stop, y, score, c, grad, hess):  # OUT: grad, hess
    for i in range(start, stop):
        s = bounded(score[i])
        first, second = y[i] * exp((1.0 - c) * s), exp((2.0 - c) * s)
        grad[i] = second - first
        hess[i] = (2.0 - c) * second - (1.0 - c) * first


@njit
def tweedie_losses(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        out[i] = exp((2.0 - c) * score[i]) / (2.0 - c) - y[i] * exp((1.0 - c) * score[i]) / (1.0 - c)


@njit
def cross_entropy_gradients(start, stop, y, score, c, grad, hess):  # OUT: grad, hess
    for i in range(start, stop):
        p = sigmoid(score[i])
        grad[i] = p - y[i]
        hess[i] = p * (1.0 - p)


@njit
def cross_entropy_losses(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        out[i] = softplus(score[i]) - y[i] * score[i]


@njit
def x_log_x(x):
    return x * log(select(x > 0.0, x, 1.0))


@njit
def kullback_leiblers(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        out[i] = softplus(score[i]) - y[i] * score[i] + x_log_x(y[i]) + x_log_x(1.0 - y[i])


@njit
def cross_entropy_lambda_gradients(start, stop, y, score, weight, grad, hess):  # OUT: grad, hess
    """The weight w is an exponent: the probability is p = 1 - e^(-w r) with r = log(1 + e^score).

    With q = e^(-w r), s = w * sigmoid(score): grad = s (1 - y / p), hess = grad (1 - sigmoid) + y s^2 q / p^2.
    """
    for i in range(start, stop):
        w = weight[i]
        exponent = w * softplus(bounded(score[i]))
        q = exp(-exponent)
        p = select(exponent < 1e-5, exponent * (1.0 - 0.5 * exponent), 1.0 - q)
        share = sigmoid(bounded(score[i]))
        s = w * share
        grad[i] = s * (1.0 - y[i] / p)
        hess[i] = max(grad[i] * (1.0 - share) + y[i] * (s / p) * (s / p) * q, 1e-15)


@njit
def cross_entropy_lambda_losses(start, stop, y, score, weight, out):  # OUT: out
    for i in range(start, stop):
        exponent = weight[i] * softplus(score[i])
        p = select(exponent < 1e-5, exponent * (1.0 - 0.5 * exponent), 1.0 - exp(-exponent))
        out[i] = (1.0 - y[i]) * exponent - select(y[i] > 0.0, y[i] * log(p), 0.0)


@njit
def hinge_gradients(start, stop, y, score, c, grad, hess):  # OUT: grad, hess
    for i in range(start, stop):
        side = select(y[i] > 0.5, 1.0, -1.0)
        inside = side * score[i] < 1.0
        grad[i] = select(inside, -side, 0.0)
        hess[i] = select(inside, 1.0, 0.0)


@njit
def hinge_losses(start, stop, y, score, c, out):  # OUT: out
    for i in range(start, stop):
        out[i] = max(1.0 - select(y[i] > 0.5, score[i], -score[i]), 0.0)


@njit
def ova_gradients(start, stop, y, scores, grad, hess):  # OUT: grad, hess
    """One class against the others, for each class."""
    for k in range(scores.shape[0]):
        for i in range(start, stop):
            p = sigmoid(scores[k, i])
            grad[k, i] = p - select(y[i] == k, 1.0, 0.0)
            hess[k, i] = p * (1.0 - p)


@njit
def ova_losses(start, stop, y, scores, out):  # OUT: out
    for i in range(start, stop):
        out[i] = 0.0
    for k in range(scores.shape[0]):
        for i in range(start, stop):
            out[i] += softplus(select(y[i] == k, -scores[k, i], scores[k, i]))


@njit
def ova_probabilities(start, stop, scores, out):  # OUT: out
    """The classes' own probabilities, divided by their sum."""
    for i in range(start, stop):
        total = 0.0
        for k in range(scores.shape[0]):
            out[k, i] = sigmoid(scores[k, i])
            total += out[k, i]
        for k in range(scores.shape[0]):
            out[k, i] = out[k, i] / total if total > 0.0 else 1.0 / scores.shape[0]


@njit
def exps(start, stop, score, out):  # OUT: out
    for i in range(start, stop):
        out[i] = exp(score[i])


@njit
def softpluses(start, stop, score, out):  # OUT: out
    for i in range(start, stop):
        out[i] = softplus(score[i])


@njit
def log1ps(start, stop, y, out):  # OUT: out
    for i in range(start, stop):
        out[i] = log(1.0 + y[i])
