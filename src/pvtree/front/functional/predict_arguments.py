"""Arguments of XGBoost's predict that Booster.predict lacks: accepted without effect, or refused."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pvtree.errors import InvalidParameterError

_SWITCH = (True, False)
ANY: tuple[Any, ...] = ()
# By name: the values that ask for what pvtree does anyway.
OF_XGBOOST: dict[str, tuple[Any, ...]] = {
    "training": _SWITCH,
    "validate_features": _SWITCH,
}


def check_others(given: Mapping[str, Any], known: Mapping[str, tuple[Any, ...]], predict: Callable[..., Any]) -> None:
    """Raise if an argument that ``predict`` does not have asks for something; None asks for nothing."""
    for name, value in given.items():
        if name not in known:
            raise InvalidParameterError(f"{name} is no argument of Booster.predict; {_remedy(name, known, predict)}")
        if value is not None and known[name] and value not in known[name]:
            raise InvalidParameterError(f"{name}={value!r} is not supported by Booster.predict; leave {name} out.")


def _remedy(name: str, known: Mapping[str, tuple[Any, ...]], predict: Callable[..., Any]) -> str:
    signature = inspect.signature(predict).parameters.values()
    own = [each.name for each in signature if each.name != "self" and each.kind is not each.VAR_KEYWORD]
    close = difflib.get_close_matches(name.lower(), [*own, *known], n=1)
    return f"did you mean {close[0]}?" if close else f"its arguments are {', '.join(own)}."
