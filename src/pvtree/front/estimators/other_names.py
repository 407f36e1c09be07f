"""Constructor arguments under LightGBM's and XGBoost's names: renamed for training, and shown as they were written."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pvtree.comm.user_warnings import warn_user
from pvtree.parameters.aliases import ReadNames, agree, converted, read_names, synonym

if TYPE_CHECKING:
    from pvtree.front.estimators.base import Estimator

Init = TypeVar("Init", bound=Callable[..., None])
KEPT = "_other_names"  # the attribute that holds them, if there are any


def takes_other_names(init: Init) -> Init:
    """Let a constructor take every name of a parameter, also from subclasses that pass on ``**kwargs``."""
    known = [name for name in inspect.signature(init).parameters if name != "self"]

    @functools.wraps(init)
    def wherever(self: Estimator, *args: Any, **given: Any) -> None:
        read = read_names(given, known, type(self).__name__, self._anyway)
        init(self, *args, **read.values)
        keep(self, read)

    return wherever  # type: ignore[return-value]


def keep(estimator: Estimator, read: ReadNames) -> None:
    """Remember the names as they were written, and drop those whose parameter has a new value."""
    for sentence in read.ignored:
        warn_user(sentence)
    names = estimator._get_param_names()
    objective = getattr(estimator, "objective", None)
    held = others(estimator)
    old = {name: value for name, value in held.items() if synonym(name, names, objective) not in read.values}
    kept = old | read.others
    if kept or KEPT in vars(estimator):  # scikit-learn wants no attributes beside parameters
        setattr(estimator, KEPT, kept)
    for name, value in read.others.items():
        if getattr(type(estimator), name, None) is None:
            setattr(estimator, name, value)


def others(estimator: Estimator) -> dict[str, Any]:
    """What was given under other names and still holds."""
    names = estimator._get_param_names()
    kept: Mapping[str, Any] = vars(estimator).get(KEPT, {})
    return {name: value for name, value in kept.items() if _still_holds(estimator, name, value, names)}


def _still_holds(estimator: Estimator, name: str, value: Any, names: list[str]) -> bool:
    """False if the parameter has been set as an attribute since."""
    right = synonym(name, names, getattr(estimator, "objective", None))
    return right is None or agree(converted(name, right, value), getattr(estimator, right, None))
