"""Models as files: canonical JSON with a version and a checksum, written in one step or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from pvtree.model.labels import Scalar
from pvtree.model.linear_leaves import LINEAR_DTYPES, LinearLeaves
from pvtree.model.model import Model
from pvtree.model.text_format import (
    TextFormat,
    check_linear,
    check_outputs,
    check_shape,
    refuse,
    unique_keys,
    write_bytes,
)
from pvtree.model.tree import TREE_DTYPES, Tree
from pvtree.reading.tables import MAX_UNNAMED, is_unicode

FORMAT = "pvtree-model"
VERSION = 1
_INT32_MAX = 2**31 - 1
_NON_FINITE = {"Infinity": np.inf, "-Infinity": -np.inf, "NaN": np.nan}  # JSON has no word for these


# Writing


def dump(model: Model) -> str:
    """The model's canonical text: sorted keys, no spaces, shortest exact decimals; equal models give equal bytes."""
    body = canonical(head_of(model) | {"trees": [_tree_payload(tree) for tree in model.trees]})
    head = {"format": FORMAT, "version": VERSION, "sha256": _checksum(body)}
    return f'{canonical(head)[:-1]},"payload":{body}}}\n'


def head_of(model: Model) -> dict[str, Any]:
    """All of a model but its trees, as JSON."""
    payload = {
        "objective": model.objective,
        "ensemble": model.ensemble,
        "n_features": model.n_features,
        "n_outputs": model.n_outputs,
        "init_score": _floats(model.init_score),
        "feature_names": None if model.feature_names is None else list(model.feature_names),
        "classes": None if model.classes is None else _labels(model.classes),
        "categories": [[feature, _labels(values)] for feature, values in model.categories.items()],
    }
    if model.n_parallel_trees != 1:  # left out otherwise, so that the text of other models never changes
        payload["n_parallel_trees"] = model.n_parallel_trees
    if model.zero_as_missing:
        payload["zero_as_missing"] = 1
    if model.target_sizes:
        payload["target_sizes"] = list(model.target_sizes)
    return payload


def write(model: Model, path: str | os.PathLike[str]) -> None:
    """Replace the file at ``path`` in one step: a crash leaves the old file or the new one."""
    write_bytes(path, dump(model).encode("ascii"), "model file")


def canonical(value: Any) -> str:
    """JSON with sorted keys and without spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode("ascii")).hexdigest()


def _floats(array: np.ndarray) -> list[float | str]:
    values: list[float | str] = array.ravel().tolist()
    if np.isfinite(array).all():
        return values
    names = {np.inf: "Infinity", -np.inf: "-Infinity"}
    return [v if np.isfinite(v) else names.get(v, "NaN") for v in array.ravel().tolist()]


def _labels(values: tuple[Scalar, ...]) -> list[Any]:
    """Labels as JSON. Floats that JSON cannot hold are wrapped in an object, because a string label may be "NaN"."""
    return [
        {"float": _floats(np.array(value))[0]} if type(value) is float and not np.isfinite(value) else value
        for value in values
    ]


def _tree_payload(tree: Tree) -> dict[str, Any]:
    payload: dict[str, Any] = {}
    for name, dtype in TREE_DTYPES.items():
        array = getattr(tree, name)
        payload[name] = _floats(array) if dtype is np.float64 else array.ravel().tolist()
    # 64 hex digits per set, highest bin first: other JSON readers lose digits of integers above 2^53.
    if tree.linear is not None:
        payload["linear"] = {
            "const": _floats(tree.linear.const),
            "n_terms": tree.linear.n_terms.tolist(),
            "feature": tree.linear.feature.tolist(),
            "coef": _floats(tree.linear.coef),
        }
    payload["cat_sets"] = ["".join(f"{int(word):016x}" for word in row[::-1]) for row in tree.cat_sets]
    return payload


# Reading


def read(path: str | os.PathLike[str]) -> Model:
    """The model in a file, or a ModelFileError."""
    return _FORMAT.read(path)


def parse_text(text: str, name: str) -> Model:
    """The model in ``text``, or a ModelFileError that says where the text came from."""
    return _FORMAT.parse_text(text, name)


def _parse(text: str) -> Model:
    payload = _payload(text)
    items = payload.pop("trees", None)
    check_fields({"trees": items} if items is not None else {}, {"trees": list})
    return model_of(payload, lambda n_features, n_outputs: [_tree(item, n_features, n_outputs) for item in items])


_FORMAT = TextFormat(
    file="Model file",
    verdict="is not a usable pvtree model",
    remedy="give a file written by Model.save, or save the model again",
    encoding="ascii",
    parse=_parse,
)


def _payload(text: str) -> dict[str, Any]:
    """The part of the document that the checksum covers."""
    if not isinstance(text, str):
        refuse("it is not text")
    document = parse_json(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        refuse("the format mark is missing")
    version = document.get("version")
    if type(version) is not int or version < 1:
        refuse("the version is not a number")
    if version > VERSION:
        refuse(f"its version {version} is newer than {VERSION}, the newest that this pvtree reads", "upgrade pvtree")
    check_fields(document, {"format": str, "version": int, "sha256": str, "payload": dict})
    payload: dict[str, Any] = document["payload"]
    try:
        body = canonical(payload)
    except (ValueError, RecursionError):  # 1e999 reads as infinity
        refuse("a number is out of range")
    if _checksum(body) != document["sha256"]:
        refuse("the checksum does not match: the file was altered")
    return payload


def parse_json(text: str) -> Any:
    """What a text holds; numbers that are not JSON, and keys that come twice, are refused."""
    try:
        return json.loads(text, parse_constant=_constant, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError):
        refuse("it is not JSON: truncated or altered")


def _constant(name: str) -> NoReturn:
    refuse(f"{name} is not JSON")


# Checking: a hostile author can compute a checksum too.


def model_of(payload: dict[str, Any], make_trees: Callable[[int, int], Sequence[Tree]]) -> Model:
    """The model of what ``head_of`` made and of the trees for these numbers of features and outputs."""
    kinds: dict[str, Any] = {
        "objective": str, "ensemble": str, "n_features": int, "n_outputs": int, "init_score": list,
        "feature_names": (list, type(None)), "classes": (list, type(None)), "categories": list,
    }  # fmt: skip
    optional = {"n_parallel_trees": int, "zero_as_missing": int, "target_sizes": list}
    kinds |= {name: kind for name, kind in optional.items() if name in payload}
    check_fields(payload, kinds)
    if payload["ensemble"] not in ("gbdt", "forest"):
        refuse("the kind of ensemble is unknown")
    n_features, n_outputs = payload["n_features"], payload["n_outputs"]
    if not (1 <= n_features <= _INT32_MAX and 1 <= n_outputs <= _INT32_MAX):
        refuse("the number of features or outputs is out of range")
    names = payload["feature_names"]
    if names is None and n_features > MAX_UNNAMED:
        refuse(f"it has {n_features} features without names, more than {MAX_UNNAMED}")
    if names is not None and (len(names) != n_features or any(type(name) is not str for name in names)):
        refuse("the feature names do not match the features")
    if names is not None and not all(map(is_unicode, names)):
        refuse("a feature name has a lone surrogate, which is not a character")
    check_outputs(payload["objective"], n_outputs)
    classes = None if payload["classes"] is None else _read_labels(payload["classes"])
    if classes is not None and len(classes) != max(2, n_outputs):
        refuse("the classes do not match the outputs")
    trees = tuple(make_trees(n_features, n_outputs))
    if len({tree.n_values for tree in trees}) > 1:
        refuse("the trees differ in the number of values")
    n_parallel = payload.get("n_parallel_trees", 1)
    if "n_parallel_trees" in payload and not (payload["ensemble"] == "gbdt" and 2 <= n_parallel <= _INT32_MAX):
        refuse("the number of parallel trees is out of range")
    if payload.get("zero_as_missing", 1) != 1:
        refuse("zero_as_missing is out of range")
    model = Model(
        trees=trees,
        objective=payload["objective"],
        ensemble=payload["ensemble"],
        n_features=n_features,
        n_outputs=n_outputs,
        init_score=_float_array(payload["init_score"], n_outputs, "init_score"),
        feature_names=names,
        classes=classes,
        categories=_categories(payload["categories"], n_features),
        n_parallel_trees=n_parallel,
        zero_as_missing="zero_as_missing" in payload,
        target_sizes=_target_sizes(payload, n_outputs),
    )
    if len(trees) % model.trees_per_iteration:
        refuse("the number of trees is not a multiple of the outputs")
    return model


def _target_sizes(payload: dict[str, Any], n_outputs: int) -> tuple[int, ...]:
    sizes = payload.get("target_sizes", [])
    if "target_sizes" not in payload:
        return ()
    is_forest = payload["ensemble"] == "forest" and payload["classes"] is not None
    if not is_forest or len(sizes) < 2 or set(map(type, sizes)) != {int} or min(sizes) < 1 or sum(sizes) != n_outputs:
        refuse("the classes of the columns do not match the outputs")
    return tuple(sizes)


def _tree(payload: Any, n_features: int, n_outputs: int) -> Tree:
    is_linear = isinstance(payload, dict) and "linear" in payload
    check_fields(payload, dict.fromkeys(TREE_DTYPES, list) | ({"linear": dict} if is_linear else {}))
    n_nodes, n_sets = len(payload["feature"]), len(payload["cat_sets"])
    limits = {
        "feature": (-1, n_features - 1),
        "left_child": (0, n_nodes - 1),
        "default_left": (0, 1),
        "cat_set": (-1, n_sets - 1),
        "count": (0, 2**63 - 1),
    }
    arrays: dict[str, np.ndarray] = {"cat_sets": _cat_sets(payload["cat_sets"])}
    for name, (low, high) in limits.items():
        arrays[name] = _int_array(payload[name], n_nodes, low, high, name)
    for name in ("threshold", "gain", "weight"):
        arrays[name] = _float_array(payload[name], n_nodes, name)
    n_values = 1 if len(payload["value"]) == n_nodes else n_outputs
    arrays["value"] = _float_array(payload["value"], n_nodes * n_values, "value").reshape(n_nodes, n_values)
    tree = Tree(**arrays, linear=_linear(payload["linear"], n_nodes, n_features) if is_linear else None)
    check_shape(tree)
    check_linear(tree, n_features)
    return tree


def _linear(payload: Any, n_nodes: int, n_features: int) -> LinearLeaves:
    check_fields(payload, dict.fromkeys(LINEAR_DTYPES, list))
    n_terms = _int_array(payload["n_terms"], n_nodes, 0, n_features, "n_terms")
    n = int(n_terms.sum())
    return LinearLeaves(
        const=_float_array(payload["const"], n_nodes, "const"),
        n_terms=n_terms,
        feature=_int_array(payload["feature"], n, 0, n_features - 1, "the linear features"),
        coef=_float_array(payload["coef"], n, "coef"),
    )


def check_fields(value: Any, kinds: dict[str, Any]) -> dict[str, Any]:
    """Refuse what is not an object with exactly these fields of these types."""
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        refuse("fields are missing or unknown")
    for key, kind in kinds.items():
        if not isinstance(value[key], kind) or isinstance(value[key], bool):
            refuse(f"the field {key} has the wrong type")
    return value


def _int_array(values: list[Any], n: int, low: int, high: int, name: str) -> np.ndarray:
    if len(values) != n or n == 0 or set(map(type, values)) != {int}:
        refuse(f"the list {name} has a wrong length or type")
    if min(values) < low or max(values) > high:
        refuse(f"a number in {name} is out of range")
    return np.array(values, np.int64)


def _float_array(values: list[Any], n: int, name: str) -> np.ndarray:
    if len(values) != n or not set(map(type, values)) <= {float, str}:
        refuse(f"the list {name} has a wrong length or type")
    try:
        return np.array([v if type(v) is float else _NON_FINITE[v] for v in values], np.float64)
    except KeyError:
        refuse(f"a value in {name} is not a number")


def _cat_sets(values: list[Any]) -> np.ndarray:
    digits = set("0123456789abcdef")
    if any(type(text) is not str or len(text) != 64 or not set(text) <= digits for text in values):
        refuse("a set of categories is malformed")
    words = [[int(text[48 - 16 * i : 64 - 16 * i], 16) for i in range(4)] for text in values]
    return np.array(words, np.uint64).reshape(-1, 4)


def _read_labels(values: list[Any]) -> tuple[Scalar, ...]:
    labels = []
    for value in values:
        if type(value) is dict and value.keys() == {"float"} and value["float"] in list(_NON_FINITE):
            labels.append(float(_NON_FINITE[value["float"]]))
        elif type(value) in (str, int, float, bool):
            labels.append(value)
        else:
            refuse("a class label or category has the wrong type")
        if not is_unicode(labels[-1]):
            refuse("a class label or category has a lone surrogate, which is not a character")
    return tuple(labels)


def _categories(values: list[Any], n_features: int) -> dict[int, tuple[Scalar, ...]]:
    categories: dict[int, tuple[Scalar, ...]] = {}
    for item in values:
        if type(item) is not list or len(item) != 2 or type(item[0]) is not int or type(item[1]) is not list:
            refuse("the categories are malformed")
        feature = item[0]
        if not 0 <= feature < n_features or feature in categories:
            refuse("the categories name a feature that does not exist, or name one twice")
        categories[feature] = _read_labels(item[1])
    return categories
