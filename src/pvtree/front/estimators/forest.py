"""Decision trees and random forests, split by the gains of the paper's Definition 2.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError, public
from pvtree.front.estimators.argument_docs import PREDICT, documented
from pvtree.front.estimators.base import store
from pvtree.front.estimators.fit import Fitting
from pvtree.front.estimators.other_names import takes_other_names
from pvtree.front.estimators.tasks import Classifier, Regressor
from pvtree.parameters.params import SEPARATE_LEARNERS, TREE_LEARNERS
from pvtree.parameters.rule_kinds import one_of
from pvtree.parameters.rules import RULES
from pvtree.reading.label_columns import classes_of_columns, columns_of

if TYPE_CHECKING:
    from pvtree.training.train import TrainResult

_FOREST_RULES = RULES | {
    "tree_learner": one_of(
        RULES["tree_learner"].meaning.partition(";")[0] + ".",
        *TREE_LEARNERS,
        note=f" ({' and '.join(map(repr, SEPARATE_LEARNERS))} are for boosting only: use 'voting')",
    )
}


class _Forest(Fitting):
    _ensemble = "forest"

    def _checked_parameters(self) -> dict[str, Any]:
        values = super()._checked_parameters()
        if values.get("oob_score") and not values["bootstrap"]:
            raise InvalidParameterError("oob_score=True needs rows that a tree has not seen; set bootstrap=True.")
        return values

    def _keep(self, result: TrainResult, callbacks: list[Any]) -> None:
        super()._keep(result, callbacks)
        for name in {"oob_score_", "oob_decision_function_", "oob_prediction_"} & vars(self).keys():
            delattr(self, name)
        if result.out_of_bag is not None:
            self.oob_score_ = result.out_of_bag.score
            predicted = result.out_of_bag.predictions
            if self._target_kind == "class":
                many = isinstance(self.classes_, list)
                self.oob_decision_function_ = columns_of(predicted, self.classes_) if many else predicted
            else:
                self.oob_prediction_ = predicted[:, 0] if predicted.shape[1] == 1 else predicted


class _ClassForest(_Forest, Classifier):
    _takes_many_targets = True
    _rules = _FOREST_RULES | {"criterion": one_of("The gain of a split: information gain.", "entropy")}

    def _task(self, n_classes: int) -> str:
        return "classification"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _probabilities(self, raw: np.ndarray) -> Any:
        """The mean of the leaves' class frequencies; a list of these if y has several columns."""
        return columns_of(raw, self.classes_) if isinstance(self.classes_, list) else raw

    def _classes_of(self, raw: np.ndarray) -> np.ndarray:
        return classes_of_columns(raw, self.classes_) if isinstance(self.classes_, list) else super()._classes_of(raw)


class _ValueForest(_Forest, Regressor):
    _takes_many_targets = True
    _rules = _FOREST_RULES | {"criterion": one_of("The gain of a split: variance gain.", "variance")}

    def _task(self, n_classes: int) -> str:
        return "regression"


class _OneTree(_Forest):
    @property
    def _settled(self) -> dict[str, Any]:
        return {"n_estimators": 1, "bootstrap": False}  # one tree that sees every row once

    @documented(PREDICT, "ndarray of shape (n_rows,)")
    def apply(self, X: Any) -> np.ndarray:
        """The leaf of each row, counted among the tree's leaves."""
        return super().apply(X)[:, 0]


@public
class RandomForestClassifier(_ClassForest):
    """A forest of trees that split by information gain, each on rows drawn with replacement.

    Probabilities are the mean of the trees' class frequencies.
    """

    @takes_other_names
    def __init__(
        self,
        *,
        n_estimators: int = 100,
        bootstrap: bool = True,
        oob_score: bool = False,
        criterion: str = "entropy",
        class_weight: Any = None,
        max_features: int | float | str | None = "sqrt",
        num_leaves: int = -1,
        max_depth: int = -1,
        min_child_samples: int = 1,
        min_child_weight: float = 0.0,
        min_split_gain: float = 0.0,
        max_bin: int = 255,
        categorical_feature: Any = "auto",
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        importance_type: str = "split",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbosity: int = 1,
        tree_learner: str = "auto",
        top_k: int | str = 20,
        election_size: float = 2.0,
        ballot_rows: int | str = 8192,
        quantized_bins: float = 0.1,
        audit: int = 0,
        n_workers: int = 1,
    ) -> None:
        store(self, locals())


@public
class RandomForestRegressor(_ValueForest):
    """A forest of trees that split by variance gain, each on rows drawn with replacement.

    Predictions are the mean of the trees' values.
    """

    @takes_other_names
    def __init__(
        self,
        *,
        n_estimators: int = 100,
        bootstrap: bool = True,
        oob_score: bool = False,
        criterion: str = "variance",
        max_features: int | float | str | None = 1.0,
        num_leaves: int = -1,
        max_depth: int = -1,
        min_child_samples: int = 1,
        min_child_weight: float = 0.0,
        min_split_gain: float = 0.0,
        max_bin: int = 255,
        categorical_feature: Any = "auto",
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        importance_type: str = "split",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbosity: int = 1,
        tree_learner: str = "auto",
        top_k: int | str = 20,
        election_size: float = 2.0,
        ballot_rows: int | str = 8192,
        quantized_bins: float = 0.1,
        audit: int = 0,
        n_workers: int = 1,
    ) -> None:
        store(self, locals())


@public
class DecisionTreeClassifier(_OneTree, _ClassForest):
    """One tree that splits by information gain, for any number of classes."""

    @takes_other_names
    def __init__(
        self,
        *,
        criterion: str = "entropy",
        class_weight: Any = None,
        max_features: int | float | str | None = None,
        num_leaves: int = -1,
        max_depth: int = -1,
        min_child_samples: int = 1,
        min_child_weight: float = 0.0,
        min_split_gain: float = 0.0,
        max_bin: int = 255,
        categorical_feature: Any = "auto",
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        importance_type: str = "split",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbosity: int = 1,
        tree_learner: str = "auto",
        top_k: int | str = 20,
        election_size: float = 2.0,
        ballot_rows: int | str = 8192,
        quantized_bins: float = 0.1,
        audit: int = 0,
        n_workers: int = 1,
    ) -> None:
        store(self, locals())


@public
class DecisionTreeRegressor(_OneTree, _ValueForest):
    """One tree that splits by variance gain."""

    @takes_other_names
    def __init__(
        self,
        *,
        criterion: str = "variance",
        max_features: int | float | str | None = None,
        num_leaves: int = -1,
        max_depth: int = -1,
        min_child_samples: int = 1,
        min_child_weight: float = 0.0,
        min_split_gain: float = 0.0,
        max_bin: int = 255,
        categorical_feature: Any = "auto",
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        importance_type: str = "split",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbosity: int = 1,
        tree_learner: str = "auto",
        top_k: int | str = 20,
        election_size: float = 2.0,
        ballot_rows: int | str = 8192,
        quantized_bins: float = 0.1,
        audit: int = 0,
        n_workers: int = 1,
    ) -> None:
        store(self, locals())
