"""Parts of a large kernel as functions of their own, each called in one place."""

from __future__ import annotations

import numba

# Compiled as a part of its caller. An ordinary kernel is compiled alone first, with all that it calls, and then once
# more inside each of its callers: for the functions around the search for splits that takes seconds each.
spliced = numba.njit(inline="always", nogil=True, error_model="numpy")
