"""What fit refuses: rows of Dask or Ray beside rows in memory, and models that its trees cannot continue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pvtree.errors import InvalidParameterError, InvalidTypeError
from pvtree.parameters.loss_table import losses_of
from pvtree.reading.dask_data import is_collection
from pvtree.reading.ray_data import is_dataset

if TYPE_CHECKING:
    from pvtree.model.model import Model
    from pvtree.parameters.params import Params
    from pvtree.reading.training_rows import GivenRows


def check_in_memory(client: Any, *sets: GivenRows) -> None:
    """If X is in memory, no argument may be a Dask collection or a Ray Dataset."""
    if client is not None:
        raise InvalidParameterError(
            "client is for Dask collections and Ray Datasets, but X is in memory; leave it out, or pass one of these."
        )
    for given in sets:
        for name in ("X", "y", "weight", "group", "qid", "init_score"):
            value = getattr(given, name)
            if is_collection(value) or is_dataset(value):
                kind, fetch = ("Ray Dataset", "to_pandas()") if is_dataset(value) else ("Dask collection", "compute()")
                argument = f"{given.prefix}{'sample_weight' if name == 'weight' else name}{given.suffix}"
                raise InvalidTypeError(
                    f"{argument} is a {kind}, but X is in memory; call its {fetch}, or pass X as a {kind} too."
                )


def check_continues(start: Model, ensemble: str, objective: str, params: Params) -> None:
    """Trees can only be added to a model of their own kind: their values are on its scale."""
    if start.ensemble != ensemble:
        raise InvalidParameterError(
            f"init_model is of kind {start.ensemble!r}, but this estimator adds trees to {ensemble!r} only."
        )
    n_classes = params.n_classes
    if n_classes == 1 and start.n_outputs != params.n_targets:
        raise InvalidParameterError(
            f"init_model has {start.n_outputs} output(s), this fit is for {params.n_targets}; use the same number of "
            "columns of y, or of levels, for both."
        )
    is_of_classes = start.objective in losses_of("class")  # files of other libraries do not name the classes
    n_known = (max(2, start.n_outputs) if is_of_classes else 1) if start.classes is None else len(start.classes)
    if start.objective != objective or n_known != n_classes:
        raise InvalidParameterError(
            f"init_model was trained for {start.objective!r} with {n_known} class(es), this fit is for "
            f"{objective!r} with {n_classes}; use the same objective and classes for both."
        )
