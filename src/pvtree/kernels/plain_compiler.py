"""numba's compiler without the work that plain kernels never need, which is a third of its own time: see ADR 0043."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import ir as llvm_ir
from numba.core import compiler, compiler_machinery, ir, postproc, transforms, typed_passes, types, untyped_passes
from numba.core.dispatcher import Dispatcher


def _makes_functions(state: Any) -> bool:
    """Closures, comprehensions, and lists that become arrays."""
    return any(
        instruction.opname in ("MAKE_FUNCTION", "MAKE_CELL", "BUILD_LIST", "LIST_EXTEND", "LIST_APPEND")
        for instruction in dis.get_instructions(state.func_id.func)
    )


def _calls_inlined(state: Any) -> bool:
    function = state.func_id.func
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    called = [*cells, *(function.__globals__.get(name) for name in function.__code__.co_names)]
    return any(isinstance(value, Dispatcher) and "inline" in value.targetoptions for value in called)


def _computes_arrays(state: Any) -> bool:
    """Expressions of whole arrays, which numba makes one loop of."""
    return any(
        isinstance(step.value, ir.Expr) and isinstance(state.typemap.get(step.target.name), types.Array)
        for block in state.func_ir.blocks.values()
        for step in block.find_insts(ir.Assign)
        if not (isinstance(step.value, ir.Expr) and step.value.op in ("getattr", "getitem", "static_getitem", "cast"))
    )


# numba's passes by name, in its order, each with what a function must do to need it. Those left out find nothing in
# kernels: with blocks, loops over tuples of several types, isinstance, texts for people who look at types.
_PASSES: tuple[tuple[Any, str, Callable[[Any], bool] | None], ...] = (
    (untyped_passes, "TranslateByteCode", None),
    (untyped_passes, "FixupArgs", None),
    (untyped_passes, "IRProcessing", None),
    (untyped_passes, "InlineClosureLikes", _makes_functions),
    (untyped_passes, "RewriteSemanticConstants", None),
    (untyped_passes, "DeadBranchPrune", None),
    (untyped_passes, "GenericRewrites", None),
    (untyped_passes, "RewriteDynamicRaises", None),
    (untyped_passes, "MakeFunctionToJitFunction", _makes_functions),
    (untyped_passes, "InlineInlinables", _calls_inlined),
    (untyped_passes, "DeadBranchPrune", _calls_inlined),
    (untyped_passes, "ReconstructSSA", None),
    (untyped_passes, "DeadBranchPrune", None),
    (typed_passes, "NopythonTypeInference", None),
    (typed_passes, "PreLowerStripPhis", None),
    (typed_passes, "InlineOverloads", None),
    (typed_passes, "NopythonRewrites", _computes_arrays),
    (typed_passes, "IRLegalization", None),
    (typed_passes, "NativeLowering", None),
    (typed_passes, "NoPythonBackend", None),
)


@cache
def is_known() -> bool:
    """Whether this numba has all that is replaced here; another one compiles kernels as it compiles anything else."""
    return all(hasattr(module, name) for module, name, _ in _PASSES) and None not in _ORIGINAL


@cache
def _manager() -> Any:
    return PlainPasses("pvtree")


class PlainPasses(compiler_machinery.PassManager):
    """Runs passes one after the other; numba's own describes each of them for listeners, with all types as text."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        for module, pass_name, _ in _PASSES:
            self.add_pass(getattr(module, pass_name), pass_name)
        self.finalize()
        instances = [compiler_machinery._pass_registry.get(each).pass_inst for each, _ in self.passes]
        self.steps = [(each, is_needed) for each, (_, _, is_needed) in zip(instances, _PASSES, strict=True)]

    def run(self, state: Any) -> None:
        for each, is_needed in self.steps:
            if is_needed is None or is_needed(state):
                each.analysis = self._analysis
                each.run_pass(state)


class PlainCompiler(compiler.CompilerBase):
    """Compiles kernels, and as much of numba's own functions as they call."""

    def define_pipelines(self) -> list[Any]:
        return [_manager()]


def pipeline() -> Any:
    """The class that compiles kernels."""
    return PlainCompiler if is_known() else compiler.Compiler


# ---- What numba computes again and again

_OWNERS = (postproc.PostProcessor, "run"), (types.BaseFunction, "get_call_type"), (llvm_ir.Type, "get_abi_size")
_ORIGINAL: tuple[Any, ...] = tuple(getattr(owner, name, None) for owner, name in _OWNERS)
_call_types: dict[int, tuple[Any, dict[Any, Any]]] = {}  # by the function's id: the function, and results by arguments
_abi_sizes: dict[tuple[str, Any], int] = {}


@contextmanager
def remembering() -> Iterator[None]:
    """Let numba remember, while kernels are compiled, what does not change."""
    is_outermost = is_known() and types.BaseFunction.get_call_type is _ORIGINAL[1]
    if is_outermost:
        for (owner, name), new in zip(_OWNERS, (_post_process, _call_type, _abi_size), strict=True):
            setattr(owner, name, new)
    try:
        yield
    finally:
        if is_outermost:
            for (owner, name), old in zip(_OWNERS, _ORIGINAL, strict=True):
                setattr(owner, name, old)


def _post_process(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Find out where variables end only when that is asked for, once before lowering instead of after each pass."""
    if emit_dels or self.func_ir.is_generator:
        _ORIGINAL[0](self, emit_dels, extend_lifetimes)
    else:
        self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
        self.func_ir.generator_info = None


def _call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """Which version of a function fits some types: the same one each time."""
    if kws:
        return _ORIGINAL[1](self, context, args, kws)
    _, known = _call_types.setdefault(id(self), (self, {}))
    codes = tuple(arg._code for arg in args)
    if codes not in known:
        known[codes] = _ORIGINAL[1](self, context, args, kws)
    return known[codes]


def _abi_size(self: Any, target_data: Any, context: Any = None) -> int:
    """How large a type is: numba writes a program for LLVM each time it asks."""
    if context is not None:
        return _ORIGINAL[2](self, target_data, context)
    key = str(self), target_data
    if key not in _abi_sizes:
        _abi_sizes[key] = _ORIGINAL[2](self, target_data)
    return _abi_sizes[key]
