"""Large models as files: the trees' arrays one after another, as they are in memory, behind a short head in JSON.

docs/model-files.md describes the format.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np

from pvtree.errors import ModelFileError
from pvtree.model.atomic_file import replacing
from pvtree.model.json_file import canonical, check_fields, head_of, model_of, parse_json
from pvtree.model.linear_leaves import LINEAR_DTYPES, LinearLeaves
from pvtree.model.model import Model
from pvtree.model.text_format import Refused, cannot_write, check_linear, check_shape, refuse
from pvtree.model.tree import TREE_DTYPES, Tree
from pvtree.reading.tables import MAX_UNNAMED, is_unicode

SUFFIX = ".pvtree"
MAGIC = b"\x89pvtree\n"  # the first byte is in no text
VERSION = 1
_START = struct.Struct("<8sQQ32s8x")  # magic, version, bytes of the head, checksum of all that follows: 64 bytes
_ALIGNMENT = 64
_CHUNK = 2**24  # bytes that one thread hashes at a time
_MOST = 2**40  # nodes: their arrays' sizes are far from overflowing
# Kernels follow these without bounds. They are copied, so that nobody can change them after they were checked.
_INDICES = ("feature", "left_child", "default_left", "cat_set", "cat_sets")


# Writing


def write(model: Model, path: str | os.PathLike[str]) -> None:
    """Replace the file at ``path`` in one step: a crash leaves the old file or the new one."""
    try:
        with replacing(path) as file:
            file.writelines(_pieces(model))
    except OSError as error:
        raise cannot_write(path, "model file", error) from error


def is_readable(model: Model) -> bool:
    """Whether files of the model could be read: they are not trusted with some names that pickles are."""
    names = model.feature_names or ()
    labels = (*(model.classes or ()), *(label for labels in model.categories.values() for label in labels))
    return all(map(is_unicode, (*names, *labels))) and (len(names) > 0 or model.n_features <= MAX_UNNAMED)


def dump(model: Model) -> bytes:
    """The bytes of the file."""
    return b"".join(bytes(piece) for piece in _pieces(model))


def _pieces(model: Model) -> list[Any]:
    n_sets = [len(tree.cat_sets) for tree in model.trees]
    trees = {
        "n_nodes": [tree.n_nodes for tree in model.trees],
        "n_sets": n_sets,
        "n_values": model.trees[0].n_values if model.trees else 1,
    }
    linear = [tree.linear for tree in model.trees]
    if any(each is not None for each in linear):
        trees["n_terms"] = [-1 if each is None else len(each.coef) for each in linear]  # -1: no linear leaves
    head = canonical({"model": head_of(model), "trees": trees}).encode("ascii")
    pieces: list[Any] = [head, bytes(-len(head) % _ALIGNMENT)]
    for name, dtype in _stored(sum(n_sets)).items():
        arrays = [getattr(tree, name).astype(np.dtype(dtype).newbyteorder("<"), copy=False) for tree in model.trees]
        pieces += [memoryview(array.reshape(-1)).cast("B") for array in arrays if array.size]
        pieces.append(bytes(-sum(array.nbytes for array in arrays) % _ALIGNMENT))
    for name, dtype in LINEAR_DTYPES.items() if "n_terms" in trees else ():
        arrays = [getattr(each, name).astype(np.dtype(dtype).newbyteorder("<")) for each in linear if each is not None]
        pieces += [memoryview(array).cast("B") for array in arrays if array.size]
        pieces.append(bytes(-sum(array.nbytes for array in arrays) % _ALIGNMENT))
    return [_START.pack(MAGIC, VERSION, len(head), _checksum(pieces)), *pieces]


def _stored(n_sets: int) -> dict[str, type]:
    """The arrays of a file; without sets of categories no node has the number of one."""
    return {name: dtype for name, dtype in TREE_DTYPES.items() if n_sets > 0 or name not in ("cat_set", "cat_sets")}


def _checksum(pieces: Sequence[Any]) -> bytes:
    """SHA-256 of the SHA-256 of every 16 MB, which several threads compute at once."""
    chunks = _chunks(pieces)
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return hashlib.sha256(b"".join(pool.map(_digest, chunks))).digest()


def _digest(parts: list[memoryview]) -> bytes:
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.digest()


def _chunks(pieces: Sequence[Any]) -> Iterator[list[memoryview]]:
    """The bytes of all pieces, ``_CHUNK`` at a time."""
    parts: list[memoryview] = []
    room = _CHUNK
    for piece in pieces:
        view = memoryview(piece)
        while len(view):
            parts.append(view[:room])
            view, room = view[room:], room - len(view[:room])
            if room == 0:
                yield parts
                parts, room = [], _CHUNK
    if parts:
        yield parts


# Reading


def is_binary(path: str | os.PathLike[str]) -> bool:
    """Whether the file begins like one of these; False if it cannot be read."""
    with suppress(OSError, ValueError), open(path, "rb") as file:  # ValueError: no path at all
        return file.read(len(MAGIC)) == MAGIC
    return False


def read(path: str | os.PathLike[str]) -> Model:
    """The model in a file, whose numbers are mapped into memory, or a ModelFileError."""
    name = f"Model file {os.fspath(path)!r}"
    try:
        with open(path, "rb") as file:
            data = _mapped(file)
    except OSError as error:
        raise ModelFileError(f"{name} cannot be read ({error.strerror}); check the path.") from error
    return parse(data, name)


def _mapped(file: BinaryIO) -> np.ndarray:
    try:
        return np.memmap(file, np.uint8, mode="r").view(np.ndarray)
    except (OSError, ValueError):  # a pipe, or an empty file
        return np.frombuffer(file.read(), np.uint8)


def parse(data: np.ndarray, name: str) -> Model:
    """The model in the bytes of a file, uint8; an error begins with ``name``, where they came from."""
    try:
        return _parse(data)
    except Refused as refusal:
        reason, remedy = refusal.args
        remedy = remedy or "give a file written by Model.save, or save the model again"
        raise ModelFileError(f"{name} is not a usable pvtree model ({reason}); {remedy}.") from None


def _parse(data: np.ndarray) -> Model:
    if len(data) < _START.size or data[: len(MAGIC)].tobytes() != MAGIC:
        refuse("the format mark is missing")
    _, version, n_head, checksum = _START.unpack(data[: _START.size].tobytes())
    if version > VERSION:
        refuse(f"its version {version} is newer than {VERSION}, the newest that this pvtree reads", "upgrade pvtree")
    if version < 1:
        refuse("the version is not a number")
    rest = data[_START.size :]
    if n_head > len(rest):
        refuse("it is truncated")
    if _checksum([rest.data]) != checksum:
        refuse("the checksum does not match: the file was altered")
    try:
        head = parse_json(rest[:n_head].tobytes().decode("ascii"))
    except UnicodeDecodeError:
        refuse("its head is not text")
    check_fields(head, {"model": dict, "trees": dict})
    arrays = rest[n_head + -n_head % _ALIGNMENT :]
    return model_of(head["model"], lambda n_features, n_outputs: _trees(head["trees"], arrays, n_features, n_outputs))


def _trees(head: dict[str, Any], data: np.ndarray, n_features: int, n_outputs: int) -> list[Tree]:
    kinds: dict[str, Any] = {"n_nodes": list, "n_sets": list, "n_values": int}
    check_fields(head, kinds | ({"n_terms": list} if "n_terms" in head else {}))
    n_nodes, n_sets, n_values = head["n_nodes"], head["n_sets"], head["n_values"]
    for sizes, least in ((n_nodes, 1), (n_sets, 0)):
        if len(sizes) != len(n_nodes) or not set(map(type, sizes)) <= {int}:
            refuse("the sizes of the trees have a wrong length or type")
        if sizes and not (min(sizes) >= least and sum(sizes) <= _MOST):
            refuse("the size of a tree is out of range")
    if n_values not in (1, n_outputs):
        refuse("the trees' values do not match the outputs")
    whole, rest = _arrays(data, sum(n_nodes), sum(n_sets), n_values)
    linear = _linear(head.get("n_terms"), n_nodes, rest)
    _check_ranges(whole, n_features)
    no_sets = np.full(0 if sum(n_sets) else max(n_nodes, default=0), -1, np.int32), np.empty((0, 4), np.uint64)
    node_ends, set_ends = np.cumsum([0, *n_nodes]).tolist(), np.cumsum([0, *n_sets]).tolist()
    trees = []
    for number in range(len(n_nodes)):
        nodes, sets = slice(*node_ends[number : number + 2]), slice(*set_ends[number : number + 2])
        own = {name: array[sets if name == "cat_sets" else nodes] for name, array in whole.items()}
        if not sum(n_sets):
            own |= {"cat_set": no_sets[0][: n_nodes[number]], "cat_sets": no_sets[1]}
        tree = Tree(**own, linear=linear[number])
        _check_tree(tree)
        check_linear(tree, n_features)
        trees.append(tree)
    return trees


def _linear(n_terms: list[Any] | None, n_nodes: list[int], data: np.ndarray) -> list[LinearLeaves | None]:
    """The linear leaves of each tree, from what follows the other arrays."""
    if n_terms is None:
        if len(data):
            refuse("it is longer than its trees")
        return [None] * len(n_nodes)
    if len(n_terms) != len(n_nodes) or set(map(type, n_terms)) != {int}:
        refuse("the sizes of the trees have a wrong length or type")
    if not (min(n_terms) >= -1 and sum(n_terms) <= _MOST):
        refuse("the size of a tree is out of range")
    terms = [max(n, 0) for n in n_terms]
    nodes = [n if of_terms >= 0 else 0 for n, of_terms in zip(n_nodes, n_terms, strict=True)]
    at = 0
    arrays: dict[str, list[np.ndarray]] = {}
    for name, dtype in LINEAR_DTYPES.items():
        stored, sizes = np.dtype(dtype).newbyteorder("<"), nodes if name in ("const", "n_terms") else terms
        n_bytes = stored.itemsize * sum(sizes)
        if at + n_bytes > len(data):
            refuse("it is truncated")
        array: np.ndarray = np.array(data[at : at + n_bytes].view(stored), dtype)  # copied: they are checked once
        arrays[name] = np.split(array, np.cumsum(sizes)[:-1])
        at += n_bytes + -n_bytes % _ALIGNMENT
    if at != len(data):
        refuse("it is longer than its trees")
    return [
        None if n < 0 else LinearLeaves(**{name: parts[tree] for name, parts in arrays.items()})
        for tree, n in enumerate(n_terms)
    ]


def _arrays(data: np.ndarray, n_nodes: int, n_sets: int, n_values: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The arrays of all trees together: indices in memory, numbers where the file is mapped; and what follows them."""
    arrays: dict[str, np.ndarray] = {}
    at = 0
    for name, dtype in _stored(n_sets).items():
        shape = {"cat_sets": (n_sets, 4), "value": (n_nodes, n_values)}.get(name, (n_nodes,))
        stored = np.dtype(dtype).newbyteorder("<")
        n_bytes = stored.itemsize * int(np.prod(shape, dtype=object))
        if at + n_bytes > len(data):
            refuse("it is truncated")
        array = data[at : at + n_bytes].view(stored).reshape(shape)
        arrays[name] = np.array(array, dtype) if name in _INDICES else array.astype(dtype, copy=False)
        at += n_bytes + -n_bytes % _ALIGNMENT
    if at > len(data):
        refuse("it is truncated")
    return arrays, data[at:]


# Checking: a hostile author can compute a checksum too.


def _check_ranges(arrays: dict[str, np.ndarray], n_features: int) -> None:
    limits = {"feature": (-1, n_features - 1), "default_left": (0, 1), "count": (0, 2**63 - 1)}
    for name, (low, high) in limits.items():
        array = arrays[name]
        if array.size and (array.min() < low or array.max() > high):
            refuse(f"a number in {name} is out of range")


def _check_tree(tree: Tree) -> None:
    """What ``check_shape`` demands, in one look where the tree is in level order, as all are that training makes."""
    if tree.left_child.min() < 0 or tree.left_child.max() >= tree.n_nodes:
        refuse("a number in left_child is out of range")
    if tree.cat_set.min() < -1 or tree.cat_set.max() >= len(tree.cat_sets):
        refuse("a number in cat_set is out of range")
    inner = np.flatnonzero(tree.feature >= 0)
    in_order = np.zeros(tree.n_nodes, np.int32)
    in_order[inner] = np.arange(1, 2 * len(inner), 2)
    is_usual = tree.n_nodes == 2 * len(inner) + 1 and np.array_equal(tree.left_child, in_order)
    if not is_usual or np.any(in_order[inner] <= inner) or np.isnan(tree.threshold).any():
        check_shape(tree)
