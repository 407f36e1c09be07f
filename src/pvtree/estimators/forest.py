"""Decision trees and random forests, split by the gains of the paper's Definition 2.1."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from pvtree.estimators.base import Classifier, Estimator, Regressor, store
from pvtree.params import RULES, Params, make_params, one_of

_ENTROPY = RULES | {"criterion": one_of("What a split must reduce: information gain.", "entropy")}
_VARIANCE = RULES | {"criterion": one_of("What a split must reduce: variance gain.", "variance")}


class _Forest(Estimator):
    _objective: ClassVar[str]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on X (rows x columns) and y; rows of weight zero are left out."""
        values = self._checked_parameters()
        data = self._read_training(X, y, sample_weight, values)
        params = self._params(
            values, data.columns.n_features, 1 if data.classes is None else len(data.classes)
        )
        from pvtree.ensemble import train  # imports the kernels: not needed to construct or clone

        self._keep(train(data.matrix, data.y, params, **data.for_train).model, data)
        return self

    def _params(self, values: dict[str, Any], n_features: int, n_classes: int) -> Params:
        # A decision tree is a forest of one tree that sees every row once.
        single = {} if "n_estimators" in values else {"n_estimators": 1, "bootstrap": False}
        settled = {"ensemble": "forest", "objective": self._objective, "n_classes": n_classes, **single}
        return make_params(values, n_features, **settled)


class _ClassForest(_Forest, Classifier):
    _objective = "classification"
    _rules = _ENTROPY

    def _probabilities(self, raw: np.ndarray) -> np.ndarray:
        return raw  # the mean of the leaves' class frequencies


class _ValueForest(_Forest, Regressor):
    _objective = "regression"
    _rules = _VARIANCE


class _OneTree(_Forest):
    def apply(self, X: Any) -> np.ndarray:
        """Leaf that each row falls into: its ordinal among the tree's leaves, (n_rows,)."""
        return super().apply(X)[:, 0]


class RandomForestClassifier(_ClassForest):
    """A forest of trees that split by information gain, each on rows drawn with replacement.

    Probabilities are the mean of the trees' class frequencies. After fit: ``classes_``, ``n_features_in_``,
    ``feature_names_in_`` (of a DataFrame), ``feature_importances_`` and ``model_``.
    """

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        bootstrap: bool = True,
        criterion: str = "entropy",
        max_features: int | float | str | None = "sqrt",
        num_leaves: int = -1,
        max_depth: int = -1,
        min_child_samples: int = 1,
        min_child_weight: float = 0.0,
        min_split_gain: float = 0.0,
        max_bin: int = 255,
        categorical_feature: Any = "auto",
        importance_type: str = "split",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbosity: int = 1,
        tree_learner: str = "serial",
        top_k: int = 20,
        n_workers: int = 1,
    ) -> None:
        store(self, locals())


class RandomForestRegressor(_ValueForest):
    """A forest of trees that split by variance gain, each on rows drawn with replacement.

    Predictions are the mean of the trees' values. After fit: ``n_features_in_``, ``feature_names_in_`` (of a
    DataFrame), ``feature_importances_`` and ``model_``.
    """

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        bootstrap: bool = True,
        criterion: str = "variance",
        max_features: int | float | str | None = 1.0,
        num_leaves: int = -1,
        max_depth: int = -1,
        min_child_samples: int = 1,
        min_child_weight: float = 0.0,
        min_split_gain: float = 0.0,
        max_bin: int = 255,
        categorical_feature: Any = "auto",
        importance_type: str = "split",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbosity: int = 1,
        tree_learner: str = "serial",
        top_k: int = 20,
        n_workers: int = 1,
    ) -> None:
        store(self, locals())


class DecisionTreeClassifier(_OneTree, _ClassForest):
    """One tree that splits by information gain (entropy, any number of classes).

    After fit: ``classes_``, ``n_features_in_``, ``feature_names_in_`` (of a DataFrame),
    ``feature_importances_`` and ``model_``.
    """

    def __init__(
        self,
        *,
        criterion: str = "entropy",
        max_features: int | float | str | None = None,
        num_leaves: int = -1,
        max_depth: int = -1,
        min_child_samples: int = 1,
        min_child_weight: float = 0.0,
        min_split_gain: float = 0.0,
        max_bin: int = 255,
        categorical_feature: Any = "auto",
        importance_type: str = "split",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbosity: int = 1,
        tree_learner: str = "serial",
        top_k: int = 20,
        n_workers: int = 1,
    ) -> None:
        store(self, locals())


class DecisionTreeRegressor(_OneTree, _ValueForest):
    """One tree that splits by variance gain.

    After fit: ``n_features_in_``, ``feature_names_in_`` (of a DataFrame), ``feature_importances_`` and
    ``model_``.
    """

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
        importance_type: str = "split",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbosity: int = 1,
        tree_learner: str = "serial",
        top_k: int = 20,
        n_workers: int = 1,
    ) -> None:
        store(self, locals())
