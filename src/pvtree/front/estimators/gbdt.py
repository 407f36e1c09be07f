"""Gradient boosting for classes and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidDataError, public
from pvtree.front.estimators.argument_docs import PREDICT, documented
from pvtree.front.estimators.base import lazy_on_engines, store
from pvtree.front.estimators.fit import Fitting
from pvtree.front.estimators.kind_checks import check_kinds, idle_kinds
from pvtree.front.estimators.other_names import others, takes_other_names
from pvtree.front.estimators.tasks import Classifier, Regressor
from pvtree.front.scikit_learn import check_is_fitted
from pvtree.parameters.aliases import objective_named
from pvtree.parameters.loss_table import losses_of
from pvtree.parameters.rule_kinds import objective
from pvtree.parameters.rules import RULES

if TYPE_CHECKING:
    from pvtree.front.functional import Booster
    from pvtree.reading.training_rows import TargetKind


@public
class GBDTModel(Fitting):
    """Base of the boosting estimators, as LightGBM's LGBMModel is. It trains the task that ``objective`` names.

    ``predict`` returns values, the probability of the second of two classes, or the probabilities of more classes. For
    rankings use ``GBDTRanker``.
    """

    _ensemble = "gbdt"
    _adds_own_metric = True
    _rules = RULES | {"objective": objective(*losses_of("value"), *losses_of("class"))}

    @takes_other_names
    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        num_leaves: int = 31,
        max_depth: int = -1,
        min_child_samples: int = 20,
        min_child_weight: float = 1e-3,
        reg_alpha: float = 0.0,
        reg_lambda: float = 0.0,
        min_split_gain: float = 0.0,
        subsample: float = 1.0,
        subsample_freq: int = 0,
        pos_bagging_fraction: float = 1.0,
        neg_bagging_fraction: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bylevel: float = 1.0,
        colsample_bynode: float = 1.0,
        grow_policy: str = "lossguide",
        extra_trees: bool = False,
        path_smooth: float = 0.0,
        linear_tree: bool = False,
        linear_lambda: float = 0.0,
        feature_contri: Any = None,
        cegb_tradeoff: float = 1.0,
        cegb_penalty_split: float = 0.0,
        cegb_penalty_feature_coupled: Any = None,
        max_bin: int = 255,
        max_bin_by_feature: Any = None,
        min_data_in_bin: int = 1,
        subsample_for_bin: int = 200000,
        use_missing: bool = True,
        zero_as_missing: bool = False,
        forcedbins_filename: Any = None,
        forcedsplits_filename: Any = None,
        cat_smooth: float = 10.0,
        cat_l2: float = 10.0,
        max_cat_to_onehot: int = 0,
        max_cat_threshold: int | None = None,
        min_data_per_group: int = 1,
        max_delta_step: float = 0.0,
        objective: Any = None,
        quantile_alpha: Any = 0.9,
        huber_slope: float = 0.9,
        fair_c: float = 1.0,
        poisson_max_delta_step: float = 0.7,
        tweedie_variance_power: float = 1.5,
        aft_loss_distribution: str = "normal",
        aft_loss_distribution_scale: float = 1.0,
        boost_from_average: bool = True,
        base_score: float | None = None,
        class_weight: Any = None,
        scale_pos_weight: float = 1.0,
        is_unbalance: bool = False,
        boosting_type: str = "gbdt",
        num_parallel_tree: int = 1,
        data_sample_strategy: str = "bagging",
        top_rate: float = 0.2,
        other_rate: float = 0.1,
        drop_rate: float = 0.1,
        max_drop: int = 50,
        skip_drop: float = 0.5,
        uniform_drop: bool = False,
        one_drop: bool = False,
        xgboost_dart_mode: bool = False,
        normalize_type: str = "tree",
        eval_metric: Any = None,
        categorical_feature: Any = "auto",
        monotone_constraints: Any = None,
        monotone_penalty: float = 0.0,
        interaction_constraints: Any = None,
        early_stopping_rounds: int | None = None,
        importance_type: str = "split",
        random_state: Any = None,
        bagging_seed: int | None = None,
        feature_fraction_seed: int | None = None,
        extra_seed: int | None = None,
        drop_seed: int | None = None,
        data_random_seed: int | None = None,
        n_jobs: int | None = None,
        bins_folder: Any = None,
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

    def _checked_parameters(self) -> dict[str, Any]:
        values = super()._checked_parameters()
        check_kinds(values)
        return values

    def _idle_parameters(self, values: dict[str, Any]) -> list[str]:
        sentences = super()._idle_parameters(values)
        sentences += idle_kinds(values)
        unused = {"class_weight": None, "scale_pos_weight": 1, "is_unbalance": False} if self._has_values else {}
        for name, default in unused.items():
            if values.get(name, default) != default:
                sentences.append(f"{name} does nothing without classes; pass sample_weight to fit instead.")
        return sentences

    @property
    def _has_values(self) -> bool:
        return self._target_kind != "class"

    @property
    def booster_(self) -> Booster:
        """The model with the methods of LightGBM's Booster."""
        from pvtree.front.functional import Booster

        check_is_fitted(self, "model_")
        return Booster.of(self)

    @property
    def feature_name_(self) -> list[str]:
        """The names of the columns, or Column_0, Column_1, ... if they have none."""
        return self.booster_.feature_name()

    @property
    def n_estimators_(self) -> int:
        """The number of iterations of the model, as LightGBM calls it."""
        check_is_fitted(self, "model_")
        return self.model_.n_iterations

    @property
    def objective_(self) -> Any:
        """The objective that was trained: a name, or the user's function."""
        check_is_fitted(self, "model_")
        written, trained = self.objective, self.model_.objective
        is_it = callable(written) or (isinstance(written, str) and objective_named(written, [trained]) is not None)
        return written if is_it else trained

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.one_d_labels = True
        return tags

    def _more_tags(self) -> dict[str, Any]:
        """Tags for scikit-learn before 1.6."""
        counts = "min_child_samples counts rows, so a row of weight 0 or 2 is not no row or two rows."
        names = ("", "_on_dense_data", "_on_sparse_data")
        checks = {f"check_sample_weight_equivalence{name}": counts for name in names}
        return {"allow_nan": True, "X_types": ["2darray", "sparse", "1dlabels"], "_xfail_checks": checks}

    def _is_of_classes(self) -> bool:
        word = self.objective
        return isinstance(word, str) and objective_named(word, losses_of("class")) is not None

    @property
    def _target_kind(self) -> TargetKind:  # type: ignore[override]
        return "class" if self._is_of_classes() else "value"

    def _task(self, n_classes: int) -> str:
        return (GBDTClassifier if self._is_of_classes() else GBDTRegressor)._task(self, n_classes)  # type: ignore[arg-type]

    @lazy_on_engines
    @documented(PREDICT, "ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes")
    def predict(
        self,
        X: Any,
        raw_score: bool = False,
        num_iteration: int | None = None,
        pred_contrib: bool = False,
        *,
        start_iteration: int = 0,
        pred_leaf: bool = False,
        validate_features: bool | None = None,
        **others: Any,
    ) -> np.ndarray:
        """Predicted values or probabilities, or leaves or SHAP values."""
        from pvtree.model.prediction_kinds import finished

        check_is_fitted(self, "model_")
        others["validate_features"] = validate_features
        kind = {"raw_score": raw_score, "pred_leaf": pred_leaf, "pred_contrib": pred_contrib}
        return self._of_kind(X, finished(self.model_), num_iteration, start_iteration, others, **kind)


@public
class GBDTRegressor(Regressor, GBDTModel):
    """Gradient boosting of a numeric target, by squared error, another loss or an objective of your own."""

    _rules = RULES | {"objective": objective(*losses_of("value"))}
    _target_kind = "value"
    _takes_many_targets = True

    def _task(self, n_classes: int) -> str:
        named = objective_named(self.objective, losses_of("value")) if isinstance(self.objective, str) else None
        return named or "regression"


@public
class GBDTClassifier(Classifier, GBDTModel):
    """Gradient boosting of classes, by log loss for two, softmax for more, or an objective of your own.

    Scores of your own objective are read as log-odds (two classes) or as inputs of a softmax (more).
    """

    _rules = RULES | {"objective": objective(*losses_of("class"))}
    _target_kind = "class"

    def _task(self, n_classes: int) -> str:
        asked = next((value for name, value in others(self).items() if name in ("num_class", "num_classes")), None)
        if asked not in (None, 1, n_classes):
            raise InvalidDataError(f"num_class is {asked}, but y has {n_classes} classes; leave num_class out.")
        # Other libraries accept their names for two classes with more classes too.
        named = objective_named(self.objective, losses_of("class")) if isinstance(self.objective, str) else None
        if n_classes > 2 and (self.objective == "binary" or named == "hinge"):
            raise InvalidDataError(
                f"objective={self.objective!r} needs two classes, but y has {n_classes}; use 'multiclass'."
            )
        if named in ("hinge", "multiclassova"):
            return named
        return "binary" if n_classes == 2 and named != "multiclass" else "multiclass"

    @documented(PREDICT, "ndarray of shape (n_rows,) for two classes, else (n_rows, n_classes)")
    def decision_function(self, X: Any) -> np.ndarray:
        """Raw scores: the log-odds of the second of two classes, or one score per class."""
        raw = self._raw(X)
        if raw.shape[1] == 1:
            return raw[:, 0]
        return raw[:, 1] - raw[:, 0] if raw.shape[1] == 2 else raw

    def _probabilities(self, raw: np.ndarray) -> np.ndarray:
        from pvtree.objectives.losses import class_probabilities

        return class_probabilities(raw, self.model_.objective)
