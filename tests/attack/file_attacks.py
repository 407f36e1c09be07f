"""Kinds of cases that change files: models, tables, configurations and checkpoints."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import samples
from case import Broken, Case
from mutations import (
    OF_BYTES,
    OF_TEXT,
    REAL,
    WHOLE,
    change_document,
    change_lines,
    change_number,
    flip,
    hostile_value,
    several,
)
from odd_tables import made, odd_column
from uses import command, fit_rows, use_json_model, use_lightgbm_model, use_table

import pvtree

MAX_FILE = 10**6  # bytes: what a larger file may ask for is not tested here

# Models


def signed(payload: Any) -> bytes:
    """A model file with the right checksum, which a hostile author can compute too."""
    body = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    head = {"format": "pvtree-model", "version": 1, "sha256": hashlib.sha256(body.encode()).hexdigest()}
    return f'{json.dumps(head, separators=(",", ":"))[:-1]},"payload":{body}}}\n'.encode()


def json_model(case: Case, name: str) -> None:
    text = samples.estimator(name).model_.to_json()
    if case.happens(0.1):  # the rest of them would end at the checksum
        data = several(case, text.encode(), OF_BYTES + OF_TEXT)
    else:
        data = signed(several(case, json.loads(text)["payload"], JSON_WAYS))
    use_json_model(case.write("model.json", data[:MAX_FILE]))


def change_tree(case: Case, payload: Any) -> Any:
    """One number of a tree that kernels follow or add up."""
    trees = payload.get("trees") if isinstance(payload, dict) else None
    tree = case.choose(trees) if isinstance(trees, list) and trees else None
    lists = (
        [values for values in tree.values() if isinstance(values, list) and values] if isinstance(tree, dict) else []
    )
    if lists:
        values = case.choose(lists)
        values[case.choose(range(len(values)))] = case.choose([*WHOLE, *REAL, 4, 5, 6, 7, 12, "NaN", "Infinity"])
    return payload


def odd_tree(case: Case, payload: Any) -> Any:
    """A tree of a hostile shape whose lists are right: all splits in a row, perhaps over as many columns."""
    if not isinstance(payload, dict) or not isinstance(payload.get("trees"), list) or not payload["trees"]:
        return payload
    n_splits = int(case.choose([0, 1, 50, 500]))
    n_nodes, n_columns = 2 * n_splits + 1, int(case.choose([1, 5, 5000]))
    inner = np.zeros(n_nodes, bool)
    inner[: 2 * n_splits : 2] = True  # of two children 2i + 1 and 2i + 2 the right one goes on splitting
    if case.rng.random() < 0.5 and n_splits:
        inner[2:-1] = inner[3:]  # or the left one
    feature = np.where(inner, np.arange(n_nodes) % n_columns, -1)
    left = np.zeros(n_nodes, int)
    left[inner] = 1 + 2 * np.arange(inner.sum())
    values = case.choose([0.5, 1e308, "NaN", "Infinity"])
    tree = {
        "feature": feature.tolist(), "left_child": left.tolist(), "threshold": [0.25] * n_nodes,
        "default_left": [0] * n_nodes, "cat_set": [-1] * n_nodes, "cat_sets": [], "value": [values] * n_nodes,
        "gain": [1.0] * n_nodes, "count": [case.choose([0, 1, 2**63 - 1])] * n_nodes,
        "weight": [case.choose([0.0, 1.0, 1e308, "NaN", "-Infinity"])] * n_nodes,
    }  # fmt: skip
    return payload | {"trees": [tree] * len(payload["trees"]), "n_features": n_columns, "feature_names": None}


JSON_WAYS = [change_document, change_tree, change_tree, odd_tree]


def lightgbm_model(case: Case, text: Callable[[], bytes]) -> None:
    ways = [*OF_TEXT, leading_zeros, hostile_labels]
    use_lightgbm_model(case.write("model.txt", several(case, text(), ways)[:MAX_FILE]))


def leading_zeros(case: Case, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = case.choose([i for i, line in enumerate(lines) if b"=" in line] or [0])
    return b"\n".join(
        [*lines[:at], lines[at].replace(b"=", b"=" + b"0" * case.choose([1, 20, 6000]), 1), *lines[at + 1 :]]
    )


def hostile_labels(case: Case, data: bytes) -> bytes:
    line = json.dumps([[hostile_value(case) for _ in range(case.choose([0, 1, 7]))]] * case.choose([1, 2]))
    return data.split(b"pandas_categorical:")[0] + b"pandas_categorical:" + line.encode() + b"\n"


# Tables


@functools.cache
def good_model(name: str, folder: Path) -> Path:
    """Trained on the untouched file, to predict for those that are not."""
    suffix, data, task, columns = TABLES[name]
    path = folder / f"good-{name}{suffix}"
    path.write_bytes(data())
    rows = pvtree.read_file(path, **columns)
    model = folder / f"good-{name}.json"
    fit_rows(rows, task).model_.save(model)
    return model


TABLES: dict[str, tuple[str, Callable[[], bytes], str, dict[str, Any]]] = {
    "csv": (".csv", samples.csv, "classification", {"label": "y", "weight": "w"}),
    "libsvm": (".svm", samples.libsvm, "classification", {}),
    "letor": (".letor", samples.letor, "ranking", {}),
    "parquet": (".parquet", lambda: samples.as_parquet(samples.arrow_table()), "classification", {"label": "y"}),
}


def table(case: Case, name: str) -> None:
    suffix, data, task, columns = TABLES[name]
    ways = [*OF_BYTES, change_metadata] if name == "parquet" else OF_TEXT
    path = case.write(f"data{suffix}", several(case, data(), ways)[:MAX_FILE])
    use_table(path, task, good_model(name, case.folder.parent), **columns)


def change_metadata(case: Case, data: bytes) -> bytes:
    """The end of a Parquet file says where everything is."""
    n_bytes = int.from_bytes(data[-8:-4], "little") + 8
    return data[:-n_bytes] + flip(case, data[-n_bytes:]) if 8 < n_bytes < len(data) else flip(case, data)


def parquet_types(case: Case) -> None:
    """Whole files with columns of any type."""
    rows = samples.arrow_table()
    for _ in range(0 if case.is_untouched else int(case.rng.integers(1, 4))):
        column, kind = odd_column(case, rows.num_rows)
        case.note(kind)
        place = int(case.rng.integers(rows.num_columns))
        rows = rows.set_column(place, case.choose([rows.column_names[place], "y", "x"]), column)
    if case.happens(0.2):
        rows = rows.slice(0, case.choose([0, 1, 2]))
    task = "regression" if case.happens(0.5) else "classification"
    data = made(lambda: samples.as_parquet(rows), samples.as_parquet(samples.arrow_table()))
    use_table(case.write("data.parquet", data), task, label="y")


# Options and checkpoints

LONG = re.compile(rb"^(n-estimators|workers)\s*=\s*\+?\d{2,}", re.MULTILINE)  # takes long, and rightly so


def config(case: Case) -> None:
    case.write("data.csv", samples.csv())
    text = several(
        case, samples.CONFIG.encode(), [change_value, change_value, change_number, change_lines, case.choose(OF_TEXT)]
    )
    text = LONG.sub(rb"\1 = 9", text)
    path = case.write("config.toml", text)
    command("train", "--config", str(path))
    command("predict", "--config", str(path), "--data", "data.csv", "--output", "predicted.csv")


def change_value(case: Case, data: bytes) -> bytes:
    """TOML of another type, or a key of an option that the file does not have."""
    lines = data.split(b"\n")
    keys = [line.partition(b" = ")[0] for line in lines if b" = " in line] or [b"label"]
    keys += [
        b"categorical-feature",
        b"subsample",
        b"objective",
        b"early-stopping-rounds",
        b"valid",
        b"checkpoint",
        b"qid",
    ]
    values = [b"[]", b"[[]]", b"{}", b"{a = {b = 1}}", b"true", b"1979-05-27", b"nan", b"''", b"[1, 'a']", b"-1", b"0",
              b"'data.csv'", b"'a,b'", b'"\\u0000"', b"07:32:00", b"1e400"]  # fmt: skip
    key = case.choose(keys)
    lines = [line for line in lines if not line.startswith(key + b" ")]
    lines.insert(min(2, len(lines)), key + b" = " + case.choose(values))
    return b"\n".join(lines)


def checkpoint(case: Case) -> None:
    folder = case.folder / "kept"
    good, whole = good_checkpoint(case.folder.parent)
    folder.mkdir()
    path = folder / "checkpoint.json"
    path.write_bytes(good)
    if not case.is_untouched:
        path.write_bytes(several(case, good, OF_BYTES) if case.happens(0.2) else changed_checkpoint(case, good))
    found = train_on(folder).model_
    if case.is_untouched and found.to_json() != whole:
        raise Broken("a resumed training ends with another model")


def train_on(folder: Path) -> Any:
    X, y = samples.matrix(), samples.score()
    made = pvtree.GBDTRegressor(**samples.FEW | {"n_estimators": 4})
    return made.fit(X, y, eval_set=[(X[:50], y[:50])], checkpoint=folder, checkpoint_freq=3)


@functools.cache
def good_checkpoint(folder: Path) -> tuple[bytes, str]:
    """(the file after three iterations, the model of an uninterrupted training)"""
    whole = train_on(folder / "good-checkpoint").model_.to_json()
    return (folder / "good-checkpoint" / "checkpoint.json").read_bytes(), whole


def changed_checkpoint(case: Case, good: bytes) -> bytes:
    """With right checksums of the whole and of the model, so that what they protect is looked at."""
    document = json.loads(good)
    document.pop("sha256")
    document["model"] = document["model"]["payload"]
    document = several(case, document, [change_document])
    if not isinstance(document, dict) or not {"training", "model", "n_iterations"} <= document.keys():
        return json.dumps(document).encode()
    training = json.dumps(document["training"], separators=(",", ":"))
    body = b'"training":' + training.encode() + b',\n"model":' + signed(document["model"]).strip() + b"}\n"
    head = f'{{"format":"pvtree-checkpoint","version":1,"n_iterations":{json.dumps(document["n_iterations"])},'
    return f'{head}"sha256":"{hashlib.sha256(body).hexdigest()}",\n'.encode() + body


KINDS: dict[str, Callable[[Case], None]] = {
    **{f"json-{name}": functools.partial(json_model, name=name) for name in samples.MODELS},
    **{
        f"exported-{name}": functools.partial(lightgbm_model, text=functools.partial(samples.our_lightgbm, name))
        for name in ("binary", "multiclass", "class-forest", "categories", "linear")
    },
    **{
        f"lightgbm-{name}": functools.partial(lightgbm_model, text=functools.partial(samples.their_lightgbm, name))
        for name in samples.THEIRS
    },
    **{name: functools.partial(table, name=name) for name in TABLES},
    "parquet-types": parquet_types,
    "config": config,
    "checkpoint": checkpoint,
}
