"""What users do with a file that somebody gave them. Only the package's own errors may come out of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from case import Broken
from samples import FEW
from scipy.sparse import csr_matrix

import pvtree
from pvtree.errors import InvalidDataError, PvtreeError
from pvtree.front import cli

# Rows for any model: ordinary, missing, infinite, huge, and codes that no model knows.
ROWS = np.array([0.0, 1.0, -0.5, np.nan, np.inf, -np.inf, 1e300, 5.0, 2.0**40])
WIDE = 1000  # from here on, rows are sparse: a dense one would be as large as the file says


def use_json_model(path: Path) -> None:
    model = pvtree.Model.load(path)
    use_model(model, path.parent)
    if pvtree.Model.from_json(model.to_json()) != model:
        raise Broken("a model is not the same after it was written and read again")
    by_command = [["inspect", "--tree", "0"], ["inspect", "--json"]]
    if model.n_features <= WIDE:
        data = write_rows(model, path.parent)
        by_command += [["predict", "--data", data], ["predict", "--data", data, "--proba"]]
    for arguments in by_command:
        with suppress(PvtreeError):
            command(*arguments, "--model", str(path))
    use_booster(path)


def use_lightgbm_model(path: Path) -> None:
    use_model(pvtree.Model.from_lightgbm(path), path.parent)
    use_booster(path)


def use_xgboost_model(path: Path) -> None:
    model = pvtree.Model.from_xgboost(path)
    use_model(model, path.parent)
    use_booster(path)
    with suppress(PvtreeError):
        booster = pvtree.as_xgboost.Booster(model_file=path)
        booster.get_dump(with_stats=True)
        booster.predict(pvtree.as_xgboost.DMatrix(rows_for(model), feature_names=booster.feature_names))


def use_dataset(path: Path) -> None:
    """Read it, train on it, take some rows, and write it again, which must give the same rows."""
    data = pvtree.Dataset(path)
    data.save_binary(path.with_name("again.bin"))
    if pvtree.Dataset(path.with_name("again.bin")).num_data() != data.num_data():
        raise Broken("a Dataset has another number of rows after it was written again")
    objective = "lambdarank" if data.get_group() is not None else "regression"
    few = {key: value for key, value in FEW.items() if key != "n_estimators"} | {"objective": objective}
    pvtree.train(few, data, 2)
    with suppress(PvtreeError):
        pvtree.train(few, data.subset(range(min(20, data.num_data()))), 1)


def use_model(model: pvtree.Model, folder: Path) -> None:
    """Each use may be refused by itself; the model as such has been accepted."""
    uses: list[Callable[[Any], Any]] = [
        lambda X: _check_shape(model.predict_raw(X), (X.shape[0], model.n_outputs)),
        lambda X: _check_shape(model.predict_leaf(X), (X.shape[0], len(model.trees))),
        lambda X: model.predict_contrib(X),
        lambda X: [raw.sum() for raw in model.staged_raw(X)],
        lambda _: model.feature_importance("split"),
        lambda _: model.feature_importance("gain"),
        lambda _: [model.tree_text(number) for number in range(len(model.trees))],
        lambda _: [model.to_dot(number) for number in range(len(model.trees))],
        lambda _: model.save(folder / "saved.json"),
        lambda _: model.export_lightgbm(folder / "exported.txt"),
        lambda _: pvtree.Model.from_lightgbm(folder / "exported.txt").predict_raw(X),
        lambda _: model.export_xgboost(folder / "exported.json"),
        lambda _: model.export_xgboost(folder / "exported.ubj"),
        lambda X: _check_read_again(model, folder / "exported.ubj", X),
    ]
    X = model.encode(rows_for(model))
    for use in uses:
        with suppress(PvtreeError):
            use(X)


def rows_for(model: pvtree.Model) -> Any:
    n_features, n_rows = model.n_features, len(ROWS)
    if n_features > WIDE:
        return csr_matrix((n_rows, n_features))
    X = np.stack([np.roll(ROWS, j) for j in range(n_features)], axis=1)
    for j in model.categories:
        X[:, j] = np.nan  # labels may be text, which an array of numbers cannot hold
    return X


def write_rows(model: pvtree.Model, folder: Path) -> str:
    """A CSV file with the model's columns."""
    with suppress(UnicodeEncodeError):  # of names that no file can have
        pd.DataFrame(rows_for(model), columns=model.column_names()).to_csv(folder / "rows.csv", index=False)
    return str(folder / "rows.csv")


def use_booster(path: Path) -> None:
    with suppress(PvtreeError):
        booster = pvtree.Booster(model_file=path)
        X = rows_for(booster.model_)
        for options in ({}, {"raw_score": True}, {"pred_leaf": True}, {"pred_contrib": True}):
            with suppress(PvtreeError):
                booster.predict(X, **options)


def _check_read_again(model: pvtree.Model, path: Path, X: Any) -> None:
    if path.exists():
        _check_shape(pvtree.Model.from_xgboost(path).predict_raw(X), (X.shape[0], model.n_outputs))


def _check_shape(found: np.ndarray, expected: tuple[int, ...]) -> None:
    if found.shape != expected:
        raise Broken(f"a prediction has shape {found.shape}, not {expected}")


def use_table(path: Path, task: str = "classification", model: Path | None = None, **columns: Any) -> None:
    """Read it, train on it, predict for it, read it in parts, and predict by the command line."""
    if model is not None:  # of a good file: the reader that streams must refuse as well
        with suppress(PvtreeError):
            command("predict", "--model", str(model), "--data", str(path), "--output", str(path.parent / "out.csv"))
    rows = pvtree.read_file(path, **columns)
    fitted = fit_rows(rows, task)
    if len(fitted.predict(rows.X)) != len(rows):
        raise Broken("there are not as many predictions as rows")
    again = pvtree.read_file(path, like=fitted)
    if len(fitted.predict(again.X)) != len(rows):
        raise Broken("there are not as many rows when they are read like the model's")
    n_in_parts = sum(len(pvtree.read_file(path, **columns, rank=rank, size=3)) for rank in range(3))
    if n_in_parts != len(rows):
        raise Broken(f"three ranks read {n_in_parts} rows of {len(rows)}")


def fit_rows(rows: Any, task: str) -> Any:
    if task == "ranking":
        return pvtree.GBDTRanker(**FEW).fit(rows.X, rows.y, rows.weight, qid=rows.qid)
    if task == "regression":
        return pvtree.GBDTRegressor(**FEW).fit(rows.X, rows.y, rows.weight)
    return pvtree.GBDTClassifier(**FEW).fit(rows.X, rows.y, rows.weight)


def command(*arguments: str) -> None:
    """A command that fails is a refusal; it says one sentence and is never out of memory."""
    code, sentence = cli.run(list(arguments))
    if code not in (0, 2) or "not enough memory" in sentence or (code == 2) != bool(sentence):
        raise Broken(f"pvtree {' '.join(arguments)} ended with exit code {code}: {sentence}")
    if code:
        raise InvalidDataError(sentence)
