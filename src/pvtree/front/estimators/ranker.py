"""Gradient boosting of rankings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pvtree.comm import Communicator
from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidDataError, InvalidParameterError, public
from pvtree.front.estimators.argument_docs import FIT_RANKER, documented
from pvtree.front.estimators.base import store
from pvtree.front.estimators.eval_arguments import EvalArguments, paired
from pvtree.front.estimators.fit_options import FitOptions, with_verbose_callback
from pvtree.front.estimators.gbdt import GBDTModel
from pvtree.front.estimators.other_names import others, takes_other_names
from pvtree.front.estimators.tasks import Values
from pvtree.front.estimators.unknown_arguments import refuse_unknown
from pvtree.parameters.aliases import EVAL_AT, objective_named
from pvtree.parameters.loss_table import losses_of
from pvtree.parameters.rule_kinds import objective
from pvtree.parameters.rules import RULES
from pvtree.reading import inputs
from pvtree.reading.dask_data import is_collection

if TYPE_CHECKING:
    from pvtree.reading.training_rows import GivenRows


@public
class GBDTRanker(Values, GBDTModel):
    """Gradient boosting of rankings, by LambdaMART with truncated NDCG, another loss or an objective of your own."""

    _rules = RULES | {"objective": objective(*losses_of("relevance"))}
    _target_kind = "relevance"
    _drops_weightless = False  # a document of weight 0 still takes a rank

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
        bagging_by_query: bool = False,
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
        boost_from_average: bool = True,
        base_score: float | None = None,
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
        lambdarank_truncation_level: int = 30,
        lambdarank_norm: bool = True,
        lambdarank_position_bias_regularization: float = 0.0,
        label_gain: Any = None,
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
        objective_seed: int | None = None,
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

    def _task(self, n_classes: int) -> str:
        named = objective_named(self.objective, losses_of("relevance")) if isinstance(self.objective, str) else None
        return named or "lambdarank"

    def _with_queries(self, given: GivenRows, comm: Communicator) -> GivenRows:
        if given.group is not None or given.qid is not None:
            return given
        if comm.size > 1:
            raise InvalidDataError("Ranking on several workers needs queries; pass group or qid to fit.")
        warn_user("All rows are ranked as one query; pass group (sizes of queries) or qid (query ids).")
        return replace(given, qid=np.zeros(inputs.read_table(given.X).shape[0], np.int64))

    def _eval_at(self, of_fit: Any) -> Any:
        """The ranks of the metrics; a parameter of the estimator counts more than the argument of fit."""
        written = {name: value for name, value in others(self).items() if name in EVAL_AT}
        for name in written:
            warn_user(f"Found '{name}' in params. Will use it instead of 'eval_at' argument.")
        return next(iter(written.values()), of_fit)

    @documented(FIT_RANKER, "self : the fitted estimator")
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        group: Any = None,
        qid: Any = None,
        init_score: Any = None,
        eval_set: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        eval_names: Any = None,
        eval_sample_weight: Any = None,
        eval_class_weight: Any = None,
        eval_init_score: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
        eval_metric: Any = None,
        eval_at: Any = (10,),
        position: Any = None,
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
        """Train on documents and their relevance; the documents of a query are ranked against each other."""
        refuse_unknown(unknown, GBDTRanker.fit, type(self).__name__, self._get_param_names())
        if any(each is not None for each in (eval_set, eval_X, eval_y)) and eval_group is None and eval_qid is None:
            raise InvalidDataError(
                "eval_group cannot be None if any of eval_set, eval_X, or eval_y are provided; pass it, or eval_qid."
            )
        eval_set = paired(eval_set, eval_X, eval_y)
        options = FitOptions(
            evaluation=EvalArguments(
                eval_set=eval_set,
                eval_names=eval_names,
                eval_sample_weight=eval_sample_weight,
                eval_class_weight=eval_class_weight,
                eval_init_score=eval_init_score,
                eval_group=eval_group,
                eval_qid=eval_qid,
                eval_metric=eval_metric,
                eval_at=self._eval_at(eval_at),
            ),
            callbacks=with_verbose_callback(callbacks, verbose),
            init_model=init_model,
            comm=comm,
            client=client,
            timeout=timeout,
            checkpoint=checkpoint,
            checkpoint_freq=checkpoint_freq,
            feature_name=feature_name,
            categorical_feature=categorical_feature,
            early_stopping_rounds=early_stopping_rounds,
        )
        from pvtree.reading.training_rows import GivenRows

        if position is not None:
            self._check_positions(X, checkpoint)
        return self._fit(GivenRows(X, y, sample_weight, group, qid, init_score, position), options)

    def _check_positions(self, X: Any, checkpoint: Any) -> None:
        """Raise if position is given together with what does not know it."""
        others = {
            "Dask collections": is_collection(X),
            "checkpoint": checkpoint is not None,
            "a function as objective": callable(self.objective),
            "objective='rank_xendcg'": self._task(1) == "rank_xendcg",
        }
        for name, is_asked in others.items():
            if is_asked:
                raise InvalidParameterError(f"position does not support {name}; leave one of them out.")
