"""The mark of what users import from ``pvtree`` itself."""

from typing import TypeVar

T = TypeVar("T")


def public(thing: T) -> T:
    """Names ``pvtree`` as the home of a class or function, so that pickles and tracebacks do not name its file."""
    thing.__module__ = "pvtree"
    return thing
