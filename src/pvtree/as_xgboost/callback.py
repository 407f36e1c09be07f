"""XGBoost's callbacks: objects that are called before and after training and every iteration."""

from __future__ import annotations

import os
import pickle
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pvtree.as_xgboost.results import METRIC_NAMES
from pvtree.errors import InvalidParameterError, InvalidTypeError
from pvtree.training.callbacks import CallbackEnv, EarlyStopException, EvalResult, early_stopping

EvalsLog = dict[str, dict[str, list[Any]]]


class TrainingCallback(ABC):  # noqa: B024
    """Base of callbacks; subclasses override what they need. ``after_iteration`` returns True to stop training."""

    def before_training(self, model: Any) -> Any:
        """Called once before the first iteration."""
        return model

    def after_training(self, model: Any) -> Any:
        """Called once with the trained Booster."""
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        """Called before every iteration; True stops training."""
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        """Called after every iteration; True stops training."""
        return False


class EarlyStopping(TrainingCallback):
    """Stop when a metric has not improved for some iterations, and keep the best iteration.

    Parameters
    ----------
    rounds : int
        The number of iterations without improvement, at least 1.
    metric_name : str or None, default=None
        The metric to watch; None for the last one.
    data_name : str or None, default=None
        The set to watch; None for the last one.
    maximize : bool or None, default=None
        Whether a higher value is better; None for the metric's own direction.
    save_best : bool, default=False
        Whether the trees after the best iteration are left out of the model.
    min_delta : float, default=0.0
        The least improvement that counts, at least 0.
    """

    def __init__(
        self,
        *,
        rounds: int,
        metric_name: str | None = None,
        data_name: str | None = None,
        maximize: bool | None = None,
        save_best: bool | None = False,
        min_delta: float = 0.0,
    ) -> None:
        if min_delta < 0:
            raise InvalidParameterError(f"min_delta must be at least 0, got {min_delta}.")
        self.rounds, self.metric_name, self.data_name = rounds, metric_name, data_name
        self.maximize, self.save_best, self.min_delta = maximize, save_best, min_delta
        self.stopping_history: EvalsLog = {}

    def as_ours(self) -> early_stopping:
        return _Watching(self)


class _Watching(early_stopping):
    """Early stopping by one metric of one set."""

    def __init__(self, asked: EarlyStopping) -> None:
        super().__init__(asked.rounds, verbose=False, min_delta=asked.min_delta)
        self.asked = asked
        self.keeps_later = not asked.save_best

    def __call__(self, env: CallbackEnv) -> None:
        history = self.asked.stopping_history
        if env.iteration == env.begin_iteration:
            history.clear()
        for result in self._watched(env.evaluation_result_list):
            metric = METRIC_NAMES.get(result.metric_name, result.metric_name)
            history.setdefault(result.dataset_name, {}).setdefault(metric, []).append(result.value)
        super().__call__(env)

    def _watched(self, results: list[EvalResult]) -> list[EvalResult]:
        asked = self.asked
        found = [EvalResult(*result[:4]) for result in results]
        if asked.data_name is not None:
            found = [each for each in found if each.dataset_name == asked.data_name]
        if asked.metric_name is not None:
            found = [
                each
                for each in found
                if asked.metric_name in (each.metric_name.removesuffix("@32"), each.metric_name)
                or asked.metric_name == METRIC_NAMES.get(each.metric_name)
            ]
        if not found and results:
            raise InvalidParameterError(
                "EarlyStopping watches a set or metric that is not evaluated; use a name of evals and of eval_metric."
            )
        chosen = found[-1:]
        return [each if asked.maximize is None else each._replace(is_higher_better=asked.maximize) for each in chosen]


class LearningRateScheduler(TrainingCallback):
    """Change the learning rate after every iteration, as XGBoost does: the first one has the rate of the parameters.

    Parameters
    ----------
    learning_rates : callable or list of float
        A function of the number of the iteration that has ended, counted from 0, or one value per iteration.
    """

    def __init__(self, learning_rates: Callable[[int], float] | Sequence[float]) -> None:
        if not callable(learning_rates) and not isinstance(learning_rates, Sequence):
            raise InvalidTypeError("learning_rates must be a function or a list of numbers.")
        self.learning_rates = learning_rates if callable(learning_rates) else list(learning_rates).__getitem__

    def after_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        model.set_param("learning_rate", self.learning_rates(epoch))
        return False


class EvaluationMonitor(TrainingCallback):
    """Print the metrics.

    Parameters
    ----------
    rank : int, default=0
        No effect: one worker prints.
    period : int, default=1
        The number of iterations between two lines.
    show_stdv : bool, default=False
        Whether to print the standard deviation over the folds of ``cv``.
    logger : callable, default=print
        Called with each line.
    """

    def __init__(
        self, rank: int = 0, period: int = 1, show_stdv: bool = False, logger: Callable[[str], Any] = print
    ) -> None:
        self.rank, self.period, self.show_stdv, self.logger = rank, max(1, period), show_stdv, logger
        self._latest: str | None = None  # the last line, if it has not been printed

    def after_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        if evals_log:
            words = [f"{name}-{metric}:{_shown(values[-1], self.show_stdv)}"
                     for name, by in evals_log.items() for metric, values in by.items()]  # fmt: skip
            line = "\t".join([f"[{epoch}]", *words])
            is_due = epoch % self.period == 0
            if is_due:
                self.logger(line)
            self._latest = None if is_due else line
        return False

    def after_training(self, model: Any) -> Any:
        """Print the last line if the period has left it out."""
        if self._latest is not None:
            self.logger(self._latest)
        self._latest = None
        return model


def _shown(value: Any, show_stdv: bool) -> str:
    if isinstance(value, tuple):
        return f"{value[0]:.5f}" + (f"+{value[1]:.5f}" if show_stdv else "")
    return f"{value:.5f}"


class TrainingCheckPoint(TrainingCallback):
    """Save the model during training, every ``interval`` iterations.

    Parameters
    ----------
    directory : path
        The folder of the files.
    name : str, default="model"
        Files are called name_100.ubj, name_200.ubj, ...; the first iteration has none.
    as_pickle : bool, default=False
        Pickle the Booster instead.
    interval : int, default=100
        The number of iterations between two files, at least 1.
    """

    def __init__(
        self, directory: str | os.PathLike[str], name: str = "model", as_pickle: bool = False, interval: int = 100
    ) -> None:
        self.directory, self.name, self.as_pickle, self.interval = directory, name, as_pickle, max(1, interval)

    def after_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        if epoch and epoch % self.interval == 0:
            stem = Path(self.directory) / f"{self.name}_{epoch}"
            booster = model.current()
            if self.as_pickle:
                with open(f"{stem}.pkl", "wb") as file:
                    pickle.dump(booster, file)
            else:
                booster.save_model(f"{stem}.ubj")
        return False


class RunningModel:
    """What callbacks see as the model while it is trained."""

    def __init__(self, training: Any, scale: float, booster: Callable[[Any], Any]) -> None:
        self._training, self._scale, self._booster = training, scale, booster

    def set_param(self, params: Any, value: Any = None) -> None:
        """Change parameters from the next iteration on."""
        given = dict(params) if isinstance(params, Mapping) else {params: value}
        for name in ("learning_rate", "eta"):
            if name in given:
                given[name] = float(given[name]) * self._scale  # in the trainer's units
        self._training.reset_parameter(given)

    def current(self) -> Any:
        """A Booster with the trees so far."""
        return self._booster(self._training.model())

    def num_boosted_rounds(self) -> int:
        return int(self._training.model().n_iterations)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "cvfolds":
            return self._training.cvfolds
        return getattr(self.current(), name)


class _Adapter:
    """One moment of a TrainingCallback as a callback of pvtree's training."""

    def __init__(self, callback: TrainingCallback, before: bool, scale: float, booster: Callable[[Any], Any]) -> None:
        self.callback, self.before_iteration, self.order = callback, before, 20
        self.scale, self.booster = scale, booster
        self.log: EvalsLog = {}

    def __call__(self, env: CallbackEnv) -> None:
        if env.iteration == env.begin_iteration:
            self.log.clear()
        for result in env.evaluation_result_list:
            metric = METRIC_NAMES.get(result[1], result[1])
            value: Any = (result[2], result[4]) if len(result) > 4 else result[2]
            self.log.setdefault(result[0], {}).setdefault(metric, []).append(value)
        model = RunningModel(env.model, self.scale, self.booster)
        step = self.callback.before_iteration if self.before_iteration else self.callback.after_iteration
        if step(model, env.iteration, self.log):
            last = env.iteration - 1 if self.before_iteration else env.iteration
            raise EarlyStopException(last, env.evaluation_result_list)


def adapted(callbacks: Any, scale: float, booster: Callable[[Any], Any]) -> list[Any]:
    """Callbacks for pvtree's training: XGBoost's are wrapped, functions of LightGBM's kind stay."""
    ours: list[Any] = []
    for each in callbacks or []:
        if isinstance(each, EarlyStopping):
            ours.append(each.as_ours())
        elif isinstance(each, TrainingCallback):
            before, after = (_Adapter(each, is_before, scale, booster) for is_before in (True, False))
            before.log = after.log
            ours += [before, after]
        else:
            ours.append(each)
    return ours
