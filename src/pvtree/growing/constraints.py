"""monotone_constraints and interaction_constraints: from what users write to what the trainer reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.parameters.constraint_texts import sets_of, signs_of
from pvtree.reading.column_values import column_index

if TYPE_CHECKING:
    from pvtree.parameters.params import Params
    from pvtree.reading.tables import Columns

_WORD_BITS = 64


@dataclass(frozen=True)
class Constraints:
    """What kernels look up: see kernels/constraints.py."""

    monotone: np.ndarray  # float64 (n_all_features,): 1, -1 or 0; (0,) if outputs have no limits
    sets_of: (
        np.ndarray
    )  # uint64 (n_all_features, words): the sets that a feature is in, a bit each; (0, 0) without sets

    # Options of the search, see kernels/growing/split_options.py; (n_all_features,), or (0,) without options.
    factor: np.ndarray = field(default_factory=lambda: np.empty(0))  # by which a feature's gains are multiplied
    cost: np.ndarray = field(default_factory=lambda: np.empty(0))  # of a feature that no tree has used
    smooths: bool = False  # whether outputs are smoothed

    @property
    def is_monotone(self) -> bool:
        return len(self.monotone) > 0

    @property
    def has_options(self) -> bool:
        return len(self.factor) > 0

    @classmethod
    def of(cls, params: Params, n_features: int) -> Constraints:
        sets = params.interaction_constraints
        sets_of = np.zeros((n_features if sets else 0, -(-len(sets) // _WORD_BITS)), np.uint64)
        for number, features in enumerate(sets):
            sets_of[list(features), number // _WORD_BITS] |= np.uint64(1 << number % _WORD_BITS)
        monotone = np.array(params.monotone_constraints, np.float64)
        if params.max_delta_step > 0 and not len(monotone):
            monotone = np.zeros(n_features)  # every node has limits, but no feature narrows them
        if not params.has_split_options:
            return cls(monotone, sets_of)
        factor = np.array(params.feature_contri or [1.0] * n_features, np.float64)
        cost = params.cegb_tradeoff * np.array(params.cegb_penalty_feature_coupled or [0.0] * n_features, np.float64)
        return cls(monotone, sets_of, factor, cost, params.path_smooth > 0.0)


NO_CONSTRAINTS = Constraints(np.empty(0), np.empty((0, 0), np.uint64))


def read_monotone(given: Any, columns: Columns, n_classes: int) -> tuple[int, ...]:
    """A sign for each column; nothing where no column has one."""
    if given is None:
        return ()
    if isinstance(given, str):
        given = signs_of(given)
    signs = [0] * columns.n_features
    if isinstance(given, Mapping):
        for column, sign in given.items():
            signs[column_index(column, columns, "monotone_constraints")] = int(sign)
    elif len(given) == columns.n_features:
        signs = [int(sign) for sign in given]
    else:
        raise InvalidParameterError(
            f"monotone_constraints has {len(given)} signs, but X has {columns.n_features} columns; give one for each "
            "column, or a dict of those that are not 0."
        )
    constrained = [column for column, sign in enumerate(signs) if sign]
    if not constrained:
        return ()
    if n_classes > 2:
        raise InvalidParameterError(
            f"monotone_constraints are for values, rankings and two classes, but y has {n_classes} classes, whose "
            "probabilities cannot all rise together; leave monotone_constraints out."
        )
    for column in constrained:
        if column in columns.categories and column not in columns.ordered:
            raise InvalidParameterError(
                f"monotone_constraints has a sign for {_shown(column, columns)}, whose categories have no order; "
                "give it 0, or pass it as numbers."
            )
    return tuple(signs)


def read_interactions(given: Any, columns: Columns) -> tuple[tuple[int, ...], ...]:
    """Sets of column indices, each in rising order."""
    if isinstance(given, str):
        given = sets_of(given)
    sets = [{column_index(column, columns, "interaction_constraints") for column in each} for each in given or ()]
    return tuple(tuple(sorted(each)) for each in sets)


def _shown(column: int, columns: Columns) -> str:
    return f"column {column}" if columns.names is None else f"column {columns.names[column]!r}"
