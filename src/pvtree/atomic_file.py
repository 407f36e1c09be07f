"""Files that are never half written."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO


def write_at_once(path: str, data: bytes, temporary: str | None = None) -> None:
    """Replace the file at ``path`` by one that holds ``data``; see ``replacing``."""
    with replacing(path, temporary) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], temporary: str | None = None) -> Iterator[BinaryIO]:
    """A file to write to, which replaces the one at ``path`` in one step when all is written.

    A crash leaves the old file or the new one, and at most a temporary one beside it, whose name no other process
    takes; any error leaves the old file alone. The data is on the disk before the name points to it, and the name
    before this returns. Pipes and devices, which cannot be replaced, are written to as they are.
    """
    target = os.path.realpath(os.fspath(path))
    if is_pipe_or_device(target):
        with open(target, "wb") as file:
            yield file
        return
    temporary = temporary or f"{target}.{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _make_name_last(os.path.dirname(target))


def is_pipe_or_device(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:  # not there yet, or not to be reached: writing will tell
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _make_name_last(folder: str) -> None:
    if os.name == "nt":  # Windows cannot open folders
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot do this either
            raise
    finally:
        os.close(opened)
