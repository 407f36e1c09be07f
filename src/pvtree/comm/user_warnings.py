"""Warnings that reach the user: at the line that called pvtree, even from a worker's thread or process."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pvtree.errors import InvalidTypeError, public

Heard = tuple[type[Warning], str]

_lock = threading.Lock()
_by_thread: dict[int, list[Heard]] = {}  # by thread, while ``listening``
_kept = warnings.catch_warnings()  # restores how the process showed warnings before


@public
class SkewWarning(UserWarning):
    """The workers' rows differ so much that what each finds alone, votes or trees, may be wrong."""


class Logging(NamedTuple):
    """Where lines and warnings go, in place of the screen and Python's warnings."""

    info: Callable[[str], object]
    warning: Callable[[str], object]


_logging: Logging | None = None


@public
def register_logger(logger: Any, info_method_name: str = "info", warning_method_name: str = "warning") -> None:
    """Send the lines that callbacks print, and pvtree's warnings, to a logger, as in LightGBM.

    Parameters
    ----------
    logger : object
        Such as ``logging.getLogger("training")``.
    info_method_name, warning_method_name : str, default="info" and "warning"
        The methods that take a line and a warning.
    """
    global _logging
    methods: list[Any] = [getattr(logger, name, None) for name in (info_method_name, warning_method_name)]
    if not all(callable(method) for method in methods):
        raise InvalidTypeError(
            f"logger must have the methods {info_method_name!r} and {warning_method_name!r}; give their names as "
            "info_method_name and warning_method_name."
        )
    _logging = Logging(*methods)


def tell_user(line: str) -> None:
    """Print a line, or send it to the logger."""
    if _logging is None:
        print(line, flush=True)
    else:
        _logging.info(line)


def warn_user(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn as if at the line that called pvtree, however deep the call stack."""
    if _logging is not None and threading.get_ident() not in _by_thread:
        _logging.warning(sentence)
        return
    depth = 1
    while sys._getframe(depth).f_globals.get("__name__", "").startswith("pvtree.") and sys._getframe(depth).f_back:
        depth += 1
    warnings.warn(sentence, category, stacklevel=depth + 1)


@contextmanager
def listening() -> Iterator[list[Heard]]:
    """Collect this thread's warnings in a list; those of other threads are shown as usual.

    How warnings are shown is a setting of the whole process, and threads that each changed and restored it would leave
    it wrong. Here the first thread to enter changes it for all, and the last one to leave restores it.
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
    # Python shows a warning once per process, but a worker's process serves many trainings.
    warnings.simplefilter("always", UserWarning)
