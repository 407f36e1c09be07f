"""Commands under mpiexec: how many ranks there are, and how they report an error once."""

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
AGREE_SECONDS = 0.6  # limit for all ranks to raise the same error; ranks that only hear of it wait longer to speak


def n_ranks() -> int:
    """How many ranks mpiexec has started; 1 without mpiexec."""
    sizes = [int(os.environ[name]) for name in SIZE_VARIABLES if os.environ.get(name, "").isdigit()]
    if not sizes and "PMIX_RANK" in os.environ:  # there are ranks, but PMIx does not say how many
        from pvtree.comm.mpi import load_mpi

        return int(load_mpi().COMM_WORLD.size)
    return max(sizes, default=1)


def refuse_ranks(command: str) -> None:
    """Raise if a command that runs in one process was started by mpiexec."""
    if n_ranks() > 1:
        raise click.UsageError(f"pvtree {command} runs in one process; start it without mpiexec.")


def on_mpi(work: Callable[[Communicator], None], timeout: float) -> None:
    """Run ``work(comm)`` on all ranks like ``mpi.run``, but let one rank report wrong input in one sentence."""
    from pvtree.comm import mpi

    def attempt(outer: MPICommunicator) -> PvtreeError | None:
        """The outer communicator still works when the training's own one is broken, so ranks can meet on it."""
        try:
            with mpi.MPICommunicator(timeout=timeout) as comm:
                work(comm)
        except CommunicationError:
            raise
        except PvtreeError as error:
            outer.timeout = AGREE_SECONDS
            try:
                outer.leave()
            except CommunicationError:  # only this rank has failed
                click.echo(f"Error: {error}", err=True)
                sleep(mpi.OUTPUT_SECONDS)
                mpi.load_mpi().COMM_WORLD.Abort(2)
            return error
        return None

    error = mpi.run(attempt, timeout=timeout)
    if error is not None:
        raise error
