"""Categories that are numbers -> their bins."""

from __future__ import annotations

from typing import Any

import numpy as np


def bins_of_numbers(values: np.ndarray, numbers: list[Any]) -> np.ndarray:
    """``numbers`` ascend and come before any text, so a number's bin is its position plus 1; others get 0."""
    if not numbers:
        return np.zeros(len(values))
    ordered = np.asarray(numbers)
    nearest = np.searchsorted(ordered, values).clip(max=len(ordered) - 1)
    return np.where(ordered[nearest] == values, nearest + 1, 0).astype(np.float64)
