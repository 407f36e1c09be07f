"""Kinds of cases that change binary files: pvtree's and XGBoost's models, and files of Dataset.save_binary."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from typing import Any

import samples
from case import Case
from file_attacks import MAX_FILE
from mutations import OF_BYTES, OF_TEXT, REAL, WHOLE, change_document, flip, several
from odd_tables import made
from uses import use_dataset, use_json_model, use_xgboost_model

from pvtree.model import binary_file, ubjson

DATASETS = ["array", "frame", "sparse"]
MODELS = ["multiclass", "forest", "categories", "linear"]
START = 64  # bytes of a model's file before its head, and to whose multiples its parts are padded
HEAD = 25  # bytes of a Dataset's file before its header: a line and the header's length


def binary_model(case: Case, name: str) -> None:
    good = binary_file.dump(samples.estimator(name).model_)
    data = several(case, good, OF_BYTES) if case.happens(0.1) else changed_model(case, good)
    use_json_model(case.write("model.pvtree", data[:MAX_FILE]))


def changed_model(case: Case, good: bytes) -> bytes:
    """Another head or other arrays of a model, with the right checksum, so that what it protects is looked at."""
    start, rest = good[:START], good[START:]
    n_bytes = int.from_bytes(start[16:24], "little")
    head, arrays = rest[:n_bytes], rest[n_bytes + -n_bytes % START :]
    if case.happens(0.5):
        arrays = several(case, arrays, [flip, *OF_BYTES] if case.happens(0.3) else [flip])
    else:
        head = json.dumps(several(case, json.loads(head), [change_document])).encode()
    rest = head + bytes(-len(head) % START) + arrays
    checksum = hashlib.sha256(hashlib.sha256(rest).digest()).digest()  # of a file below 16 MB
    return start[:16] + len(head).to_bytes(8, "little") + checksum + start[56:] + rest


def xgboost_model(case: Case, name: str, form: str) -> None:
    good = samples.their_xgboost(name, form)
    if case.happens(0.25):
        data = several(case, good, OF_BYTES + OF_TEXT * (form == "json"))
    else:
        document = several(
            case, json.loads(samples.their_xgboost(name, "json")), [change_document, change_xgboost_tree]
        )
        data = good if case.is_untouched else made(lambda: encoded(document, form), good)
    use_xgboost_model(case.write(f"model.{form}", data[:MAX_FILE]))


def encoded(document: Any, form: str) -> bytes:
    return json.dumps(document).encode() if form == "json" else ubjson.encode(document)


def change_xgboost_tree(case: Case, document: Any) -> Any:
    """One number of a tree, or of a parameter, which XGBoost writes as text."""
    try:
        learner = document["learner"]
        if case.rng.random() < 0.2:
            inside = case.choose(
                [learner["learner_model_param"], learner["gradient_booster"]["model"]["gbtree_model_param"]]
            )
            inside[case.choose(inside)] = str(case.choose([*WHOLE, *REAL, "[5E-1]", "", "nan", "0" * 5000 + "1"]))
            return document
        tree = case.choose(learner["gradient_booster"]["model"]["trees"])
        values = case.choose([values for values in tree.values() if isinstance(values, list) and values])
        values[case.choose(range(len(values)))] = case.choose([*WHOLE, *REAL, 4, 5, float("nan"), float("inf")])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # an earlier change has broken it already
        return change_document(case, document)
    return document


def dataset(case: Case, name: str) -> None:
    good = samples.dataset_file(name)
    data = several(case, good, OF_BYTES) if case.happens(0.2) else changed_dataset(case, good)
    use_dataset(case.write("rows.bin", data[:MAX_FILE]))


def changed_dataset(case: Case, good: bytes) -> bytes:
    """Another header or other arrays, with the right checksum, so that what it protects is looked at."""
    n_bytes = int.from_bytes(good[HEAD - 8 : HEAD], "little")
    head, body = json.loads(good[HEAD : HEAD + n_bytes]), good[HEAD + n_bytes :]
    if case.happens(0.3):
        body = several(case, body, [flip, *OF_BYTES] if case.happens(0.3) else [flip])
    else:
        head = several(case, head, [change_document])
    if isinstance(head, dict) and "sha256" in head and not case.happens(0.05):
        head["sha256"] = hashlib.sha256(body).hexdigest()
    text = json.dumps(head).encode()
    return good[: HEAD - 8] + len(text).to_bytes(8, "little") + text + body


KINDS: dict[str, Callable[[Case], None]] = {
    **{
        f"xgboost-{form}-{name}": functools.partial(xgboost_model, name=name, form=form)
        for form, names in (("json", samples.XGBOOST), ("ubj", ["binary", "multiclass", "dart"]))
        for name in names
    },
    **{f"binary-model-{name}": functools.partial(binary_model, name=name) for name in MODELS},
    **{f"dataset-{name}": functools.partial(dataset, name=name) for name in DATASETS},
}
