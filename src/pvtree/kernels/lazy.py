"""Kernels that are compiled when they are called for the first time: no fit compiles what its data do not need.

A kernel that calls a ``lazy`` one knows its types and no more. See "Kernels" in CONTRIBUTING.md, and ADR 0031.
"""

from __future__ import annotations

import ctypes
import inspect
import pickle
import threading
import traceback
import zlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from time import sleep
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.extending import intrinsic

from pvtree.kernels.jit import njit

_ADDRESS, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
_RESOLVER = "pvtree_address_of_kernel"  # the name under which compiled code finds ``_resolve``
_FAILED = -1  # in the place of an address


def lazy(returns: Any = types.none) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function apart from the kernels that call it, and not before one of them does.

    ``returns`` is numba's type of its result: what calls it is compiled without looking inside. Each call goes through
    an address and is never inlined, so it should do the work of a whole feature, node or block of rows.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = njit(function)
        if not isinstance(kernel, Dispatcher):  # numba is switched off
            return function
        if "<locals>" in function.__qualname__:
            raise TypeError(f"{function.__qualname__} must be at the top of its module, where other processes find it")

        def typed(_context, *args):  # type: ignore[no-untyped-def]
            plain = tuple(types.unliteral(arg) for arg in args)
            return returns(*plain), _calls(function.__module__, function.__qualname__)

        own = inspect.signature(function)
        context = inspect.Parameter("_context", inspect.Parameter.POSITIONAL_ONLY)
        typed.__signature__ = own.replace(parameters=[context, *own.parameters.values()])  # type: ignore[attr-defined]
        called: Any = intrinsic(typed)
        called.kernel, called.returns = kernel, returns
        return called

    return decorate


def _calls(module: str, name: str) -> Any:
    """Code that calls the kernel by its address, which it asks for the first time and remembers."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        what = zlib.compress(dumps((module, name, signature.return_type, signature.args)))
        text = cgutils.global_constant(builder, f"lazy.{name}", cgutils.make_bytearray(bytearray(what)))
        known = ir.GlobalVariable(builder.module, _ADDRESS, builder.module.get_unique_name(f"lazy.address.{name}"))
        known.linkage, known.initializer = "internal", _ADDRESS(0)
        resolver = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [_ADDRESS, _BYTES, _ADDRESS]), _RESOLVER
        )
        look, ask, use = (builder.append_basic_block(f"lazy.{step}") for step in ("look", "ask", "use"))
        builder.branch(look)
        builder.position_at_end(look)
        address = builder.load_atomic(known, "monotonic", 8)
        unlikely = builder.cbranch(builder.icmp_signed("==", address, _ADDRESS(0)), ask, use)
        unlikely.set_weights([1, 99])
        builder.position_at_end(ask)
        builder.call(resolver, [builder.ptrtoint(known, _ADDRESS), builder.bitcast(text, _BYTES), _ADDRESS(len(what))])
        builder.branch(look)
        builder.position_at_end(use)
        with cgutils.if_unlikely(builder, builder.icmp_signed("==", address, _ADDRESS(_FAILED))):
            context.call_conv.return_user_exc(builder, RuntimeError, (f"kernel {name} cannot be compiled",))
        kind = context.call_conv.get_function_type(signature.return_type, signature.args)
        function = builder.inttoptr(address, kind.as_pointer())
        status, result = context.call_conv.call_function(
            builder, function, signature.return_type, signature.args, args
        )  # fmt: skip
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return result

    return build


@cache
def _address(what: bytes) -> int:
    module, name, returns, args = pickle.loads(zlib.decompress(what))
    kernel = getattr(import_module(module), name).kernel
    kernel.compile(returns(*args))
    result = kernel.overloads[args]
    return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


@ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
def _resolve(known: int, text: int, size: int) -> None:
    """Called by compiled code, on any thread and without the GIL: write the address of a kernel to ``known``.

    Without an address, the code asks again: other threads may be waiting for what the kernel will do, so Ctrl-C must
    wait until it is compiled.
    """
    thread = threading.get_ident()
    _resolving[thread] = True
    try:
        ctypes.c_int64.from_address(known).value = _address(ctypes.string_at(text, size))
    except (KeyboardInterrupt, SystemExit) as stop:
        threading.Thread(target=_raise_later, args=(thread, type(stop)), daemon=True).start()
    except Exception:
        traceback.print_exc()
        ctypes.c_int64.from_address(known).value = _FAILED
    # The last step, without a call: from here on no other thread runs before compiled code does.
    _resolving[thread] = False


_resolving: dict[int, bool] = {}  # by thread


def _raise_later(thread: int, kind: type[BaseException]) -> None:
    """Raise an exception on another thread as soon as it is no longer on its way into compiled code."""
    while _resolving[thread]:
        sleep(0.001)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


llvm.add_symbol(_RESOLVER, ctypes.cast(_resolve, ctypes.c_void_p).value)
