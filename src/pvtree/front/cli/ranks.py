"""Under mpiexec: how many ranks there are, and one error of theirs that is told once."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import sleep
from typing import TYPE_CHECKING

import click

from pvtree.errors import CommunicationError, PvtreeError

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.comm.mpi import MPICommunicator

SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")
AGREE_SECONDS = 0.6  # for all ranks to come to the same error; those that only hear of it wait longer to speak


def n_ranks() -> int:
    """How many ranks mpiexec has started; 1 without it."""
    sizes = [int(os.environ[name]) for name in SIZE_VARIABLES if os.environ.get(name, "").isdigit()]
    if not sizes and "PMIX_RANK" in os.environ:  # tells that there are ranks, but not how many
        from pvtree.comm.mpi import load_mpi

        return int(load_mpi().COMM_WORLD.size)
    return max(sizes, default=1)


def refuse_ranks(command: str) -> None:
    """Of a command that works in one process."""
    if n_ranks() > 1:
        raise click.UsageError(f"pvtree {command} works in one process; start it without mpiexec.")


def on_mpi(work: Callable[[Communicator], None], timeout: float) -> None:
    """Run ``work(comm)`` on all ranks. One of them tells of wrong input in a sentence; else it is as with mpi.run."""
    from pvtree.comm import mpi

    def attempt(line: MPICommunicator) -> PvtreeError | None:
        """``line`` stays whole when the training's own communicator breaks, so ranks can still meet on it."""
        try:
            with mpi.MPICommunicator(timeout=timeout) as comm:
                work(comm)
        except CommunicationError:
            raise
        except PvtreeError as error:
            line.timeout = AGREE_SECONDS
            try:
                line.leave()
            except CommunicationError:  # this rank alone has failed: the others wait for it, or hear of it
                click.echo(f"Error: {error}", err=True)
                sleep(mpi.OUTPUT_SECONDS)
                mpi.load_mpi().COMM_WORLD.Abort(2)
            return error
        return None

    error = mpi.run(attempt, timeout=timeout)
    if error is not None:
        raise error
