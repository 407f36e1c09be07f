"""Unknown arguments of fit: an error that says what to do, in place of Python's TypeError."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pvtree.errors import InvalidParameterError
from pvtree.parameters.aliases import synonym
from pvtree.parameters.suggestions import closest

_INSTEAD = {
    "base_margin": "pass init_score instead.",
    "base_margin_eval_set": "pass eval_init_score instead.",
    **dict.fromkeys(("group", "qid", "eval_group", "eval_qid"), "queries are for rankings: use GBDTRanker."),
    "eval_at": "ranks are for rankings: use GBDTRanker.",
}


def refuse_unknown(given: Mapping[str, Any], fit: Callable[..., Any], owner: str, parameters: Collection[str]) -> None:
    """Raise an error for the first of the arguments that ``fit`` does not have; None asks for nothing."""
    for name, value in given.items():
        if value is None and name in _INSTEAD:
            continue
        raise InvalidParameterError(f"{name} is not an argument of {owner}.fit; {_remedy(name, fit, parameters)}")


def _remedy(name: str, fit: Callable[..., Any], parameters: Collection[str]) -> str:
    if name in _INSTEAD:
        return _INSTEAD[name]
    right = synonym(name, parameters)
    if right is not None:
        return f"it is a parameter: call set_params({right}=...) before fit."
    signature = inspect.signature(fit).parameters.values()
    known = [each.name for each in signature if each.name != "self" and each.kind is not each.VAR_KEYWORD]
    near = closest(name, known)
    return f"did you mean {near}?" if near else f"its arguments are {', '.join(known)}."
