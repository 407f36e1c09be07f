"""The error tree. Every message says what is wrong, what is allowed and what to do.

::

    PvtreeError
    ├── InvalidParameterError   (ValueError)    a parameter's name or value
    ├── InvalidDataError        (ValueError)    X, y, weights, groups
    ├── InvalidTypeError        (TypeError)     a parameter or data of the wrong type
    ├── ModelFileError          (ValueError)    a model file that cannot be read, used or written
    ├── OutputFileError         (OSError)       a file of results that cannot be written
    ├── MissingDependencyError  (ImportError)   an optional package that is not installed
    └── CommunicationError      (RuntimeError)  workers could not continue together
        ├── WorkerTimeoutError  (TimeoutError)  a worker did not arrive in time
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
    """Make ``pvtree`` the module of a class or function, so that pickles and tracebacks do not depend on its file."""
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
    """X, y, weights or groups cannot be used for training or prediction."""


@public
class InvalidTypeError(PvtreeError, TypeError):
    """A parameter or data has a type that cannot be used."""


@public
class ModelFileError(PvtreeError, ValueError):
    """A model file is truncated, altered, of a newer version or not a model, or it cannot be read or written."""


@public
class OutputFileError(PvtreeError, OSError):
    """A file of results cannot be written. An existing file at the same path is left unchanged."""


@public
class MissingDependencyError(PvtreeError, ImportError):
    """An optional package is not installed; the message gives the pip command."""


@public
class CommunicationError(PvtreeError, RuntimeError):
    """Workers could not continue together."""


@public
class WorkerTimeoutError(CommunicationError, TimeoutError):
    """A worker did not arrive at a collective in time; the message names the worker."""


@public
class PeerFailedError(CommunicationError):
    """Another worker has failed, so this one stops too. The cause is the other worker's exception."""


@public
class DivergedError(CommunicationError):
    """Workers made different decisions where all must make the same one."""
