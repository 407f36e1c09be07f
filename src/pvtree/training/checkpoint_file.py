"""Checkpoints: every few iterations the model so far is written to a file, which is replaced atomically; the next run
of the same training resumes from it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pvtree.comm.agreement import all_or_none
from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidParameterError, InvalidTypeError, ModelFileError
from pvtree.model.atomic_file import is_pipe_or_device, leftovers, write_at_once
from pvtree.model.model import Model
from pvtree.parameters.paths import checked_path
from pvtree.parameters.rule_kinds import integer
from pvtree.training.callbacks import EvalResult
from pvtree.training.fingerprint import PARTS, Fingerprint, differences, fingerprint

if TYPE_CHECKING:
    from pvtree.comm import Communicator

__all__ = ["Checkpoint", "Saved", "fingerprint"]

FILE_NAME = "checkpoint.json"
PARTIAL = ".partial"  # suffix of the file while it is written
VERSION = 1
ELSEWHERE = "delete the file or point checkpoint= elsewhere"


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds."""

    model: Model  # all trees so far, including those of an init_model
    history: list[list[EvalResult]]  # by iteration of this training; empty lists if nothing is evaluated
    fingerprint: Fingerprint
    # Of DART by iteration: what it set the weights of iterations to. The trees are as they were grown then.
    weights: list[list[tuple[int, float]]] | None = None

    def up_to(self, n_iterations: int) -> Saved:
        """The state after the first ``n_iterations`` iterations of this training."""
        n_before = self.model.n_iterations - len(self.history)
        n_trees = (n_before + n_iterations) * self.model.trees_per_iteration
        model = replace(self.model, trees=self.model.trees[:n_trees])
        weights = None if self.weights is None else self.weights[:n_iterations]
        return replace(self, model=model, history=self.history[:n_iterations], weights=weights)


class Checkpoint:
    """Where and how often worker 0 saves the training."""

    def __init__(self, folder: str | os.PathLike[str], every: int = 10) -> None:
        if not isinstance(folder, str | os.PathLike):
            raise InvalidTypeError(f"checkpoint must be the path of a folder, got {folder!r}.")
        integer("", 1).check("checkpoint_freq", every)
        self.folder = os.path.abspath(os.fsdecode(folder))  # workers on other machines may run in another folder
        self.path = os.path.join(self.folder, FILE_NAME)
        self.every = int(every)

    def is_due(self, n_iterations: int) -> bool:
        return n_iterations % self.every == 0

    def save(
        self, model: Model, history: Sequence[Sequence[EvalResult]], fingerprint: Fingerprint, weights: Any = None
    ) -> None:
        """Replace the file atomically: a crash leaves the old one or the new one, never a part of it."""
        try:
            write_at_once(self.path, dump(model, history, fingerprint, weights), PARTIAL)
        except OSError as error:
            raise ModelFileError(
                f"Cannot write the checkpoint {self.path!r} ({error.strerror}); the previous one is still valid. Make "
                "the folder writable, free some space, and start again to resume from there."
            ) from error

    def load(self) -> Saved | None:
        """The contents of this machine's file; None if there is no file."""
        data = self._read()
        return None if data is None else parse(data, self.path)

    def resume(self, fingerprint: Fingerprint, comm: Communicator) -> Saved | None:
        """What all workers resume from: the file with the most iterations; None if no worker has a file.

        Workers may share a folder or have one each. Worker 0 also checks now that it will be able to write.
        """
        with comm.uncounted():
            data, n_iterations = all_or_none(lambda: self._prepare(comm.rank == 0), comm)
            known = np.concatenate(comm.allgather(np.array([n_iterations]), "scores"))
            if known.max() < 0:
                return None
            root = int(known.argmax())
            data = comm.broadcast(np.frombuffer(data, np.uint8), "scores", root).tobytes()
        owner = f" of worker {root}" if comm.size > 1 else ""
        saved = parse(data, self.path, owner)
        self._check(saved.fingerprint, fingerprint, owner, comm.rank == 0)
        return saved

    def _prepare(self, writes: bool) -> tuple[bytes, int]:
        """The file's bytes and its number of iterations, or -1 without a file."""
        if writes:
            try:
                os.makedirs(checked_path(self.folder), exist_ok=True)
                for left in leftovers(self.path, PARTIAL):  # from crashes
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(left)
                if not os.access(self.folder, os.W_OK | os.X_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            except OSError as error:
                raise InvalidParameterError(
                    f"checkpoint={self.folder!r} is not a writable folder ({error.strerror}); use another."
                ) from error
        data = self._read()
        return (b"", -1) if data is None else (data, _head(data, _refuser(self.path)))

    def _read(self) -> bytes | None:
        if is_pipe_or_device(self.path):  # reading it may never end
            _refuser(self.path)("it is a pipe or a device")
        try:
            with open(self.path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ModelFileError(
                f"The checkpoint {self.path!r} cannot be read ({error.strerror}); {ELSEWHERE}."
            ) from error

    def _check(self, saved: Fingerprint, now: Fingerprint, owner: str, warns: bool) -> None:
        different = list(differences(saved, now))
        if different:
            raise InvalidParameterError(
                f"The checkpoint {self.path!r}{owner} is of another training: {'; '.join(different)}. "
                f"Train with the same settings and data, or {ELSEWHERE}."
            )
        if warns and saved["partition"] != now["partition"]:
            warn_user(
                f"The checkpoint {self.path!r} is of a training whose rows were distributed differently over the "
                f"workers; {now['parameters']['tree_learner']} resumes, but its model will differ from that of an "
                "uninterrupted training."
            )


# The file is one JSON object on three lines: each part is found and checked without parsing everything twice.

_HEAD = re.compile(
    rb'\{"format":"pvtree-checkpoint","version":([1-9][0-9]{0,8}),"n_iterations":([0-9]{1,18}),"sha256":"([0-9a-f]{64})",'
)
_TRAINING, _MODEL = b'"training":', b'"model":'
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # JSON cannot express these


def dump(model: Model, history: Sequence[Sequence[EvalResult]], fingerprint: Fingerprint, weights: Any = None) -> bytes:
    results = [[[*each[:2], _plain_float(each[2]), bool(each[3])] for each in iteration] for iteration in history]
    known = {"fingerprint": fingerprint, "history": results} | ({} if weights is None else {"weights": weights})
    training = json.dumps(known, separators=(",", ":"), allow_nan=False)
    body = b"".join([_TRAINING, training.encode(), b",\n", _MODEL, model.to_json().strip().encode(), b"}\n"])
    head = f'{{"format":"pvtree-checkpoint","version":{VERSION},"n_iterations":{model.n_iterations},'
    return f'{head}"sha256":"{hashlib.sha256(body).hexdigest()}",\n'.encode() + body


def _plain_float(value: float) -> float | str:
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def parse(data: bytes, path: str, owner: str = "") -> Saved:
    """The contents of a file, or a ModelFileError; a right checksum is not taken as proof of valid contents."""
    refuse = _refuser(path, owner)
    n_iterations = _head(data, refuse)
    lines = data.split(b"\n")
    if len(lines) != 4 or lines[3] or not (lines[1].startswith(_TRAINING) and lines[1].endswith(b",")):
        refuse("it does not have the lines of a checkpoint")
    if not (lines[2].startswith(_MODEL) and lines[2].endswith(b"}")):
        refuse("it has no model")
    try:
        training = json.loads(lines[1][len(_TRAINING) : -1])
        model = Model.from_json(lines[2][len(_MODEL) : -1].decode("ascii"))
    except (ValueError, RecursionError):  # a ModelFileError is a ValueError too
        refuse("its contents cannot be read")
    if not isinstance(training, dict) or training.keys() - {"weights"} != {"fingerprint", "history"}:
        refuse("fields are missing or unknown")
    history = _history(training["history"])
    if history is None:
        refuse("its evaluation results are malformed")
    if not n_iterations == model.n_iterations >= len(history):
        refuse("its number of trees is not what it states")
    fingerprint = training["fingerprint"]
    if not isinstance(fingerprint, dict) or fingerprint.keys() != PARTS.keys():
        refuse("it does not state what it was trained on")
    weights = _weights(training["weights"], len(history)) if "weights" in training else None
    if "weights" in training and weights is None:
        refuse("its weights are malformed")
    return Saved(model, history, fingerprint, weights)


def _head(data: bytes, refuse: Callable[[str], NoReturn]) -> int:
    """The number of iterations of a file with a right checksum."""
    line, _, body = data.partition(b"\n")
    head = _HEAD.fullmatch(line)
    if head is None:
        refuse("it does not start like a checkpoint")
    if int(head[1]) > VERSION:
        refuse("a newer version of pvtree wrote it")
    if hashlib.sha256(body).hexdigest().encode() != head[3]:
        refuse("its checksum does not match: it was cut off or altered")
    return int(head[2])


def _history(value: Any) -> list[list[EvalResult]] | None:
    if not isinstance(value, list) or not all(isinstance(iteration, list) for iteration in value):
        return None
    history = []
    for iteration in value:
        results = [_result(item) for item in iteration]
        if None in results:
            return None
        history.append([result for result in results if result is not None])
    return history


def _weights(value: Any, n_iterations: int) -> list[list[tuple[int, float]]] | None:
    """The weights by iteration: each sets those of earlier ones and its own; None if they are malformed."""
    if not isinstance(value, list) or len(value) != n_iterations:
        return None
    for number, changes in enumerate(value):
        if not isinstance(changes, list) or not all(
            isinstance(each, list)
            and [type(part) for part in each] == [int, float]
            and 0 <= each[0] <= number
            and 0.0 <= each[1] <= 1.0
            for each in changes
        ):
            return None
    return [[(each[0], each[1]) for each in changes] for changes in value]


def _result(item: Any) -> EvalResult | None:
    if not isinstance(item, list) or [type(each) for each in item[:2] + item[3:]] != [str, str, bool]:
        return None
    dataset, metric, value, is_higher_better = item
    if isinstance(value, str):
        value = _NOT_FINITE.get(value)
    elif type(value) is not float or not math.isfinite(value):  # 1e999 reads as infinity
        return None
    return None if value is None else EvalResult(dataset, metric, value, is_higher_better)


def _refuser(path: str, owner: str = "") -> Callable[[str], NoReturn]:
    def refuse(reason: str) -> NoReturn:
        raise ModelFileError(f"The checkpoint {path!r}{owner} is not usable ({reason}); {ELSEWHERE}.") from None

    return refuse
