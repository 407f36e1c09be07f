"""How workers come to one view before they train: all could read their data, and what each knows in part is joined."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from pvtree import errors
from pvtree.comm import Communicator
from pvtree.errors import InvalidDataError, InvalidParameterError, PvtreeError

Result = TypeVar("Result")


def share(value: Any, comm: Communicator) -> list[Any]:
    """Everybody's value, by rank: plain lists, dictionaries, strings and numbers, which travel as JSON."""
    if comm.size == 1:
        return [value]
    buffer = np.frombuffer(json.dumps(value).encode(), np.uint8)
    return [json.loads(part.tobytes()) for part in comm.allgather(buffer, "bins")]


def tell(value: Any, comm: Communicator, phase: str) -> Any:
    """Worker 0's value, of the same kinds; what the others give is not looked at."""
    return json.loads(comm.broadcast(np.frombuffer(json.dumps(value).encode(), np.uint8), phase).tobytes())


def all_or_none(read: Callable[[], Result], comm: Communicator) -> Result:
    """What ``read()`` returns here, once it has worked on every worker; otherwise all raise the first worker's error.

    So wrong input is told in the same sentence everywhere, and nobody waits for a worker that has given up.
    """
    if comm.size == 1:
        return read()
    error: PvtreeError | None = None
    result: Any = None
    try:
        result = read()
    except PvtreeError as own:
        error = own
    told = share(None if error is None else [type(error).__name__, str(error)], comm)
    for rank, failure in enumerate(told):
        if failure is not None:
            kind, sentence = failure
            whose = "" if all(each == failure for each in told) else f" (This is about the data of worker {rank}.)"
            raise getattr(errors, kind)(sentence + whose) from error
    return result


def check_same(settings: dict[str, str], comm: Communicator) -> None:
    """What decides the training must be the same on all workers; ``settings`` by name, as they are shown."""
    first, *others = share(settings, comm)
    for rank, its in enumerate(others, start=1):
        for name in sorted(first.keys() | its.keys()):
            if first.get(name) != its.get(name):
                raise InvalidParameterError(
                    f"{name} is {first.get(name)} on worker 0 and {its.get(name)} on worker {rank}; "
                    "give all workers the same."
                )


def agree_classes(found: np.ndarray, comm: Communicator, name: str = "y") -> np.ndarray:
    """The classes of all workers in ascending order, from those that each has found in its own rows."""
    if comm.size == 1:
        return found
    told = [np.array(values, dtype) for dtype, values in share([found.dtype.str, found.tolist()], comm) if values]
    if len({_family(classes.dtype) for classes in told}) > 1:
        raise InvalidDataError(f"{name} has labels of another type on some workers; make them all strings or numbers.")
    return np.unique(np.concatenate(told)) if told else found


def _family(dtype: np.dtype) -> str:
    return {"U": "text", "O": "objects", "b": "booleans"}.get(dtype.kind, "numbers")


def agree_weights(weight: np.ndarray | None, n_rows: int, comm: Communicator, name: str) -> np.ndarray | None:
    """A worker's weights, or None where all rows of all workers weigh 1: unit weights train exactly like none."""
    facts = [False, n_rows > 0, False, False]
    if weight is not None:
        facts = [n_rows > 0, False, bool((weight > 0).any()), bool((weight != 1).any())]
    given, lacking, positive, unequal = (any(fact) for fact in zip(*share(facts, comm), strict=True))
    if given and lacking:
        raise InvalidDataError(f"{name} is given on some workers only; give it on all workers or on none.")
    if given and not positive:
        raise InvalidDataError(f"{name} holds only zero weights; at least one row must weigh more than zero.")
    if not unequal:
        return None
    return np.ones(n_rows) if weight is None else weight
