"""Parts of a large kernel as functions of their own, each called in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from pvtree.kernels.libraries import ALL

# Compiled as a part of its caller. An ordinary kernel is compiled alone first, with all that it calls, and then once
# more inside each of its callers: for the functions around the search for splits that takes seconds each.


def spliced(function: Callable[..., Any]) -> Any:
    kernel = numba.njit(inline="always", nogil=True, error_model="numpy")(function)
    ALL.append(kernel)
    return kernel
