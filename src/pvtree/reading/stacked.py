"""Several DataFrames or arrays read as one table, without copying them into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from pvtree.reading import inputs
from pvtree.reading.category_choice import category_order, typed_columns
from pvtree.reading.sources import Matrices, Source
from pvtree.reading.tables import Columns, Scalar, Table


class Stacked(Table):
    """Several DataFrames or arrays one after the other, such as the partitions that a Dask worker holds."""

    def __init__(self, tables: Sequence[Any]) -> None:
        self.tables = [inputs.read_table(table, least_rows=0) for table in tables]
        self.shape = (sum(len(table) for table in self.tables), self.tables[0].shape[1])
        self.columns = list(getattr(self.tables[0], "columns", ())) or None

    def category_columns(self) -> list[int]:
        return sorted({j for table in self.tables for j in inputs.category_columns(table)})

    def typed_columns(self) -> list[int]:
        return sorted({j for table in self.tables for j in typed_columns(table)})

    def category_order(self, j: int) -> list[Any] | None:
        first, *others = (category_order(table, j) for table in self.tables)
        return first if all(each == first for each in others) else None

    def count_values(self, j: int) -> dict[Scalar, int]:
        counts: Counter[Scalar] = Counter()
        for table in self.tables:
            counts.update(inputs.count_values(table, j))
        return counts

    def rounded_columns(self) -> list[int]:
        return sorted({j for table in self.tables for j in inputs.rounded_columns(table)})

    def encode(self, columns: Columns) -> Source:
        return Matrices([inputs.encode(table, columns) for table in self.tables])

    def take(self, keep: np.ndarray) -> Table:
        ends = np.cumsum([len(table) for table in self.tables])[:-1]
        masks = np.split(keep, ends)
        return Stacked([inputs.take_rows(table, mask) for table, mask in zip(self.tables, masks, strict=True)])
