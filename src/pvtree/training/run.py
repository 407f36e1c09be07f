"""The iterations of one training, and what happens between them: evaluation, callbacks and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pvtree.comm.agreement import tell
from pvtree.model.model import Model
from pvtree.model.tree import Tree
from pvtree.training.callback_runner import GO_ON, CallbackRunner, Verdict, Witnesses
from pvtree.training.callbacks import EarlyStopException, EvalResult
from pvtree.training.checkpoint_file import Saved
from pvtree.training.fingerprint import Fingerprint, fingerprint

if TYPE_CHECKING:
    from pvtree.binning.shard import Shard
    from pvtree.comm import Communicator
    from pvtree.training.ensemble import Ensemble
    from pvtree.training.evaluator import Evaluator
    from pvtree.training.options import TrainOptions


class CheckpointKeeper:
    """Resumes a training from its checkpoint and writes the next ones; does nothing if no checkpoint is asked for."""

    def __init__(
        self, options: TrainOptions, shard: Shard, comm: Communicator, asked: Sequence[str], n_parallel_trees: int
    ) -> None:
        self.checkpoint, self.writes = options.checkpoint, comm.rank == 0
        self.fingerprint: Fingerprint = {}
        self.saved: Saved | None = None
        if self.checkpoint is not None:
            params = options.params
            self.fingerprint = fingerprint(params, shard, comm, options.init_model, asked, n_parallel_trees)
            saved = self.checkpoint.resume(self.fingerprint, comm)
            self.saved = None if saved is None else saved.up_to(params.n_estimators)

    def is_due(self, n_iterations: int) -> bool:
        return self.checkpoint is not None and self.writes and self.checkpoint.is_due(n_iterations)

    def save(self, model: Model, history: Sequence[Sequence[EvalResult]], weights: Any = None) -> None:
        assert self.checkpoint is not None  # else it is never due
        self.checkpoint.save(model, history, self.fingerprint, weights)


class TrainingRun:
    """A training on one worker; all workers run the same iterations and stop after the same one."""

    def __init__(
        self,
        options: TrainOptions,
        ensemble: Ensemble,
        evaluator: Evaluator,
        keeper: CheckpointKeeper,
        n_features: int,
        comm: Communicator,
        start: Model | None = None,
    ) -> None:
        """``start`` is the model that the training continues."""
        self.options, self.ensemble, self.evaluator, self.keeper = options, ensemble, evaluator, keeper
        self.n_features, self.comm = n_features, comm
        saved = keeper.saved
        self.trees: list[Tree] = [] if start is None else list(start.trees)
        self.history: list[list[EvalResult]] = [] if saved is None else saved.history  # by iteration
        self.n_old_trees = len(self.trees)
        self.seconds: list[float] = []  # from the start of the first iteration to the end of each
        self.ledgers: list[Any] = []  # traffic after each iteration
        self.stop: EarlyStopException | None = None
        self.runner = CallbackRunner(options, comm.traffic) if comm.rank == 0 else None
        self.witnesses = Witnesses(options)
        self.witnesses.training._make_model = self.model
        if self.runner is not None:
            self.runner.training._make_model = self.model

    def model(self) -> Model:
        """All trees so far."""
        return self._model_of(self.trees)

    def model_after(self, n_iterations: int) -> Model:
        """The model as it was after this many iterations, those of an init_model included."""
        dart, model = self.ensemble.dart, self.model()
        if dart is None:
            return replace(model, trees=model.trees[: n_iterations * model.trees_per_iteration])
        own = dart.trees_after(n_iterations - self.options.first)
        return self._model_of([*self.trees[: len(self.trees) - len(dart.trees)], *own])

    def _model_of(self, trees: Sequence[Tree]) -> Model:
        made = self.ensemble
        return self.options.make_model(trees, self.n_features, made.n_outputs, made.init_score, made.n_parallel_trees)

    def run(self) -> None:
        """Iterate until there are enough iterations or a callback stops the training."""
        began, n_estimators = self.comm.now(), self.options.params.n_estimators
        with nullcontext() if self.runner is None else self.runner.progress(len(self.history)):
            verdict = self._agree(GO_ON if self.runner is None else self.runner.begin(self.history))
            while verdict.stop is None and len(self.history) < n_estimators:
                verdict = self._iterate(verdict.changes, began)
        self.stop = verdict.stop

    def _iterate(self, changes: dict[str, Any], began: float) -> Verdict:
        if changes:
            self.ensemble.maker.params = replace(self.ensemble.maker.params, **changes)
        added = next(self.ensemble.iterations)
        dart = self.ensemble.dart
        if dart is None:
            self.trees.extend(added)
        else:
            self.trees[len(self.trees) - (len(dart.trees) - len(added)) :] = dart.trees
        is_changed = dart is not None and bool(dart.dropped)
        self.seconds.append(self.comm.now() - began)
        number = self.options.first + len(self.history)
        results = self.evaluator.evaluate(added, number + 1, self.trees if is_changed else None)
        self.history.append(results)
        verdict = self._agree(GO_ON if self.runner is None else self.runner.see(number, results))
        if self.comm.size > 1:
            self.ledgers.append(self.comm.traffic.snapshot())
        if self.keeper.is_due(len(self.history)):
            self._save()
        self.witnesses.see(number, results)
        return verdict

    def _save(self) -> None:
        dart = self.ensemble.dart
        if dart is None:
            self.keeper.save(self.model(), self.history)
        else:
            before = self.trees[: len(self.trees) - len(dart.trees)]
            self.keeper.save(self._model_of([*before, *dart.grown]), self.history, dart.history)

    def _agree(self, own: Verdict) -> Verdict:
        """Worker 0's verdict, on every worker."""
        if not self.options.is_watched:
            return GO_ON
        stop = None
        if own.stop is not None:
            stop = [own.stop.best_iteration, own.stop.best_score, own.stop.keeps_later]
        stop, changes = tell([stop, own.changes], self.comm, "metrics")
        return Verdict(
            None if stop is None else EarlyStopException(stop[0], [EvalResult(*r) for r in stop[1]], stop[2]), changes
        )
