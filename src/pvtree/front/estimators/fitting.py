"""fit: check parameters and data, call the trainer where the data is, keep what it made."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from pvtree.comm import Communicator
from pvtree.comm.agreement import all_or_none, check_same
from pvtree.comm.connect import connect
from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError
from pvtree.front.estimators.base import Estimator
from pvtree.front.estimators.eval_arguments import (
    Evaluation,
    given_sets,
    joined_metrics,
    paired,
    read_eval_sets,
    read_metrics,
)
from pvtree.front.estimators.fit_arguments import refuse_unknown
from pvtree.growing.constraints import read_interactions, read_monotone
from pvtree.parameters.params import learner_for, make_params, refuse_serial
from pvtree.parameters.rules import RULES, Rule, integer, positive
from pvtree.reading import inputs, targets
from pvtree.reading.dask_data import is_collection
from pvtree.training.callbacks import TRAINING_NAMES, checkpoint, log_evaluation

if TYPE_CHECKING:
    from pvtree.model.model import Model
    from pvtree.reading.training_rows import Given, TrainingData
    from pvtree.training.train import TrainResult

_PATH = Rule("The folder of checkpoints.", "a path or None", lambda v: v is None or isinstance(v, str | os.PathLike))


@dataclass(frozen=True)
class Request:
    """What fit was asked for beside the rows."""

    evaluation: Evaluation
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

    def checked(self) -> Request:
        integer("", 1).check("checkpoint_freq", self.checkpoint_freq)
        _PATH.check("checkpoint", self.checkpoint)
        RULES["categorical_feature"].check("categorical_feature", self.categorical_feature)
        RULES["early_stopping_rounds"].check("early_stopping_rounds", self.early_stopping_rounds)
        callbacks = _checked_callbacks(self.callbacks)
        folders = [callback for callback in callbacks if isinstance(callback, checkpoint)]
        if len(folders) + (self.checkpoint is not None) > 1:
            raise InvalidParameterError("checkpoint is given more than once; give it to fit, or one callback of it.")
        request = replace(
            self,
            callbacks=[callback for callback in callbacks if callback not in folders],
            init_model=_read_init_model(self.init_model),
        )
        for folder in folders:
            request = replace(request, checkpoint=folder.directory, checkpoint_freq=folder.period)
        return request


class Fitting(Estimator):
    """The part of an estimator that trains; subclasses say what kind of ensemble and of target."""

    _ensemble: ClassVar[str]
    _has_classes: ClassVar[bool] = False
    _drops_weightless: ClassVar[bool] = True
    _metric_objective: ClassVar[str | None] = None  # whose metrics may be asked for, if not those of the task

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        eval_names: Any = None,
        eval_sample_weight: Any = None,
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
        """Train on X (rows x columns) and y; rows of weight zero are left out.

        ``eval_set`` is a list of pairs (X, y) whose metrics are recorded after every iteration; ``eval_X`` and
        ``eval_y`` are another way to give them, one set or a tuple of sets. ``eval_metric`` is a name, a function
        f(y_true, y_pred[, weight]) -> (name, value, is_higher_better) or a list of these. ``callbacks`` are called
        after every iteration. ``init_model`` (a Model, a fitted estimator or the path of a saved model) is where
        training goes on from. ``feature_name`` names the columns of an X without names, ``categorical_feature`` and
        ``early_stopping_rounds`` are for this fit what the parameters are for all. ``verbose`` prints the metrics of
        every iteration, or of every so many.

        On a cluster: with ``comm`` (mpi4py's, such as MPI.COMM_WORLD) every rank calls fit with its own rows, of
        evaluation sets too, and ends with the same model; a Dask array or DataFrame trains on the Dask cluster that
        holds it, through ``client`` or the one in scope. ``timeout`` is how many seconds workers wait for one that
        does not answer. ``checkpoint`` is a folder where the model is kept every ``checkpoint_freq`` iterations; a fit
        of the same data with the same parameters goes on from there.
        """
        refuse_unknown(unknown, Fitting.fit, type(self).__name__, self._get_param_names())
        request = Request(
            Evaluation(paired(eval_set, eval_X, eval_y), eval_names, eval_sample_weight, eval_metric=eval_metric),
            told(callbacks, verbose), init_model, comm, client, timeout, checkpoint, checkpoint_freq, feature_name,
            categorical_feature, early_stopping_rounds,
        )  # fmt: skip
        return self._fit(X, y, sample_weight, request)

    def _fit(self, X: Any, y: Any, sample_weight: Any, request: Request, group: Any = None, qid: Any = None) -> Self:
        from pvtree.reading.training_rows import Given

        given = Given(X, y, sample_weight, group, qid)
        positive("").check("timeout", request.timeout)
        if is_collection(X):
            from pvtree.front.estimators.on_dask import fit_on_dask

            checked = self._checked(request)
            self._keep(*fit_on_dask(self, given, checked), checked.callbacks)
            return self
        with connect(request.comm, request.timeout) as comm:

            def check() -> tuple[dict[str, Given], Request]:
                sets = given_sets(request.evaluation, given)
                _check_in_memory(request.client, given, *sets.values())
                return sets, self._checked(request)

            sets, checked = all_or_none(check, comm)
            if comm.size > 1:
                self._check_same_everywhere(checked, comm)
            result, data = self._train(given, sets, checked, comm)
        self._keep(result, data.columns, data.classes, checked.callbacks)
        return self

    def _check_same_everywhere(self, request: Request, comm: Communicator) -> None:
        """Workers that every rank's own script made; Dask's get theirs from one place."""
        values = self.get_params(deep=False)
        if values.pop("n_workers") > 1:
            warn_user(f"n_workers does nothing where comm has {comm.size} workers already; leave it out.")
        free = {"n_jobs", "verbosity"}
        settings = {name: _shown(value) for name, value in values.items() if name not in free}
        settings["the number of callbacks"] = str(len(request.callbacks))
        settings["feature_name"] = _shown(request.feature_name)
        settings["categorical_feature of fit"] = _shown(request.categorical_feature)
        settings["early_stopping_rounds of fit"] = _shown(request.early_stopping_rounds)
        settings["eval_metric"] = _shown(request.evaluation.eval_metric)
        settings["checkpoint"] = "given" if request.checkpoint is not None else "not given"
        settings["checkpoint_freq"] = str(request.checkpoint_freq)
        settings["init_model"] = "given" if request.init_model is not None else "not given"
        check_same(settings, comm)

    def _checked(self, request: Request) -> Request:
        """The request once it and the parameters are known to be right."""
        values, request = self._checked_parameters(), request.checked()
        if request.early_stopping_rounds is not None and "early_stopping_rounds" not in values:
            raise InvalidParameterError(
                "The trees of a forest are no steps to stop at; leave early_stopping_rounds out."
            )
        asked = joined_metrics(request.evaluation.eval_metric, self._own_metrics())
        return replace(request, evaluation=replace(request.evaluation, eval_metric=asked))

    def _train(
        self, given: Given, sets: dict[str, Given], request: Request, comm: Communicator
    ) -> tuple[TrainResult, TrainingData]:
        """What every worker does with the rows that it was given; all get the same result."""
        from pvtree.training.checkpoint_file import (
            Checkpoint,  # these import the kernels: not needed to construct or clone
        )
        from pvtree.training.train import train

        values, start = self.get_params(deep=False), request.init_model
        if not isinstance(request.categorical_feature, str):
            values["categorical_feature"] = request.categorical_feature
        if request.early_stopping_rounds is not None:
            values["early_stopping_rounds"] = request.early_stopping_rounds
        refuse_serial(values["tree_learner"], comm.size)
        values["tree_learner"] = learner_for(values["tree_learner"], max(comm.size, values["n_workers"]))
        data = self._read_training(given, values, start, request.feature_name, comm)
        task = self._task(data.n_classes)
        values = self._trained_with(values, data.n_classes)
        custom = values.get("objective") if callable(values.get("objective")) else None
        params = make_params(
            values,
            data.columns.n_features,
            ensemble=self._ensemble,
            objective=custom or task,
            n_classes=data.n_classes,
            monotone_constraints=read_monotone(values["monotone_constraints"], data.columns, data.n_classes),
            interaction_constraints=read_interactions(values["interaction_constraints"], data.columns),
            **self._settled,
        )
        if start is not None:
            _check_continues(start, self._ensemble, "custom" if custom else task, data.n_classes)

        def read_target(y: Any, n_rows: int, name: str) -> np.ndarray:
            return self._read_target(y, n_rows, data.classes, name)

        eval_sets = read_eval_sets(sets, data.columns, read_target, comm)
        metrics = []
        if eval_sets or request.evaluation.eval_metric:  # a wrong name is told of even if there is nothing to evaluate
            metrics = read_metrics(request.evaluation, self._metric_objective or task)
        if params.early_stopping_rounds and all(s.name in TRAINING_NAMES for s in eval_sets):
            raise InvalidDataError(
                "early_stopping_rounds needs data that is not trained on; pass eval_set=[(X, y)] to fit."
            )
        rows, categories = data.rows, dict(data.columns.categories)
        result = train(
            rows.X,
            rows.y,
            params,
            weight=rows.weight,
            group=rows.group,
            ids=rows.ids,
            categorical={j: len(values) for j, values in categories.items() if j not in data.columns.ordered},
            categories=categories,
            feature_names=data.columns.names,
            classes=None if data.classes is None else tuple(data.classes.tolist()),
            eval_sets=eval_sets,
            metrics=metrics,
            callbacks=request.callbacks,
            init_model=start,
            checkpoint=None if request.checkpoint is None else Checkpoint(request.checkpoint, request.checkpoint_freq),
            comm=comm,
        )
        return result, data

    def _task(self, n_classes: int) -> str:
        """The named objective that says what raw scores mean, whatever function the user trains with."""
        raise NotImplementedError

    def _trained_with(self, values: dict[str, Any], n_classes: int) -> dict[str, Any]:
        """The parameters as the trainer means them."""
        return values

    def _own_metrics(self) -> Any:
        return getattr(self, "eval_metric", None)  # a forest has none

    @property
    def _settled(self) -> dict[str, Any]:
        """Fields of Params that are no parameters of this estimator."""
        return {}

    def _read_training(
        self, given: Given, values: dict[str, Any], start: Model | None, names: Any, comm: Communicator
    ) -> TrainingData:
        from pvtree.reading.training_rows import TrainingData, find_classes, open_rows, read_rows

        given = self._with_queries(given, comm)
        opened = open_rows(given, comm, self._drops_weightless)
        classes = None
        if self._has_classes:
            known = None if start is None or start.classes is None else np.asarray(start.classes)
            classes = find_classes(opened, known, comm)
        known_columns = None
        if start is not None:
            has_names = inputs.column_names(opened.table) is not None
            known_columns = replace(start.columns, ordered=start.ordered_categories(), of_named_rows=has_names)
        columns = inputs.learn_columns(
            opened.table, values["categorical_feature"], values["max_bin"], comm, names, known_columns
        )

        def read_target(y: Any, n_rows: int, name: str) -> np.ndarray:
            return self._read_target(y, n_rows, classes, name)

        rows = read_rows(given, opened, columns, "init_model", read_target, comm)
        return TrainingData(rows, columns, classes)

    def _read_target(self, y: Any, n_rows: int, classes: np.ndarray | None, name: str = "y") -> np.ndarray:
        """The target as the trainer wants it."""
        return targets.read_values(y, n_rows, name)

    def _with_queries(self, given: Given, comm: Communicator) -> Given:
        return given

    def _keep(
        self, result: TrainResult, columns: inputs.Columns, classes: np.ndarray | None, callbacks: list[Any]
    ) -> None:
        """All fitted attributes at once, so that a fit which fails leaves the estimator as it was."""
        for callback in callbacks:
            if hasattr(callback, "finish"):  # worker 0 called it, perhaps in another process
                callback.finish(result.evals_result)
        self.model_ = result.model
        self.evals_result_ = result.evals_result
        self.best_iteration_ = result.best_iteration
        self.best_score_ = result.best_score
        self.timings_ = result.timings
        self.traffic_ = result.traffic
        self.votes_ = result.votes
        self.certificates_ = result.certificates
        self.n_iter_ = result.model.n_iterations
        self.n_features_in_ = columns.n_features
        self._of_named_rows = columns.of_named_rows
        if classes is not None:
            self.classes_ = classes
            self.n_classes_ = len(classes)
        if columns.names is not None:
            self.feature_names_in_ = np.asarray(columns.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_


def _check_in_memory(client: Any, *sets: Given) -> None:
    """Beside an X in memory nothing is Dask's."""
    if client is not None:
        raise InvalidParameterError(
            "client is for Dask collections, but X is in memory; leave client out, or pass a Dask array or DataFrame."
        )
    for given in sets:
        for name in ("X", "y", "weight", "group", "qid"):
            if is_collection(getattr(given, name)):
                shown = f"{given.prefix}{'sample_weight' if name == 'weight' else name}{given.suffix}"
                raise InvalidTypeError(
                    f"{shown} is a Dask collection, but X is in memory; call its compute(), or pass X as a Dask "
                    "collection too."
                )


def _shown(value: Any) -> str:
    """A setting as it is compared between workers: a function by its name, as it lies elsewhere in each process."""
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return getattr(value, "__qualname__", None) or repr(value)


def _checked_callbacks(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    if not isinstance(callbacks, list | tuple | set) or not all(callable(c) for c in callbacks):
        raise InvalidTypeError(f"callbacks must be a list of functions, got {callbacks!r}.")
    return list(callbacks)


def told(callbacks: Any, verbose: Any) -> Any:
    """XGBoost's ``verbose`` is LightGBM's log_evaluation."""
    if not verbose:
        return callbacks
    return [*_checked_callbacks(callbacks), log_evaluation(1 if verbose is True else verbose)]


def _read_init_model(init_model: Any) -> Model | None:
    if init_model is None:
        return None
    from pvtree.model.model import Model

    if isinstance(init_model, str | os.PathLike):
        return Model.load(init_model)
    model = getattr(init_model, "model_", init_model)
    if not isinstance(model, Model):
        raise InvalidTypeError(
            "init_model must be a Model, a fitted pvtree estimator or the path of a saved model, "
            f"got {type(init_model).__name__}."
        )
    return model


def _check_continues(start: Model, ensemble: str, objective: str, n_classes: int) -> None:
    """Trees can only be added to a model of their own kind: their values are on its scale."""
    if start.ensemble != ensemble:
        raise InvalidParameterError(
            f"init_model is of kind {start.ensemble!r}, but this estimator adds trees to {ensemble!r} only."
        )
    n_known = 1 if start.classes is None else len(start.classes)
    if start.objective != objective or n_known != n_classes:
        raise InvalidParameterError(
            f"init_model was trained for {start.objective!r} with {n_known} class(es), this fit is for "
            f"{objective!r} with {n_classes}; train both for the same."
        )
