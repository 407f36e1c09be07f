"""What compiled kernels depend on, as a short name: kernels under another name are never loaded."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core.codegen import get_host_cpu_features

_FORMAT = 1  # of kernel files
_SETTINGS = (
    "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LLVM_REFPRUNE_PASS",
    "LLVM_REFPRUNE_FLAGS", "FULL_TRACEBACKS", "ENABLE_PROFILING", "USING_SVML",
)  # fmt: skip

# What a processor must have for kernels that were compiled for one of these baselines.
_V3 = ("sse4.2", "popcnt", "cx16", "sahf", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
BASELINES = {"x86-64-v4": _V4, "x86-64-v3": _V3}  # the best one first


@cache
def sources() -> str | None:
    """A hash of the text of all kernels, because each is compiled together with those that it calls; None without."""
    return text_of(Path(__file__).parent)


def text_of(folder: Path) -> str | None:
    """A hash of the names and contents of all modules below a folder."""
    digest = hashlib.sha256()
    paths = sorted(folder.rglob("*.py"))
    for path in paths:
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest() if paths else None


def stamp(cpu: str, features: str) -> str:
    """The name of kernels of this version, compiled by these programs for such a processor."""
    config: Any = numba.config
    parts = [
        _FORMAT, sources(), numba.__version__, llvmlite.__version__, np.__version__.split(".")[0],
        sys.implementation.cache_tag, getattr(sys, "abiflags", ""), llvm.get_process_triple(), cpu, features,
        *(getattr(config, name, None) for name in _SETTINGS),
    ]  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]


@cache
def of_this_machine() -> str:
    """The name of kernels that are compiled here."""
    config: Any = numba.config
    name = llvm.get_host_cpu_name() if config.CPU_NAME is None else config.CPU_NAME
    features = get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
    return stamp(name, features)


@cache
def of_baselines() -> list[str]:
    """The names of kernels compiled elsewhere that this processor can run, the best one first."""
    config: Any = numba.config
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None or not config.ENABLE_AVX:
        return []  # the user has asked for something else
    has = llvm.get_host_cpu_features()
    return [stamp(name, "") for name, needs in BASELINES.items() if all(has.get(need) for need in needs)]
