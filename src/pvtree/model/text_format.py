"""What all readers of model files share: reading, refusing, and the checks that kernels rely on.

Nothing read from a file is trusted unchecked, because kernels follow its indices without bounds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pvtree.errors import ModelFileError
from pvtree.model.atomic_file import write_at_once
from pvtree.parameters.loss_table import LOSSES
from pvtree.parameters.paths import checked_path

if TYPE_CHECKING:
    from pvtree.model.model import Model
    from pvtree.model.tree import Tree


class Refused(Exception):
    """The reason, as half a sentence, and the remedy if it is not the format's own."""


def refuse(reason: str, remedy: str | None = None) -> NoReturn:
    """Give up parsing; ``TextFormat`` makes a ModelFileError of it."""
    raise Refused(reason, remedy)


@dataclass(frozen=True)
class TextFormat:
    """A text format of models: how to parse it, and what errors say about a file that is not usable."""

    file: str  # what errors call a file, before its path
    verdict: str  # what errors say about an unusable one, before the reason
    remedy: str
    encoding: str
    parse: Callable[[str], Model]  # may call ``refuse``

    def read(self, path: str | os.PathLike[str]) -> Model:
        """The model in a file, or a ModelFileError that names the file."""
        name = f"{self.file} {os.fspath(path)!r}"
        try:
            with open(checked_path(path), "rb") as file:
                data = file.read()
        except OSError as error:
            raise ModelFileError(f"{name} cannot be read ({error.strerror}); check the path.") from error
        try:
            text = data.decode(self.encoding)
        except UnicodeDecodeError:
            raise self._error(name, "it is not text") from None
        return self.parse_text(text, name)

    def parse_text(self, text: str, name: str) -> Model:
        """The model in ``text``, or a ModelFileError that begins with ``name``, where the text came from."""
        try:
            return self.parse(text)
        except Refused as refusal:
            raise self._error(name, *refusal.args) from None

    def _error(self, name: str, reason: str, remedy: str | None = None) -> ModelFileError:
        return ModelFileError(f"{name} {self.verdict} ({reason}); {remedy or self.remedy}.")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; readers differ in which of two equal keys they believe, so a file could pass for another."""
    found = dict(pairs)
    if len(found) != len(pairs):
        refuse("a key is repeated")
    return found


def write_bytes(path: str | os.PathLike[str], data: bytes, what: str) -> None:
    """Replace the file at ``path`` in one step; ``what`` names it in an error."""
    try:
        write_at_once(os.fspath(path), data)
    except OSError as error:
        raise cannot_write(path, what, error) from error


def cannot_write(path: str | os.PathLike[str], what: str, error: OSError) -> ModelFileError:
    """The error to raise if a file, called ``what``, could not be written."""
    return ModelFileError(
        f"Cannot write {what} {os.fspath(path)!r} ({error.strerror}); use a folder "
        "that exists, is writable and has space."
    )


def check_outputs(objective: str, n_outputs: int) -> None:
    """Kernels expect one score per row of these objectives; only losses of values may have several targets."""
    kind = LOSSES.get(objective)
    if kind is not None and kind.target != "value" and kind.n_outputs == 1 and n_outputs != 1:
        refuse(f"the objective {objective} has one output, not {n_outputs}")


def check_linear(tree: Tree, n_features: int) -> None:
    """Only leaves of trees with one value have linear functions, of finite numbers and of features that exist."""
    linear = tree.linear
    if linear is None:
        return
    n_terms = linear.n_terms
    if tree.n_values != 1 or len(n_terms) != tree.n_nodes or len(linear.const) != tree.n_nodes:
        refuse("the linear functions do not match the leaves")
    if np.any(n_terms < 0) or np.any(n_terms[tree.feature >= 0] > 0):
        refuse("the linear functions do not match the leaves")
    if not len(linear.feature) == len(linear.coef) == n_terms.sum() > 0:
        refuse("the linear functions have a wrong length")
    if linear.feature.min() < 0 or linear.feature.max() >= n_features:
        refuse("a number in the linear features is out of range")
    if not (np.isfinite(linear.const).all() and np.isfinite(linear.coef).all()):
        refuse("a number of a linear function is not finite")


def check_shape(tree: Tree) -> None:
    """Every node but the root is the child of exactly one earlier node, so walks end and stay inside the arrays."""
    inner = np.flatnonzero(tree.feature >= 0)
    left = tree.left_child[inner].astype(np.int64)
    children = np.sort(np.concatenate([left, left + 1]))
    if not (np.all(left > inner) and np.array_equal(children, np.arange(1, tree.n_nodes))):
        refuse("a tree's children are not in order")
    if np.any(tree.left_child[tree.feature < 0] != 0):
        refuse("a leaf has children")
    if np.isnan(tree.threshold[inner]).any():
        refuse("a threshold is not a number")
