"""LightGBM's module of this name: Dataset, Booster, its error, and the other names of parameters."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

from pvtree.comm.user_warnings import register_logger
from pvtree.errors import PvtreeError as LightGBMError
from pvtree.front.functional import Booster, Dataset, Sequence
from pvtree.parameters.aliases import EVAL_AT, SYNONYMS, precedence
from pvtree.parameters.peer_names import LIGHTGBM_NAMES

__all__ = ["Booster", "Dataset", "LGBMDeprecationWarning", "LightGBMError", "Sequence", "register_logger"]


class LGBMDeprecationWarning(FutureWarning):
    """Never raised here; scripts name it in filters of warnings."""


def _lists() -> dict[str, list[str]]:
    together = [[right, *words.split()] for right, words in SYNONYMS.items()]
    together += [list(EVAL_AT), ["num_class", "num_classes"]]
    found = {}
    for names in together:
        ranked = sorted(names, key=precedence)
        main = ranked[0] if ranked[0] in LIGHTGBM_NAMES else names[0]
        found[main] = [main, *(name for name in ranked if name != main)]
    return found


class _ConfigAliases:
    """The names that ``train`` and estimators take for a parameter, by LightGBM's main name; other packages read it."""

    aliases: ClassVar[dict[str, list[str]]] = _lists()

    @classmethod
    def get(cls, *names: str) -> set[str]:
        """All names of these parameters."""
        return {word for name in names for word in cls.get_sorted(name)}

    @classmethod
    def get_sorted(cls, name: str) -> list[str]:
        """The names of one parameter; of two in the same parameters the first counts."""
        return cls.aliases.get(name, [name])

    @classmethod
    def get_by_alias(cls, *names: str) -> set[str]:
        """All names of the parameters that have these names."""
        return set(names).union(*(words for words in cls.aliases.values() if set(words) & set(names)))


def _choose_param_value(main_param_name: str, params: Mapping[str, Any], default_value: Any) -> dict[str, Any]:
    """The parameters with one of them under its main name alone."""
    words = _ConfigAliases.get_sorted(main_param_name)
    chosen = next((params[name] for name in words if name in params), default_value)
    return {name: value for name, value in params.items() if name not in words} | {main_param_name: chosen}


class _TempFile:
    """The name of a file that is removed at the end of a ``with``."""

    def __enter__(self) -> Self:
        handle, self.name = tempfile.mkstemp(prefix="pvtree_")
        os.close(handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.path.exists(self.name):
            os.remove(self.name)
