"""A trained model with the methods of LightGBM's Booster."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, public
from pvtree.front.functional.booster_steps import Steps, empty_model, metrics_of, one_more, refit
from pvtree.front.functional.dataset import Dataset, rows_in
from pvtree.model.any_file import parse_any, read_any
from pvtree.model.lightgbm_dump import dumped, table
from pvtree.model.linear_leaves import refuse_linear
from pvtree.model.model import Model
from pvtree.model.predict_options import PredictOptions, further_names
from pvtree.model.prediction_kinds import checked_range, finished, predict_kind
from pvtree.model.tree_values import leaf_output, shuffled, thresholds_of, with_leaf_output
from pvtree.parameters.params import n_threads
from pvtree.reading.column_fitting import fit_columns

if TYPE_CHECKING:
    from pvtree.front.estimators.fit import Fitting


@public
class Booster:
    """A model, from ``train`` or from a file, or one that ``update`` trains iteration by iteration.

    A training that stops early keeps only the trees up to ``best_iteration``, so predictions need no
    ``num_iteration``.

    Parameters
    ----------
    params : dict or None, default=None
        Parameters by any of their names, for ``update``, ``eval`` and ``refit``.
    train_set : Dataset or None, default=None
        The rows that ``update`` trains on.
    model_file : path or None, default=None
        A model file of pvtree, a text model of LightGBM, or a JSON or UBJSON model of XGBoost.
    model_str : str or None, default=None
        The content of such a file. Exactly one of ``train_set``, ``model_file`` and ``model_str`` must be given.

    Attributes
    ----------
    model_ : Model
        The model.
    best_iteration : int
        The number of iterations kept by early stopping; 0 without it.
    best_score : dict
        The metrics at the best iteration, by evaluation set.
    evals_result : dict
        The metrics of every iteration, by evaluation set.
    """

    def __init__(
        self,
        params: dict[str, Any] | None = None,
        train_set: Dataset | None = None,
        model_file: str | os.PathLike[str] | None = None,
        model_str: str | None = None,
    ) -> None:
        if sum(each is not None for each in (train_set, model_file, model_str)) != 1:
            raise InvalidParameterError(
                "Booster needs one of train_set, model_file and model_str; to train one at once, call pvtree.train."
            )
        if train_set is not None and not isinstance(train_set, Dataset):
            raise InvalidTypeError(
                f"train_set must be a Dataset, got {type(train_set).__name__}; wrap the rows in one."
            )
        self.params = {**({} if train_set is None else train_set.get_params()), **(params or {})}
        self.best_iteration = 0
        self.best_score: dict[str, dict[str, float]] = {}
        self.evals_result: dict[str, dict[str, list[float]]] = {}
        self._keep_rows(train_set, [], None)
        if train_set is None:
            self.model_ = read_any(model_file) if model_file is not None else parse_any(str(model_str))

    @classmethod
    def of(cls, estimator: Fitting, params: dict[str, Any] | None = None) -> Self:
        """The model of a fitted estimator."""
        booster = cls.__new__(cls)
        booster.params = dict(params or {})
        booster.__dict__.update(getattr(estimator, "_set_by_callbacks", {}))
        booster.model_ = estimator.model_
        booster.best_iteration = estimator.best_iteration_
        booster.best_score = estimator.best_score_
        booster.evals_result = estimator.evals_result_
        booster._keep_rows(None, [], None)
        return booster

    def _keep_rows(self, train_set: Dataset | None, valid_sets: list[Dataset], names: Any) -> None:
        self.train_set, self._train_name, self._steps = train_set, "training", Steps()
        listed = [names] if isinstance(names, str) else list(names or [])
        self._valid: dict[str, Dataset] = {}
        for number, data in enumerate(valid_sets):
            if data is not train_set:
                self._valid[listed[number] if number < len(listed) else f"valid_{number}"] = data

    def __getattr__(self, name: str) -> Any:
        """The model before its first iteration is made when something asks for it."""
        rows = self.__dict__.get("train_set")
        if name == "model_" and rows is not None:
            self.model_ = empty_model(self._started_with(), rows, self._family())
            return self.model_
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _family(self) -> Any:
        from pvtree.front.functional.training import FAMILY

        return FAMILY

    def _started_with(self) -> dict[str, Any]:
        """The parameters, with squared error where the objective is to be a function."""
        is_none = str(self.params.get("objective", "")).lower() in ("none", "custom", "null", "na")
        return {**self.params, "objective": "regression"} if is_none else self.params

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the rows, as in LightGBM."""
        if "model_" not in self.__dict__:
            _ = self.model_
        return {**self.__dict__, "train_set": None, "_valid": {}, "_steps": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._steps = Steps()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.model_!r}>"

    def update(self, train_set: Dataset | None = None, fobj: Any = None) -> bool:
        """Train one more iteration; return whether it changed nothing, because no split was possible.

        The training goes on where the last call left it; other rows, trees or bins begin another one from the trees.

        Parameters
        ----------
        train_set : Dataset or None, default=None
            Other rows to train on from now on.
        fobj : callable or None, default=None
            A custom objective, ``fobj(preds, train_set) -> (gradient, hessian)``.
        """
        if train_set is not None:
            self.train_set = train_set
        if self.train_set is None:
            raise InvalidParameterError("update needs rows; make the Booster with train_set, or pass train_set.")
        started = "model_" in self.__dict__ and self.model_.n_iterations
        start = self.model_ if started else None
        self.model_ = one_more(self.params, self.train_set, start, fobj, self._family(), self._steps)
        added = self.model_.trees[-self.model_.trees_per_iteration :]
        return all(tree.n_nodes == 1 for tree in added)

    def rollback_one_iter(self) -> Self:
        """Remove the last iteration."""
        model = self.model_
        if model.n_iterations:
            self.model_ = replace(model, trees=model.trees[: -model.trees_per_iteration])
        return self

    def reset_parameter(self, params: Mapping[str, Any]) -> Self:
        """Change parameters for the next ``update``."""
        self.params.update(params)
        return self

    def set_train_data_name(self, name: str) -> Self:
        """The name of the training rows in the results of ``eval_train``."""
        self._train_name = name
        return self

    def add_valid(self, data: Dataset, name: str) -> Self:
        """Add rows that ``eval_valid`` evaluates."""
        if not isinstance(data, Dataset):
            raise InvalidTypeError(f"data must be a Dataset, got {type(data).__name__}; wrap the rows in one.")
        self._valid[name] = data
        return self

    def eval(self, data: Dataset, name: str, feval: Any = None) -> list[tuple[str, str, float, bool]]:
        """The metrics on ``data``: (name, metric, value, is_higher_better) of each."""
        return metrics_of(self.model_, self.params, data, name, feval, self._family())

    def eval_train(self, feval: Any = None) -> list[tuple[str, str, float, bool]]:
        """The metrics on the training rows."""
        if self.train_set is None:
            raise InvalidParameterError("eval_train needs the training rows; train with keep_training_booster=True.")
        return self.eval(self.train_set, self._train_name, feval)

    def eval_valid(self, feval: Any = None) -> list[tuple[str, str, float, bool]]:
        """The metrics on the rows of ``add_valid`` or of ``valid_sets``."""
        return [each for name, data in self._valid.items() for each in self.eval(data, name, feval)]

    def refit(
        self,
        data: Any,
        label: Any,
        decay_rate: float = 0.9,
        reference: Dataset | None = None,
        weight: Any = None,
        group: Any = None,
        init_score: Any = None,
        dataset_params: dict[str, Any] | None = None,
        validate_features: bool | None = None,
    ) -> Self:
        """A Booster with the same splits and the leaves fitted to other rows.

        Parameters
        ----------
        data, label, reference, weight, group, init_score, dataset_params
            The rows, as of a ``Dataset``.
        decay_rate : float, default=0.9
            The share of the old value of a leaf, from 0 to 1.
        validate_features : bool or None, default=None
            Whether the names of the columns must be the model's. False takes the columns by position.
        """
        refitted = copy.copy(self)
        X = fit_columns(data, self.model_.columns, validate_features is False, False)
        rows = Dataset(X, label, reference, weight, group, init_score, params=dataset_params)
        refitted.model_ = refit(self.model_, self.params, rows, decay_rate, self._family())
        refitted.train_set = rows
        return refitted

    def predict(
        self,
        data: Any,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        raw_score: bool = False,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        validate_features: bool | None = None,
        **others: Any,
    ) -> Any:
        """Predict values, or probabilities: (n,) of the second of two classes, (n, n_classes) of more.

        Parameters
        ----------
        data : array-like, table, Dataset or path
            The rows: any X that estimators accept, or a file of a Dataset's kinds.
        start_iteration : int, default=0
            The first iteration to use. Below 0 is 0.
        num_iteration : int or None, default=None
            How many iterations to use. None, 0 or less for all.
        raw_score : bool, default=False
            Predict raw scores.
        pred_leaf : bool, default=False
            Predict the number of the row's leaf in each tree.
        pred_contrib : bool, default=False
            Predict SHAP values, sparse if the data is sparse.
        validate_features : bool or None, default=None
            Whether the names of the columns must be the model's. False takes the columns by position.
        **others
            ``num_threads``; ``pred_early_stop``, ``pred_early_stop_freq`` and ``pred_early_stop_margin``;
            ``predict_disable_shape_check``, as in LightGBM.
        """
        options = PredictOptions.of(
            {**others, "validate_features": validate_features}, "Booster", further_names(Booster.predict)
        )
        kind = {"raw_score": raw_score, "pred_leaf": pred_leaf, "pred_contrib": pred_contrib}
        return self._predict(self.model_, data, checked_range(start_iteration, num_iteration), options, **kind)

    def _predict(
        self, model: Model, data: Any, iterations: Mapping[str, Any], options: PredictOptions, **kind: bool
    ) -> Any:
        X = options.read(rows_in(data), model.columns, "The model")
        which = {**iterations, "n_threads": n_threads(options.num_threads or None)}
        return predict_kind(model, X, which, finished(model), options=options, **kind)

    def save_model(
        self, filename: str | os.PathLike[str], num_iteration: int | None = None, start_iteration: int = 0
    ) -> Booster:
        """Write a model file of pvtree, whatever the suffix; ``model_.export_lightgbm`` writes LightGBM's format."""
        self._trees_of(num_iteration, start_iteration).save(filename)
        return self

    def model_to_string(self, num_iteration: int | None = None, start_iteration: int = 0) -> str:
        """The text of a model file of pvtree."""
        return self._trees_of(num_iteration, start_iteration).to_json()

    def model_from_string(self, model_str: str) -> Self:
        """Replace the model by the one in a text."""
        self.model_ = parse_any(model_str)
        return self

    def dump_model(
        self,
        num_iteration: int | None = None,
        start_iteration: int = 0,
        importance_type: str = "split",
        object_hook: Callable[[dict[str, Any]], Any] | None = None,
    ) -> dict[str, Any]:
        """The model as nested dictionaries in LightGBM's form; the initial score is in the first trees.

        ``object_hook`` is called with every dictionary, the innermost first, and its results take their places.
        """
        found = dumped(self._trees_of(num_iteration, start_iteration), importance_type)
        if object_hook is None:
            return found
        hooked: dict[str, Any] = json.loads(json.dumps(found), object_hook=object_hook)
        return hooked

    def trees_to_dataframe(self) -> Any:
        """A DataFrame with a row for each node of each tree, with LightGBM's columns."""
        if not self.model_.trees:
            raise InvalidDataError("There are no trees in this Booster, so there is no table of them; train it first.")
        return table(self.model_)

    def get_split_value_histogram(self, feature: int | str, bins: Any = None, xgboost_style: bool = False) -> Any:
        """How often a feature's splits lie in each bin of thresholds.

        Parameters
        ----------
        feature : int or str
            The number or the name of a numeric feature.
        bins : int, str or None, default=None
            As in numpy's ``histogram``; None for one bin per threshold.
        xgboost_style : bool, default=False
            Return a DataFrame of the bins that are not empty, with their right ends.

        Returns
        -------
        (counts, edges), or a DataFrame with the columns SplitValue and Count
        """
        names = self.feature_name()
        if isinstance(feature, str) and feature not in names:
            raise InvalidParameterError(f"There is no feature {feature!r}; use a name or a number of feature_name().")
        values = thresholds_of(self.model_, names.index(feature) if isinstance(feature, str) else feature)
        if bins is None or (isinstance(bins, int) and xgboost_style):
            n_unique = len(np.unique(values))
            bins = max(n_unique if bins is None else min(n_unique, bins), 1)
        counts, edges = np.histogram(values, bins)
        if not xgboost_style:
            return counts, edges
        import pandas as pd

        kept = counts > 0
        return pd.DataFrame({"SplitValue": edges[1:][kept], "Count": counts[kept].astype(np.float64)})

    def get_leaf_output(self, tree_id: int, leaf_id: int) -> float:
        """The value of a leaf; the initial score belongs to the first trees, as in LightGBM."""
        return leaf_output(self.model_, tree_id, leaf_id)

    def set_leaf_output(self, tree_id: int, leaf_id: int, value: float) -> Self:
        """Change the value of a leaf."""
        self.model_ = with_leaf_output(self.model_, tree_id, leaf_id, value)
        return self

    def shuffle_models(self, start_iteration: int = 0, end_iteration: int = -1) -> Self:
        """Put the iterations of a range into random order; -1 is the end."""
        self.model_ = shuffled(self.model_, start_iteration, end_iteration)
        return self

    def lower_bound(self) -> float:
        """The least raw score that any row can have."""
        return self._bound(np.min)

    def upper_bound(self) -> float:
        """The greatest raw score that any row can have."""
        return self._bound(np.max)

    def _bound(self, extreme: Callable[[np.ndarray], Any]) -> float:
        model = self.model_
        refuse_linear(model, "lower_bound and upper_bound")
        leaves = [float(extreme(tree.value[tree.feature < 0])) for tree in model.trees]
        return float(model.init_score.sum()) + sum(leaves)

    def free_dataset(self) -> Self:
        """Let go of the rows; ``update`` is not possible afterwards."""
        _ = self.model_
        self._keep_rows(None, [], None)
        return self

    def feature_importance(self, importance_type: str = "split", iteration: int | None = None) -> np.ndarray:
        """The number of splits per feature ("split"), or their total gain ("gain")."""
        importance = self._trees_of(iteration).feature_importance(importance_type)
        return importance.astype(np.int64) if importance_type == "split" else importance

    def feature_name(self) -> list[str]:
        return self.model_.column_names()

    def num_trees(self) -> int:
        return len(self.model_.trees)

    def num_feature(self) -> int:
        return self.model_.n_features

    def num_model_per_iteration(self) -> int:
        return self.model_.trees_per_iteration

    def current_iteration(self) -> int:
        return self.model_.n_iterations

    def _trees_of(self, num_iteration: int | None = None, start_iteration: int = 0) -> Model:
        """The model with the trees of some iterations only."""
        asked = checked_range(start_iteration, num_iteration)
        first, end = self.model_._tree_range(**asked)
        return replace(self.model_, trees=self.model_.trees[first:end], init_score=self.model_._base(asked["start"]))
