"""What worker 0 does besides training: it calls the callbacks and shows the progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pvtree.callbacks import CallbackEnv, EarlyStopException, EvalResult, early_stopping
from pvtree.progress_bar import TrainingBar

if TYPE_CHECKING:
    from pvtree.comm.traffic import Traffic
    from pvtree.ensemble import Job

Callback = Callable[[CallbackEnv], None]


class Watch:
    """Tells the callbacks about every iteration."""

    def __init__(self, job: Job, callbacks: Sequence[Callback], traffic: Traffic) -> None:
        self.job, self.callbacks, self.traffic = job, list(callbacks), traffic
        rounds = job.params.early_stopping_rounds
        if rounds:
            self.callbacks.append(early_stopping(rounds, verbose=job.params.verbosity > 1))

    @contextmanager
    def progress(self, n_done: int = 0) -> Iterator[None]:
        """Show a bar meanwhile."""
        params = self.job.params
        noun = "iteration" if params.ensemble == "gbdt" and params.n_classes > 2 else "tree"
        with TrainingBar(params.n_estimators, n_done, noun, params.verbosity > 0, self.traffic) as self.bar:
            yield

    def see(self, iteration: int, results: list[EvalResult]) -> EarlyStopException | None:
        """Tell the callbacks of an iteration; returns what the first one that has seen enough raised."""
        self.bar.update()
        if results:
            self.bar.set_postfix({f"{r.dataset_name} {r.metric_name}": f"{r.value:.5g}" for r in results[:3]})
        return self._tell(self.callbacks, iteration, results)

    def replay(self, history: list[list[EvalResult]]) -> EarlyStopException | None:
        """Tell the iterations of a training that was interrupted to those callbacks that must remember them."""
        remembering = [callback for callback in self.callbacks if getattr(callback, "replays", False)]
        for number, results in enumerate(history):
            stop = self._tell(remembering, self.job.first + number, results)
            if stop is not None:
                return stop
        return None

    def _tell(
        self, callbacks: Sequence[Callback], iteration: int, results: list[EvalResult]
    ) -> EarlyStopException | None:
        env = CallbackEnv(None, self.job.params, iteration, self.job.first, self.job.stop, results)
        try:
            for callback in callbacks:
                callback(env)
        except EarlyStopException as stop:
            return stop
        return None
