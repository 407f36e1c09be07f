"""What worker 0 does besides training: it calls the callbacks and shows the progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pvtree.training.callbacks import CallbackEnv, EarlyStopException, EvalResult, Training, early_stopping
from pvtree.training.progress_bar import TrainingBar

if TYPE_CHECKING:
    from pvtree.comm.traffic import Traffic
    from pvtree.training.train import Job

Callback = Callable[[CallbackEnv], None]


class Word(NamedTuple):
    """What worker 0 has to say between two iterations."""

    stop: EarlyStopException | None  # callbacks have seen enough
    changes: dict[str, Any]  # parameters that are others from the next iteration on


NOTHING = Word(None, {})


class Watch:
    """Tells the callbacks about every iteration."""

    def __init__(self, job: Job, callbacks: Sequence[Callback], traffic: Traffic) -> None:
        self.job, self.callbacks, self.traffic = job, list(callbacks), traffic
        rounds = job.params.early_stopping_rounds
        if rounds:
            self.callbacks.append(early_stopping(rounds, verbose=job.params.verbosity > 1))
        # LightGBM's order: one that ends the training comes last; those that do not say, first.
        self.callbacks.sort(key=lambda callback: getattr(callback, "order", -1))
        self.training = Training(job.params.ensemble)

    @contextmanager
    def progress(self, n_done: int = 0) -> Iterator[None]:
        """Show a bar meanwhile."""
        params = self.job.params
        noun = "iteration" if params.ensemble == "gbdt" and params.n_classes > 2 else "tree"
        with TrainingBar(params.n_estimators, n_done, noun, params.verbosity > 0, self.traffic) as self.bar:
            yield

    def begin(self, history: list[list[EvalResult]]) -> Word:
        """Before the first iteration, of a training that was interrupted before the first one that is missing."""
        return self._next(self._replay(history), self.job.first + len(history))

    def see(self, iteration: int, results: list[EvalResult]) -> Word:
        """Tell the callbacks of an iteration, and those that want to know of the one that comes next."""
        self.bar.update()
        if results:
            self.bar.set_postfix({f"{r.dataset_name} {r.metric_name}": f"{r.value:.5g}" for r in results[:3]})
        return self._next(self._tell(_after(self.callbacks), iteration, results), iteration + 1)

    def _next(self, stop: EarlyStopException | None, iteration: int) -> Word:
        if stop is None and iteration < self.job.stop:
            stop = self._tell([c for c in self.callbacks if _is_before(c)], iteration, [])
        return Word(stop, self.training.take_changes())

    def _replay(self, history: list[list[EvalResult]]) -> EarlyStopException | None:
        """Tell the iterations of a training that was interrupted to those callbacks that must remember them."""
        remembering = [callback for callback in _after(self.callbacks) if getattr(callback, "replays", False)]
        for number, results in enumerate(history):
            stop = self._tell(remembering, self.job.first + number, results)
            if stop is not None:
                return stop
        return None

    def _tell(
        self, callbacks: Sequence[Callback], iteration: int, results: list[EvalResult]
    ) -> EarlyStopException | None:
        """Returns what the first one that has seen enough raised."""
        env = CallbackEnv(self.training, self.job.params, iteration, self.job.first, self.job.stop, results)
        try:
            for callback in callbacks:
                callback(env)
        except EarlyStopException as stop:
            return stop
        return None


def _is_before(callback: Callback) -> bool:
    """Whether it is called before an iteration instead of after it."""
    return bool(getattr(callback, "before_iteration", False))


def _after(callbacks: Sequence[Callback]) -> list[Callback]:
    return [callback for callback in callbacks if not _is_before(callback)]
