"""Warnings that reach the user: at the line that called pvtree, and from a worker's thread to where the user is."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pvtree.errors import public

Heard = tuple[type[Warning], str]

_lock = threading.Lock()
_by_thread: dict[int, list[Heard]] = {}  # of the threads that are listened to
_kept = warnings.catch_warnings()  # how the process showed warnings before


@public
class SkewWarning(UserWarning):
    """The workers' rows differ so much that what each finds alone may be wrong: its votes, or its trees."""


def warn_user(sentence: str, category: type[Warning] = UserWarning) -> None:
    """As if it came from the line that called pvtree, however deep inside this is."""
    depth = 1
    while sys._getframe(depth).f_globals.get("__name__", "").startswith("pvtree.") and sys._getframe(depth).f_back:
        depth += 1
    warnings.warn(sentence, category, stacklevel=depth + 1)


@contextmanager
def listening() -> Iterator[list[Heard]]:
    """The list that this thread's warnings go to meanwhile; those of other threads are shown as ever.

    Python keeps how warnings are shown for the whole process, so that two threads which change it, each for itself,
    leave it in disorder: the first one in changes it here for all, and the last one out puts it back.
    """
    heard: list[Heard] = []
    with _lock:
        if not _by_thread:
            _change()
        _by_thread[threading.get_ident()] = heard
    try:
        yield heard
    finally:
        with _lock:
            del _by_thread[threading.get_ident()]
            if not _by_thread:
                _kept.__exit__(None, None, None)


def _change() -> None:
    global _kept
    _kept = warnings.catch_warnings()
    _kept.__enter__()
    show = warnings.showwarning

    def keep_or_show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        heard = _by_thread.get(threading.get_ident())
        if heard is None:
            show(message, category, *where)
        else:
            heard.append((category, str(message)))

    warnings.showwarning = keep_or_show  # type: ignore[assignment]
    # Not only the first time in a process: a worker's process serves many trainings.
    warnings.simplefilter("always", UserWarning)
