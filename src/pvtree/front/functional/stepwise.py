"""A training that waits after every iteration: Booster.update keeps the bins and scores of its rows (ADR 0064)."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.comm.user_warnings import Heard, listening, warn_user
from pvtree.errors import InvalidParameterError
from pvtree.training.callbacks import CallbackEnv, EarlyStopException, changeable

if TYPE_CHECKING:
    from pvtree.front.functional.dataset import Dataset
    from pvtree.model.model import Model

Train = Callable[..., Any]  # train(callbacks=[...]), which returns when the training ends


class Gate:
    """The callback at which a training waits, in a thread of its own, until its next iteration is asked for."""

    before_iteration = False
    order = 1000  # after all others

    def __init__(self) -> None:
        # One of them is free at a time: the trainer runs, or the thread that asks for iterations.
        self.trainer, self.asker = threading.Semaphore(0), threading.Semaphore(0)
        self.model: Model | None = None  # after the last iteration
        self.error: BaseException | None = None
        self.changes: dict[str, Any] = {}
        self.is_closed = False
        self.heard: list[Heard] = []
        self._warnings = ExitStack()

    def __call__(self, env: CallbackEnv) -> None:
        self._warnings.close()
        self.model = env.model.model()
        self.asker.release()
        self.trainer.acquire()
        if self.is_closed:
            raise EarlyStopException(env.iteration, [])
        if self.changes:
            env.model.reset_parameter(self.changes)
            self.changes = {}

    def run(self, train: Train) -> None:
        """What the trainer's thread does."""
        self.heard = self._warnings.enter_context(listening())  # until the first iteration has ended
        try:
            train(callbacks=[self])
        except BaseException as error:
            self.error = error
        finally:
            self._warnings.close()
            self.asker.release()

    def close(self) -> None:
        self.is_closed = True
        self.trainer.release()


class Stepwise:
    """A training of which ``step`` asks for one iteration after the other.

    Parameters
    ----------
    train : callable
        Trains with the callbacks that it is given, for as long as these let it.
    params : mapping
        The parameters that were asked for, to compare later ones with.
    train_set : Dataset
        The rows.
    waits : bool
        Whether it waits after each iteration; else ``train`` trains a single one.
    is_scaled : bool
        Whether the trainer's units of parameters are others, so that none may change on the way.
    """

    def __init__(
        self, train: Train, params: Mapping[str, Any], train_set: Dataset, waits: bool, is_scaled: bool
    ) -> None:
        self.params, self.waits, self.is_scaled, self.rows = dict(params), waits, is_scaled, _rows_of(train_set)
        self.last: Model | None = None  # the model that the Booster has, if it has not been changed since
        self._gate, self._train = Gate(), train
        self._thread: threading.Thread | None = None
        weakref.finalize(self, self._gate.close).atexit = False  # else the thread would wait for ever

    def continues(self, params: Mapping[str, Any], train_set: Dataset, start: Model | None) -> bool:
        """Whether the next iteration of this training is the one that is asked for."""
        is_same = start is self.last and all(a is b for a, b in zip(self.rows, _rows_of(train_set), strict=True))
        return self.waits and is_same and not self._gate.is_closed and self._changes(params) is not None

    def step(self, params: Mapping[str, Any]) -> Model:
        """Train one more iteration."""
        if not self.waits:
            alone: Model = self._train().model_
            return alone
        gate = self._gate
        gate.changes = self._changes(params) or {}
        self.params = dict(params)
        if self._thread is None:
            self._thread = threading.Thread(target=gate.run, args=(self._train,), daemon=True)
            self._thread.start()
        else:
            gate.trainer.release()
        try:
            gate.asker.acquire()
        except BaseException:  # interrupted: nobody would be there when the trainer arrives
            gate.close()
            raise
        for category, sentence in gate.heard:
            warn_user(sentence, category)
        gate.heard = []
        error, gate.error = gate.error, None
        if error is not None:
            gate.is_closed = True
            try:
                raise error
            finally:
                del error  # its traceback holds this frame, which would hold it
        assert gate.model is not None
        return gate.model

    def _changes(self, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """What has changed since the last iteration; None if it is too much."""
        changed = {name: value for name, value in params.items() if not _is_same(self.params.get(name), value)}
        if self.params.keys() - params.keys() or (changed and self.is_scaled):
            return None
        try:
            return changeable(changed)
        except InvalidParameterError:
            return None


def _rows_of(data: Dataset) -> tuple[Any, ...]:
    beside = (data.label, data.weight, data.group, data.qid, data.init_score)
    return (data.data, *beside, data.given_names, data.categorical_feature)


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return type(one) is type(other) and not isinstance(one, np.ndarray) and bool(one == other)
