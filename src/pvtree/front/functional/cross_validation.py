"""cv(params, train_set): one training per fold, and the means of their metrics after every iteration."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from pvtree.errors import InvalidTypeError, ModelFileError, public
from pvtree.front.functional.booster import Booster
from pvtree.front.functional.dataset import Dataset
from pvtree.front.functional.training import FAMILY, ParsedParams, check_rounds, read_params, run, shown_params
from pvtree.model.text_format import write_bytes
from pvtree.parameters.aliases import SYNONYMS
from pvtree.parameters.loss_table import losses_of
from pvtree.parameters.paths import checked_path
from pvtree.training.callbacks import CallbackEnv, EarlyStopException, early_stopping


@public
class CVBooster:
    """The boosters of all folds. Calling a method of ``Booster`` calls it on each of them.

    Parameters
    ----------
    boosters : list of Booster, default=()
        The boosters.
    best_iteration : int, default=-1
        The number of iterations that early stopping kept; -1 without it.
    model_file : path or None, default=None
        A file of ``save_model``.
    """

    def __init__(self, boosters: Any = (), best_iteration: int = -1, model_file: Any = None) -> None:
        if isinstance(boosters, str | os.PathLike):
            boosters, model_file = (), boosters
        self.boosters: list[Booster] = list(boosters)
        self.best_iteration = best_iteration
        if model_file is not None:
            try:
                self.model_from_string(Path(checked_path(model_file)).read_text())
            except (OSError, UnicodeDecodeError) as error:
                raise ModelFileError(f"Cannot read {os.fspath(model_file)!r} ({error}); check the path.") from error

    def __getattr__(self, name: str) -> Any:
        """A function that calls the method of this name on every booster and returns a list."""
        if name.startswith("_") or not hasattr(Booster, name):
            raise AttributeError(f"'CVBooster' object has no attribute {name!r}")

        def of_all(*args: Any, **kwargs: Any) -> list[Any]:
            return [getattr(booster, name)(*args, **kwargs) for booster in self.boosters]

        return of_all

    def __repr__(self) -> str:
        return f"<CVBooster: {len(self.boosters)} boosters, best iteration {self.best_iteration}>"

    def predict(self, data: Any, **arguments: Any) -> list[np.ndarray]:
        """The predictions of each booster; ``arguments`` are those of ``Booster.predict``."""
        return [booster.predict(data, **arguments) for booster in self.boosters]

    def model_to_string(self) -> str:
        """The text that ``save_model`` writes."""
        models = [booster.model_to_string() for booster in self.boosters]
        return json.dumps({"boosters": models, "best_iteration": self.best_iteration})

    def model_from_string(self, model_str: str) -> Self:
        """Replace the boosters by those in a text."""
        try:
            found = json.loads(model_str)
            texts, best = found["boosters"], found["best_iteration"]
            is_right = isinstance(texts, list) and all(isinstance(text, str) for text in texts) and type(best) is int
        except (ValueError, TypeError, KeyError, RecursionError):
            is_right = False
        if not is_right:
            raise ModelFileError("This is not a file of CVBooster.save_model; give one that is.")
        self.boosters, self.best_iteration = [Booster(model_str=text) for text in texts], best
        return self

    def save_model(self, filename: str | os.PathLike[str]) -> Self:
        """Write all models to one file."""
        write_bytes(filename, self.model_to_string().encode(), "model file")
        return self


@public
def cv(
    params: Mapping[str, Any],
    train_set: Dataset,
    num_boost_round: int = 100,
    folds: Any = None,
    nfold: int = 5,
    stratified: bool = True,
    shuffle: bool = True,
    metrics: Any = None,
    feval: Any = None,
    init_model: Any = None,
    fpreproc: Any = None,
    seed: int = 0,
    callbacks: Any = None,
    eval_train_metric: bool = False,
    return_cvbooster: bool = False,
) -> dict[str, Any]:
    """Cross-validate: train on each fold, and average the metrics over the folds.

    All folds train all iterations. Callbacks see the means afterwards, and early stopping cuts results and boosters.

    Parameters
    ----------
    params : mapping
        Parameters by LightGBM's, XGBoost's or pvtree's names.
    train_set : Dataset
        The rows of all folds.
    num_boost_round : int, default=100
        The number of iterations. At least 1. ``params`` takes precedence.
    folds : splitter or list or None, default=None
        A splitter of scikit-learn, or a list of (rows to train on, rows to evaluate on). None for ``nfold`` folds.
    nfold : int, default=5
        The number of folds. At least 2.
    stratified : bool, default=True
        Whether each fold has the classes in equal shares.
    shuffle : bool, default=True
        Whether rows are shuffled first.
    metrics : str or list or None, default=None
        Metrics that replace those of ``params``.
    feval : callable or list or None, default=None
        Custom metrics, as in ``train``.
    init_model : Booster or path or None, default=None
        A model to continue from.
    fpreproc : callable or None, default=None
        Called for each fold, ``fpreproc(train, valid, params) -> (train, valid, params)``, with Datasets.
    seed : int, default=0
        The seed of the shuffle.
    callbacks : list or None, default=None
        Callbacks, as in ``train``.
    eval_train_metric : bool, default=False
        Whether to measure the training rows too.
    return_cvbooster : bool, default=False
        Whether the result holds the boosters, as "cvbooster".

    Returns
    -------
    dict
        ``{"valid l2-mean": [value of each iteration], "valid l2-stdv": ...}``.
    """
    params = dict(params)
    if not isinstance(train_set, Dataset):
        raise InvalidTypeError(f"cv() only accepts Dataset object, train_set has type '{type(train_set).__name__}'.")
    check_rounds(num_boost_round)
    if metrics is not None:
        words = {"eval_metric", *SYNONYMS["eval_metric"].split()}
        params = {name: value for name, value in params.items() if name not in words}
        params["metric"] = metrics
    parsed = read_params(params, FAMILY, n_estimators=num_boost_round)
    rounds = parsed.estimator.early_stopping_rounds
    after, before = split_callbacks(callbacks)
    if rounds:
        after.append(early_stopping(rounds, verbose=False, **parsed.stopping))
    boosters, histories = [], []
    for chosen, held in make_folds(parsed, train_set, folds, nfold, stratified, shuffle, seed):
        train_part, valid_part, its_params = train_set.subset(chosen), train_set.subset(held), params
        if fpreproc is not None:
            train_part, valid_part, its_params = fpreproc(train_part, valid_part, dict(params))
        own = read_params(its_params, FAMILY, n_estimators=num_boost_round)
        booster, history = train_fold(own, train_part, valid_part, feval, init_model, before, eval_train_metric)
        booster.params = shown_params(its_params, train_part)
        boosters.append(booster)
        histories.append(history)
    means = [mean_of_folds(results) for results in zip(*histories, strict=True)]
    n_kept, has_stopped = run_callbacks(after, means)
    averages = _by_metric(means[:n_kept])
    if return_cvbooster:
        averages["cvbooster"] = CVBooster(
            [_cut(booster, n_kept, len(means) - n_kept) for booster in boosters], n_kept if has_stopped else -1
        )
    return averages


def _by_metric(means: Sequence[Sequence[tuple[Any, ...]]]) -> dict[str, Any]:
    averages: dict[str, Any] = {}
    for results in means:
        for name, metric, mean, _, deviation in results:
            averages.setdefault(f"{name} {metric}-mean", []).append(mean)
            averages.setdefault(f"{name} {metric}-stdv", []).append(deviation)
    return averages


def train_fold(
    parsed: ParsedParams,
    train: Dataset,
    valid: Dataset,
    feval: Any,
    init_model: Any,
    before: list[Any],
    with_train: bool,
) -> tuple[Booster, list[list[tuple[Any, ...]]]]:
    """The booster of one fold, and the results of every iteration."""
    history: list[list[tuple[Any, ...]]] = []

    def record(env: CallbackEnv) -> None:
        history.append([tuple(result) for result in env.evaluation_result_list])

    parsed.estimator.set_params(early_stopping_rounds=None)
    sets, names = ([train, valid], ["train", "valid"]) if with_train else ([valid], ["valid"])
    estimator = run(parsed, train, sets, names, feval, init_model=init_model, callbacks=[*before, record])
    return Booster.of(estimator), history


def mean_of_folds(results: Sequence[Sequence[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """(set, metric, mean, is higher better, standard deviation) of one iteration, given the results of every fold."""
    means = []
    for of_folds in zip(*results, strict=True):
        name, metric, _, higher = of_folds[0]
        values = [value for _, _, value, _ in of_folds]
        means.append((name, metric, float(np.mean(values)), higher, float(np.std(values))))
    return means


def run_callbacks(callbacks: Sequence[Any], means: Sequence[list[Any]], model: Any = None) -> tuple[int, bool]:
    """Show the callbacks all means; return how many iterations are kept, and whether early stopping chose them."""
    for iteration, results in enumerate(means):
        try:
            for callback in callbacks:
                callback(CallbackEnv(model, None, iteration, 0, len(means), results))
        except EarlyStopException as stop:
            return stop.best_iteration + 1, True
    return len(means), False


def split_callbacks(callbacks: Any) -> tuple[list[Any], list[Any]]:
    """Callbacks that see the means, in LightGBM's order, and callbacks that change the training of each fold."""
    given = sorted(callbacks or [], key=lambda callback: getattr(callback, "order", -1))
    before = [callback for callback in given if getattr(callback, "before_iteration", False)]
    return [callback for callback in given if callback not in before], before


def make_folds(
    parsed: ParsedParams, data: Dataset, folds: Any, nfold: int, stratified: bool, shuffle: bool, seed: int
) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    queries = data.query_ids()
    if folds is not None:
        return list(folds.split(data.data, data.label, queries)) if hasattr(folds, "split") else list(folds)
    if queries is not None:
        return list(GroupKFold(nfold).split(data.data, groups=queries))
    kind = StratifiedKFold if stratified and parsed.task in losses_of("class") else KFold
    return list(kind(nfold, shuffle=shuffle, random_state=seed if shuffle else None).split(data.data, data.label))


def _cut(booster: Booster, n_iterations: int, n_dropped: int) -> Booster:
    model = booster.model_
    n_trees = (model.n_iterations - n_dropped) * model.trees_per_iteration  # with those of init_model
    booster.model_ = replace(model, trees=model.trees[:n_trees])
    booster.best_iteration = n_iterations
    return booster
