"""Callbacks, which run before or after every iteration: LightGBM's interface and its callbacks.

Only worker 0 calls them: one worker prints and decides, and the others follow. A callback whose attribute
``on_all_workers`` is true is called on every worker instead, after the iteration's checkpoint, and may only watch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pvtree.comm.user_warnings import tell_user, warn_user
from pvtree.errors import InvalidParameterError, InvalidTypeError, public
from pvtree.parameters.aliases import right_names
from pvtree.parameters.params import limit, plain
from pvtree.parameters.rule_kinds import integer
from pvtree.parameters.rules import RULES

# The training data never decides when to stop, because its metric improves with every tree.
TRAINING_NAMES = frozenset({"training", "train"})
# What may change between two trees. The other parameters have shaped the bins, the memory or the workers' agreement.
CHANGEABLE = (
    "colsample_bytree",
    "learning_rate",
    "max_depth",
    "min_child_samples",
    "min_child_weight",
    "min_split_gain",
    "reg_alpha",
    "reg_lambda",
    "subsample",
    "subsample_freq",
)


class EvalResult(NamedTuple):
    """One metric on one evaluation set after one iteration."""

    dataset_name: str
    metric_name: str
    value: float
    is_higher_better: bool


class CallbackEnv(NamedTuple):
    """What a callback sees. It has the fields of LightGBM's, so that callbacks written for it work here."""

    model: Any  # the running Training; there is no model before the end
    params: Any  # the frozen pvtree.parameters.params.Params of this training
    iteration: int  # 0-based; continues an init_model's count
    begin_iteration: int  # first iteration of this training
    end_iteration: int  # one past its last
    evaluation_result_list: list[EvalResult]  # set by set, within a set metric by metric


@public
class EarlyStopException(Exception):
    """Raised by a callback to end training and keep the trees up to ``best_iteration``."""

    def __init__(self, best_iteration: int, best_score: Sequence[EvalResult], keeps_later: bool = False) -> None:
        super().__init__()
        self.keeps_later = keeps_later  # whether the trees after the best iteration stay in the model
        self.best_iteration = best_iteration  # 0-based, counted like CallbackEnv.iteration
        self.best_score = list(best_score)  # every result of that iteration


class Training:
    """What a callback may change in the running training."""

    def __init__(self, ensemble: str) -> None:
        self._ensemble = ensemble
        self._changes: dict[str, Any] = {}
        self._make_model: Callable[[], Any] | None = None

    def model(self) -> Any:
        """The Model with the trees so far."""
        if self._make_model is None:
            raise InvalidParameterError("There is no model before training has begun; ask for it after an iteration.")
        return self._make_model()

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """Change parameters on all workers, from the next iteration on."""
        if self._ensemble == "forest":
            raise InvalidParameterError(
                "Parameters can only change between iterations of boosting, but the trees of a forest are grown in "
                "parallel; leave reset_parameter out."
            )
        for name, value in changeable(params).items():
            RULES[name].check(name, value)
            self._changes[name] = limit(name, plain(value))

    def kept(self) -> dict[str, Any]:
        """The attributes that callbacks have set; the finished Booster has them too."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def take_changes(self) -> dict[str, Any]:
        """The changes since the last call."""
        changes, self._changes = self._changes, {}
        return changes


def changeable(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters under our names; an error if one of them cannot change during training."""
    renamed = right_names(params, RULES, "an estimator")
    for name in renamed:
        if name not in CHANGEABLE:
            raise InvalidParameterError(f"{name} cannot change during training; use one of {', '.join(CHANGEABLE)}.")
    return renamed


@public
class early_stopping:
    """Stop training when a metric has not improved for some iterations, and keep the best iteration.

    Every metric of every evaluation set is watched, and the first that does not improve any more stops the training. A
    set named "training" or "train" is reported but never decides. If no metric stops the training, the best iteration
    of the first one is kept.

    Parameters
    ----------
    stopping_rounds : int
        The number of iterations without improvement. 0 and negative numbers turn it off, as in LightGBM.
    first_metric_only : bool, default=False
        Whether to watch the first metric alone.
    verbose : bool, default=True
        Whether to print the reason and the best iteration.
    min_delta : float or list of float, default=0.0
        The least improvement that counts, at least 0: one number, or one per metric.
    """

    before_iteration = False
    order = 30  # after the callbacks that only look, so that they see the last iteration too
    # A run that resumes a checkpoint shows the past results to callbacks with this attribute, so that they remember
    # them. Other callbacks are not called for past iterations.
    replays = True
    keeps_later = False  # True in as_xgboost, whose Boosters hold all trees

    def __init__(
        self,
        stopping_rounds: int,
        first_metric_only: bool = False,
        verbose: bool = True,
        min_delta: float | Sequence[float] = 0.0,
    ) -> None:
        if not isinstance(stopping_rounds, int | np.integer) or isinstance(stopping_rounds, bool):
            raise InvalidTypeError(
                f"early_stopping_round should be an integer. Got {type(stopping_rounds).__name__!r}; pass a number of "
                "iterations."
            )
        self.enabled = stopping_rounds > 0
        self.stopping_rounds = stopping_rounds
        self.first_metric_only = first_metric_only
        self.verbose = verbose
        self.min_delta = [min_delta] if isinstance(min_delta, int | float) else list(min_delta)
        self.min_delta = self.min_delta or [0.0]
        if not all(delta >= 0 for delta in self.min_delta):
            raise InvalidParameterError(
                f"min_delta must be a number of at least 0 or a list of them, got {min_delta!r}."
            )
        self._deltas: dict[str, float] = {}
        self._best: dict[tuple[str, str], tuple[int, list[EvalResult]]] = {}

    def __call__(self, env: CallbackEnv) -> None:
        if env.iteration == env.begin_iteration:
            self.enabled = self.stopping_rounds > 0 and self._start(env.evaluation_result_list)
        if not self.enabled:
            return
        watched = self._watched(env.evaluation_result_list)
        for result in watched:
            best_iteration = self._update(result, env)
            if env.iteration - best_iteration >= self.stopping_rounds:
                self._stop(result, f"has not improved for {self.stopping_rounds} iterations")
        if env.iteration == env.end_iteration - 1:
            self._stop(watched[0], "was watched to the last iteration")

    def _watched(self, results: list[EvalResult]) -> list[EvalResult]:
        watched = [EvalResult(*result[:4]) for result in results if result[0] not in TRAINING_NAMES]
        if self.first_metric_only:
            watched = [result for result in watched if result.metric_name == watched[0].metric_name]
        return watched

    def _start(self, results: list[EvalResult]) -> bool:
        """Forget an earlier training, because the same callback may be used in several fits.

        Returns whether there is anything to watch besides the training data.
        """
        watched = self._watched(results)
        if results and not watched:
            warn_user("Only training set found, disabling early stopping. Pass a set that is not trained on.")
            return False
        if not watched:
            raise InvalidParameterError(
                "early_stopping needs an evaluation set other than the training data; pass eval_set to fit."
            )
        metrics = list(dict.fromkeys(result.metric_name for result in watched))
        deltas = self.min_delta[:1] if self.first_metric_only else self.min_delta
        if len(deltas) not in (1, len(metrics)):
            raise InvalidParameterError(
                f"min_delta must be one number or one for each of the {len(metrics)} metrics, "
                f"got {len(self.min_delta)} numbers."
            )
        deltas = deltas * len(metrics) if len(deltas) == 1 else deltas
        self._deltas = dict(zip(metrics, deltas, strict=True))
        self._best = {}
        return True

    def _update(self, result: EvalResult, env: CallbackEnv) -> int:
        """Note the result, and return the best iteration so far of this metric on this set."""
        key = result.dataset_name, result.metric_name
        if key in self._best:
            best_iteration, best_results = self._best[key]
            best = next(r[2] for r in best_results if tuple(r[:2]) == key)
            gain = result.value - best if result.is_higher_better else best - result.value
            # Any number beats NaN, which would stay the best for ever otherwise.
            beats_nan = math.isnan(best) and not math.isnan(result.value)
            if not (gain > self._deltas[result.metric_name] or beats_nan):
                return best_iteration
        self._best[key] = env.iteration, list(env.evaluation_result_list)
        return env.iteration

    def _stop(self, result: EvalResult, why: str) -> None:
        best_iteration, best_results = self._best[result.dataset_name, result.metric_name]
        if self.verbose:
            scores = ", ".join(f"{name} {metric} {value:g}" for name, metric, value, *_ in best_results)
            watched = f"{result.dataset_name} {result.metric_name}"
            tell_user(f"{watched} {why}; the best iteration is {best_iteration + 1}: {scores}")
        raise EarlyStopException(best_iteration, best_results, self.keeps_later)


@public
class log_evaluation:
    """Print the metrics during training.

    Parameters
    ----------
    period : int, default=1
        The number of iterations between two lines; 0 and -1 print nothing.
    show_stdv : bool, default=True
        Whether to print the standard deviation over the folds of a cross-validation.
    """

    before_iteration = False
    order = 10

    def __init__(self, period: int = 1, show_stdv: bool = True) -> None:
        integer("", -1).check("period", period)
        self.period, self.show_stdv = period, show_stdv

    def __call__(self, env: CallbackEnv) -> None:
        if self.period > 0 and env.evaluation_result_list and (env.iteration + 1) % self.period == 0:
            shown = "\t".join(map(self._text, env.evaluation_result_list))
            tell_user(f"[{env.iteration + 1}]\t{shown}")

    def _text(self, result: Sequence[Any]) -> str:
        deviation = f" + {result[4]:g}" if len(result) > 4 and self.show_stdv else ""
        return f"{result[0]}'s {result[1]}: {result[2]:g}{deviation}"


@public
class record_evaluation:
    """Keep the metrics of every iteration.

    Parameters
    ----------
    eval_result : dict
        Where to write them: {set: {metric: [value of each iteration]}}.
    """

    before_iteration = False
    order = 20
    replays = True

    def __init__(self, eval_result: dict[str, dict[str, list[float]]]) -> None:
        if not isinstance(eval_result, dict):
            raise InvalidTypeError(f"eval_result must be a dictionary to write into, got {type(eval_result).__name__}.")
        self.eval_result = eval_result

    def __call__(self, env: CallbackEnv) -> None:
        if env.iteration == env.begin_iteration:
            self.eval_result.clear()
        for result in env.evaluation_result_list:
            entry = self.eval_result.setdefault(result[0], {})
            if len(result) > 4:
                entry.setdefault(f"{result[1]}-mean", []).append(result[2])
                entry.setdefault(f"{result[1]}-stdv", []).append(result[4])
            else:
                entry.setdefault(result[1], []).append(result[2])

    def finish(self, evals_result: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
        """Take the results of the whole training, in processes where no callback was called."""
        self.eval_result.clear()
        self.eval_result.update(
            {name: {metric: list(values) for metric, values in by.items()} for name, by in evals_result.items()}
        )


@public
class reset_parameter:
    """Change parameters before each iteration, for example ``reset_parameter(learning_rate=[0.3, 0.2, 0.1])``.

    Parameters
    ----------
    **kwargs : list or callable
        By parameter: a list with one value per iteration, or a function of the iteration's number, counted from 0.
    """

    order = 10
    before_iteration = True

    def __init__(self, **kwargs: Sequence[Any] | Callable[[int], Any]) -> None:
        self.kwargs = kwargs
        self.schedules = changeable(kwargs)
        for name, schedule in self.schedules.items():
            if not callable(schedule) and not isinstance(schedule, list | tuple):
                raise InvalidTypeError(
                    f"{name} must be a list with a value for each iteration or a function of its number, "
                    f"got {schedule!r}."
                )

    def __call__(self, env: CallbackEnv) -> None:
        number, n_iterations = env.iteration - env.begin_iteration, env.end_iteration - env.begin_iteration
        values = {}
        for name, schedule in self.schedules.items():
            if callable(schedule):
                values[name] = schedule(number)
            elif len(schedule) == n_iterations:
                values[name] = schedule[number]
            else:
                raise InvalidParameterError(
                    f"{name} must have a value for each of the {n_iterations} iterations, got {len(schedule)} values."
                )
        env.model.reset_parameter(values)


@public
class checkpoint:
    """Save the model during training: fit's arguments ``checkpoint`` and ``checkpoint_freq`` as a callback.

    Parameters
    ----------
    directory : path
        The folder of the checkpoint.
    period : int, default=10
        The number of iterations between two checkpoints, at least 1.
    """

    def __init__(self, directory: str | os.PathLike[str], period: int = 10) -> None:
        if not isinstance(directory, str | os.PathLike):
            raise InvalidTypeError(f"directory must be the path of a folder, got {directory!r}.")
        integer("", 1).check("period", period)
        self.directory, self.period = directory, period

    before_iteration = False
    order = 40

    def __call__(self, env: CallbackEnv) -> None:
        """Do nothing: fit reads ``directory`` and ``period`` before training."""
