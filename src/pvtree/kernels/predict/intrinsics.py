"""What prediction tells LLVM directly: cells read and written by address, and the one loop over splits whose vectors
must stay in registers (written in numba and left to the auto-vectoriser, it takes 1.5 times as long)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES, N_VECTORS = 8, 4  # 4 x 8 rows: 4 registers with AVX-512, 8 of 16 with AVX2, 16 of 32 with NEON
GROUP = LANES * N_VECTORS  # rows that one call of mask_leaves_* handles

_INT32, _INT64, _FLOAT64 = ir.IntType(32), ir.IntType(64), ir.DoubleType()
_BITS, _CELLS = ir.VectorType(_INT64, LANES), ir.VectorType(_FLOAT64, LANES)


def _at(builder: Any, address: Any, kind: ir.Type, index: Any) -> Any:
    return builder.gep(builder.inttoptr(address, kind.as_pointer()), [index])


def _splat(builder: Any, scalar: Any, kind: ir.VectorType) -> Any:
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, scalar, _INT32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES))


def _mask_leaves(nan_goes_right: bool) -> Any:
    """mask_leaves(live, corner, stride, slot, threshold, keep, n): for each of n splits and each of GROUP rows,

        if block[slot, row] > threshold: live[row] &= keep

    All but n are addresses (stride in bytes): uint64 live[GROUP], float64 block from this group's first row
    on, int32 slot[n], float64 threshold[n], uint64 keep[n].
    """

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        live, corner, stride, slots, thresholds, keeps, n = args
        places = [_at(builder, live, _BITS, _INT64(i)) for i in range(N_VECTORS)]
        registers = [cgutils.alloca_once(builder, _BITS) for _ in places]
        for place, register in zip(places, registers, strict=True):
            builder.store(builder.load(place, align=8), register)
        with cgutils.for_range(builder, n) as loop:
            slot = builder.sext(builder.load(_at(builder, slots, _INT32, loop.index)), _INT64)
            cells = builder.add(corner, builder.mul(slot, stride))
            threshold = _splat(builder, builder.load(_at(builder, thresholds, _FLOAT64, loop.index)), _CELLS)
            keep = _splat(builder, builder.load(_at(builder, keeps, _INT64, loop.index)), _BITS)
            compare = builder.fcmp_unordered if nan_goes_right else builder.fcmp_ordered
            for i, register in enumerate(registers):
                x = builder.load(_at(builder, cells, _CELLS, _INT64(i)), align=8)
                bits = builder.load(register)
                goes_right = compare(">", x, threshold)
                builder.store(builder.select(goes_right, builder.and_(bits, keep), bits), register)
        for place, register in zip(places, registers, strict=True):
            builder.store(builder.load(register), place, align=8)
        return context.get_dummy_value()

    def typed(_context, live, corner, stride, slots, thresholds, keeps, n):  # type: ignore[no-untyped-def]
        return types.void(*[types.int64] * 7), generate

    return intrinsic(typed)


mask_leaves_nan_left = _mask_leaves(nan_goes_right=False)
mask_leaves_nan_right = _mask_leaves(nan_goes_right=True)


def _load(kind: ir.Type) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        value = builder.load(builder.inttoptr(args[0], kind.as_pointer()), align=1)
        return value if kind == _FLOAT64 else builder.fpext(value, _FLOAT64)

    def typed(_context, address):  # type: ignore[no-untyped-def]
        return types.float64(types.int64), generate

    return intrinsic(typed)


# Rows are read by address, so that one kernel serves float32 and float64, every memory order and read-only input. As
# array types these would be eight kernels to compile.
load_float64 = _load(_FLOAT64)
load_float32 = _load(ir.FloatType())


@intrinsic
def store_float64(_context, address, value):  # type: ignore[no-untyped-def]
    """Write a float64 at an address."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], _FLOAT64.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.float64), generate
