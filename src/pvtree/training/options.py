"""What is trained, apart from the rows: parameters, evaluation, callbacks, and where training starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.model.model import Model
from pvtree.model.tree import Tree
from pvtree.parameters.params import Params

if TYPE_CHECKING:
    from pvtree.objectives.metrics import CustomMetric, Metric
    from pvtree.training.callback_runner import Callback
    from pvtree.training.checkpoint_file import Checkpoint
    from pvtree.training.evaluator import EvalSet


@dataclass(frozen=True)
class TrainOptions:
    """The settings of one training; all workers have the same, but each its own rows of the evaluation sets."""

    params: Params
    categorical: Mapping[int, int] = field(default_factory=dict)  # number of categories by column
    feature_names: Sequence[str] | None = None
    init_model: Model | None = None
    classes: Sequence[Any] | None = None
    categories: Mapping[int, Sequence[Any]] = field(default_factory=dict)  # the categories themselves, for the model
    eval_sets: Sequence[EvalSet] = ()
    metrics: Sequence[Metric | CustomMetric] = ()
    callbacks: Sequence[Callback] = ()  # only worker 0 calls them
    checkpoint: Checkpoint | None = None

    @property
    def is_watched(self) -> bool:
        """Whether worker 0 may stop the training early or change its parameters."""
        return bool(self.eval_sets or self.callbacks)

    @property
    def first(self) -> int:
        """The number of the first iteration; it continues the count of ``init_model``."""
        return 0 if self.init_model is None else self.init_model.n_iterations

    @property
    def stop(self) -> int:
        """One past the number of the last iteration."""
        return self.first + self.params.n_estimators

    def make_model(
        self, trees: Sequence[Tree], n_features: int, n_outputs: int, init_score: np.ndarray, n_parallel_trees: int = 1
    ) -> Model:
        params = self.params
        return Model(
            trees=tuple(trees),
            objective=params.objective if isinstance(params.objective, str) else "custom",
            ensemble="forest" if params.averages else "gbdt",
            n_features=n_features,
            n_outputs=n_outputs,
            init_score=init_score,
            feature_names=None if self.feature_names is None else tuple(self.feature_names),
            classes=None if self.classes is None else tuple(self.classes),
            categories={k: tuple(v) for k, v in self.categories.items()},
            n_parallel_trees=n_parallel_trees,
            zero_as_missing=params.zero_as_missing,
            target_sizes=params.target_sizes,
        )
