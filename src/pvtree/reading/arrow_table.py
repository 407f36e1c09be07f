"""Arrow tables in memory, whoever made them (pyarrow, polars, DuckDB, ...), read a few columns at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidTypeError
from pvtree.reading.arrow_columns import (
    as_numbers,
    bins_of,
    check_kind,
    check_type,
    check_unique,
    count_categories,
    fits_float32,
    integers,
    is_category,
    is_text,
    is_wide_integer,
    load_pyarrow,
    pandas_marks,
)
from pvtree.reading.number_columns import rounded
from pvtree.reading.sources import ReadColumns, Source
from pvtree.reading.tables import Columns, Scalar, Table

if TYPE_CHECKING:
    import pyarrow as pa

PART_ROWS = 2**16  # of which 16 columns are there as numbers at a time: 8 MB a thread


class ArrowTable(Table):
    """A table whose columns stay where they are; each becomes numbers when it is binned."""

    columns: list[str]

    def __init__(self, X: Any) -> None:
        arrow = load_pyarrow("Tables of Arrow, polars and the like need")
        try:
            table: pa.Table = arrow.table(X)
        except (arrow.ArrowException, TypeError, ValueError) as error:
            raise InvalidTypeError(
                f"X cannot be read as an Arrow table ({str(error).rstrip('.')}); pass a table with named columns."
            ) from error
        _, index = pandas_marks(table.schema)
        self._hold(table.drop_columns([name for name in table.column_names if name in index]) if index else table)
        check_unique(self.columns, self.columns, "X")
        for field in table.schema:
            check_type(field.name, field.type, "X")

    def _hold(self, table: pa.Table) -> None:
        self.table = table
        self.columns = list(table.column_names)
        self.shape = (table.num_rows, table.num_columns)

    def __len__(self) -> int:
        return self.shape[0]

    def category_columns(self) -> list[int]:
        """Columns of text and of Arrow's dictionaries, and those that pandas has marked."""
        marked, _ = pandas_marks(self.table.schema)
        return [j for j, f in enumerate(self.table.schema) if is_category(f.type) or f.name in marked]

    def typed_columns(self) -> list[int]:
        return [j for j in self.category_columns() if not is_text(self.table.schema.field(j).type)]

    def count_values(self, j: int) -> dict[Scalar, int]:
        return dict(count_categories(self.table.column(j), self.columns[j]))

    def rounded_columns(self) -> list[int]:
        wide = [j for j, field in enumerate(self.table.schema) if is_wide_integer(field.type)]
        return [j for j in wide if rounded(integers(self.table.column(j))) is not None]

    def encode(self, columns: Columns) -> ArrowRows:
        for j, field in enumerate(self.table.schema):
            if self.table.column(j).null_count < len(self):  # a column without values has a type by chance
                check_kind(field.name, field.type, columns.categories.get(j), "X")
        return ArrowRows(self.table, columns.categories)

    def take(self, keep: np.ndarray) -> ArrowTable:
        kept = object.__new__(ArrowTable)
        kept._hold(self.table.filter(load_pyarrow().array(keep)))
        return kept


class ArrowSource(Source):
    """Rows whose columns are Arrow's: numbers are read as they are, categories as the bins that fit gave them."""

    def __init__(
        self, part_rows: Sequence[int], fields: Sequence[pa.Field], categories: Mapping[int, tuple[Scalar, ...]]
    ) -> None:
        numeric = [field.type for j, field in enumerate(fields) if j not in categories]
        # float32 where that loses nothing.
        dtype = np.dtype(np.float32 if all(map(fits_float32, numeric)) else np.float64)
        super().__init__(part_rows, len(fields), dtype)
        self.names = [field.name for field in fields]
        self.categories = categories
        self._bin_of = {j: {value: b for b, value in enumerate(cs, start=1)} for j, cs in categories.items()}

    def encode_column(self, column: pa.ChunkedArray, j: int) -> np.ndarray:
        return bins_of(column, self._bin_of[j], self.names[j]) if j in self._bin_of else as_numbers(column)

    def room(self, n_rows: int, n_columns: int) -> np.ndarray:
        """Column after column, as they come. Never a single one, which numba would take for another layout."""
        return np.empty((n_rows, max(2, n_columns)), self.dtype, order="F")

    def _whole(self, part: int) -> np.ndarray:
        return super()._whole(part)[:, : self.shape[1]]


class ArrowRows(ArrowSource):
    """The rows of an Arrow table in parts that are small as numbers, too."""

    def __init__(self, table: pa.Table, categories: Mapping[int, tuple[Scalar, ...]]) -> None:
        starts = range(0, max(1, table.num_rows), PART_ROWS)
        part_rows = [min(PART_ROWS, table.num_rows - start) for start in starts]
        super().__init__(part_rows, list(table.schema), categories)
        self.table = table

    @contextmanager
    def reading(self, part: int) -> Iterator[ReadColumns]:
        start, stop = self.bounds[part : part + 2].tolist()

        def read(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            matrix = self.room(stop - start, len(features))
            for c, j in enumerate(features.tolist()):
                matrix[:, c] = self.encode_column(self.table.column(j).slice(start, stop - start), j)
            return matrix, np.arange(len(features))

        yield read

    def __getitem__(self, rows: slice) -> ArrowRows:
        start, stop, _ = rows.indices(len(self))
        return ArrowRows(self.table.slice(start, max(0, stop - start)), self.categories)
