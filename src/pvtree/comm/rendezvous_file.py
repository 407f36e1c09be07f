"""Workers that meet in a folder that all of them see: for schedulers that offer nothing but a shared file system.

Worker 0 opens a run by writing its name to ``leader``. The others hand in a file for this run. Once all are there,
worker 0 writes ``RUN.all``. Remains of a run that was killed do no harm: the next worker 0 opens another run, and
nobody takes part in a run whose ``RUN.all`` lacks the own text. The files hold secrets: only their owner may read them.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from uuid import uuid4

from pvtree.comm.rendezvous import check_place, nobody_came
from pvtree.errors import CommunicationError, InvalidParameterError

LEADER = "leader"
LOOK_SECONDS = 0.05
PREFIX = "pvtree-"  # of all files, so that others in the folder are left alone


class Folder:
    """The rendezvous ``file:///folder``. The folder is made if necessary, and removed if it is empty in the end."""

    def __init__(self, folder: str | os.PathLike[str], rank: int, size: int) -> None:
        check_place(rank, size)
        self.rank, self.size = rank, size
        self.towards: str | None = None
        self.folder = Path(folder)
        self._written: set[Path] = set()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidParameterError(
                f"The rendezvous {self} cannot be used ({error.strerror or error}); give a folder that all workers "
                "may write to."
            ) from error

    def __str__(self) -> str:
        return f"file://{self.folder}"

    def allgather(self, text: str, seconds: float) -> list[str]:
        deadline = monotonic() + seconds
        if self.rank == 0:
            return self._lead(text, deadline, seconds)
        run, missing = "", [0]
        while True:
            opened = self._read(self._path(LEADER))
            if opened is not None and opened != run:
                self._withdraw()
                run = opened
            if opened is not None:  # otherwise worker 0 has given up, and knew who was missing
                missing = self._missing(run)
            if run and not self._written:
                self._hand_in(f"{run}.{self.rank}", text)
            everybody = self._read(self._path(f"{run}.all")) if run else None
            if everybody is not None and text in json.loads(everybody):
                return list(json.loads(everybody))
            if monotonic() > deadline:
                if everybody is not None:
                    raise self._left_out(seconds)
                raise nobody_came(self.rank, self.size, missing, str(self), seconds)
            sleep(LOOK_SECONDS)

    def _lead(self, text: str, deadline: float, seconds: float) -> list[str]:
        for old in self.folder.glob(f"{PREFIX}*"):
            with suppress(OSError):
                old.unlink()
        run = uuid4().hex
        self._hand_in(LEADER, run)
        texts: list[str | None] = [text] + [None] * (self.size - 1)
        while None in texts:
            if self._read(self._path(LEADER)) != run:
                self._written.discard(self._path(LEADER))
                raise CommunicationError(
                    f"Another process has come to {self} as worker 0; give every worker a rank of its own, and every "
                    "training a folder of its own."
                )
            texts = [held or self._read(self._path(f"{run}.{rank}")) for rank, held in enumerate(texts)]
            if None in texts:
                if monotonic() > deadline:
                    missing = [rank for rank, held in enumerate(texts) if held is None]
                    raise nobody_came(self.rank, self.size, missing, str(self), seconds)
                sleep(LOOK_SECONDS)
        gathered = [held for held in texts if held is not None]
        self._hand_in(f"{run}.all", json.dumps(gathered))
        return gathered

    def close(self) -> None:
        self._withdraw()
        with suppress(OSError):  # others may not have left, or the folder holds something else
            self.folder.rmdir()

    def _missing(self, run: str) -> list[int]:
        """Who has not come, as far as this worker can tell. Without worker 0 nobody can come."""
        others = (rank for rank in range(1, self.size) if rank != self.rank)
        return [rank for rank in others if not self._path(f"{run}.{rank}").exists()] or [0]

    def _left_out(self, seconds: float) -> CommunicationError:
        return CommunicationError(
            f"Worker {self.rank} of {self.size} waited {seconds:g} s at {self}, where others have met without it: "
            f"another process has the rank {self.rank} too, or worker 0 has not come and the files are of an earlier "
            "training; give every worker a rank of its own, and every training a folder of its own."
        )

    def _path(self, name: str) -> Path:
        return self.folder / f"{PREFIX}{name}"

    def _hand_in(self, name: str, text: str) -> None:
        """Write a file in one step, so that nobody reads half of it."""
        path = self._path(name)
        while path not in self._written:
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=PREFIX)  # with mode 0600
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            with suppress(FileNotFoundError):  # a worker 0 that has just come has removed it among older files
                os.replace(temporary, path)
                self._written.add(path)

    def _read(self, path: Path) -> str | None:
        try:
            with path.open(encoding="utf-8") as file:
                facts = os.fstat(file.fileno())
                if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
                    raise CommunicationError(
                        f"The file {path} is not this user's alone, so whoever wrote it could join the training; use "
                        "a folder on a file system that keeps owners and permissions."
                    )
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CommunicationError(
                f"The file {path} of the rendezvous cannot be read ({error.strerror or error}); give a folder that "
                "only the user of this training may write to."
            ) from error

    def _withdraw(self) -> None:
        for path in self._written:
            with suppress(OSError):
                path.unlink()
        self._written.clear()
