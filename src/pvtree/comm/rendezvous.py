"""How workers that something else has started find each other: each gives a text, and all get all texts.

The texts hold addresses and secrets, so a rendezvous must be private to the workers. There is one on a shared folder
(rendezvous_file), one at the address of the first worker (rendezvous_env), and that of an engine, here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from pvtree.comm.base import name_workers
from pvtree.errors import InvalidParameterError, InvalidTypeError, WorkerTimeoutError

if TYPE_CHECKING:
    from pvtree.comm.tcp_greeting import TLS


class Rendezvous(Protocol):
    """A place where workers meet once."""

    rank: int
    size: int
    towards: str | None  # a host that all workers reach, if one is known

    def allgather(self, text: str, seconds: float) -> list[str]:
        """Every worker's text, by rank, or an error that names those that have not come in time."""

    def close(self) -> None:
        """Leave nothing behind. Called on every worker, once all are connected or this one has given up."""


class Engine:
    """The rendezvous of an engine that has an all-gather of its own.

    Parameters
    ----------
    rank, size : int
        This worker, and how many there are.
    allgather : callable
        Called once on every worker with its text; returns the texts of all workers by rank. For example
        ``BarrierTaskContext.get().allGather`` of Spark. It must end with an error if a worker is lost.
    """

    def __init__(self, rank: int, size: int, allgather: Callable[[str], Any]) -> None:
        check_place(rank, size)
        self.rank, self.size = rank, size
        self.towards: str | None = None
        self._allgather = allgather

    def allgather(self, text: str, seconds: float) -> list[str]:
        return list(self._allgather(text))

    def close(self) -> None:
        """The engine keeps nothing."""


def open_rendezvous(where: Any, rank: int | None, size: int | None, tls: TLS | None) -> Rendezvous:
    """The rendezvous that a user names: ``file:///shared/folder``, ``env://``, or one that is made already."""
    if not isinstance(where, str | os.PathLike):
        if not all(hasattr(where, name) for name in ("rank", "size", "towards", "allgather", "close")):
            raise InvalidTypeError(
                f"rendezvous is a {type(where).__name__}; give 'file:///shared/folder', 'env://', or a Rendezvous."
            )
        return where
    text = os.fspath(where)
    scheme, separator, rest = text.partition("://")
    if scheme == "env" and separator and not rest:
        from pvtree.comm.rendezvous_env import Environment

        return Environment(rank, size, tls)
    if scheme == "file" and separator and rest.startswith("/"):
        from pvtree.comm.rendezvous_file import Folder

        if rank is None or size is None:
            raise InvalidParameterError(
                f"The rendezvous {text} does not tell the workers apart; give rank= and size= on each of them."
            )
        return Folder(rest, rank, size)
    raise InvalidParameterError(
        f"The rendezvous {text!r} is not known; use file:///folder, with a folder that all workers see under the same "
        "path, or env:// for MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE."
    )


def check_place(rank: int, size: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InvalidParameterError(f"size is {size!r}; give the number of workers, at least 1.")
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < size:
        raise InvalidParameterError(f"rank is {rank!r}; give this worker's number, from 0 to {size - 1}.")


def nobody_came(rank: int, size: int, missing: list[int], where: str, seconds: float) -> WorkerTimeoutError:
    error = WorkerTimeoutError(
        f"Worker {rank} waited {seconds:g} s for {name_workers(missing)} of {size} to come to {where}; start all "
        "workers with the same rendezvous and size, and raise the time limit (timeout) if they only need longer."
    )
    error.about = name_workers(missing)  # type: ignore[attr-defined]
    return error
