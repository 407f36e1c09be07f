"""The LLVM code of kernels: of those that Python calls, with all that they call; and of the others, not yet optimised.

numba compiles every function that a kernel calls as if Python called it too: it wraps it, optimises it together with
all that it calls, turns it into machine code, and does so again inside each of its callers. That takes half of all the
time. Here a kernel that is compiled on behalf of a caller is typed and lowered, and no more: see ADR 0030.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator
from typing import Any

import llvmlite.binding as llvm
from numba.core import compiler
from numba.core.codegen import JITCodeLibrary
from numba.core.environment import lookup_environment

from pvtree.kernels.plain_compiler import pipeline, remembering

ALL: list[Any] = []  # kernels, whether compiled or not
_LONG = 36  # instructions of Python's own


class InnerLibrary(JITCodeLibrary):
    """A kernel on behalf of its callers: LLVM code as numba lowered it, without what it calls."""

    stays_apart = False  # whether LLVM must not inline it

    def add_llvm_module(self, ll_module: Any) -> None:
        if self.stays_apart:
            for function in _defined(ll_module):
                function.add_function_attribute("noinline")
        super().add_llvm_module(ll_module)

    def _optimize_functions(self, ll_module: Any) -> None:
        _optimize_defined(self, ll_module)

    def finalize(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def own_module(self) -> Any:
        """This kernel's code alone, which any number of others may link in."""
        self._ensure_finalized()
        if self._shared_module is None:
            for function in _defined(self._final_module):
                function.linkage = llvm.Linkage.linkonce_odr
            self._shared_module = self._final_module
        return self._shared_module

    def whole_module(self) -> Any:
        """The same with all that it calls. Only the kernel itself is seen from outside, so names cannot clash."""
        own = {function.name for function in _defined(self.own_module())}
        whole = self.own_module().clone()
        for library in reachable(self._linking_libraries):
            whole.link_in(_module_of(library), preserve=True)
        _hide(whole, own)
        return whole

    def _get_module_for_linking(self) -> Any:
        return self.whole_module()


class OuterLibrary(JITCodeLibrary):
    """A kernel that Python calls, with all that it calls: optimised, and turned into machine code."""

    def _optimize_functions(self, ll_module: Any) -> None:
        _optimize_defined(self, ll_module)

    def finalize(self) -> None:
        self._own = {function.name for function in _defined(self._final_module)}
        for library in reachable(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(_module_of(library), preserve=True)
        self._linking_libraries = []
        super().finalize()

    def _finalize_final_module(self) -> None:
        # Hidden only after LLVM has decided what to inline: for a hidden function it would decide otherwise.
        _hide(self._final_module, self._own)
        super()._finalize_final_module()


class LoadedLibrary(JITCodeLibrary):
    """A kernel that Python calls, as machine code from a file. Other kernels cannot link it."""


def _defined(module: Any) -> list[Any]:
    return [function for function in module.functions if not function.is_declaration]


def _optimize_defined(library: Any, module: Any) -> None:
    """Optimise each function by itself; numba prepares a list of passes for every one that is only declared too."""
    codegen = library._codegen
    module.data_layout = codegen._data_layout
    for function in _defined(module):
        passes, builder = codegen._function_pass_manager()
        passes.run(function, builder)


def _hide(module: Any, seen: set[str]) -> None:
    """Make all functions but some private, so that one of equal name elsewhere is never taken for them."""
    for function in _defined(module):
        if function.name not in seen and function.linkage != llvm.Linkage.private:
            function.linkage = llvm.Linkage.internal


def _module_of(library: Any) -> Any:
    return library.own_module() if isinstance(library, InnerLibrary) else library._get_module_for_linking()


def holds_addresses(library: Any) -> bool:
    """Whether code holds addresses that mean nothing in other processes.

    Before it is optimised, it holds those of the kernels that it calls, which nothing reads.
    """
    unread = {f"{id(kernel):x}" for kernel in ALL} if isinstance(library, InnerLibrary) else set()
    # numba.dynamic.globals.ADDRESS, and LLVM appends .1, .2 to names that it meets again
    held = {
        name.split(".")[3]
        for each in [library, *reachable(library._linking_libraries)]
        if each.has_dynamic_globals
        for name in each._dynamic_globals
    }
    return bool(held - unread)


def reachable(libraries: Iterable[Any]) -> Iterator[Any]:
    """Each of the libraries, and each that they link, once."""
    seen: set[int] = set()
    waiting = list(libraries)
    while waiting:
        library = waiting.pop()
        if id(library) not in seen:
            seen.add(id(library))
            yield library
            if isinstance(library, InnerLibrary):
                waiting.extend(library._linking_libraries)


def _has_long_loop(function: Any) -> bool:
    """Whether a loop is better optimised in a function of its own than inside its caller.

    Before it is optimised, a loop looks small to LLVM, which would inline it and then vectorise it less well, among
    all the values of its caller.
    """
    names = [instruction.opname for instruction in dis.get_instructions(function)]
    return len(names) >= _LONG and any("FOR_ITER" in name or "JUMP_BACKWARD" in name for name in names)


class KeyedFlags(compiler.Flags):
    """numba's flags, which go into the names of symbols; here with what tells a kernel from all others.

    numba's own names hold numbers that differ from process to process, and code is kept in files.
    """

    key = ""

    def get_mangle_string(self) -> str:
        return f"{super().get_mangle_string()}{self.key}"


class Entry:
    """Stands for the entry point of a kernel that Python cannot call."""


def compile_kernel(kernel: Any, args: Any, return_type: Any, key: str, is_inner: bool) -> Any:
    """numba's CompileResult of a kernel for these types of arguments."""
    flags: Any = KeyedFlags()
    flags.key = key
    kernel.targetdescr.options.parse_as_flags(flags, kernel.targetoptions)
    flags.no_cfunc_wrapper = True
    flags.no_cpython_wrapper = flags.no_compile = is_inner
    context = kernel.targetctx
    library: Any = (InnerLibrary if is_inner else OuterLibrary)(context.codegen(), kernel.py_func.__qualname__)
    library.enable_object_caching()
    if is_inner:
        library.stays_apart = not flags.forceinline and _has_long_loop(kernel.py_func)
    with remembering():
        result = compiler.compile_extra(
            kernel.typingctx, context, kernel.py_func, args=args, return_type=return_type, flags=flags,
            locals=kernel.locals, library=library, pipeline_class=pipeline(),
        )  # fmt: skip
    if is_inner:
        return make_callable(context, result)
    set_environments(context.codegen(), environments_in([library]))
    return result


def make_callable(context: Any, result: Any) -> Any:
    """Let other kernels call a kernel that Python cannot call."""
    result = result._replace(entry_point=Entry())
    context.insert_user_function(result.entry_point, result.fndesc, [result.library])
    return result


def environments_in(libraries: Iterable[Any]) -> list[Any]:
    """The constant objects of all functions in some libraries, as numba's environments."""
    names = {
        symbol.name
        for library in libraries
        for symbol in library._final_module.global_variables
        if symbol.name.startswith("_ZN08NumbaEnv")
    }
    found = [lookup_environment(name) for name in sorted(names)]
    return [environment for environment in found if environment is not None]


def set_environments(codegen: Any, environments: Iterable[Any]) -> None:
    """Tell compiled code where these objects are, unless the compiler has found that it needs none."""
    for environment in environments:
        if codegen._engine.is_symbol_defined(environment.env_name):
            codegen.set_env(environment.env_name, environment)
