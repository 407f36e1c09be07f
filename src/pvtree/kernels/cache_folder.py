"""Where compiled kernels are kept when neither the package's folder nor the user's home can be written to."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from functools import cache


@cache
def private_folder() -> str | None:
    """A folder among the system's temporary ones, the same for all processes of a user; None if none is safe.

    What lies in it is loaded and run, so nobody else may have made it, reach into it or exchange it. Its name can be
    guessed: whoever plants a file, a link or a folder there only keeps kernels from being cached.
    """
    if not hasattr(os, "geteuid"):  # Windows: temporary folders belong to one user anyway
        return os.path.join(tempfile.gettempdir(), "pvtree-kernels")
    user = os.geteuid()
    try:
        parent = tempfile.gettempdir()
        if not _keeps_what_it_holds(os.stat(parent), user):
            return None
        path = os.path.join(parent, f"pvtree-kernels-{user}")
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        found = os.lstat(path)  # not what a link points to
    except OSError:
        return None
    is_private = stat.S_ISDIR(found.st_mode) and found.st_uid == user and stat.S_IMODE(found.st_mode) == 0o700
    return path if is_private else None


def _keeps_what_it_holds(parent: os.stat_result, user: int) -> bool:
    """Whether only the system, and this user, may rename or remove what lies in a folder."""
    is_shared = bool(parent.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return parent.st_uid in (0, user) and (not is_shared or bool(parent.st_mode & stat.S_ISVTX))
