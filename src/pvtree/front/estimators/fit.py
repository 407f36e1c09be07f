"""fit: check parameters and data, call the trainer where the data is, and keep its result."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from pvtree.comm import Communicator
from pvtree.comm.agreement import all_or_none, check_same
from pvtree.comm.connect import connect
from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.front.estimators.argument_docs import FIT, documented
from pvtree.front.estimators.base import Estimator
from pvtree.front.estimators.column_options import read_column_options
from pvtree.front.estimators.eval_arguments import (
    EvalArguments,
    given_sets,
    joined_metrics,
    paired,
    read_eval_sets,
    read_metrics,
)
from pvtree.front.estimators.fit_checks import check_continues, check_in_memory
from pvtree.front.estimators.fit_options import FitOptions, shown, with_verbose_callback
from pvtree.front.estimators.kind_checks import check_loss, count_targets
from pvtree.front.estimators.other_names import others
from pvtree.front.estimators.unknown_arguments import refuse_unknown
from pvtree.front.scikit_learn import check_is_fitted
from pvtree.growing.constraints import read_interactions, read_monotone
from pvtree.parameters.constraint_texts import listed_columns
from pvtree.parameters.params import Params, learner_for, make_params, refuse_serial
from pvtree.parameters.rule_kinds import positive
from pvtree.reading import inputs
from pvtree.reading.dask_data import is_collection
from pvtree.reading.ray_data import is_dataset
from pvtree.training.callbacks import TRAINING_NAMES

# Modules that load the kernels are imported inside functions: nobody needs them to construct or clone an estimator.
if TYPE_CHECKING:
    from pvtree.model.model import Model
    from pvtree.objectives.metrics import CustomMetric, Metric
    from pvtree.reading.tables import Columns
    from pvtree.reading.training_rows import GivenRows, Target, TargetKind, TrainingRows
    from pvtree.training.evaluator import EvalSet
    from pvtree.training.train import TrainResult


class Fitting(Estimator):
    """The part of an estimator that trains; subclasses define the kind of ensemble and of target."""

    _ensemble: ClassVar[str]
    _target_kind: ClassVar[TargetKind] = "value"
    _drops_weightless: ClassVar[bool] = True
    _takes_many_targets: ClassVar[bool] = False  # whether y may have several columns
    _adds_own_metric: ClassVar[bool] = False  # whether eval_metric of fit leaves the objective's own metric in place
    _metric_objective: ClassVar[str | None] = None  # whose metrics are allowed, if not those of the task

    @documented(FIT, "self : the fitted estimator")
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        init_score: Any = None,
        eval_set: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        eval_names: Any = None,
        eval_sample_weight: Any = None,
        eval_class_weight: Any = None,
        eval_init_score: Any = None,
        eval_metric: Any = None,
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
        """Train on rows in memory or in files, on each MPI rank's own rows, or on a Dask or Ray cluster."""
        refuse_unknown(unknown, Fitting.fit, type(self).__name__, self._get_param_names())
        options = FitOptions(
            evaluation=EvalArguments(
                eval_set=paired(eval_set, eval_X, eval_y),
                eval_names=eval_names,
                eval_sample_weight=eval_sample_weight,
                eval_class_weight=eval_class_weight,
                eval_init_score=eval_init_score,
                eval_metric=eval_metric,
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

        return self._fit(GivenRows(X, y, sample_weight, init_score=init_score), options)

    def _fit(self, given: GivenRows, options: FitOptions) -> Self:
        positive("").check("timeout", options.timeout)
        options = options.stopping_with(others(self), getattr(self, "early_stopping_rounds", None))
        if is_collection(given.X):
            from pvtree.front.estimators.on_dask import fit_on_dask

            checked = self._checked(options)
            self._keep(fit_on_dask(self, given, checked), checked.callbacks)
            return self
        if is_dataset(given.X):
            from pvtree.front.estimators.on_ray import fit_on_ray

            checked = self._checked(options)
            self._keep(fit_on_ray(self, given, checked), checked.callbacks)
            return self
        with connect(options.comm, options.timeout) as comm:

            def check() -> tuple[dict[str, GivenRows], FitOptions]:
                sets = given_sets(options.evaluation, given)
                check_in_memory(options.client, given, *sets.values())
                self._check_scores(given, *sets.values())
                return sets, self._checked(options)

            sets, checked = all_or_none(check, comm)
            if comm.size > 1:
                self._check_same_everywhere(checked, comm)
            result = self._train(given, sets, checked, comm)
        self._keep(result, checked.callbacks)
        return self

    def _check_scores(self, *sets: GivenRows) -> None:
        averages = self._ensemble == "forest" or getattr(self, "boosting_type", None) == "rf"
        if averages and any(given.init_score is not None for given in sets):
            raise InvalidParameterError("A forest's trees do not add up, so none starts from init_score; leave it out.")

    def _check_same_everywhere(self, options: FitOptions, comm: Communicator) -> None:
        """Every MPI rank runs its own script; Dask workers need no check, as one client sends the settings to all."""
        values = self._parameters()
        if values.pop("n_workers") > 1:
            warn_user(f"n_workers does nothing because comm has {comm.size} workers already; leave it out.")
        free = {"n_jobs", "verbosity"}
        settings = {name: shown(value) for name, value in values.items() if name not in free}
        check_same(settings | options.settings(), comm)

    def _checked(self, options: FitOptions) -> FitOptions:
        """The options, once they and the parameters are known to be valid."""
        values, options = self._checked_parameters(), options.checked()
        if options.early_stopping_rounds is not None and "early_stopping_rounds" not in values:
            raise InvalidParameterError("Forests do not support early stopping; leave early_stopping_rounds out.")
        if options.evaluation.eval_class_weight is not None and self._target_kind != "class":
            raise InvalidParameterError("eval_class_weight is for classes; leave it out, or pass eval_sample_weight.")
        asked = joined_metrics(options.evaluation.eval_metric, self._own_metrics(), self._adds_own_metric)
        return replace(options, evaluation=replace(options.evaluation, eval_metric=asked))

    def _train(
        self, given: GivenRows, sets: dict[str, GivenRows], options: FitOptions, comm: Communicator
    ) -> TrainResult:
        """What every worker does with its rows; all get the same result."""
        from pvtree.training.checkpoint_file import Checkpoint
        from pvtree.training.options import TrainOptions
        from pvtree.training.train import train_rows

        values, start = self._values(options, comm.size), options.init_model
        form: Any = {"may_be_table": self._takes_many_targets, "holds_bounds": self._task_of_values() == "aft"}
        given, sets = replace(given, **form), {name: replace(each, **form) for name, each in sets.items()}
        rows, columns, target = self._read_training(given, values, start, options.feature_name, comm)
        if target.many_classes and sets:
            raise InvalidParameterError("eval_set does not support several columns of classes; leave it out.")
        params = self._params(values, columns, target.n_classes, target.n_targets)
        params = replace(params, target_sizes=tuple(map(len, target.many_classes)))
        if start is not None:
            objective = "custom" if callable(params.objective) else params.objective
            check_continues(start, "forest" if params.averages else "gbdt", objective, params)
        eval_sets = read_eval_sets(sets, columns, target, comm, options.evaluation.eval_class_weight)
        all_or_none(lambda: check_loss(params, [rows.labels, *(each.y for each in eval_sets)]), comm)
        metrics = self._metrics(options, params, eval_sets, target.n_classes)
        categories = dict(columns.categories)
        result = train_rows(
            rows,
            TrainOptions(
                params,
                categorical={j: len(values) for j, values in categories.items() if j not in columns.ordered},
                categories=categories,
                feature_names=columns.names,
                classes=target.labels,
                eval_sets=eval_sets,
                metrics=metrics,
                callbacks=options.callbacks,
                init_model=start,
                checkpoint=None
                if options.checkpoint is None
                else Checkpoint(options.checkpoint, options.checkpoint_freq),
            ),
            comm,
        )
        return replace(result, columns=columns, classes=target.many_classes or target.classes)

    def _values(self, options: FitOptions, n_workers: int) -> dict[str, Any]:
        """The parameters, with those that fit overrides, and the tree_learner for this many workers."""
        values = self._parameters()
        if not isinstance(options.categorical_feature, str):
            values["categorical_feature"] = options.categorical_feature
        values["categorical_feature"] = listed_columns(values["categorical_feature"])
        if options.early_stopping_rounds is not None:
            values["early_stopping_rounds"] = options.early_stopping_rounds or None
        refuse_serial(values["tree_learner"], n_workers)
        values["tree_learner"] = learner_for(values["tree_learner"], max(n_workers, values["n_workers"]))
        return values

    def _params(self, values: dict[str, Any], columns: Columns, n_classes: int, n_columns: int = 1) -> Params:
        """The trainer's parameters; ``n_columns`` are those of y."""
        task = self._task(n_classes)
        values = self._trained_with(values, n_classes)
        objective = values.get("objective")
        return make_params(
            values,
            columns.n_features,
            ensemble=self._ensemble,
            objective=objective if callable(objective) else task,
            n_classes=n_classes,
            n_targets=count_targets(values, task, n_columns),
            monotone_constraints=read_monotone(values["monotone_constraints"], columns, n_classes),
            interaction_constraints=read_interactions(values["interaction_constraints"], columns),
            **read_column_options(values, columns),
            **self._settled,
        )

    def _metrics(
        self, options: FitOptions, params: Params, eval_sets: list[EvalSet], n_classes: int
    ) -> list[Metric | CustomMetric]:
        metrics = []
        if eval_sets or options.evaluation.eval_metric:  # an unknown name is an error even with nothing to evaluate
            metrics = read_metrics(options.evaluation, self._metric_objective or self._task(n_classes), vars(params))
        if params.early_stopping_rounds and all(each.name in TRAINING_NAMES for each in eval_sets):
            raise InvalidDataError(
                "early_stopping_rounds needs data that is not trained on; pass eval_set=[(X, y)] to fit."
            )
        return metrics

    def _task(self, n_classes: int) -> str:
        """The named objective that defines the meaning of raw scores, even if the user trains with a function."""
        raise NotImplementedError

    def _task_of_values(self) -> str | None:
        """The task, if y holds values."""
        return self._task(1) if self._target_kind == "value" else None

    def _trained_with(self, values: dict[str, Any], n_classes: int) -> dict[str, Any]:
        """The parameters in the trainer's units."""
        return values

    def _own_metrics(self) -> Any:
        return getattr(self, "eval_metric", None)  # forests have no such parameter

    @property
    def _settled(self) -> dict[str, Any]:
        """Fields of Params that are not parameters of this estimator."""
        return {}

    def _read_training(
        self, given: GivenRows, values: dict[str, Any], start: Model | None, names: Any, comm: Communicator
    ) -> tuple[TrainingRows, Columns, Target]:
        """This worker's rows as numbers, and what all workers learned about the columns and the target."""
        from pvtree.reading.class_targets import find_target
        from pvtree.reading.class_weights import ClassWeights
        from pvtree.reading.training_rows import open_rows, read_rows

        opened = open_rows(self._with_queries(given, comm), comm, self._drops_weightless)
        known = getattr(self, "_known_classes", None)  # train knows them from num_class
        if start is not None and start.classes is not None:
            known = start.classes
        opened, target = find_target(self._target_kind, opened, known, start.target_sizes if start else (), comm)
        known_columns = None
        if start is not None:
            has_names = inputs.column_names(opened.X) is not None
            known_columns = replace(start.columns, ordered=start.ordered_categories(), of_named_rows=has_names)
        columns = inputs.learn_columns(
            opened.X, values["categorical_feature"], values["max_bin"], comm, names, known_columns
        )
        rows = read_rows(opened, columns, target, "init_model", comm)
        return ClassWeights.of(values).applied(rows, target, comm), columns, target

    def save(self, path: str | os.PathLike[str]) -> Self:
        """Write the model to a file that ``pvtree.load`` reads; an existing file is replaced in one step.

        Parameters
        ----------
        path : str or path-like
            The file to write.

        Returns
        -------
        self : the estimator
        """
        check_is_fitted(self, "model_")
        self.model_.save(path)
        return self

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        group: Any = None,
        qid: Any = None,
    ) -> Self:
        """Write a report of the model and its training: one HTML file with charts, which needs no network.

        Parameters
        ----------
        path : str or path-like
            The file to write or replace.
        X, y : rows and labels or None, default=None
            Rows that were not trained on, to show how good predictions are. None for a report without them.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            The weights of these rows.
        group, qid : array-like or None, default=None
            The sizes of the queries, or a query id per row, for rankers.

        Returns
        -------
        self : the estimator
        """
        from pvtree.front.report import write_report

        write_report(self, path, X, y, sample_weight, group, qid)
        return self

    def _with_queries(self, given: GivenRows, comm: Communicator) -> GivenRows:
        return given

    def _keep_classes(self, classes: Any) -> None:
        """``classes`` are those of y, or a tuple of those of its columns; None if y holds no classes."""
        many = isinstance(classes, tuple)
        if classes is not None:
            self.classes_ = list(classes) if many else classes
            self.n_classes_: Any = [len(each) for each in classes] if many else len(classes)

    def _keep(self, result: TrainResult, callbacks: list[Any]) -> None:
        """Set all fitted attributes at once, so that a fit which fails leaves the estimator as it was."""
        columns, classes = result.columns, result.classes
        assert columns is not None  # _train sets it
        for callback in callbacks:
            if callable(getattr(callback, "finish", None)):  # worker 0 called it, perhaps in another process
                callback.finish(result.evals_result)
        self.model_ = result.model
        self.evals_result_ = result.evals_result
        self.best_iteration_ = result.best_iteration
        self.best_score_ = result.best_score
        self.timings_ = result.timings
        self.iteration_seconds_ = result.seconds
        self.traffic_ = result.traffic
        self.votes_ = result.votes
        self.certificates_ = result.certificates
        self.n_iter_ = result.model.n_iterations
        self.n_features_in_ = columns.n_features
        self._of_named_rows = columns.of_named_rows
        self._set_by_callbacks = result.kept
        self._keep_classes(classes)
        if columns.names is not None:
            self.feature_names_in_ = np.asarray(columns.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
