"""The documentation of method arguments and fitted attributes, written once for all estimators, in numpydoc form."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])
Docs = Mapping[str, tuple[str, str]]  # name -> (type, meaning and allowed range)

_ROWS = "array-like, DataFrame, Arrow table, sparse matrix, Dask collection or Ray Dataset, (n_rows, n_features)"
_PER_ROW = "array-like of shape (n_rows,)"

FIT: Docs = {
    "X": (_ROWS, "The rows to train on. NaN is a missing value. A table of ``read_file`` is read block by block."),
    "y": (_PER_ROW, "The target: numbers for a regressor, two or more classes for a classifier."),
    "sample_weight": (
        f"{_PER_ROW} or None",
        "The weight of each row, at least 0. Rows of weight 0 are left out. None gives every row the weight 1.",
    ),
    "init_score": (
        "array-like of shape (n_rows,) or (n_rows, n_classes), or None",
        "The raw score that boosting starts from in each row, instead of one constant for all. The model does not keep "
        "it: add it to the raw scores of predict.",
    ),
    "eval_set": (
        "list of pairs (X, y) or None",
        "Evaluation sets. Their metrics are recorded in ``evals_result_`` after every iteration.",
    ),
    "eval_X": ("X of one evaluation set, or a tuple of several", "Replaces ``eval_set``, together with ``eval_y``."),
    "eval_y": ("y of one evaluation set, or a tuple of several", "The targets of ``eval_X``."),
    "eval_names": (
        "list of str or None",
        "One different name per evaluation set. By default the training data is called 'training', the others "
        "'valid_0', 'valid_1', ...",
    ),
    "eval_sample_weight": ("list of array-like or None", "The weights of each evaluation set's rows."),
    "eval_class_weight": ("list or None", "``class_weight`` of each evaluation set."),
    "eval_init_score": (
        "list of array-like or None",
        "``init_score`` of each evaluation set. That of the training data is used for it by default.",
    ),
    "eval_metric": (
        "str, callable, list of these, or None",
        "The metrics to record, before those of the parameter ``eval_metric``. A function "
        "f(y_true, y_pred[, weight[, group]]) returns (name, value, is_higher_better). None is the objective's own "
        "metric.",
    ),
    "early_stopping_rounds": (
        "int or None",
        "Overrides the parameter of this name for this fit: at least 1. Forests do not support early stopping.",
    ),
    "callbacks": (
        "list of callables or None",
        "Called with a ``CallbackEnv`` after every iteration, or before it if their attribute ``before_iteration`` is "
        "true. On a cluster only the first worker calls them.",
    ),
    "init_model": (
        "Model, fitted estimator, path of a saved model, or None",
        "Training continues from this model. It must be of the same kind, objective and classes.",
    ),
    "comm": (
        "mpi4py communicator, connection of ``pvtree.comm.tcp.connect``, or None",
        "For example ``MPI.COMM_WORLD``. Every rank must call fit with its own rows, of evaluation sets too, and ends "
        "with the same model.",
    ),
    "client": (
        "distributed.Client, ray.train.ScalingConfig or None",
        "The Dask cluster that holds X, if X is a Dask collection; None is the client in scope. How many actors train "
        "and what each gets, if X is a Ray Dataset; None is one actor with one CPU on each node that holds rows.",
    ),
    "timeout": ("float", "Seconds that workers wait for one that does not answer; greater than 0."),
    "checkpoint": (
        "path of a folder or None",
        "Where to save the model during training. A fit with the same data and parameters resumes from there.",
    ),
    "checkpoint_freq": ("int", "Number of iterations between two checkpoints, at least 1."),
    "feature_name": ("list of str or 'auto'", "Names of the columns, for an X without names."),
    "categorical_feature": (
        "list of int or str, 'auto' or None",
        "Overrides the parameter of this name for this fit, unless it is 'auto'.",
    ),
    "verbose": ("bool or int", "True prints the metrics of every iteration, n those of every n-th."),
}

FIT_RANKER: Docs = {
    **FIT,
    "X": (_ROWS, "The documents to train on. NaN is a missing value. The rows of a query must be consecutive."),
    "y": (_PER_ROW, "The relevance of each document, a whole number from 0 to 30."),
    "sample_weight": (
        f"{_PER_ROW} or None",
        "The weight of each document, at least 0. A document of weight 0 still takes a rank.",
    ),
    "group": ("array-like of int or None", "The number of rows of each query, in order. Pass ``group`` or ``qid``."),
    "qid": (
        f"{_PER_ROW} or None",
        "The query of each row. On a cluster, a query whose rows lie on several workers moves to one of them.",
    ),
    "position": (
        f"{_PER_ROW} or None",
        "Where each document was shown, a whole number or a text. As in LightGBM, the effect of positions is learned "
        "separately, and predictions leave it out.",
    ),
    "eval_group": ("list of array-like or None", "``group`` of each evaluation set."),
    "eval_qid": ("list of array-like or None", "``qid`` of each evaluation set."),
    "eval_at": ("int or list of int", "The ranks at which NDCG is measured, at least 1."),
}

PREDICT: Docs = {
    "X": (
        _ROWS,
        "The rows to predict for, with the columns of fit. A Dask collection gives a lazy Dask array, a Ray Dataset "
        "a lazy Dataset that also has the column 'prediction'.",
    ),
    "raw_score": ("bool", "Whether to return the scores before they become classes or probabilities."),
    "num_iteration": ("int or None", "How many iterations to use. None, 0 and negative numbers use all."),
    "start_iteration": ("int", "The first iteration to use, counted from 0. Negative numbers count as 0."),
    "pred_leaf": ("bool", "Whether to return each row's leaf in every tree, as ``apply`` does."),
    "pred_contrib": (
        "bool",
        "Whether to return SHAP values. For each output there are n_features + 1 columns: what each feature adds to "
        "the row's raw score, and last the expected score of a training row. Their sum is the raw score.",
    ),
    "validate_features": (
        "bool or None",
        "Whether the names of X's columns must be those of fit. False takes the columns by position.",
    ),
    "others": (
        "any",
        "LightGBM's ``pred_early_stop``, ``pred_early_stop_freq`` and ``pred_early_stop_margin`` (a row stops at the "
        "first score beyond the margin), ``predict_disable_shape_check`` (columns beyond the last are left out, absent "
        "ones are 0) and ``num_threads``.",
    ),
}

SCORE: Docs = {
    "X": (_ROWS, "The rows to predict for."),
    "y": (
        _PER_ROW,
        "Their true targets. Dask collections are computed and brought to this process. Of a Ray Dataset, the column.",
    ),
    "sample_weight": (f"{_PER_ROW} or None", "The weight of each row."),
}

ATTRIBUTES: Docs = {
    "model_": ("Model", "The trees, with methods to save, export and inspect them."),
    "classes_": (
        "ndarray of shape (n_classes,)",
        "The classes in ascending order; a list of such arrays if y has several columns.",
    ),
    "n_classes_": ("int", "The number of classes; a list of these if y has several columns."),
    "n_features_in_": ("int", "The number of columns of X."),
    "feature_names_in_": ("ndarray of shape (n_features,)", "The names of the columns, if they have any."),
    "feature_importances_": ("ndarray of shape (n_features,)", "See ``importance_type``; not normalised."),
    "n_iter_": ("int", "The number of iterations of the model."),
    "evals_result_": ("dict", "The metrics of every iteration: {set: {metric: [value, ...]}}."),
    "best_iteration_": ("int", "The number of iterations that early stopping kept; 0 if it did not stop."),
    "best_score_": ("dict", "The metrics of the best iteration, or of the last: {set: {metric: value}}."),
    "timings_": ("dict", "The seconds of 'binning' and of 'training'."),
    "iteration_seconds_": ("list of float", "The seconds from the start of the first iteration to the end of each."),
    "traffic_": ("TrafficReport", "The bytes and messages that the workers exchanged."),
    "votes_": ("list of Votes, or None", "How the workers voted, tree by tree, with tree_learner='voting'."),
    "certificates_": ("list of Certificate, or None", "How many splits were proven best, tree by tree."),
    "booster_": ("Booster", "The model with the methods of LightGBM's Booster."),
    "feature_name_": ("list of str", "The names of the columns, or Column_0, Column_1, ..."),
    "n_estimators_": ("int", "``n_iter_`` under LightGBM's name."),
    "objective_": ("str or callable", "The objective that was trained."),
}


def documented(docs: Docs, returns: str) -> Callable[[Method], Method]:
    """Add the sections "Parameters" and "Returns" to a method's docstring; the order is that of its signature."""

    def add(method: Method) -> Method:
        lines = [inspect.cleandoc(method.__doc__ or ""), "", "Parameters", "----------"]
        for name, parameter in inspect.signature(method).parameters.items():
            if name in docs:
                kind, meaning = docs[name]
                default = "" if parameter.default is parameter.empty else f", default={parameter.default!r}"
                lines += [f"{name} : {kind}{default}", textwrap.indent(textwrap.fill(meaning, 110), "    ")]
        method.__doc__ = "\n".join([*lines, "", "Returns", "-------", returns, ""])
        return method

    return add


def attribute_docs(estimator: type) -> str:
    """The section "Attributes" of an estimator's docstring."""
    absent = {
        name for name in ("booster_", "feature_name_", "n_estimators_", "objective_") if not hasattr(estimator, name)
    }
    absent |= set() if hasattr(estimator, "predict_proba") else {"classes_", "n_classes_"}
    lines = ["Attributes", "----------"]
    for name, (kind, meaning) in ATTRIBUTES.items():
        if name not in absent:
            lines += [f"{name} : {kind}", f"    {meaning}"]
    return "\n".join(lines)
