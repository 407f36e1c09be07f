"""What X's columns are, and tables whose rows are not all in one piece of memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pvtree.sources import Source

Scalar = str | bool | int | float


def is_sparse(X: Any) -> bool:
    """scipy's sparse matrices and arrays, without importing it: a user who passes one has it."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


@dataclass(frozen=True)
class Columns:
    """What fit learnt of X's columns: enough to read another X in the same way."""

    n_features: int
    names: tuple[str, ...] | None = None
    # Bin b of categorical column j holds categories[j][b - 1]; bin 0 holds missing, unseen and rare values.
    categories: Mapping[int, tuple[Scalar, ...]] = field(default_factory=dict)
    # Those of them whose bins are compared like numbers, because categorical_feature does not name them.
    ordered: frozenset[int] = frozenset()


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
    def encode(self, columns: Columns) -> Source:
        """The rows as numbers."""

    def for_prediction(self, columns: Columns) -> Any:
        """The rows as the model's methods take them."""
        return self.encode(columns).matrix()

    @abstractmethod
    def take(self, keep: np.ndarray) -> Table:
        """The rows that a mask keeps."""
