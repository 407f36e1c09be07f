"""What a worker of an engine hands back: a result, or an error that survives the way to the driver."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pvtree.errors import CommunicationError, PeerFailedError


class Outcome(NamedTuple):
    """What a task returns. Errors are returned, not raised: the engine would log them, wrap them or try again."""

    result: Any
    error: BaseException | None
    where: dict[str, Any] | None = None  # the error's traceback, which pickle would drop


def able_to_travel(error: BaseException, dumps: Callable[[Any], Any]) -> BaseException:
    """The exception, or one with the same words if it cannot be pickled."""
    try:
        pickle.loads(dumps(error))
        return error
    except Exception:
        stand_in = CommunicationError(f"{type(error).__name__}: {error}")
    for note in getattr(error, "__notes__", ()):
        stand_in.add_note(note)
    stand_in.rank = getattr(error, "rank", None)  # type: ignore[attr-defined]
    return stand_in


def cause_of(errors: Iterable[BaseException]) -> BaseException | None:
    """The error to raise: one that does not merely report another worker's, or else one that saw a worker vanish."""

    def distance(error: BaseException) -> int:
        return 0 if not isinstance(error, PeerFailedError) else 1 if hasattr(error, "lost") else 2

    return min(errors, key=distance, default=None)
