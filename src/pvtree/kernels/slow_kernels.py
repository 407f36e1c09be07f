"""Kernels that take more than a second to compile, with the types that they are called with.

Processes beside a first fit compile them while it compiles all others: see ``beside.py``. One that is missing here, or
has other types by now, is compiled when it is needed; ``tests/kernels/test_beside.py`` then says so.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from numba import types
from numba.np.numpy_support import from_dtype

from pvtree.kernels.growing import records

_SEARCH = "growing.evaluate:evaluate_group(int64, TREE, FAMILY[::1], NODE[::1], CANDIDATE[:, ::1], SCRATCH, {bounds})"
_TREES = (
    _SEARCH.format(bounds="none"),
    "growing.tiny_nodes:search_tiny_block(int64, int64, int64, TREE, NODE[::1], CANDIDATE[:, ::1], SCRATCH)",
    "predict.trees:run_trees(int64, int64, int64[::1], int64[::1], int64, int64, int64, float64[:, ::1],"
    " uint64[:, ::1], int32[:, ::1], int32[:, ::1], uint32[:, ::1], readonly(float64[::1]), int32[:, ::1],"
    " readonly(uint64[:, ::1]), readonly(float64[:, ::1]), int32[::1], float64[:, ::1], int32[:, ::1])",
)
_MESSAGES = (
    "wire.messages:write_messages(int64, int64, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], TREE[::1], NODE[::1], SCRATCH[::1], int64[:, ::1], int64[:, ::1],"
    " int64[:, ::1], uint64[::1], int64[::1], int64[::1], uint64[::1])",
    "wire.messages:to_plain(int64, int64, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], TREE[::1],"
    " NODE[::1], SCRATCH[::1], int64[:, ::1], int64[:, ::1], int64[::1], uint64[::1], int64[::1], int64[::1])",
    "wire.messages:read_messages(int64, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], TREE[::1], NODE[::1], SCRATCH[::1], int64[:, ::1], int64[:, ::1], int64[::1],"
    " uint64[::1], int64[::1], int64[::1])",
)
_LOOKS = (
    "growing.two_looks:look_first(int64, int64, TREE[::1], FAMILY[::1], NODE[::1], int64[::1], uint8[:, ::1],"
    " SCRATCH[::1])",
    "growing.two_looks:look_closely(int64, int64, TREE[::1], FAMILY[::1], NODE[::1], int64[::1], uint16[:, ::1],"
    " uint8[:, ::1], SCRATCH[::1])",
)
_PROOFS = (
    "bounds.proof:write_rounded(int64, int64, int64, int64, int64, int64, uint8[:, ::1], int64, float64[::1],"
    " int64[::1], TREE[::1], NODE[::1], float64[:, ::1], float64, int64[::1], int64[::1], uint64[::1],"
    " SCRATCH[::1])",
    "bounds.proof:read_rounded(int64, int64, uint8[:, ::1], int64, float64[::1], int64[::1], TREE[::1], NODE[::1],"
    " float64[:, ::1], float64, int64[::1], uint64[::1], int64[::1], float64[:, ::1], SCRATCH[::1])",
)

# By strategy, those that take longest first.
SLOW = {
    "serial": _TREES,
    "attribute": _TREES,
    "data": (*_TREES, *_MESSAGES),
    "quantized": (*_TREES, *_MESSAGES),
    "voting": (*_TREES, *_MESSAGES, *_LOOKS),
    "exact_voting": (
        *_TREES, *_MESSAGES, _SEARCH.format(bounds="Tuple((float64[:, :, ::1], float64[:, ::1]))"), *_PROOFS,
    ),
}  # fmt: skip


def read(line: str) -> tuple[Any, tuple[Any, ...]]:
    """The kernel that a line names, and numba's types of its arguments."""
    name, _, arguments = line.partition("(")
    module, _, kernel = name.partition(":")
    found = getattr(import_module(f"pvtree.kernels.{module}"), kernel)
    return found, eval(f"({arguments[:-1]},)", _names())  # a line of this file


def _names() -> dict[str, Any]:
    dtypes = {name: getattr(records, name) for name in ("TREE", "NODE", "FAMILY", "CANDIDATE", "SCRATCH")}
    return vars(types) | {name: from_dtype(dtype) for name, dtype in dtypes.items()} | {"readonly": _readonly}


def _readonly(array: Any) -> Any:
    return array.copy(readonly=True)
