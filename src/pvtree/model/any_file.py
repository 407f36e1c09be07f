"""Model files whose format the content tells: pvtree's own, LightGBM's text, XGBoost's JSON and UBJSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pvtree.model.model import Model
from pvtree.parameters.paths import checked_path

if TYPE_CHECKING:
    from pvtree.model.import_xgboost import ReadModel

_LIGHTGBM_BEGINS = b"tree"  # the first line of LightGBM's text models
_HEAD_BYTES = 64


def read_any(path: str | os.PathLike[str]) -> Model:
    """The model in a file of any of these formats, or a ModelFileError."""
    try:
        with open(checked_path(path), "rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        head = b""  # Model.load reports what is wrong
    if head.startswith(_LIGHTGBM_BEGINS):
        return Model.from_lightgbm(path)
    if _is_xgboost(head):
        return Model.from_xgboost(path)
    return Model.load(path)


def read_whole(path: str | os.PathLike[str]) -> ReadModel:
    """The model, and what a file of XGBoost's holds beside it."""
    from pvtree.model.import_xgboost import ReadModel, parse_whole

    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        data = b""
    if _is_xgboost(data[:_HEAD_BYTES]):
        return parse_whole(data, f"XGBoost's model file {os.fspath(path)!r}")
    return ReadModel(read_any(path), {}, None)


def save_as_named(
    model: Model, path: str | os.PathLike[str], attributes: Mapping[str, str] | None = None, objective: Any = None
) -> None:
    """Write XGBoost's format if the name ends with .json or .ubj, as XGBoost's users expect, else pvtree's.

    A model that XGBoost's format cannot hold, with categories or classes other than 0, 1, ..., is written in pvtree's,
    without the ``attributes``, which are texts. ``objective`` is the one that was trained, by XGBoost's name.
    """
    has_numbers = model.classes is None or list(model.classes) == list(range(len(model.classes)))
    is_plain = has_numbers and not model.categories and model.ensemble == "gbdt"
    if is_plain and os.fspath(path).endswith((".json", ".ubj")):
        from pvtree.model import export_xgboost

        export_xgboost.write(model, path, attributes, objective)
    else:
        model.save(path)


def parse_any(text: str) -> Model:
    """The model in the text of such a file."""
    from pvtree.model import import_lightgbm

    if text.startswith(_LIGHTGBM_BEGINS.decode()):
        return import_lightgbm.parse_text(text, "this text")
    if _is_xgboost(text[:_HEAD_BYTES].encode(errors="replace")):
        from pvtree.model import import_xgboost

        return import_xgboost.parse(text.encode(errors="replace"), "this text")
    return Model.from_json(text)


def _is_xgboost(head: bytes) -> bool:
    """Its JSON is an object whose first key is learner or version; a UBJSON object's first key has a length."""
    return head[:1] == b"{" and (b'"learner"' in head or head[1:2] in (b"L", b"l", b"I", b"i", b"U"))
