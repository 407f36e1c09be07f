"""Compiled kernels in files, one for each kernel and types of its arguments, below a folder that names all else."""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

from pvtree.kernels.cache_folder import folders
from pvtree.kernels.libraries import (
    InnerLibrary,
    LoadedLibrary,
    environments_in,
    holds_addresses,
    make_callable,
    reachable,
    set_environments,
)

_HASH_SIZE = hashlib.sha256().digest_size


def key_of(kernel: Any, args: Any) -> str:
    """Tells a kernel, compiled for such arguments, from all others of this version."""
    return hashlib.sha256(repr([_identity(kernel.py_func), str(args)]).encode()).hexdigest()[:24]


def _identity(function: Any) -> list[Any]:
    """A function by its names, its code and the values that it closes over."""
    parts = [function.__module__, function.__qualname__, function.__code__.co_code]
    for cell in function.__closure__ or ():
        value = cell.cell_contents
        if isinstance(value, Dispatcher):
            parts.append(_identity(value.py_func))
        else:
            parts.append(repr(value) if isinstance(value, str | bytes | int | float | np.generic) else dumps(value))
    if not function.__module__.startswith("pvtree.kernels."):  # the folder's name does not cover it
        parts.append(_text_of(inspect.getfile(function)))
    return parts


@cache
def _text_of(path: str) -> bytes:
    return Path(path).read_bytes()


def file_name(kernel: Any, key: str, is_inner: bool) -> str:
    return f"{kernel.py_func.__name__}-{key}.{'inner' if is_inner else 'kernel'}"


# ---- Files


def read_kernel(kernel: Any, args: Any, key: str, is_inner: bool) -> Any:
    """numba's CompileResult of a kernel, ready to use, from the first folder that has it; None if none has."""
    name = file_name(kernel, key, is_inner)
    for folder in folders().to_read:
        with suppress(OSError):
            content = (folder / name).read_bytes()
            result = _load(content, name, kernel, args, is_inner)
            if result is not None:
                return result
    return None


def write_kernel(kernel: Any, result: Any, key: str, is_inner: bool) -> None:
    """Keep a kernel for other processes, if there is a folder for it."""
    folder = folders().new
    library = result.library
    if folder is None or holds_addresses(library):
        return
    name = file_name(kernel, key, is_inner)
    content = dumps((name, _code_of(library, is_inner), *_rest_of(result)))
    temporary = folder / f"{name}.{uuid.uuid4().hex}"
    with suppress(OSError):  # a full disk, or a folder that was removed: then kernels are not kept
        try:
            temporary.write_bytes(hashlib.sha256(content).digest() + content)
            os.replace(temporary, folder / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


# ---- What they hold


def _code_of(library: Any, is_inner: bool) -> Any:
    """LLVM's bitcode for other kernels to link, or machine code with the names that it defines."""
    if is_inner:
        return library.whole_module().as_bitcode()
    module = library._final_module
    hidden = llvm.Linkage.internal, llvm.Linkage.private
    symbols = [*module.functions, *module.global_variables]
    names = [symbol.name for symbol in symbols if not symbol.is_declaration and symbol.linkage not in hidden]
    return library._get_compiled_object(), names


def _rest_of(result: Any) -> tuple[Any, ...]:
    """What a CompileResult needs besides its code, with the constant objects of all functions in it."""
    result.fndesc.typemap = result.fndesc.calltypes = None  # needed no more, and large
    library = result.library
    environments = environments_in([library, *reachable(library._linking_libraries)])
    return (
        library.name, result.fndesc, result.environment, result.signature, result.reload_init,
        [environment for environment in environments if environment.can_cache()],
    )  # fmt: skip


def _load(content: bytes, name: str, kernel: Any, args: Any, is_inner: bool) -> Any:
    """None if the file was not written to its end, or is not this kernel's."""
    if hashlib.sha256(memoryview(content)[_HASH_SIZE:]).digest() != content[:_HASH_SIZE]:
        return None
    own_name, code, library_name, fndesc, environment, signature, reload_init, environments = pickle.loads(
        memoryview(content)[_HASH_SIZE:]
    )
    if own_name != name or tuple(signature.args) != tuple(args):
        return None
    context = kernel.targetctx
    context.refresh()
    for function in reload_init:
        function()
    codegen = context.codegen()
    library = (InnerLibrary if is_inner else LoadedLibrary)(codegen, library_name)
    entry = None
    if is_inner:
        library._final_module = llvm.parse_bitcode(code)
        library.finalize()
    else:
        machine_code, symbols = code
        library.enable_object_caching()
        library._set_compiled_object(machine_code)
        library._finalize_final_module()
        codegen._engine._defined_symbols.update(symbols)
        entry = context.get_executable(library, fndesc, environment)
        set_environments(codegen, environments)
    make: Any = CompileResult
    result = make(
        typing_context=context.typing_context, target_context=context, entry_point=entry, typing_error=None,
        type_annotation="", signature=signature, objectmode=False, lifted=(), fndesc=fndesc, library=library,
        call_helper=None, environment=environment, metadata=None, reload_init=reload_init,
        referenced_envs=environments,
    )  # fmt: skip
    return make_callable(context, result) if is_inner else result
