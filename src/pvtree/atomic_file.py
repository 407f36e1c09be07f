"""Files that are never half written."""

from __future__ import annotations

import contextlib
import errno
import os


def write_at_once(path: str, data: bytes, temporary: str) -> None:
    """Replace the file at ``path`` in one step: a crash leaves the old one or the new one, and at most a temporary one.

    The data is on the disk before the name points to it, and the name before this returns.
    """
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if os.name != "nt":  # Windows cannot open folders
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        except OSError as error:
            if error.errno != errno.EINVAL:  # some network file systems cannot do this either
                raise
        finally:
            os.close(folder)
