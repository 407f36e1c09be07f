"""fit with Dask collections: every Dask worker trains on the rows that it holds, the first one sends the model back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone

from pvtree.comm import Communicator
from pvtree.comm import dask as engine
from pvtree.comm.agreement import all_or_none
from pvtree.comm.user_warnings import Heard, listening, warn_user
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, PvtreeError
from pvtree.front.estimators.eval_arguments import Evaluation, given_sets
from pvtree.parameters.params import make_params, refuse_serial
from pvtree.reading import inputs
from pvtree.reading.dask_data import (
    NOT_BY_ROW,
    Part,
    align,
    check_rows,
    get_client,
    is_collection,
    n_parts,
    n_rows,
    place,
)
from pvtree.reading.stacked import Stacked
from pvtree.reading.training_rows import Given

if TYPE_CHECKING:
    import distributed

    from pvtree.front.estimators.fitting import Fitting, Request
    from pvtree.reading.tables import Columns
    from pvtree.training.train import TrainResult

LARGE_BYTES = 1 << 20  # from here on a task's argument travels apart from the task, as Dask asks for


class Fitted(NamedTuple):
    """What an estimator keeps of a training."""

    result: TrainResult
    columns: Columns
    classes: np.ndarray | None


@dataclass(frozen=True)
class Order:
    """What every worker is told, beside its rows."""

    estimator: Any  # not fitted
    request: Request
    sets: dict[str, Given]  # the evaluation sets by name, without their rows
    columns: list[list[str]]  # which columns the training data has, and each evaluation set: "X", "y", "qid", ...


class Answer(NamedTuple):
    """What a worker sends back; all have the same model, so one is enough."""

    fitted: Fitted | None
    warnings: list[Heard]


# At the client.


def fit_on_dask(estimator: Fitting, given: Given, request: Request) -> Fitted:
    """Train where the partitions of X are, on all workers that hold one.

    Evaluation sets are Dask collections too, or in memory, from where they go to one worker. Callbacks are called on
    the first worker: what they keep stays there, what they print appears in its output.
    """
    if request.comm is not None:
        raise InvalidParameterError(
            "comm is for rows that each MPI rank brings along, but X is a Dask collection; "
            "leave comm out, or pass each rank's own rows in memory."
        )
    client = get_client(request.client)
    engine.check(client, [client.scheduler.address], request.timeout)  # before anything is computed
    sets = given_sets(request.evaluation, given)
    by_column = [columns_of(each) for each in (given, *sets.values())]
    refuse_serial(estimator.tree_learner, min(len(client.nthreads()), n_parts(by_column[0]["X"])))
    order: Any = packed(estimator, request, sets, by_column)
    with engine.outside_the_pool():
        held = spread(client, by_column)
    if len(held) > 1 and estimator.n_workers > 1:
        warn_user(f"n_workers does nothing on a Dask cluster, where {len(held)} workers hold rows; leave it out.")
    if len(order) > LARGE_BYTES:
        order = client.scatter(order, workers=list(held), broadcast=True, hash=False)
    answers = engine.run(
        client, train_here, {address: (order, parts) for address, parts in held.items()}, timeout=request.timeout
    )
    for category, sentence in dict.fromkeys(each for answer in answers for each in answer.warnings):
        warn_user(sentence, category)
    fitted = answers[0].fitted
    assert fitted is not None  # the first worker's
    return fitted


def columns_of(given: Given) -> dict[str, Any]:
    """The columns that there are, by the names that dask_data gives them, with the same partitions."""
    if given.X is None:
        raise InvalidDataError(f"X{given.suffix} is None; pass rows and columns.")
    columns = {"X": given.X, "y": given.y, "sample_weight": given.weight, "qid": given.qid, NOT_BY_ROW: given.group}
    columns = {name: column for name, column in columns.items() if column is not None}
    if given.prefix and not any(map(is_collection, columns.values())):
        return columns  # an evaluation set in memory
    try:
        return align(columns)
    except PvtreeError as error:
        if not given.suffix:
            raise
        raise type(error)(f"{error} (This is about the data{given.suffix}.)") from error


def spread(client: distributed.Client, sets: Sequence[dict[str, Any]]) -> dict[str, list[list[Part]]]:
    """For each worker that holds rows to train on, in the order of the data: its parts of every set, as futures.

    Rows to evaluate lie where Dask has put them. Those on workers without rows to train on come to one that has: they
    are few, and every further worker would make each exchange longer.
    """
    on_cluster = [position for position, columns in enumerate(sets) if is_collection(columns["X"])]
    placed = place(client, *(sets[position] for position in on_cluster))
    held: dict[str, list[list[Part]]] = {address: [[] for _ in sets] for address, parts in placed.items() if parts[0]}
    homeless: list[tuple[int, Part]] = []
    for address, by_set in placed.items():
        for position, parts in zip(on_cluster, by_set, strict=True):
            if address in held:
                held[address][position] = parts
            else:
                homeless += [(position, part) for part in parts]

    def with_fewest() -> str:
        return min(held, key=lambda address: sum(len(parts) for parts in held[address][1:]))

    for position, part in homeless:
        held[with_fewest()][position].append(part)
    for position, columns in enumerate(sets):
        if position not in on_cluster:
            address = with_fewest()
            held[address][position].append((0, client.scatter(columns, workers=[address], hash=False)))
    for by_set in held.values():
        for parts in by_set:
            parts.sort(key=lambda part: part[0])
    return held


def packed(estimator: Fitting, request: Request, sets: dict[str, Given], by_column: Sequence[dict[str, Any]]) -> bytes:
    from distributed.protocol.pickle import dumps

    asked = request.evaluation
    unfitted = clone(estimator)
    # A generator is the user's: it moves on here, once for each fit as in memory, and not in copies on the workers.
    unfitted.set_params(random_state=make_params({"random_state": estimator.random_state}, n_features=1).seed)
    order = Order(
        unfitted,
        replace(
            request,
            evaluation=Evaluation(eval_metric=asked.eval_metric, eval_at=asked.eval_at),
            client=None,
            # Workers may run in another folder.
            checkpoint=None if request.checkpoint is None else os.path.abspath(os.fsdecode(request.checkpoint)),
        ),
        {name: replace(given, X=None, y=None, weight=None, group=None, qid=None) for name, given in sets.items()},
        [list(columns) for columns in by_column],
    )
    try:
        return dumps(order)
    except Exception as error:
        raise InvalidTypeError(
            "The estimator's parameters, eval_metric and callbacks travel to the Dask workers, but one of them cannot "
            f"be pickled ({error}); use functions and objects that hold no locks, files or connections."
        ) from error


# On a worker.


def train_here(comm: Communicator, packed_order: bytes, parts: list[list[Part]]) -> Answer:
    """What every worker does with its parts of the training data and of each evaluation set."""
    from distributed import get_worker
    from distributed.protocol.pickle import loads

    with listening() as heard:
        order: Order = loads(packed_order)
        estimator = order.estimator
        if estimator.n_jobs is None:  # who started the worker has said how many threads it may use
            estimator.set_params(n_jobs=get_worker().state.nthreads)
            comm.shares_threads = False

        def read() -> list[Given]:
            forms = [Given(None, None), *order.sets.values()]
            nothing = rowless(parts[0][0], comm.rank)
            return [
                put_together(form, own or [only(names, nothing)])
                for form, own, names in zip(forms, parts, order.columns, strict=True)
            ]

        given, *evaluated = all_or_none(read, comm)
        sets = dict(zip(order.sets, evaluated, strict=True))
        result, data = estimator._train(given, sets, order.request, comm)
    return Answer(Fitted(result, data.columns, data.classes) if comm.rank == 0 else None, heard)


def rowless(part: Part, rank: int) -> Part:
    """A part without rows that looks like this one, in a place that no other part has."""
    empty = {name: column[:0] for name, column in part[1].items()}
    return -1 - rank, empty


def only(names: Sequence[str], part: Part) -> Part:
    """With these columns; those that the part does not have are empty."""
    return part[0], {name: part[1].get(name, np.empty(0)) for name in names}


def put_together(form: Given, parts: Sequence[Part]) -> Given:
    """Several parts as one set of rows; X is not copied."""
    check_rows(parts)
    check_parts(parts)
    tables = [columns["X"] for _, columns in parts]
    return replace(
        form,
        X=tables[0] if len(tables) == 1 else Stacked(tables),
        y=joined(parts, "y"),
        weight=joined(parts, "sample_weight"),
        qid=joined(parts, "qid"),
        group=joined(parts, NOT_BY_ROW),
        blocks=[(index, n_rows(columns["X"])) for index, columns in parts],
    )


def check_parts(parts: Sequence[Part]) -> None:
    """What Dask promises of partitions but cannot know, and what it does not promise."""
    first, expected = parts[0][0], inputs.column_names(parts[0][1]["X"])
    for index, columns in parts:
        if inputs.column_names(columns["X"]) != expected:
            raise InvalidDataError(
                f"Partition {index} of X has other columns than partition {first}; give all partitions the same "
                "columns in the same order."
            )
        length = n_rows(columns["X"])
        if NOT_BY_ROW in columns and np.sum(columns[NOT_BY_ROW]) != length:
            raise InvalidDataError(
                f"Partition {index} has {length} rows of X, but its queries in group add up to "
                f"{np.sum(columns[NOT_BY_ROW]):g}; let no query go on in the next partition, or pass qid."
            )


def joined(parts: Sequence[Part], name: str) -> np.ndarray | None:
    """A new array in any case: those that come from elsewhere are read-only, and need kernels of their own."""
    values = [np.asarray(columns[name]) for _, columns in parts if name in columns]
    filled = [each for each in values if len(each)] or values[:1]  # who has no rows has no say in the dtype
    return np.concatenate(filled) if filled else None
