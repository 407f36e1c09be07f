"""What worker 0 does besides training: it calls the callbacks and shows the progress. Others watch if asked to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pvtree.training.callbacks import CallbackEnv, EarlyStopException, EvalResult, Training, early_stopping
from pvtree.training.progress_bar import TrainingBar

if TYPE_CHECKING:
    from pvtree.comm.traffic import Traffic
    from pvtree.training.options import TrainOptions

Callback = Callable[[CallbackEnv], None]


class Verdict(NamedTuple):
    """What worker 0 decides between two iterations."""

    stop: EarlyStopException | None  # set once a callback has ended the training
    changes: dict[str, Any]  # parameters that change with the next iteration


GO_ON = Verdict(None, {})


class CallbackRunner:
    """Calls the callbacks before and after every iteration."""

    def __init__(self, options: TrainOptions, traffic: Traffic) -> None:
        self.options, self.traffic = options, traffic
        self.callbacks = [callback for callback in options.callbacks if not _is_everywhere(callback)]
        params = options.params
        if params.early_stopping_rounds:
            self.callbacks.append(early_stopping(params.early_stopping_rounds, verbose=params.verbosity > 1))
        # LightGBM's order: callbacks without ``order`` first, those that may end the training last.
        self.callbacks.sort(key=lambda callback: getattr(callback, "order", -1))
        self.training = Training(params.ensemble)

    @contextmanager
    def progress(self, n_done: int = 0) -> Iterator[None]:
        """Show a progress bar inside the ``with`` block."""
        params = self.options.params
        noun = "iteration" if params.ensemble == "gbdt" and params.n_classes > 2 else "tree"
        with TrainingBar(params.n_estimators, n_done, noun, params.verbosity > 0, self.traffic) as self.bar:
            yield

    def begin(self, history: list[list[EvalResult]]) -> Verdict:
        """Before the first iteration; ``history`` holds the results of a checkpoint's iterations."""
        return self._next(self._replay(history), self.options.first + len(history))

    def see(self, iteration: int, results: list[EvalResult]) -> Verdict:
        """Between two iterations: call the callbacks after ``iteration``, then those before the next one."""
        self.bar.update()
        if results:
            self.bar.set_postfix({f"{r.dataset_name} {r.metric_name}": f"{r.value:.5g}" for r in results[:3]})
        return self._next(self._call(_after(self.callbacks), iteration, results), iteration + 1)

    def _next(self, stop: EarlyStopException | None, iteration: int) -> Verdict:
        if stop is None and iteration < self.options.stop:
            stop = self._call([c for c in self.callbacks if _is_before(c)], iteration, [])
        return Verdict(stop, self.training.take_changes())

    def _replay(self, history: list[list[EvalResult]]) -> EarlyStopException | None:
        """Show a checkpoint's iterations to the callbacks that must remember them."""
        remembering = [callback for callback in _after(self.callbacks) if getattr(callback, "replays", False)]
        for number, results in enumerate(history):
            stop = self._call(remembering, self.options.first + number, results)
            if stop is not None:
                return stop
        return None

    def _call(
        self, callbacks: Sequence[Callback], iteration: int, results: list[EvalResult]
    ) -> EarlyStopException | None:
        """Returns the exception of the first callback that ends the training."""
        env = _env(self.options, self.training, iteration, results)
        try:
            for callback in callbacks:
                callback(env)
        except EarlyStopException as stop:
            return stop
        return None


class Witnesses:
    """Calls, on every worker, the callbacks with ``on_all_workers``: after an iteration and its checkpoint.

    They only watch, so that workers need not agree on anything afterwards.
    """

    def __init__(self, options: TrainOptions) -> None:
        self.options = options
        self.callbacks = [callback for callback in options.callbacks if _is_everywhere(callback)]
        self.training = Training(options.params.ensemble)

    def see(self, iteration: int, results: list[EvalResult]) -> None:
        for callback in self.callbacks:
            callback(_env(self.options, self.training, iteration, results))


def _env(options: TrainOptions, training: Training, iteration: int, results: list[EvalResult]) -> CallbackEnv:
    return CallbackEnv(
        model=training,
        params=options.params,
        iteration=iteration,
        begin_iteration=options.first,
        end_iteration=options.stop,
        evaluation_result_list=results,
    )


def _is_everywhere(callback: Callback) -> bool:
    return bool(getattr(callback, "on_all_workers", False))


def _is_before(callback: Callback) -> bool:
    """Whether it is called before an iteration instead of after it."""
    return bool(getattr(callback, "before_iteration", False))


def _after(callbacks: Sequence[Callback]) -> list[Callback]:
    return [callback for callback in callbacks if not _is_before(callback)]
