"""The arguments of fit apart from the rows: as the user wrote them, then checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError, InvalidTypeError
from pvtree.front.estimators.eval_arguments import EvalArguments
from pvtree.parameters.rule_kinds import Rule, integer
from pvtree.parameters.rules import RULES
from pvtree.training.callbacks import checkpoint, early_stopping, log_evaluation

if TYPE_CHECKING:
    from pvtree.model.model import Model

_PATH = Rule("The folder of checkpoints.", "a path or None", lambda v: v is None or isinstance(v, str | os.PathLike))


@dataclass(frozen=True)
class FitOptions:
    """What fit was asked for. The trainer's ``TrainOptions`` follow from it once the data is read."""

    evaluation: EvalArguments
    callbacks: Any = None
    init_model: Any = None
    comm: Any = None
    client: Any = None
    timeout: float = 600.0
    checkpoint: Any = None
    checkpoint_freq: int = 10
    feature_name: Any = "auto"
    categorical_feature: Any = "auto"
    early_stopping_rounds: int | None = None

    def checked(self) -> FitOptions:
        """The same with a list of callbacks, a loaded init_model and the folder of a checkpoint callback."""
        integer("", 1).check("checkpoint_freq", self.checkpoint_freq)
        _PATH.check("checkpoint", self.checkpoint)
        RULES["categorical_feature"].check("categorical_feature", self.categorical_feature)
        if not (type(self.early_stopping_rounds) is int and self.early_stopping_rounds == 0):  # 0 turns it off
            RULES["early_stopping_rounds"].check("early_stopping_rounds", self.early_stopping_rounds)
        callbacks = _checked_callbacks(self.callbacks)
        folders = [callback for callback in callbacks if isinstance(callback, checkpoint)]
        if len(folders) + (self.checkpoint is not None) > 1:
            raise InvalidParameterError(
                "checkpoint is given more than once; pass it to fit, or pass one checkpoint callback."
            )
        options = replace(
            self,
            callbacks=[callback for callback in callbacks if callback not in folders],
            init_model=_read_init_model(self.init_model),
        )
        for folder in folders:
            options = replace(options, checkpoint=folder.directory, checkpoint_freq=folder.period)
        return options

    def stopping_with(self, further: Mapping[str, Any], rounds_of_estimator: Any) -> FitOptions:
        """The same with a callback in place of the rounds, if ``further`` has LightGBM's parameters about stopping."""
        asked = {
            "first_metric_only": bool(further.get("first_metric_only", False)),
            "min_delta": further.get("early_stopping_min_delta", 0.0),
        }
        own = self.early_stopping_rounds
        rounds = rounds_of_estimator if own is None else own
        if not isinstance(rounds, int) or rounds < 1 or not any(asked.values()):
            return self
        callback = early_stopping(rounds, verbose=False, **asked)
        return replace(self, callbacks=[*_checked_callbacks(self.callbacks), callback], early_stopping_rounds=0)

    def settings(self) -> dict[str, str]:
        """What must be the same on all ranks, as it is shown in errors."""
        return {
            "the number of callbacks": str(len(self.callbacks)),
            "feature_name": shown(self.feature_name),
            "categorical_feature of fit": shown(self.categorical_feature),
            "early_stopping_rounds of fit": shown(self.early_stopping_rounds),
            "eval_metric": shown(self.evaluation.eval_metric),
            "eval_class_weight": shown(self.evaluation.eval_class_weight),
            "checkpoint": "given" if self.checkpoint is not None else "not given",
            "checkpoint_freq": str(self.checkpoint_freq),
            "init_model": "given" if self.init_model is not None else "not given",
        }


def shown(value: Any) -> str:
    """A setting as text that is equal on all ranks: a function by its name, because its address differs."""
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    return getattr(value, "__qualname__", None) or repr(value)


def with_verbose_callback(callbacks: Any, verbose: Any) -> Any:
    """The callbacks, and for XGBoost's ``verbose`` LightGBM's ``log_evaluation``."""
    if not isinstance(verbose, bool | int | np.integer | np.bool_ | None):
        raise InvalidTypeError(f"verbose must be True, False or a number of iterations, got {verbose!r:.100}.")
    if not verbose:
        return callbacks
    return [*_checked_callbacks(callbacks), log_evaluation(1 if verbose is True else int(verbose))]


def _checked_callbacks(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    if not isinstance(callbacks, list | tuple | set) or not all(callable(c) for c in callbacks):
        raise InvalidTypeError(f"callbacks must be a list of functions, got {callbacks!r}.")
    return list(callbacks)


def _read_init_model(init_model: Any) -> Model | None:
    if init_model is None:
        return None
    from pvtree.model.any_file import read_any
    from pvtree.model.model import Model

    if isinstance(init_model, str | os.PathLike):
        return read_any(init_model)
    model = getattr(init_model, "model_", init_model)
    if not isinstance(model, Model):
        raise InvalidTypeError(
            "init_model must be a Model, a fitted pvtree estimator or the path of a saved model, "
            f"got {type(init_model).__name__}."
        )
    return model
