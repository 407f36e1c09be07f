"""Files that are never half written."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

TOKEN_BYTES = 8  # in the names of temporary files


def write_at_once(path: str, data: bytes, suffix: str = ".tmp") -> None:
    """Replace the file at ``path`` by one that holds ``data``; see ``replacing``."""
    with replacing(path, suffix) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], suffix: str = ".tmp") -> Iterator[BinaryIO]:
    """A file to write to, which replaces the one at ``path`` in one step when all is written.

    It keeps the permissions of the one that it replaces. A crash leaves the old file or the new one, and at most a
    temporary one beside it that ends with ``suffix``, whose name nobody can guess; any error leaves the old file alone.
    The data is on the disk before the name points to it, and the name before this returns.
    Pipes and devices, which cannot be replaced, are written to as they are.
    """
    target = os.path.realpath(os.fspath(path))
    if is_pipe_or_device(target):
        with open(target, "wb") as file:
            yield file
        return
    temporary = f"{target}.{secrets.token_hex(TOKEN_BYTES)}{suffix}"
    try:
        with open(temporary, "xb", opener=partial(_create_like, _found(target))) as file:  # x: only if it is not there
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _make_name_last(os.path.dirname(target))


def leftovers(path: str, suffix: str) -> list[str]:
    """The temporary files of this suffix that crashes have left beside ``path``."""
    folder, name = os.path.split(os.path.realpath(path))
    pattern = re.compile(rf"{re.escape(name)}\.[0-9a-f]{{{2 * TOKEN_BYTES}}}{re.escape(suffix)}")
    with os.scandir(folder) as entries:
        return [each.path for each in entries if pattern.fullmatch(each.name) and each.is_file(follow_symlinks=False)]


def _found(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _create_like(replaced: os.stat_result | None, name: str, flags: int) -> int:
    """A handle of a new file, with the permissions and the owner of the one that it will replace, or by umask."""
    mode = 0o666 if replaced is None else stat.S_IMODE(replaced.st_mode) & 0o777
    # At no time may anybody open it who may not in the end.
    handle = os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), mode)
    if replaced is not None and hasattr(os, "fchmod"):
        with contextlib.suppress(OSError):  # only root may give files away
            os.fchown(handle, replaced.st_uid, replaced.st_gid)
        with contextlib.suppress(OSError):  # file systems without permissions
            os.fchmod(handle, mode)  # what umask took away
    return handle


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
