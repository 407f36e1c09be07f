"""Which columns are categories: those of a type that says so, or those that categorical_feature names.
Categories that it does not name are compared by their places, as LightGBM does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from pvtree.reading.tables import Scalar, Table


def choose(
    table: Any, categorical_feature: Any, listed: Collection[int], by_type: Collection[int]
) -> tuple[list[int], list[int]]:
    """The columns that are categories, and those of categories that are not wanted as such.

    ``by_type`` are all columns of categories or text. "auto" takes them for categories, except pandas' ordered ones,
    which are compared by their places, as in LightGBM. Text has no other meaning, so it need not be named; a type of
    categories, such as pandas' ``category``, is only one way to hold a column.
    """
    if isinstance(categorical_feature, str):
        ordered = set(_ordered_columns(table))
        return sorted(set(by_type) - ordered), sorted(ordered)
    typed = set(typed_columns(table))
    return sorted({*listed, *by_type} - (typed - set(listed))), sorted(typed - set(listed))


def typed_columns(table: Any) -> list[int]:
    """Columns whose type is one of categories, as text is not."""
    if isinstance(table, Table):
        return table.typed_columns()
    dtypes = getattr(table, "dtypes", ())  # of a DataFrame
    return [j for j, dtype in enumerate(dtypes) if getattr(dtype, "name", "") == "category"]


def _ordered_columns(table: Any) -> list[int]:
    """Columns of a DataFrame whose categories have an order."""
    return [j for j in ([] if isinstance(table, Table) else typed_columns(table)) if table.dtypes.iloc[j].ordered]


def category_order(table: Any, j: int) -> list[Any] | None:
    """All categories of the column in the order that its type gives them; None where there is none."""
    if isinstance(table, Table):
        return table.category_order(j)
    column: Any = table.iloc[:, j] if hasattr(table, "iloc") else table
    order = column.cat.categories.tolist() if hasattr(column, "cat") else None
    # Categories of other kinds than these cannot be in a model, so no row has them.
    return order if order and all(type(value) in (str, bool, int, float) for value in order) else None


def in_order(orders: Sequence[list[Any] | None], found: Iterable[Scalar]) -> tuple[Scalar, ...] | None:
    """The values that there are, in the order that all workers' columns have, else sorted; None if all are numbers,
    which are compared as they are."""
    values = set(found)
    if not any(isinstance(value, str) for value in values):
        return None
    order = orders[0] if all(each == orders[0] for each in orders) else None
    if order is None:
        return tuple(sorted(values, key=lambda value: (isinstance(value, str), value)))
    return tuple(value for value in order if value in values)
