"""The error tree. Every error is one sentence: what is wrong, what is allowed, what to do.

::

    PvtreeError
    ├── InvalidParameterError   (ValueError)    a parameter's name or value
    ├── InvalidDataError        (ValueError)    X, y, weights, groups
    ├── InvalidTypeError        (TypeError)     a parameter or data of the wrong kind
    ├── ModelFileError          (ValueError)    a model file that cannot be trusted
    ├── OutputFileError         (OSError)       a file of results that cannot be written
    ├── MissingDependencyError  (ImportError)   an optional package that is not installed
    └── CommunicationError      (RuntimeError)  workers could not go on together
        ├── WorkerTimeoutError  (TimeoutError)  a worker did not come in time
        ├── PeerFailedError                     another worker has failed
        └── DivergedError                       workers decided differently
"""

from typing import TypeVar

Public = TypeVar("Public")

__all__ = [
    "CommunicationError",
    "DivergedError",
    "InvalidDataError",
    "InvalidParameterError",
    "InvalidTypeError",
    "MissingDependencyError",
    "ModelFileError",
    "OutputFileError",
    "PeerFailedError",
    "PvtreeError",
    "WorkerTimeoutError",
]


def public(thing: Public) -> Public:
    """Names ``pvtree`` as the home of a class or function, so that pickles and tracebacks do not name its file."""
    thing.__module__ = "pvtree"
    return thing


@public
class PvtreeError(Exception):
    """Base of every error that pvtree raises on purpose."""


@public
class InvalidParameterError(PvtreeError, ValueError):
    """A parameter has an unknown name or a value outside its range."""


@public
class InvalidDataError(PvtreeError, ValueError):
    """X, y, weights or groups cannot be trained on or predicted for."""


@public
class InvalidTypeError(PvtreeError, TypeError):
    """A parameter or some data is of a kind that cannot be used."""


@public
class ModelFileError(PvtreeError, ValueError):
    """A model file is truncated, altered, of another version, or no model at all."""


@public
class OutputFileError(PvtreeError, OSError):
    """A file of results cannot be written; there is none, or the one that was there before."""


@public
class MissingDependencyError(PvtreeError, ImportError):
    """An optional package is needed; the message gives the pip command."""


@public
class CommunicationError(PvtreeError, RuntimeError):
    """Workers could not go on together."""


@public
class WorkerTimeoutError(CommunicationError, TimeoutError):
    """A worker did not come to a collective in time; the message names it."""


@public
class PeerFailedError(CommunicationError):
    """Another worker has failed, so this one stops too; the cause is what the other one raised."""


@public
class DivergedError(CommunicationError):
    """Workers decided differently where all must decide the same."""
