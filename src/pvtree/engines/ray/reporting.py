"""Metrics, models and checkpoints for Ray Train's and Tune's reporting.

Ray wants every report from all workers, and takes files from the first one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import ray.train
from ray.train import Checkpoint

from pvtree.errors import InvalidDataError
from pvtree.front.estimators.loading import load as load_file
from pvtree.parameters.rule_kinds import integer
from pvtree.training.checkpoint_file import FILE_NAME

if TYPE_CHECKING:
    from pvtree.training.callbacks import CallbackEnv

MODEL = "model.json"


class report:
    """Callback: report the metrics of iterations to Ray Train, which passes them on to Tune.

    A metric is called by its set and its name, such as ``"valid_0-auc"``. ``"iteration"`` counts from 1.

    Parameters
    ----------
    every : int, default=1
        The number of iterations between two reports; the last one is always reported. At least 1.
    folder : str or None, default=None
        The folder that was given to ``fit`` as ``checkpoint``. What is new in it goes along with the report, so that a
        worker group that Ray Train starts again goes on from there (``checkpoint_folder``).
    """

    on_all_workers = True

    def __init__(self, every: int = 1, folder: str | None = None) -> None:
        integer("", 1).check("every", every)
        self.every, self.folder = every, folder
        self._sent: int | None = None  # the time of the checkpoint that was sent last

    def __call__(self, env: CallbackEnv) -> None:
        number = env.iteration + 1
        if number % self.every and number != env.end_iteration:
            return
        metrics: dict[str, Any] = {"iteration": number}
        metrics |= {f"{each[0]}-{each[1]}": each[2] for each in env.evaluation_result_list}
        with tempfile.TemporaryDirectory(prefix="pvtree-") as made:
            ray.train.report(metrics, checkpoint=self._new_checkpoint(made, env))

    def _new_checkpoint(self, made: str, env: CallbackEnv) -> Checkpoint | None:
        """On the first worker, if there is one that was not sent."""
        file = None if self.folder is None else os.path.join(self.folder, FILE_NAME)
        if not is_first() or file is None or not os.path.exists(file):
            return None
        time = os.stat(file).st_mtime_ns
        if time == self._sent:
            return None
        self._sent = time
        shutil.copy(file, made)
        env.model.model().save(os.path.join(made, MODEL))
        return Checkpoint.from_directory(made)


def report_model(estimator: Any, metrics: dict[str, Any] | None = None) -> None:
    """Report the finished model to Ray Train. Call it on all workers after ``fit``.

    Parameters
    ----------
    estimator : fitted estimator
        Its model becomes the checkpoint of the result, from which ``pvtree.ray.load`` reads it.
    metrics : dict or None, default=None
        What to report. None for the metrics of the best iteration.
    """
    if metrics is None:
        scores = estimator.best_score_ or {}
        metrics = {f"{name}-{metric}": value for name, of_set in scores.items() for metric, value in of_set.items()}
        metrics |= {"iteration": estimator.n_iter_}
    with tempfile.TemporaryDirectory(prefix="pvtree-") as made:
        if is_first():
            estimator.save(os.path.join(made, MODEL))
        ray.train.report(metrics, checkpoint=Checkpoint.from_directory(made) if is_first() else None)


@contextmanager
def checkpoint_folder() -> Iterator[str]:
    """A temporary folder for ``checkpoint=`` of ``fit``, with what Ray Train has kept of an earlier attempt.

    Give it to ``report`` too: ``fit(..., checkpoint=folder, callbacks=[pvtree.ray.report(folder=folder)])``.
    """
    with tempfile.TemporaryDirectory(prefix="pvtree-") as folder:
        kept = ray.train.get_checkpoint()
        if kept is not None and is_first():
            with kept.as_directory() as earlier:
                if os.path.exists(os.path.join(earlier, FILE_NAME)):
                    shutil.copy(os.path.join(earlier, FILE_NAME), folder)
        yield folder


def load(checkpoint: Checkpoint) -> Any:
    """The fitted estimator in a checkpoint of Ray Train, such as ``result.checkpoint``."""
    with checkpoint.as_directory() as folder:
        file = os.path.join(folder, MODEL)
        if not os.path.exists(file):
            raise InvalidDataError(f"The checkpoint has no {MODEL}; report one by pvtree.ray.report or report_model.")
        return load_file(file)


def is_first() -> bool:
    return bool(ray.train.get_context().get_world_rank() == 0)
