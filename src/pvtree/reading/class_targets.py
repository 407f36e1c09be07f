"""What y holds, agreed on by all workers: values, relevance, classes, or several columns of classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pvtree.comm import Communicator
from pvtree.comm.agreement import agree_classes, agree_width, all_or_none, share
from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.reading import targets
from pvtree.reading.label_columns import split_classes
from pvtree.reading.training_rows import GivenRows, Target, TargetKind


def find_target(
    kind: TargetKind, opened: GivenRows, known: Any, sizes: tuple[int, ...], comm: Communicator
) -> tuple[GivenRows, Target]:
    """The target, and the rows with a table as y if there are several columns.

    ``known`` are classes that are known already, or None; ``sizes`` are how many of them belong to each column.
    """
    width = agree_width(opened.y, comm)
    if width > 1 and len(opened.y) == 0:
        opened = replace(opened, y=np.empty((0, width)))
    if kind == "relevance":
        opened = replace(opened, position=_numbered_positions(opened, comm))
    if kind != "class":
        return opened, Target(kind, None, width)
    if known is not None and max(1, len(sizes)) != width:
        raise InvalidParameterError(
            f"init_model was trained on {max(1, len(sizes))} column(s) of classes, but y has {width}; pass the same "
            "columns."
        )
    if width > 1:
        return opened, Target(kind, None, width, _classes_of_columns(opened.y, known, sizes, comm))
    if known is None:
        known = agree_classes(all_or_none(lambda: targets.find_classes(opened.y), comm), comm)
        targets.check_several_classes(known)
    return opened, Target(kind, np.asarray(known))


def _numbered_positions(opened: GivenRows, comm: Communicator) -> np.ndarray | None:
    """Each row's place among the different positions of all workers; None if no worker has positions."""
    n_rows = len(opened.y)
    given = share([opened.position is not None, n_rows > 0], comm)
    if not any(has for has, _ in given):
        return None
    if not all(has for has, has_rows in given if has_rows):
        raise InvalidDataError("position is given on some workers only; pass it on all workers or on none.")

    def read() -> np.ndarray:
        if opened.position is None:
            return np.empty(0, np.int64)
        return targets.read_positions(opened.position, n_rows)

    own = all_or_none(read, comm)
    every = agree_classes(np.unique(own), comm, "position")
    return np.searchsorted(every, own).astype(np.float64)


def _classes_of_columns(
    y: np.ndarray, known: Any, sizes: tuple[int, ...], comm: Communicator
) -> tuple[np.ndarray, ...]:
    if known is not None:
        return tuple(split_classes(known, sizes))
    columns = list(enumerate(y.T))
    found = all_or_none(lambda: [targets.find_classes(column, f"column {k} of y") for k, column in columns], comm)
    return tuple(agree_classes(classes, comm, f"column {k} of y") for k, classes in enumerate(found))
