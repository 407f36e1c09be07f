"""Machine instructions that Python cannot express: prefetch, atomics, yielding the processor."""

from __future__ import annotations

import os

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_INT64 = ir.IntType(64)

# Gives the core to another thread when waiting takes long. Every C library has the symbol.
yield_processor = types.ExternalFunction("SwitchToThread" if os.name == "nt" else "sched_yield", types.int32())


def _address(context, builder, array_type, array, index):
    view = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, view, [index], wraparound=False, boundscheck=False)


@intrinsic
def prefetch(typingctx, array, index):
    """Ask for the cache line of ``array[index]`` (flat, any item type) before it is needed."""

    def codegen(context, builder, signature, args):
        address = _address(context, builder, signature.args[0], args[0], args[1])
        address = builder.bitcast(address, ir.IntType(8).as_pointer())
        kind = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [address.type, kind, kind, kind])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        builder.call(function, [address, kind(0), kind(3), kind(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@intrinsic
def atomic_add(typingctx, array, index, value):
    """Add to ``array[index]`` (int64) and return what was there before."""

    def codegen(context, builder, signature, args):
        address = _address(context, builder, signature.args[0], args[0], args[1])
        return builder.atomic_rmw("add", address, args[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), codegen


@intrinsic
def atomic_load(typingctx, array, index):
    """Read ``array[index]`` (int64) as the last thread wrote it."""

    def codegen(context, builder, signature, args):
        address = _address(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(address, "seq_cst", 8)

    return types.int64(array, types.intp), codegen


@intrinsic
def atomic_store(typingctx, array, index, value):
    """Write ``array[index]`` (int64); threads that see it also see all that was written before it."""

    def codegen(context, builder, signature, args):
        address = _address(context, builder, signature.args[0], args[0], args[1])
        builder.store_atomic(args[2], address, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), codegen


@intrinsic
def lowest_bit(typingctx, bits):
    """Index of the lowest set bit of a uint64 that is not 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), codegen
