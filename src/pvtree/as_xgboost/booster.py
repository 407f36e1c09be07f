"""XGBoost's Booster."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from pvtree.as_xgboost.config import described
from pvtree.as_xgboost.dumps import dumps, importances, mapped, table
from pvtree.as_xgboost.explanations import explained
from pvtree.as_xgboost.family import FAMILY, numbers_of
from pvtree.as_xgboost.matrix import DMatrix
from pvtree.as_xgboost.results import METRIC_NAMES, as_margin, trees_of
from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.front.functional import Booster as LightGBMBooster
from pvtree.front.functional import Dataset
from pvtree.front.functional.booster_steps import metrics_of, one_more
from pvtree.front.functional.predict_arguments import OF_XGBOOST, check_others
from pvtree.model.any_file import read_whole, save_as_named
from pvtree.model.export_xgboost import dump
from pvtree.model.import_xgboost import parse_whole
from pvtree.model.model import Model
from pvtree.model.predict_options import PredictOptions
from pvtree.model.prediction_kinds import finished
from pvtree.model.tree_values import thresholds_of
from pvtree.reading.tables import as_dense


class Booster(LightGBMBooster):
    """A model with the methods of XGBoost's Booster; the best iteration counts from 0.

    Parameters
    ----------
    params : dict or None, default=None
        Parameters, for ``update``.
    cache : list of DMatrix or None, default=None
        The first one shows the columns of a model without trees.
    model_file : path, bytes, Booster or None, default=None
        A model to begin with, of pvtree or XGBoost.
    """

    def __init__(self, params: Any = None, cache: Any = None, model_file: Any = None) -> None:
        self.params = numbers_of(params or {})
        self.evals_result = {}
        self._attributes: dict[str, str] = {}
        self._keep_rows(cache[0] if cache else None, [], None)
        if isinstance(model_file, LightGBMBooster):
            self.model_ = model_file.model_
        elif model_file is not None:
            self.load_model(model_file)

    @classmethod
    def of(cls, estimator: Any, params: dict[str, Any] | None = None) -> Self:
        """The model of a fitted estimator."""
        booster = super().of(estimator, params)
        booster._attributes = {}
        if not booster.best_iteration:
            booster._forget_best()
        return booster

    def _forget_best(self) -> None:
        """Without early stopping these are not attributes of a Booster."""
        for name in ("best_iteration", "best_score"):
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        """The last iteration is the best one unless training stopped early."""
        if name == "best_iteration" and self.__dict__.get("model_") is not None:
            return self.num_boosted_rounds() - 1
        return super().__getattr__(name)

    @classmethod
    def _with_model(cls, model: Model, attributes: dict[str, str] | None = None) -> Booster:
        booster = Booster()
        booster._attributes = {} if attributes is None else attributes
        booster.model_ = model
        return booster

    def _family(self) -> Any:
        return FAMILY

    def __repr__(self) -> str:
        return f"<Booster: {self.__dict__.get('model_', 'without trees')!r}>"

    def predict(  # type: ignore[override]
        self,
        data: Any,
        output_margin: bool = False,
        pred_leaf: bool = False,
        pred_contribs: bool = False,
        approx_contribs: bool = False,
        pred_interactions: bool = False,
        iteration_range: tuple[int, int] = (0, 0),
        strict_shape: bool = False,
        **others: Any,
    ) -> np.ndarray:
        """Predict values, probabilities or, with the objective multi:softmax, classes.

        Parameters
        ----------
        data : DMatrix or any X that estimators accept
            The rows to predict.
        output_margin : bool, default=False
            Predict raw scores.
        pred_leaf : bool, default=False
            Predict the number of the row's leaf in each tree.
        pred_contribs : bool, default=False
            Predict SHAP values.
        approx_contribs : bool, default=False
            With ``pred_contribs``, predict how the expected score changes at the splits on each row's way instead.
        pred_interactions : bool, default=False
            Predict SHAP interaction values, (n, n_features + 1, n_features + 1); their rows sum to SHAP values.
        iteration_range : (int, int), default=(0, 0)
            The first iteration to use and the one to stop before; (0, 0) for all.
        strict_shape : bool, default=False
            Always return an axis for the outputs: (n, n_outputs) of scores, (n, n_outputs, n_features + 1) of SHAP
            values, (n, n_iterations, n_outputs, trees) of leaves. Without it, one output has no axis of SHAP values.
        **others
            XGBoost's other arguments, if they ask for what pvtree does anyway.
        """
        check_others(others, OF_XGBOOST, Booster.predict)
        if others.get("validate_features", True):
            self._check_names(data)
        model = trees_of(self.model_, *iteration_range)
        if pred_contribs or pred_interactions:
            return explained(model, data, approx_contribs, pred_interactions, strict_shape)
        margin = data.init_score if isinstance(data, Dataset) else None
        if margin is None or pred_leaf:
            kind = {"raw_score": output_margin, "pred_leaf": pred_leaf, "pred_contrib": False}
            predicted = as_dense(self._predict(model, data, {}, PredictOptions(), **kind))
        else:
            predicted = self._from_margin(model, data, as_margin(margin, data.num_data()), output_margin)
        if self.params.get("objective") == "multi:softmax" and not (output_margin or pred_leaf):
            predicted = predicted.argmax(axis=1).astype(np.float32)
        if not strict_shape:
            return predicted
        if pred_leaf:
            return predicted.reshape(len(predicted), model.n_iterations, model.n_outputs, -1)
        return predicted.reshape(len(predicted), -1)

    def _check_names(self, data: Any) -> None:
        """Raise if the names of a DMatrix differ from the model's; rows without names have none to check."""
        names = data.feature_names if isinstance(data, DMatrix) else None
        if names is not None and self.feature_names is not None and names != self.feature_names:
            raise InvalidDataError(
                f"feature_names mismatch: the model has {self.feature_names}, the data {names}; pass the same columns."
            )

    def _from_margin(self, model: Model, data: Any, margin: np.ndarray, output_margin: bool) -> np.ndarray:
        """Predictions that begin with each row's margin in place of the model's initial score."""
        trees = self._predict(model, data, {}, PredictOptions(), raw_score=True)
        raw = margin + trees.reshape(len(trees), -1) - model.init_score
        if output_margin:
            return raw[:, 0] if raw.shape[1] == 1 else raw
        return finished(model)(raw)

    def inplace_predict(
        self,
        data: Any,
        *,
        iteration_range: tuple[int, int] = (0, 0),
        predict_type: str = "value",
        missing: float = np.nan,
        validate_features: bool = True,
        base_margin: Any = None,
        strict_shape: bool = False,
    ) -> np.ndarray:
        """Predict for rows that are not a DMatrix; ``predict_type`` is "value" or "margin"."""
        if predict_type not in ("value", "margin"):
            raise InvalidParameterError(f"predict_type={predict_type!r} is unknown; use 'value' or 'margin'.")
        rows = DMatrix(data, missing=missing, base_margin=base_margin)
        return self.predict(rows, predict_type == "margin", iteration_range=iteration_range, strict_shape=strict_shape)

    # Training

    def update(self, dtrain: Dataset, iteration: int = 0, fobj: Any = None) -> None:  # type: ignore[override]
        """Train one more iteration."""
        started = "model_" in self.__dict__ and self.model_.n_iterations
        start = self.model_ if started else None
        self.model_ = one_more(self.params, dtrain, start, fobj, FAMILY, self._steps)

    def boost(self, dtrain: Dataset, iteration: int, grad: Any, hess: Any) -> None:
        """Train one more iteration with these gradients and hessians."""
        n_rows = dtrain.num_data()
        columns = [np.asarray(each, np.float64).reshape(n_rows, -1) for each in (grad, hess)]
        given = [each[:, 0] if each.shape[1] == 1 else each for each in columns]
        self.update(dtrain, iteration, lambda preds, data: (given[0], given[1]))

    def set_param(self, params: Any, value: Any = None) -> None:
        """Change parameters for the next ``update``: a dictionary, pairs, or a name and its value."""
        given = {params: value} if isinstance(params, str) else dict(params)
        self.params.update(numbers_of(given))

    def eval(self, data: Dataset, name: str = "eval", iteration: int = 0) -> str:  # type: ignore[override]
        """The metrics on the rows, as XGBoost prints them."""
        return self.eval_set([(data, name)], iteration)

    def eval_set(self, evals: Any, iteration: int = 0, feval: Any = None, output_margin: bool = True) -> str:
        """The metrics on several sets of rows, as XGBoost prints them."""
        words = [f"[{iteration}]"]
        for data, name in evals:
            params = dict(self.params)
            if not {"eval_metric", "metric"} & params.keys() and self.model_.objective == "regression":
                params["eval_metric"] = "rmse"
            for _, metric, value, _ in metrics_of(self.model_, params, data, name, feval, FAMILY):
                words.append(f"{name}-{METRIC_NAMES.get(metric, metric)}:{value:.17g}")
        return "\t".join(words)

    # Files and settings

    def save_model(self, fname: Any) -> None:  # type: ignore[override]
        """Write XGBoost's JSON or UBJSON if the name ends with .json or .ubj, else a model file of pvtree."""
        save_as_named(self.model_, fname, self._kept(), self.params.get("objective"))

    def _kept(self) -> dict[str, str]:
        """What XGBoost's files keep beside the model."""
        names = [name for name in ("best_iteration", "best_score") if name in self.__dict__]
        best: dict[str, str] = {name: str(self.__dict__[name]) for name in names}
        return {**self._attributes, **best}

    def load_model(self, fname: Any) -> None:
        """Read a model file of pvtree or XGBoost, or the bytes of ``save_raw``."""
        if isinstance(fname, bytes | bytearray):
            self.model_, self._attributes, objective = parse_whole(bytes(fname), "these bytes")
        else:
            self.model_, self._attributes, objective = read_whole(fname)
        if objective == "multi:softmax":
            self.params["objective"] = objective  # predict gives classes
        self._forget_best()
        if (best := self._attributes.get("best_iteration", "")).isdecimal():
            self.best_iteration = int(best)

    def save_raw(self, raw_format: str = "ubj") -> bytearray:
        """The content of XGBoost's model file, "ubj" or "json"."""
        if raw_format not in ("ubj", "json"):
            raise InvalidParameterError(f"raw_format={raw_format!r} is unknown; use 'ubj' or 'json'.")
        return bytearray(dump(self.model_, raw_format, self._kept(), self.params.get("objective")))

    def save_config(self) -> str:
        """The parameters as JSON."""
        plain = {name: value for name, value in self.params.items() if not callable(value)}
        model = self.__dict__.get("model_")
        return json.dumps({"pvtree": plain, "learner": described(plain, model)}, default=str)

    def load_config(self, config: str) -> None:
        """Take over the parameters of ``save_config``."""
        try:
            found = json.loads(config)["pvtree"]
            self.params = dict(found)
        except (ValueError, TypeError, KeyError):
            raise InvalidParameterError("config is not a text of save_config; pass one that is.") from None

    def attr(self, key: str) -> str | None:
        """A text that was set by ``set_attr``; None if there is none."""
        return self._attributes.get(key)

    def attributes(self) -> dict[str, str]:
        return dict(self._attributes)

    def set_attr(self, **kwargs: Any) -> None:
        """Keep texts with the model; None removes one."""
        for name, value in kwargs.items():
            if value is None:
                self._attributes.pop(name, None)
            elif isinstance(value, str):
                self._attributes[name] = value
            else:
                raise InvalidParameterError(f"The attribute {name} must be a text; convert it with str().")

    def __copy__(self) -> Booster:
        return self.copy()

    # Trees

    def num_boosted_rounds(self) -> int:
        return self.model_.n_iterations if "model_" in self.__dict__ else 0

    def num_features(self) -> int:
        return self.model_.n_features

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the columns; None without names."""
        return None if self.model_.feature_names is None else list(self.model_.feature_names)

    @feature_names.setter
    def feature_names(self, names: Any) -> None:
        self.model_ = replace(self.model_, feature_names=None if names is None else tuple(names))

    @property
    def feature_types(self) -> list[str] | None:
        """The types of the columns that it was trained on, as the DMatrix or the estimator names them."""
        types: list[str] | None = self.__dict__.get("_types")
        return types

    @feature_types.setter
    def feature_types(self, types: Any) -> None:
        self._types = None if types is None else list(types)

    def _names(self, fmap: str | os.PathLike[str] = "") -> list[str]:
        """The names of the columns, or those that a feature map gives them."""
        names = self.model_.column_names("f{}")
        return names if not os.fspath(fmap) else mapped(names, fmap)

    def __getitem__(self, part: Any) -> Booster:
        """The iterations of a slice, or one iteration."""
        if isinstance(part, int):
            if not -self.num_boosted_rounds() <= part < self.num_boosted_rounds():
                raise IndexError(f"The model has {self.num_boosted_rounds()} iterations; there is no iteration {part}.")
            part = slice(part, part + 1 or None)
        if not isinstance(part, slice):
            raise InvalidParameterError("A Booster is sliced by iterations, such as booster[2:5].")
        if part.step is not None and part.step < 1:
            raise InvalidParameterError("The step of a slice must be at least 1.")
        chosen = range(self.num_boosted_rounds())[part]
        if not chosen:
            raise IndexError("The slice holds no iterations; use one within the model.")
        per = self.model_.trees_per_iteration
        trees = tuple(self.model_.trees[i * per + k] for i in chosen for k in range(per))
        sliced = self.copy()
        sliced.model_ = replace(self.model_, trees=trees)
        sliced.__dict__.pop("best_iteration", None)
        return sliced

    def __iter__(self) -> Iterator[Booster]:
        return (self[i] for i in range(self.num_boosted_rounds()))

    def copy(self) -> Booster:
        made = Booster.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._attributes = dict(self._attributes)
        return made

    def get_split_value_histogram(  # type: ignore[override]
        self, feature: str, fmap: str = "", bins: int | None = None, as_pandas: bool = True
    ) -> Any:
        """How often each value splits a feature: the columns SplitValue and Count; empty for an unknown feature."""
        names = self._names(fmap)
        values = thresholds_of(self.model_, names.index(feature)) if feature in names else np.empty(0)
        if len(values):
            n_bins = max(len(np.unique(values)), 1)
            n_bins = n_bins if bins is None else max(min(n_bins, bins), 1)
            counts, edges = np.histogram(values, bins=n_bins)
            found = np.column_stack([edges[1:], counts])
            found = found[found[:, 1] > 0]
        else:
            found = np.empty((0, 2))
        if not as_pandas:
            return found
        import pandas as pd

        return pd.DataFrame(found, columns=["SplitValue", "Count"])

    def get_dump(self, fmap: str = "", with_stats: bool = False, dump_format: str = "text") -> list[str]:
        """One text per tree, in the form "text", "json" or "dot"."""
        return dumps(self.model_, self._names(fmap), with_stats, dump_format)

    def dump_model(  # type: ignore[override]
        self, fout: str | os.PathLike[str], fmap: str = "", with_stats: bool = False, dump_format: str = "text"
    ) -> None:
        """Write the texts of ``get_dump`` to a file."""
        texts = self.get_dump(fmap, with_stats, dump_format)
        with open(fout, "w", encoding="utf-8") as file:
            if dump_format == "json":
                file.write("[\n" + ",\n".join(texts) + "\n]")
            else:
                file.writelines(f"booster[{number}]:\n{text}" for number, text in enumerate(texts))

    def trees_to_dataframe(self, fmap: str = "") -> Any:
        """A DataFrame with a row for each node, with XGBoost's columns."""
        return table(self.model_, self._names(fmap))

    def get_fscore(self, fmap: str = "") -> Mapping[str, float]:
        """The number of splits on each feature that splits, by name."""
        return self.get_score(fmap)

    def get_score(self, fmap: str = "", importance_type: str = "weight") -> dict[str, float]:
        """The importance of each feature that splits, by name.

        ``importance_type`` is "weight" (the number of splits), "gain" or "cover" (their mean gain or sum of hessians),
        "total_gain" or "total_cover".
        """
        kinds = importances(self.model_)
        if importance_type not in kinds:
            raise InvalidParameterError(
                f"importance_type={importance_type!r} is unknown; use one of {', '.join(map(repr, kinds))}."
            )
        names = self._names(fmap)
        return {names[j]: float(kinds[importance_type][j]) for j in np.flatnonzero(kinds["weight"])}
