"""Class labels and categories as a model keeps them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pvtree.errors import InvalidTypeError

Scalar = str | int | float | bool  # the types of class labels and categories


def plain_labels(values: Any) -> tuple[Scalar, ...]:
    """Labels without numpy's types; others than these four are refused."""
    plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    for value in plain:
        if type(value) not in (str, int, float, bool):
            raise InvalidTypeError(
                f"A class label or category of type {type(value).__name__} cannot be kept in a model; "
                "convert the labels to str, int, float or bool."
            )
    return plain
