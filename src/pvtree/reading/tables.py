"""What X's columns are, and tables whose rows are not all in one piece of memory."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidDataError

if TYPE_CHECKING:
    from pvtree.reading.sources import Source

Scalar = str | bool | int | float
_NOT_IN_LIGHTGBM_NAMES = re.compile(r'[\s",:\[\]{}=\\\x00-\x1f]')  # blanks end a name, the others break JSON dumps
MAX_UNNAMED = 2**22  # columns without names: a model file holds nothing of these, so it could claim any number


def is_sparse(X: Any) -> bool:
    """scipy's sparse matrices and arrays, without importing it: a user who passes one has it."""
    return hasattr(X, "tocsr") and hasattr(type(X), "nnz")  # whose value broken matrices do not have


def as_dense(values: Any) -> np.ndarray:
    """One matrix of what may be sparse, and then one matrix for each output."""
    if isinstance(values, list):
        return np.hstack([as_dense(each) for each in values])
    return values.toarray() if is_sparse(values) else np.asarray(values)


def is_unicode(label: Scalar) -> bool:
    """False for text with a lone surrogate, half of a character, which no file and no terminal takes."""
    return not isinstance(label, str) or label.isascii() or not any("\ud800" <= char <= "\udfff" for char in label)


def lightgbm_name(name: str) -> str:
    """The name as LightGBM's model files can hold it."""
    return _NOT_IN_LIGHTGBM_NAMES.sub("_", name)


@dataclass(frozen=True)
class Columns:
    """What fit learnt of X's columns: enough to read another X in the same way."""

    n_features: int
    names: tuple[str, ...] | None = None
    # Bin b of categorical column j holds categories[j][b - 1]; bin 0 holds missing, unseen and rare values.
    categories: Mapping[int, tuple[Scalar, ...]] = field(default_factory=dict)
    # Those of them whose bins are compared like numbers, because categorical_feature does not name them.
    ordered: frozenset[int] = frozenset()
    of_named_rows: bool = field(default=False, compare=False)  # whether the names came with X, as a DataFrame's do


def check_can_be_kept(columns: Columns) -> None:
    """Refuse before training what no model file can hold."""
    if columns.names is None and columns.n_features > MAX_UNNAMED:
        raise InvalidDataError(
            f"X has {columns.n_features} columns without names, but a model holds at most {MAX_UNNAMED}; "
            "pass feature_name, or leave columns out."
        )
    for j, name in enumerate(columns.names or ()):
        if not is_unicode(name):
            raise InvalidDataError(
                f"The name {name!r} of column {j} of X has a lone surrogate, which no file can hold; rename the column."
            )
    for j, labels in columns.categories.items():
        for label in labels:
            if not is_unicode(label):
                raise InvalidDataError(
                    f"The category {label!r} in column {j} of X has a lone surrogate, which no file can hold; "
                    "rename the category."
                )


class Table(ABC):
    """Rows that are read like a DataFrame's, column by column or block by block, wherever they lie."""

    shape: tuple[int, int]
    columns: Sequence[str] | None  # names, if the columns have any

    @abstractmethod
    def category_columns(self) -> list[int]:
        """Columns whose type says that they hold categories."""

    def typed_columns(self) -> list[int]:
        """Those of them that are no plain text."""
        return []

    def category_order(self, j: int) -> list[Any] | None:
        """The categories of column j in the order of its type; None where there is none."""
        return None

    @abstractmethod
    def count_values(self, j: int) -> dict[Scalar, int]:
        """How often each value of column j occurs, without missing ones."""

    @abstractmethod
    def rounded_columns(self) -> list[int]:
        """Columns of integers that float64 does not hold."""

    @abstractmethod
    def encode(self, columns: Columns) -> Source:
        """The rows as numbers."""

    def for_prediction(self, columns: Columns) -> Any:
        """The rows as the model's methods take them."""
        return self.encode(columns).matrix()

    @abstractmethod
    def take(self, keep: np.ndarray) -> Table:
        """The rows that a mask keeps."""
