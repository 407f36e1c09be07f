"""What the estimators take from scikit-learn, imported without two large libraries that it needs later, if at all."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

# scikit-learn imports these before it needs them, which is more than half of the time that its import takes.
_DEFERRED = ("scipy.stats", "pandas")


class _Deferred(ModuleType):
    """Stands for a module that is imported when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import system asks
            raise AttributeError(name)
        self.leave()
        return getattr(importlib.import_module(self.__name__), name)

    def leave(self) -> None:
        """Whoever imports the module from now on gets the real one."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


@contextmanager
def _deferred_modules() -> Iterator[None]:
    if "sklearn" in sys.modules:  # they are there already
        yield
        return
    modules = [_Deferred(name) for name in _DEFERRED if name not in sys.modules and importlib.util.find_spec(name)]
    sys.modules |= {module.__name__: module for module in modules}
    try:
        yield
    finally:
        for module in modules:
            module.leave()


with _deferred_modules():
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

__all__ = ["BaseEstimator", "ClassifierMixin", "NotFittedError", "RegressorMixin", "check_is_fitted", "clone"]
