"""How an MPI job comes to its end when a rank fails or is killed: soon, whole, and with the rank's number in print."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from contextlib import suppress
from time import sleep
from typing import TYPE_CHECKING, NoReturn

from pvtree.errors import PeerFailedError

if TYPE_CHECKING:
    from mpi4py import MPI

OUTPUT_SECONDS = 0.2  # mpiexec needs a moment to pass on what a rank has printed; what comes too late is lost
HEAD_START = 1.0  # seconds: an error that all workers have is shown by worker 0 alone, which then ends the others
PEER_HEAD_START = 3.0  # who has only heard of a failure leaves the last word to the worker that it happened to


def head_start(rank: int, error: BaseException) -> float:
    """How many seconds others have to tell more of what has happened, before this rank ends them."""
    if isinstance(error, PeerFailedError):  # mpiexec, too, has more to say of a peer that was killed
        return PEER_HEAD_START
    return 0.0 if rank == 0 else HEAD_START


def who_failed(world: MPI.Intracomm) -> str:
    return f"Worker {world.rank} of {world.size}, on {host_name()}, has failed and ends all others"


def host_name() -> str:
    from mpi4py import MPI

    return str(MPI.Get_processor_name())


def end_all(world: MPI.Intracomm, told: str) -> NoReturn:
    """Print, and have MPI end all ranks."""
    sys.stdout.flush()
    sys.stderr.write(told)
    sys.stderr.flush()
    sleep(OUTPUT_SECONDS)
    WITNESS.dismiss()
    world.Abort(1)
    sleep(OUTPUT_SECONDS)  # MPICH's Abort may return before it ends this rank
    os._exit(1)


class Ending:
    """What becomes of the job when this process ends after a failed fit, in a script that does not use ``mpi.run``.

    MPI waits for all ranks before it lets one go: for ever, if one is stuck or waits for this one in its next fit. So
    a rank that ends with an exception after a failed fit ends all. Also one that has handled it, if a rank did not
    answer. Not if a later fit has shown that all ranks are well.
    """

    def __init__(self) -> None:
        self._world: MPI.Intracomm | None = None  # the ranks of the fit that has failed
        self._told = ""
        self._seconds = 0.0
        self._is_stuck = False

    def remember(self, world: MPI.Intracomm, error: BaseException, is_stuck: bool) -> None:
        """The error itself is not kept: it would keep the rows that were trained on."""
        self._world = world
        self._told = f"{who_failed(world)} ({type(error).__name__}: {error})\n"
        self._seconds = head_start(world.rank, error)
        self._is_stuck = is_stuck
        atexit.unregister(self._end_if_failed)
        atexit.register(self._end_if_failed)  # runs before mpi4py waits for the others

    def all_are_well(self, world: MPI.Intracomm) -> None:
        if self._world is not None and world.size >= self._world.size:
            self._world = None

    def _end_if_failed(self) -> None:
        from mpi4py import MPI

        is_uncaught = getattr(sys, "last_value", None) is not None  # Python has printed it by now
        if self._world is not None and (is_uncaught or self._is_stuck) and not MPI.Is_finalized():
            sys.stderr.flush()
            sleep(self._seconds)
            end_all(self._world, self._told)


class Witness:
    """A shell that waits beside this rank's process, and says which rank it was if that ends without a word.

    MPICH's mpiexec tells a process number, but often that of one that it has ended itself. It sees that a rank is gone
    when the rank's line to it closes, and then kills all ranks and what they have started. The shell holds that line
    open until it has spoken. Other launchers name the rank themselves.
    """

    # It gives an MPI_Abort of this rank time to end all ranks, this shell too: then there is nothing to tell.
    SCRIPT = f'read word; [ "$word" ] || {{ sleep 0.1; echo "$0" >&2; sleep {OUTPUT_SECONDS}; }}'

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None

    def watch(self, world: MPI.Intracomm) -> None:
        line = os.environ.get("PMI_FD", "")
        if self._shell is not None or world.size == 1 or os.name != "posix" or not line.isdigit():
            return
        told = (
            f"Worker {world.rank} of {world.size}, process {os.getpid()} on {host_name()}, was killed or has crashed; "
            "mpiexec now ends all others, and may name one of them as the cause."
        )
        with suppress(OSError):  # training does not depend on it
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", self.SCRIPT, told],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[int(line)],
            )
            atexit.register(self.dismiss)

    def dismiss(self) -> None:
        if self._shell is not None:
            with suppress(OSError):
                self._shell.communicate(b"all is well\n")
            self._shell = None


ENDING = Ending()
WITNESS = Witness()
