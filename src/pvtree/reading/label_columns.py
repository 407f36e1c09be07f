"""Several columns of classes side by side, as a model has them: one column's classes after another's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np


def split_classes(classes: Any, sizes: Sequence[int]) -> list[np.ndarray]:
    """The classes of each column, which has so many of them."""
    return [np.asarray(classes[first:stop]) for first, stop in pairwise(np.cumsum([0, *sizes]).tolist())]


def columns_of(raw: np.ndarray, classes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The probabilities of each column's classes."""
    return np.split(raw, np.cumsum([len(its) for its in classes])[:-1], axis=1)


def classes_of_columns(raw: np.ndarray, classes: Sequence[np.ndarray]) -> np.ndarray:
    """The most probable class of each row and column, (n_rows, n_columns)."""
    chosen = [its[p.argmax(axis=1)] for its, p in zip(classes, columns_of(raw, classes), strict=True)]
    if len({each.dtype.kind for each in chosen}) > 1:
        chosen = [each.astype(object) for each in chosen]
    return np.stack(chosen, axis=1)
