"""How an MPI job ends when a rank fails or is killed: soon, completely, and with the rank's number printed.

Under MPICH a shell waits beside every rank and names the rank if it is killed. It is needed because MPICH's mpiexec
ends all ranks as soon as one is gone, and often prints the process number of one that it has ended itself: only a
process that outlives the rank and holds mpiexec back can name it. A shell starts in some 10 ms, takes about 150 kB of
memory, and sleeps until the rank ends.
"""

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

OUTPUT_SECONDS = 0.2  # mpiexec needs a moment to pass on what a rank has printed; later output is lost
HEAD_START = 1.0  # seconds: if all workers raise the same error, worker 0 alone shows it and ends the others
PEER_HEAD_START = 3.0  # seconds: a worker that only reports a peer's failure lets that peer speak first


def head_start(rank: int, error: BaseException) -> float:
    """How many seconds the other ranks have to report the cause, before this rank ends them."""
    if isinstance(error, PeerFailedError):  # mpiexec, too, knows more about a peer that was killed
        return PEER_HEAD_START
    return 0.0 if rank == 0 else HEAD_START


def who_failed(world: MPI.Intracomm) -> str:
    return f"Worker {world.rank} of {world.size}, on {host_name()}, has failed and ends all others"


def host_name() -> str:
    from mpi4py import MPI

    return str(MPI.Get_processor_name())


def end_all(world: MPI.Intracomm, message: str) -> NoReturn:
    """Print the message and make MPI end all ranks."""
    sys.stdout.flush()
    sys.stderr.write(message)
    sys.stderr.flush()
    sleep(OUTPUT_SECONDS)
    WITNESS.dismiss()
    world.Abort(1)
    sleep(OUTPUT_SECONDS)  # MPICH's Abort may return before it ends this rank
    os._exit(1)


class Ending:
    """Ends the job when this process exits after a failed fit, in a script that does not use ``mpi.run``.

    At exit MPI waits for all ranks: for ever, if one is stuck or waits for this one in its next fit. So a rank that
    exits with an exception after a failed fit ends all ranks. If a rank did not answer in the failed fit, so does a
    rank that has handled the exception. A later fit that succeeds with all ranks cancels this.
    """

    def __init__(self) -> None:
        self._world: MPI.Intracomm | None = None  # the ranks of the failed fit
        self._message = ""
        self._seconds = 0.0
        self._is_stuck = False

    def remember(self, world: MPI.Intracomm, error: BaseException, is_stuck: bool) -> None:
        """Remember a failed fit; but not the error itself, which would keep the training rows in memory."""
        self._world = world
        self._message = f"{who_failed(world)} ({type(error).__name__}: {error})\n"
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
            end_all(self._world, self._message)


class Witness:
    """A shell that waits beside this rank's process and names the rank if the process is killed.

    mpiexec notices that a rank is gone when the rank's connection to it (PMI_FD) closes, and then kills all ranks and
    their child processes. The shell holds that connection open until it has printed. Other launchers name the rank
    themselves, so the shell is started only where PMI_FD is set.
    """

    # The shell reads a word when the rank ends in order, and end of file when it is killed. It waits 0.1 s before it
    # speaks: if the rank has called MPI_Abort, mpiexec ends the shell in that time, and there is nothing to report.
    SCRIPT = f'read word; [ "$word" ] || {{ sleep 0.1; echo "$0" >&2; sleep {OUTPUT_SECONDS}; }}'

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None

    def watch(self, world: MPI.Intracomm) -> None:
        to_mpiexec = os.environ.get("PMI_FD", "")
        if self._shell is not None or world.size == 1 or os.name != "posix" or not to_mpiexec.isdigit():
            return
        message = (
            f"Worker {world.rank} of {world.size}, process {os.getpid()} on {host_name()}, was killed or has crashed; "
            "mpiexec now ends all others, and may name one of them as the cause."
        )
        with suppress(OSError):  # training does not depend on it
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", self.SCRIPT, message],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[int(to_mpiexec)],
            )
            atexit.register(self.dismiss)

    def dismiss(self) -> None:
        if self._shell is not None:
            with suppress(OSError):
                self._shell.communicate(b"all is well\n")
            self._shell = None


ENDING = Ending()
WITNESS = Witness()
