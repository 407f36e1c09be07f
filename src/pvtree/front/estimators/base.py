"""What all estimators share apart from fit: parameters with checked names, and prediction."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError
from pvtree.front.estimators.argument_docs import PREDICT, attribute_docs, documented
from pvtree.front.estimators.other_names import keep, others
from pvtree.front.estimators.other_names import others as written
from pvtree.front.scikit_learn import BaseEstimator, check_is_fitted
from pvtree.parameters.aliases import ANYWAY, read_names
from pvtree.parameters.params import n_threads
from pvtree.parameters.rule_kinds import Rule
from pvtree.parameters.rules import RULES, check_values, parameter_docs
from pvtree.reading import inputs
from pvtree.reading.dask_data import is_collection, lazily
from pvtree.reading.ray_data import is_dataset, predict_batches
from pvtree.reading.tables import as_dense

if TYPE_CHECKING:
    from pvtree.model.predict_options import PredictOptions
    from pvtree.model.prediction_kinds import Finish


def store(estimator: Any, arguments: Mapping[str, Any]) -> None:
    """Keep constructor arguments unchanged and unchecked, as scikit-learn requires of ``__init__``."""
    for name, value in arguments.items():
        if name != "self":
            setattr(estimator, name, value)


@dataclass(frozen=True)
class BoundMethod:
    """A method with all arguments except the rows; it can be pickled for workers of an engine."""

    method: Callable[..., np.ndarray]
    estimator: Estimator
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, X: Any) -> np.ndarray:
        return self.method(self.estimator, X, *self.args, **self.kwargs)


def lazy_on_engines(method: Callable[..., np.ndarray]) -> Callable[..., Any]:
    """Make a method f(X, ...) that returns an array with X's rows return a lazy one for what Dask or Ray holds.

    A Dask collection gives a Dask array, a Ray Dataset the same with the column "prediction". Each partition is
    predicted where it is, on one thread unless ``n_jobs`` is set, because the engine uses the other threads for others.
    """

    @functools.wraps(method)
    def wherever(self: Estimator, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_collection(X) and not is_dataset(X):
            return method(self, X, *args, **kwargs)
        check_is_fitted(self, "model_")
        # A copy of the present state: a later fit sets new attributes but does not change these.
        now = copy.copy(self)
        now.n_jobs = 1 if self.n_jobs is None else self.n_jobs
        now._of_named_rows = False  # every partition would repeat the warning
        columns = self._columns()
        predict = BoundMethod(wherever, now, args, kwargs)
        example = predict(np.zeros((1, columns.n_features)))  # shows the dtype and the number of columns
        if isinstance(example, list):
            held = "a Ray Dataset" if is_dataset(X) else "a Dask collection"
            raise InvalidTypeError(
                f"{method.__name__} of several columns of classes needs rows in memory, but X is {held}; "
                "call predict with raw_score=True, or pass rows that are in memory."
            )
        if is_dataset(X):
            return predict_batches(predict, X, columns.names, as_dense(example))
        X = self._features(X)
        if getattr(X, "ndim", 2) != 2:
            raise InvalidDataError(f"X must be two-dimensional, but has {X.ndim} dimension(s); pass rows and columns.")
        if X.shape[1] == X.shape[1]:  # NaN if it is unknown before X is computed
            inputs.check_columns(X, columns, type(self).__name__)
        inputs.warn_if_nameless(X, columns, type(self).__name__)
        return lazily(predict, X, example.dtype, None if example.ndim == 1 else example.shape[1])

    return wherever


class RightNames(type(BaseEstimator)):  # type: ignore[misc]
    """Lets subclasses with constructors of their own be made with LightGBM's and XGBoost's parameter names."""

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's signature, for help, editors and scikit-learn; otherwise they would show ``__call__``'s."""
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        takes_all = hasattr(cls.__init__, "__wrapped__") or _takes_any(cls.__init__)  # type: ignore[misc]
        if takes_all:
            return super().__call__(*args, **kwargs)
        read = read_names(kwargs, cls._get_param_names(), cls.__name__, cls._anyway)
        made = super().__call__(*args, **read.values)
        keep(made, read)
        return made


def _takes_any(init: Callable[..., Any]) -> bool:
    return any(each.kind is each.VAR_KEYWORD for each in inspect.signature(init).parameters.values())


class Estimator(BaseEstimator, metaclass=RightNames):
    """Base of all estimators. The constructor refuses names that are misspelt or ask for what is not supported."""

    _rules: ClassVar[Mapping[str, Rule]] = RULES
    _anyway: ClassVar[Mapping[str, tuple[Any, ...]]] = ANYWAY

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__doc__ and cls.__module__.startswith("pvtree.") and cls._get_param_names():
            sections = inspect.cleandoc(cls.__doc__), parameter_docs(cls.__init__, cls._rules), attribute_docs(cls)
            cls.__doc__ = "\n\n".join(sections) + "\n"

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """The parameters; a constructor that passes on ``**kwargs`` has those of the next class too."""
        names = set(super()._get_param_names())
        inits = [vars(each)["__init__"] for each in cls.__mro__ if "__init__" in vars(each)]
        for init, following in pairwise(inits):
            if not _takes_any(init) or following is object.__init__:
                break
            names |= {
                each.name
                for each in inspect.signature(following).parameters.values()
                if each.name != "self" and each.kind is not each.VAR_KEYWORD
            }
        return sorted(names)

    def _parameters(self) -> dict[str, Any]:
        """The parameters by our names alone."""
        params: dict[str, Any] = super().get_params(deep=False)
        return params

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; one that was given under another library's name appears under that name too."""
        params: dict[str, Any] = super().get_params(deep)
        return params | others(self)

    def set_params(self, **params: Any) -> Self:
        """Set parameters by any of their names."""
        objective = getattr(self, "objective", None)
        read = read_names(params, self._get_param_names(), type(self).__name__, self._anyway, objective)
        for name, value in read.values.items():
            setattr(self, name, value)
        keep(self, read)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def _checked_parameters(self) -> dict[str, Any]:
        values = self._parameters()
        check_values(values, self._rules)
        if values["top_k"] == "auto" and values["tree_learner"] == "voting":
            raise InvalidParameterError(
                "top_k='auto' would change the model of tree_learner='voting'; use tree_learner='exact_voting' "
                "or an integer top_k."
            )
        unknown = read_names(others(self), self._get_param_names(), type(self).__name__, self._anyway).unknown
        for sentence in [*unknown, *self._idle_parameters(values)]:
            warn_user(sentence)
        return values

    def _idle_parameters(self, values: dict[str, Any]) -> list[str]:
        """A warning for each parameter that does nothing together with the others."""
        if values["audit"] and values["tree_learner"] != "voting":
            return ["audit does nothing unless tree_learner is 'voting'; 'exact_voting' proves every split."]
        if values["n_workers"] > 1 and values["tree_learner"] == "serial":
            return ["n_workers does nothing while tree_learner is 'serial'; leave tree_learner out to share the rows."]
        return []

    @lazy_on_engines
    def _raw(self, X: Any, num_iteration: int | None = None, start_iteration: int = 0, **others: Any) -> np.ndarray:
        """The sum (GBDT) or mean (forest) of the trees' values, (n_rows, n_outputs)."""
        check_is_fitted(self, "model_")
        options = self._options(others)
        rows = self._matrix(X, options)
        return options.raw(self.model_, rows, self._which(num_iteration, start_iteration, options.num_threads))

    def _of_kind(
        self,
        X: Any,
        finish: Finish,
        num_iteration: int | None,
        start_iteration: int,
        others: Mapping[str, Any],
        **kind: bool,
    ) -> np.ndarray:
        """The result of predict; see ``predict_kind``."""
        from pvtree.model.prediction_kinds import predict_kind  # loads the kernels

        check_is_fitted(self, "model_")
        options = self._options(others)
        rows = self._matrix(X, options)
        which = self._which(num_iteration, start_iteration, options.num_threads)
        return predict_kind(self.model_, rows, which, finish, options=options, **kind)

    def _options(self, others: Mapping[str, Any]) -> PredictOptions:
        from pvtree.model.predict_options import PredictOptions, further_names

        # As in LightGBM, parameters of the estimator stand in for arguments of predict; and the number of columns is
        # always checked, as scikit-learn wants it.
        own = {name: value for name, value in written(self).items() if name.startswith("pred_early_stop")}
        others = {**own, **others, "predict_disable_shape_check": None}
        return PredictOptions.of(others, type(self).__name__, further_names(self.predict))  # type: ignore[attr-defined]

    def _which(self, num_iteration: int | None, start_iteration: int, n_jobs: int | None = None) -> dict[str, Any]:
        """Keyword arguments of the model's methods: the iterations to predict with, and the threads."""
        from pvtree.model.prediction_kinds import checked_range

        threads = n_threads(self.n_jobs if n_jobs is None else n_jobs or None)
        return {**checked_range(start_iteration, num_iteration), "n_threads": threads}

    def _staged_raw(self, X: Any) -> Iterator[np.ndarray]:
        check_is_fitted(self, "model_")
        if is_collection(X):
            raise InvalidTypeError(
                "Staged predictions need rows in memory, but X is a Dask collection; pass X.compute(), or call "
                "predict with num_iteration for each stage that you need."
            )
        return self.model_.staged_raw(self._matrix(X), n_threads=n_threads(self.n_jobs))

    def _matrix(self, X: Any, options: PredictOptions | None = None) -> Any:
        from pvtree.model.predict_options import PredictOptions

        options = PredictOptions() if options is None else options
        return options.read(self._features(X), self._columns(), type(self).__name__)

    def _features(self, X: Any) -> Any:
        """X without columns that are no features."""
        return X

    def _columns(self) -> inputs.Columns:
        return replace(self.model_.columns, of_named_rows=getattr(self, "_of_named_rows", False))

    @lazy_on_engines
    @documented(PREDICT, "ndarray of shape (n_rows, n_trees)")
    def apply(self, X: Any) -> np.ndarray:
        """The leaf of each row in every tree, counted among the tree's leaves."""
        check_is_fitted(self, "model_")
        return self.model_.predict_leaf(self._matrix(X), **self._which(None, 0))

    @property
    def feature_importances_(self) -> np.ndarray:
        """The number of splits on each feature or their total gain, by ``importance_type``; not normalised."""
        check_is_fitted(self, "model_")
        self._rules["importance_type"].check("importance_type", self.importance_type)
        return self.model_.feature_importance(self.importance_type)
