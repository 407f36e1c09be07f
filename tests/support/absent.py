"""Lets code run as if an installed package were not there."""

import sys

import pytest


def without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the end of the test, pandas cannot be imported."""

    class Refuses:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "pandas":
                raise ModuleNotFoundError("No module named 'pandas'", name=name)

    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Refuses, *sys.meta_path])
