"""Where compiled kernels are kept: folders that they may be read from, and the one that new ones are written to."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numba

from pvtree.kernels.stamp import of_baselines, of_this_machine, sources

SHIPPED = Path(__file__).parent / "compiled"  # in wheels that were made with compiled kernels
N_KEPT = 8  # folders of other versions, processors or programs, so that going back and forth stays quick


class Folders(NamedTuple):
    """``new`` is None if nothing can be written; ``why`` says so if ``new`` is not where it usually is."""

    new: Path | None
    to_read: list[Path]
    why: str = ""


@cache
def folders() -> Folders:
    """Where the kernels of this version are, for this processor and these versions of Python, numba and LLVM."""
    if sources() is None:  # no text, no stamp
        return Folders(None, [], "the sources of pvtree are not in a folder")
    name = of_this_machine()
    shipped = [SHIPPED / stamp for stamp in of_baselines()]
    usual = [place / name for place in _usual_places()]
    for folder in usual:
        if _is_writable(folder):
            _remove_old(folder)
            return Folders(folder, [*usual, *shipped])
    private = private_folder()
    if private is not None and _is_writable(Path(private) / name):
        why = "neither the package's folder nor the home folder is writable"
        return Folders(Path(private) / name, [*usual, Path(private) / name, *shipped], why)
    return Folders(None, [*usual, *shipped], "no folder is writable and private")


def _usual_places() -> list[Path]:
    """Where the user wants kernels to be; else beside the sources, so that each version has its own; else at home."""
    chosen = str(getattr(numba.config, "CACHE_DIR", ""))
    at_home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    beside = Path(__file__).parent / "__pycache__"
    return [*([Path(chosen) / "pvtree"] if chosen else []), beside, at_home / "pvtree" / "kernels"]


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        os.utime(folder)  # in use
    except OSError:
        return False
    return True


def _remove_old(folder: Path) -> None:
    """Remove what has not been used for the longest time; a process that still uses it compiles again."""
    with suppress(OSError):
        others = [path for path in folder.parent.iterdir() if _is_stamped(path) and path != folder]
        for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[N_KEPT:]:
            shutil.rmtree(path, ignore_errors=True)


def _is_stamped(path: Path) -> bool:
    return path.is_dir() and len(path.name) == len(of_this_machine()) and not set(path.name) - set("0123456789abcdef")


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
