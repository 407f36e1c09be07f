"""Gradient boosting for classes, values and rankings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pvtree.comm import Communicator
from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidDataError, public
from pvtree.front.estimators.base import store
from pvtree.front.estimators.eval_arguments import Evaluation, paired
from pvtree.front.estimators.fit_arguments import refuse_unknown
from pvtree.front.estimators.fitting import Fitting, Request, told
from pvtree.front.estimators.tasks import Classifier, Regressor, Values
from pvtree.parameters.aliases import objective_named
from pvtree.parameters.rules import RULES, objective
from pvtree.reading import inputs, targets

if TYPE_CHECKING:
    from pvtree.front.functional import Booster
    from pvtree.reading.training_rows import Given


class _GBDT(Fitting):
    _ensemble = "gbdt"

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
        colsample_bytree: float = 1.0,
        colsample_bynode: float = 1.0,
        max_bin: int = 255,
        objective: Any = None,
        eval_metric: Any = None,
        categorical_feature: Any = "auto",
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        early_stopping_rounds: int | None = None,
        importance_type: str = "split",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbosity: int = 1,
        tree_learner: str = "auto",
        top_k: int | str = 20,
        election_size: float = 2.0,
        quantized_bins: float = 0.1,
        audit: int = 0,
        n_workers: int = 1,
    ) -> None:
        store(self, locals())

    def _idle_parameters(self, values: dict[str, Any]) -> list[str]:
        sentences = super()._idle_parameters(values)
        if values["subsample"] < 1 and values["subsample_freq"] == 0:
            sentences.append(
                "subsample does nothing while subsample_freq is 0; set subsample_freq=1 to draw each time."
            )
        return sentences

    @property
    def booster_(self) -> Booster:
        """The model with the methods of LightGBM's Booster."""
        from pvtree.front.functional import Booster

        check_is_fitted(self, "model_")
        return Booster.of(self)

    @property
    def feature_name_(self) -> list[str]:
        """The names of the columns, or Column_0, Column_1, ..."""
        return self.booster_.feature_name()


@public
class GBDTRegressor(_GBDT, Regressor):
    """Gradient boosting of a numeric target: squared error, or an objective of your own.

    After fit: ``n_features_in_``, ``feature_names_in_`` (of a DataFrame), ``feature_importances_``,
    ``evals_result_`` {set: {metric: [value of each iteration]}}, ``best_iteration_`` (0 without early
    stopping), ``best_score_``, ``n_iter_`` and ``model_``.
    """

    _rules = RULES | {"objective": objective("regression")}

    def _task(self, n_classes: int) -> str:
        return "regression"


@public
class GBDTClassifier(_GBDT, Classifier):
    """Gradient boosting of classes: log loss for two, softmax for more, or an objective of your own.

    The scores of an objective of your own are taken for log-odds (two classes) or softmax inputs (more).
    After fit: ``classes_``, ``n_features_in_``, ``feature_names_in_`` (of a DataFrame),
    ``feature_importances_``, ``evals_result_`` {set: {metric: [value of each iteration]}},
    ``best_iteration_`` (0 without early stopping), ``best_score_``, ``n_iter_`` and ``model_``.
    """

    _rules = RULES | {"objective": objective("binary", "multiclass")}

    def _task(self, n_classes: int) -> str:
        if self.objective == "binary" and n_classes > 2:
            raise InvalidDataError(f"objective='binary' needs two classes, but y has {n_classes}.")
        # Other libraries' words for two classes do for more, as they do there.
        named = objective_named(self.objective, ("binary", "multiclass")) if isinstance(self.objective, str) else None
        return "binary" if n_classes == 2 and named != "multiclass" else "multiclass"

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw scores: log-odds of the second class (n_rows,), or one score per class (n_rows, n_classes)."""
        raw = self._raw(X)
        if raw.shape[1] == 1:
            return raw[:, 0]
        return raw[:, 1] - raw[:, 0] if raw.shape[1] == 2 else raw

    def _probabilities(self, raw: np.ndarray) -> np.ndarray:
        from pvtree.objectives.losses import class_probabilities

        return class_probabilities(raw)


@public
class GBDTRanker(_GBDT, Values):
    """Gradient boosting of rankings: LambdaMART with NDCG truncation, or an objective of your own.

    After fit: ``n_features_in_``, ``feature_names_in_`` (of a DataFrame), ``feature_importances_``,
    ``evals_result_`` {set: {metric: [value of each iteration]}}, ``best_iteration_`` (0 without early
    stopping), ``best_score_``, ``n_iter_`` and ``model_``.
    """

    _rules = RULES | {"objective": objective("lambdarank")}
    _drops_weightless = False  # a document that weighs nothing still takes a rank

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
        colsample_bytree: float = 1.0,
        colsample_bynode: float = 1.0,
        max_bin: int = 255,
        objective: Any = None,
        eval_metric: Any = None,
        lambdarank_truncation_level: int = 30,
        categorical_feature: Any = "auto",
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        early_stopping_rounds: int | None = None,
        importance_type: str = "split",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbosity: int = 1,
        tree_learner: str = "auto",
        top_k: int | str = 20,
        election_size: float = 2.0,
        quantized_bins: float = 0.1,
        audit: int = 0,
        n_workers: int = 1,
    ) -> None:
        store(self, locals())

    def _task(self, n_classes: int) -> str:
        return "lambdarank"

    def _read_target(self, y: Any, n_rows: int, classes: np.ndarray | None, name: str = "y") -> np.ndarray:
        return targets.read_relevance(y, n_rows, name)

    def _with_queries(self, given: Given, comm: Communicator) -> Given:
        if given.group is not None or given.qid is not None:
            return given
        if comm.size > 1:
            raise InvalidDataError("Ranking on several workers needs the queries; pass group or qid to fit.")
        warn_user("All rows are ranked as one query; pass group (sizes of queries) or qid (query ids).")
        return replace(given, qid=np.zeros(inputs.read_table(given.X).shape[0], np.int64))

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        group: Any = None,
        qid: Any = None,
        eval_set: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        eval_names: Any = None,
        eval_sample_weight: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
        eval_metric: Any = None,
        eval_at: Any = (10,),
        early_stopping_rounds: int | None = None,
        callbacks: Any = None,
        init_model: Any = None,
        comm: Any = None,
        client: Any = None,
        timeout: float = 600.0,
        checkpoint: Any = None,
        checkpoint_freq: int = 10,
        feature_name: Any = "auto",
        categorical_feature: Any = "auto",
        verbose: Any = False,
        **unknown: Any,
    ) -> Self:
        """Train on X (documents x columns) and their relevance y, whole numbers from 0 to 30.

        The rows of a query stand together: ``group`` holds their number for each query, or ``qid`` the query
        of each row; ``eval_group`` or ``eval_qid`` hold one such list per evaluation set. ``eval_at`` are the
        ranks at which NDCG is measured. The other arguments are those of ``GBDTRegressor.fit``. On a cluster a query
        whose rows, by ``qid``, lie on several workers is moved to one of them.
        """
        refuse_unknown(unknown, GBDTRanker.fit, type(self).__name__, self._get_param_names())
        eval_set = paired(eval_set, eval_X, eval_y)
        if eval_set is not None and eval_group is None and eval_qid is None:
            raise InvalidDataError("eval_set of a ranker needs its queries; pass eval_group or eval_qid to fit.")
        request = Request(
            Evaluation(eval_set, eval_names, eval_sample_weight, eval_group, eval_qid, eval_metric, eval_at),
            told(callbacks, verbose), init_model, comm, client, timeout, checkpoint, checkpoint_freq, feature_name,
            categorical_feature, early_stopping_rounds,
        )  # fmt: skip
        return self._fit(X, y, sample_weight, request, group, qid)
