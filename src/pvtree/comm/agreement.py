"""How workers agree before they train: that all could read their data, and on what each knows only in part."""

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
    """Return every worker's value, by rank: lists, dictionaries, strings and numbers, which travel as JSON."""
    if comm.size == 1:
        return [value]
    buffer = np.frombuffer(json.dumps(value).encode(), np.uint8)
    return [json.loads(part.tobytes()) for part in comm.allgather(buffer, "bins")]


def tell(value: Any, comm: Communicator, phase: str) -> Any:
    """Return worker 0's value, of the same types as for ``share``. The others' values are ignored."""
    return json.loads(comm.broadcast(np.frombuffer(json.dumps(value).encode(), np.uint8), phase).tobytes())


def all_or_none(read: Callable[[], Result], comm: Communicator) -> Result:
    """Return ``read()`` once it has succeeded on every worker; otherwise all raise the error of the lowest rank.

    All workers thus report wrong input in the same sentence, and nobody waits for a worker that has given up.
    """
    if comm.size == 1:
        return read()
    error: PvtreeError | None = None
    result: Any = None
    try:
        result = read()
    except PvtreeError as own:
        error = own
    failures = share(None if error is None else [type(error).__name__, str(error)], comm)
    for rank, failure in enumerate(failures):
        if failure is not None:
            kind, sentence = failure
            whose = "" if all(each == failure for each in failures) else f" (This is about the data of worker {rank}.)"
            raise getattr(errors, kind)(sentence + whose) from error
    return result


def check_same(settings: dict[str, str], comm: Communicator) -> None:
    """Raise unless the settings, text by name, are the same on all workers."""
    first, *others = share(settings, comm)
    for rank, its in enumerate(others, start=1):
        for name in sorted(first.keys() | its.keys()):
            if first.get(name) != its.get(name):
                raise InvalidParameterError(
                    f"{name} is {first.get(name)} on worker 0 and {its.get(name)} on worker {rank}; "
                    "use the same value on all workers."
                )


def agree_classes(found: np.ndarray, comm: Communicator, name: str = "y") -> np.ndarray:
    """Return the classes of all workers in ascending order, given those in this worker's rows."""
    if comm.size == 1:
        return found
    shared = [np.array(values, dtype) for dtype, values in share([found.dtype.str, found.tolist()], comm) if values]
    if len({_family(classes.dtype) for classes in shared}) > 1:
        raise InvalidDataError(f"{name} has labels of another type on some workers; make all strings or all numbers.")
    return np.unique(np.concatenate(shared)) if shared else found


def _family(dtype: np.dtype) -> str:
    return {"U": "text", "O": "objects", "b": "booleans"}.get(dtype.kind, "numbers")


def agree_width(y: np.ndarray, comm: Communicator, name: str = "y") -> int:
    """The number of columns of all workers' labels."""
    facts = share([len(y), 1 if y.ndim == 1 else y.shape[1]], comm)
    widths = {width for n_rows, width in facts if n_rows > 0}
    if len(widths) > 1:
        raise InvalidDataError(f"{name} has different numbers of columns on the workers; pass the same on all of them.")
    return widths.pop() if widths else 1


def agree_scores(score: np.ndarray | None, n_rows: int, comm: Communicator, name: str) -> np.ndarray | None:
    """Return this worker's initial scores, (n_rows, n_outputs), or None if no worker has any."""
    facts = share([0 if score is None else score.shape[1], n_rows], comm)
    widths = {width for width, n in facts if n > 0}
    if len(widths) > 1:
        raise InvalidDataError(
            f"{name} is given on some workers only, or with different widths; pass it on all workers or on none, with "
            "one column for each class."
        )
    width = widths.pop() if widths else 0
    return None if width == 0 else np.empty((0, width)) if n_rows == 0 else score


def agree_weights(weight: np.ndarray | None, n_rows: int, comm: Communicator, name: str) -> np.ndarray | None:
    """Return this worker's weights, or None if every row of every worker weighs 1, which trains like no weights."""
    facts = [False, n_rows > 0, False, False]
    if weight is not None:
        facts = [n_rows > 0, False, bool((weight > 0).any()), bool((weight != 1).any())]
    given, lacking, positive, unequal = (any(fact) for fact in zip(*share(facts, comm), strict=True))
    if given and lacking:
        raise InvalidDataError(f"{name} is given on some workers only; pass it on all workers or on none.")
    if given and not positive:
        raise InvalidDataError(f"{name} holds only zero weights; at least one row must weigh more than zero.")
    if not unequal:
        return None
    return np.ones(n_rows) if weight is None else weight
