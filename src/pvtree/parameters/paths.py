"""Paths as users give them, before a file is read or written."""

from __future__ import annotations

import errno
import os


def checked_path(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The path, or an OSError, as for any other file that cannot be opened, if no file can have this name.

    Python raises a ValueError then, which nobody who opens a file expects.
    """
    try:
        is_possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise OSError(errno.EINVAL, "no file can have this name")
    return path


def shown_path(path: str | os.PathLike[str]) -> str:
    """The path in a sentence: in quotes, with escapes, if it could not be printed."""
    text = os.fspath(path)
    return text if text.isprintable() else repr(text)
