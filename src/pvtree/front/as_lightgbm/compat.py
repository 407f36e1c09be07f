"""LightGBM's module of this name: which optional packages are installed, and their types."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from sklearn import __version__ as _sklearn_version

from pvtree.front.scikit_learn import NotFittedError as LGBMNotFittedError

__all__ = ["LGBMNotFittedError", "_sklearn_version"]

SKLEARN_INSTALLED = True  # pvtree needs it
_PACKAGES = {
    "PANDAS_INSTALLED": "pandas",
    "PYARROW_INSTALLED": "pyarrow",
    "POLARS_INSTALLED": "polars",
    "MATPLOTLIB_INSTALLED": "matplotlib",
    "GRAPHVIZ_INSTALLED": "graphviz",
    "DASK_INSTALLED": "dask",
    "CFFI_INSTALLED": "cffi",
}
_TYPES = {
    "pd_DataFrame": "pandas.DataFrame",
    "pd_Series": "pandas.Series",
    "pd_CategoricalDtype": "pandas.CategoricalDtype",
    "pa_Table": "pyarrow.Table",
    "pa_Array": "pyarrow.Array",
    "pa_ChunkedArray": "pyarrow.ChunkedArray",
    "pa_array": "pyarrow.array",
    "pa_chunked_array": "pyarrow.chunked_array",
}


def __getattr__(name: str) -> Any:
    """Look for a package when something asks for it: importing all of them takes seconds."""
    if name in _PACKAGES:
        return importlib.util.find_spec(_PACKAGES[name]) is not None
    if name not in _TYPES:
        raise AttributeError(f"module 'pvtree.compat' has no attribute {name!r}")
    package, _, attribute = _TYPES[name].partition(".")
    if importlib.util.find_spec(package) is None:
        return type(name, (), {})  # a type of which nothing is
    return getattr(importlib.import_module(package), attribute)
