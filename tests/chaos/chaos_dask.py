"""Trainings on Dask workers that are processes: the error that fit raises tells who was lost."""

from __future__ import annotations

import os
import queue
import re
import signal
import threading
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from runs import STARTS_WITHIN, Disturbed, Hung, time_limit, wait_for_end
from scenarios import DISKS, SIGNALS, SIZES, Scenario, Training

from dask_functions import PRELOADED, Cluster, addresses_of, open_cluster, wait_until
from dask_rows import place_rows
from moments import Moment, disturbance, limit_files
from pvtree import GBDTClassifier
from pvtree.comm.dask_worker import DaskCommunicator
from pvtree.comm.partition import row_bounds
from pvtree.errors import ModelFileError, PeerFailedError, WorkerTimeoutError
from pvtree.training.checkpoint_file import FILE_NAME

PRELOADED += ["dask.array", "dask.dataframe", "pvtree.training.train", "pvtree.front.estimators.on_dask"]
N_TREES, N_ROWS, N_COLUMNS = 12, 300, 12
ERRORS = dict.fromkeys(DISKS, ModelFileError) | {"kill": PeerFailedError, "stop": WorkerTimeoutError}


class DaskEngine:
    """Its workers stay for all scenarios; those that are lost are replaced."""

    def __init__(self) -> None:
        self.model = cache(self._model)
        self.saved = cache(self._saved)
        self.n_exchanges = cache(self._n_exchanges)
        self._open = ExitStack()
        self._cluster: Cluster | None = None

    def close(self) -> None:
        self._cluster = None
        self._open.close()

    def checkpoint(self, training: Training, folder: Path) -> Path:
        return folder / "kept" / FILE_NAME

    def disturb(self, scenario: Scenario, folder: Path) -> Disturbed:
        exchange = scenario.exchange(self.n_exchanges(scenario.training))
        addresses = self._addresses(scenario.training.size)
        victim = addresses[scenario.victim]
        pid = self._client.run(os.getpid, workers=[victim])[victim]
        given = (scenario.kind, self.checkpoint(scenario.training, folder), folder, exchange, scenario.seconds)
        self._client.run(arm, *given, workers=[victim])
        answers = self._begin(scenario.training, folder, addresses, time_limit(scenario))
        try:
            seconds = wait_for_end(lambda limit: is_filled(answers, limit), scenario, folder)
        except Hung:
            self.close()  # and with it all that waits
            raise
        self._clean_up(scenario, victim, pid)
        error = answers.get_nowait()
        if not isinstance(error, BaseException):
            return Disturbed(False, "The training came to its end in spite of it.", seconds)
        return Disturbed(names(scenario, victim, error), told_by(error), seconds)

    def train(self, training: Training, folder: Path, size: int) -> tuple[str | None, str]:
        if size == 0:
            X, y = rows_of(training)
            options = {"checkpoint": folder / "kept", "eval_set": [(X, y)]}
            return result_of(estimator_of(training, n_workers=training.size).fit(X, y, **options)), ""
        answers = self._begin(training, folder, self._addresses(size), 600.0)
        try:
            answer = answers.get(timeout=STARTS_WITHIN)
        except queue.Empty:
            self.close()
            raise Hung("An undisturbed training does not end.") from None
        return (None, told_by(answer)) if isinstance(answer, BaseException) else (result_of(answer), "")

    @property
    def _client(self) -> Any:
        if self._cluster is None:
            folder = self._open.enter_context(TemporaryDirectory())
            self._cluster = self._open.enter_context(open_cluster(max(SIZES), Path(folder)))
        return self._cluster.client

    def _addresses(self, size: int) -> list[str]:
        return addresses_of(self._client)[:size]

    def _begin(self, training: Training, folder: Path, addresses: list[str], timeout: float) -> queue.Queue:
        """Start to fit, with a block of rows on each worker; the estimator, or its error, will be in the queue."""
        answers: queue.Queue[Any] = queue.Queue()
        X, y = rows_of(training)
        lengths = np.diff(row_bounds(N_ROWS, len(addresses))).tolist()
        X_dask, y_dask = (place_rows(self._client, values, lengths, addresses) for values in (X, y))
        options = {"client": self._client, "timeout": timeout, "checkpoint": folder / "kept", "checkpoint_freq": 3}

        def fit() -> None:
            try:
                answers.put(estimator_of(training).fit(X_dask, y_dask, eval_set=[(X_dask, y_dask)], **options))
            except BaseException as error:
                answers.put(error)

        threading.Thread(target=fit, daemon=True).start()
        return answers

    def _clean_up(self, scenario: Scenario, victim: str, pid: int) -> None:
        assert self._cluster is not None
        if scenario.kind in SIGNALS:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # of those that are only stopped
            wait_until(lambda: victim not in addresses_of(self._client), 30.0, "Dask still knows a lost worker")
            self._cluster.start(1)
        else:
            self._client.run(disarm, workers=[victim])

    def _model(self, training: Training) -> str:
        X, y = rows_of(training)
        return result_of(estimator_of(training, n_workers=training.size).fit(X, y, eval_set=[(X, y)]))

    def _saved(self, training: Training) -> bytes:
        X, y = rows_of(training)
        with TemporaryDirectory() as folder:
            half = estimator_of(training, n_workers=training.size, n_estimators=N_TREES // 2)
            half.fit(X, y, eval_set=[(X, y)], checkpoint=folder, checkpoint_freq=3)
            return (Path(folder) / FILE_NAME).read_bytes()

    def _n_exchanges(self, training: Training) -> int:
        expected = self.model(training)  # and the kernels are compiled
        with TemporaryDirectory() as name:
            folder = Path(name)
            [first, *_] = self._addresses(training.size)
            self._client.run(arm, "kill", folder, folder, -1, 0.0, workers=[first])
            model, told = self.train(training, folder, training.size)
            assert model == expected, told
            return self._client.run(disarm, workers=[first])[first] - 1  # the first one has the number 0


def rows_of(training: Training) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N_ROWS, N_COLUMNS))
    X[:, 3] = np.where(rng.random(N_ROWS) < 0.3, np.nan, np.round(X[:, 3]))
    y = np.nan_to_num(X[:, :8]).sum(axis=1) + rng.normal(size=N_ROWS) > 0
    return X, y if training.case == "binary" else ~y


def estimator_of(training: Training, **options: Any) -> GBDTClassifier:
    small = {"num_leaves": 9, "min_child_samples": 3, "max_bin": 31, "top_k": 2, "n_estimators": N_TREES}
    return GBDTClassifier(tree_learner=training.learner, verbosity=0, **small | options)


def result_of(fitted: GBDTClassifier) -> str:
    return f"{fitted.model_.to_json()}\n{fitted.evals_result_}"


def told_by(error: BaseException) -> str:
    return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])


def names(scenario: Scenario, victim: str, error: BaseException) -> bool:
    """Whether fit blames the right worker."""
    if not isinstance(error, ERRORS[scenario.kind]):
        return False
    if scenario.kind in DISKS:
        return getattr(error, "rank", None) == 0 and "Cannot write the checkpoint" in str(error)
    blamed = set(re.findall(r"tcp://[\d.]+:\d+", str(error)))
    return blamed == {victim} and f"orker {scenario.victim} " in str(error)


def is_filled(answers: queue.Queue, limit: float) -> bool:
    try:
        answers.put(answers.get(timeout=limit))
    except queue.Empty:
        return False
    return True


# In the worker's process

ARMED: list[tuple[Moment, Any]] = []


def arm(kind: str, checkpoint: Path, folder: Path, exchange: int, seconds: float) -> None:
    moment = Moment(folder, disturbance(kind, checkpoint), exchange, seconds)
    ARMED.append((moment, moment.watch(DaskCommunicator)))


def disarm() -> int:
    """Returns how many exchanges there were."""
    moment, end_counting = ARMED.pop()
    end_counting()
    limit_files(None)
    return moment.n_seen
