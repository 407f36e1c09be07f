"""Arrays behind the addresses of a record. Each is declared once, with its item type and shape: the declaration is the
only view of it that kernels have, and what ``fill_record`` checks before it stores an address."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

_INT64 = ir.IntType(64)
# A length is a sum of products of constants and fields of the record: (("n_blocks",), (1,)) for "n_blocks + 1".
_Length = tuple[tuple[int | str, ...], ...]


class RecordArrays:
    """The arrays of one kind of record."""

    def __init__(self, **constants: np.int64) -> None:
        self.constants = constants
        self.declared: dict[str, tuple[np.dtype, tuple[_Length, ...]]] = {}

    def declare(self, name: str, item: Any, *shape: str) -> Any:
        """Add an array; returns its view for kernels, a function of the record.

        A length in ``shape`` names constants and fields of the record: "n_blocks + 1", "n_all_rows * BLOCK".
        """
        lengths = tuple(self._parse(length) for length in shape)
        self.declared[name] = np.dtype(item), lengths
        return _make_view(name, types.Array(from_dtype(np.dtype(item)), len(shape), "C"), lengths)

    def addresses(self) -> list[tuple[str, Any]]:
        """The fields of the record that hold the addresses."""
        return [(name, np.uint64) for name in self.declared]

    def check(self, name: str, array: np.ndarray, numbers: Mapping[str, Any]) -> None:
        """Raise unless the array is what kernels will take it for; an empty one stands for an array nobody reads."""
        item, lengths = self.declared[name]
        shape = tuple(_evaluate(length, numbers) for length in lengths)
        if array.dtype != item or not array.flags.c_contiguous or (array.size > 0 and array.shape != shape):
            raise AssertionError(
                f"kernel array {name} must be C-ordered {item} {shape}, is {array.dtype} {array.shape}"
            )

    def _parse(self, length: str) -> _Length:
        def factor(text: str) -> int | str:
            return int(self.constants.get(text, text)) if text in self.constants or text.isdigit() else text

        return tuple(tuple(map(factor, term.split(" * "))) for term in length.split(" + "))


def _evaluate(length: _Length, numbers: Mapping[str, Any]) -> int:
    return sum(math.prod(int(numbers.get(f, 0)) if isinstance(f, str) else f for f in term) for term in length)


def _make_view(name: str, array_type: types.Array, lengths: tuple[_Length, ...]) -> Any:
    """An intrinsic instead of ``carray``, which numba takes several times as long to compile at every use."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        record_type = signature.args[0]

        def load(field: str | int) -> Any:
            if isinstance(field, int):
                return _INT64(field)
            item = record_type.typeof(field)
            place = cgutils.get_record_member(builder, args[0], record_type.offset(field), context.get_data_type(item))
            return context.unpack_value(builder, item, place)

        def evaluate(length: _Length) -> Any:
            return reduce(builder.add, [reduce(builder.mul, map(load, term)) for term in length])

        item_type = context.get_data_type(array_type.dtype)
        shape = [evaluate(length) for length in lengths]
        strides = [_INT64(context.get_abi_sizeof(item_type))]
        for length in shape[:0:-1]:
            strides.insert(0, builder.mul(strides[0], length))
        array = context.make_array(array_type)(context, builder)
        data = builder.inttoptr(load(name), item_type.as_pointer())
        populate_array(array, data, shape, strides, itemsize=strides[-1], meminfo=None)
        return array._getvalue()

    def typed(_context, record):  # type: ignore[no-untyped-def]
        return array_type(record), build

    return intrinsic(typed)
