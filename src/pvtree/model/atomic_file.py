"""Files that are written completely or not at all."""

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

from pvtree.parameters.paths import checked_path

TOKEN_BYTES = 8  # in the names of temporary files


def write_at_once(path: str, data: bytes, suffix: str = ".tmp") -> None:
    """Replace the file at ``path`` with one that holds ``data``; see ``replacing``."""
    with replacing(path, suffix) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], suffix: str = ".tmp") -> Iterator[BinaryIO]:
    """Give a file to write to, which replaces the one at ``path`` in one step at the end.

    The new file keeps the permissions of the old one. A crash leaves either the old file or the new one, and at most a
    temporary file beside it, which ends with ``suffix`` and has a name that nobody can guess. An error leaves the old
    file alone. The data is on disk before the name points to it, and the name is on disk before this returns.
    Pipes and devices cannot be replaced, so they are written to directly.
    """
    target = os.path.realpath(os.fspath(checked_path(path)))
    if is_pipe_or_device(target):
        with open(target, "wb") as file:
            yield file
        return
    temporary = f"{target}.{secrets.token_hex(TOKEN_BYTES)}{suffix}"
    try:
        with open(temporary, "xb", opener=partial(_create_like, _found(target))) as file:  # x: fails if it exists
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(os.path.dirname(target))


def leftovers(path: str, suffix: str) -> list[str]:
    """The temporary files with this suffix that crashes have left beside ``path``."""
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
    """Create a file with the permissions and the owner of the one it will replace, or by umask if there is none."""
    mode = 0o666 if replaced is None else stat.S_IMODE(replaced.st_mode) & 0o777
    # Created with the final mode: at no time may anybody open it who may not open it in the end.
    handle = os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), mode)
    if replaced is not None and hasattr(os, "fchmod"):
        with contextlib.suppress(OSError):  # only root may change the owner
            os.fchown(handle, replaced.st_uid, replaced.st_gid)
        with contextlib.suppress(OSError):  # file systems without permissions
            os.fchmod(handle, mode)  # restores what umask took away
    return handle


def is_pipe_or_device(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:  # absent or unreachable: writing will tell
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _sync_folder(folder: str) -> None:
    if os.name == "nt":  # Windows cannot open folders
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot sync folders either
            raise
    finally:
        os.close(opened)
