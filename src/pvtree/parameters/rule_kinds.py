"""Kinds of rules about parameters: what a parameter means, and which values it takes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from pvtree.errors import InvalidParameterError, InvalidTypeError
from pvtree.parameters.aliases import objective_named

INT64_MAX = 2**63 - 1  # kernels have no larger integers


@dataclass(frozen=True)
class Rule:
    """What a parameter means and which values it takes."""

    meaning: str
    allowed: str  # completes "<name> must be ..."
    has_type: Callable[[Any], bool]
    in_range: Callable[[Any], bool] = lambda value: True  # is asked only about values of the right type
    type_name: str = ""  # in docs: "int", or "{'split', 'gain'}" if it lists every value

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidTypeError or InvalidParameterError unless the rule allows ``value``."""
        if not self.has_type(value):
            raise InvalidTypeError(f"{name} must be {self.allowed}, got {_shown(value)}.")
        if not self.in_range(value):
            is_whole = self.allowed.startswith("an integer") and is_integer(value)
            below = " below 2**63" if is_whole and value > INT64_MAX else ""
            raise InvalidParameterError(f"{name} must be {self.allowed}{below}, got {_shown(value)}.")


def _shown(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 200:  # repr refuses integers of more than 4,300 digits
        return f"an integer of {value.bit_length()} bits"
    return textwrap.shorten(repr(value), 60, placeholder="...")


def is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def is_list(value: Any) -> bool:
    """A list, a tuple or an array; not an array without dimensions, which has no length."""
    return isinstance(value, list | tuple | np.ndarray) and getattr(value, "ndim", 1) > 0


def is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer above the largest float
        return False


def integer(meaning: str, low: int, high: int | None = None, also: str = "") -> Rule:
    """``also`` is one value outside the range and its meaning, such as "-1 for no limit"."""
    allowed = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    extra = int(also.split()[0]) if also else low
    top = INT64_MAX if high is None else high
    if also:
        allowed += f" or {also}"
    return Rule(meaning, allowed, is_integer, lambda v: low <= v <= top or v == extra, "int")


def positive(meaning: str) -> Rule:
    return Rule(meaning, "a finite number greater than 0", is_real, lambda v: is_finite(v) and v > 0, "float")


def non_negative(meaning: str) -> Rule:
    return Rule(meaning, "a finite number of at least 0", is_real, lambda v: is_finite(v) and v >= 0, "float")


def fraction(meaning: str) -> Rule:
    return Rule(meaning, "a number greater than 0 and at most 1", is_real, lambda v: 0 < v <= 1, "float")


def one_of(meaning: str, *names: str, note: str = "") -> Rule:
    allowed = " or ".join(repr(name) for name in names) + note
    type_name = f"{{{', '.join(map(repr, names))}}}"
    return Rule(meaning, allowed, lambda v: isinstance(v, str), lambda v: v in names, type_name)


def switch(meaning: str) -> Rule:
    return Rule(meaning, "True or False", lambda v: isinstance(v, bool | np.bool_), type_name="bool")


def optional(rule: Rule) -> Rule:
    return Rule(
        rule.meaning,
        f"{rule.allowed} or None",
        lambda v: v is None or rule.has_type(v),
        lambda v: v is None or rule.in_range(v),
        f"{rule.type_name} or None",
    )


def objective(*names: str) -> Rule:
    """One of the estimator's objectives by name, None for its default, or a user's function."""
    allowed = " or ".join(repr(name) for name in names) + ", None, or a function f(y_true, y_pred[, weight])"
    return Rule(
        "The loss to minimise. LightGBM's and XGBoost's names are accepted too. A function returns the gradient and "
        "the hessian with respect to the raw predictions. None for the estimator's default.",
        allowed,
        lambda v: v is None or isinstance(v, str) or callable(v),
        lambda v: not isinstance(v, str) or objective_named(v, names) is not None,
        "str, callable or None",
    )
