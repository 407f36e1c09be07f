"""fit with Dask collections: every Dask worker trains on the rows it holds, and the first one returns the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pvtree.comm import Communicator
from pvtree.comm import dask as engine
from pvtree.comm.agreement import all_or_none
from pvtree.comm.user_warnings import Heard, listening, warn_user
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, PvtreeError
from pvtree.front.estimators.eval_arguments import given_sets
from pvtree.front.estimators.for_workers import sendable
from pvtree.parameters.params import refuse_serial
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
from pvtree.reading.training_rows import GivenRows

if TYPE_CHECKING:
    import distributed

    from pvtree.front.estimators.fit import Fitting
    from pvtree.front.estimators.fit_options import FitOptions
    from pvtree.training.train import TrainResult

LARGE_BYTES = 1 << 20  # a larger argument of a task travels apart from the task, as Dask recommends


@dataclass(frozen=True)
class WorkerTask:
    """What the client sends to every worker, apart from its rows."""

    estimator: Any  # not fitted
    options: FitOptions
    sets: dict[str, GivenRows]  # the evaluation sets by name, without their rows
    columns: list[list[str]]  # the columns of the training data and of each evaluation set: "X", "y", "qid", ...


class WorkerAnswer(NamedTuple):
    """What a worker sends back; only the first sends the result, which is the same on all."""

    result: TrainResult | None
    warnings: list[Heard]


# At the client.


def fit_on_dask(estimator: Fitting, given: GivenRows, options: FitOptions) -> TrainResult:
    """Train on all workers that hold a partition of X, without moving its rows.

    Evaluation sets may be Dask collections, or in memory; then they are sent to one worker. Callbacks run on the first
    worker: what they keep stays there, and what they print appears in its output.
    """
    if options.comm is not None:
        raise InvalidParameterError(
            "comm is for the rows of each MPI rank, but X is a Dask collection; "
            "leave comm out, or pass each rank's own rows in memory."
        )
    client = get_client(options.client)
    engine.check(client, [client.scheduler.address], options.timeout)  # before anything is computed
    sets = given_sets(options.evaluation, given)
    by_column = [columns_of(each) for each in (given, *sets.values())]
    refuse_serial(estimator.tree_learner, min(len(client.nthreads()), n_parts(by_column[0]["X"])))
    task: Any = packed(estimator, options, sets, by_column)
    with engine.outside_the_pool():
        held = spread(client, by_column)
    if len(held) > 1 and estimator.n_workers > 1:
        warn_user(f"n_workers does nothing on a Dask cluster, where {len(held)} workers hold rows; leave it out.")
    if len(task) > LARGE_BYTES:
        task = client.scatter(task, workers=list(held), broadcast=True, hash=False)
    answers = engine.run(
        client, train_here, {address: (task, parts) for address, parts in held.items()}, timeout=options.timeout
    )
    for category, sentence in dict.fromkeys(each for answer in answers for each in answer.warnings):
        warn_user(sentence, category)
    result = answers[0].result
    assert result is not None  # the first worker sends it
    return result


def columns_of(given: GivenRows) -> dict[str, Any]:
    """The columns that were passed, under dask_data's names and cut into the same partitions."""
    if given.X is None:
        raise InvalidDataError(f"X{given.suffix} is None; pass rows and columns.")
    columns = {"X": given.X, "y": given.y, "sample_weight": given.weight, "qid": given.qid, NOT_BY_ROW: given.group}
    columns |= {"init_score": given.init_score}
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
    """The parts of every set, as futures, for each worker that holds training rows, in the order of the data.

    Evaluation rows stay where Dask has put them. Those on workers without training rows move to one that has some:
    they are few, and every further worker would make each exchange longer.
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


def packed(
    estimator: Fitting, options: FitOptions, sets: dict[str, GivenRows], by_column: Sequence[dict[str, Any]]
) -> bytes:
    """The pickled ``WorkerTask``."""
    from distributed.protocol.pickle import dumps

    unfitted, sent = sendable(estimator, options)
    task = WorkerTask(
        estimator=unfitted,
        options=sent,
        sets={
            name: replace(given, X=None, y=None, weight=None, group=None, qid=None, init_score=None)
            for name, given in sets.items()
        },
        columns=[list(columns) for columns in by_column],
    )
    try:
        return dumps(task)
    except Exception as error:
        raise InvalidTypeError(
            "The estimator's parameters, eval_metric and callbacks are sent to the Dask workers, but one of them "
            f"cannot be pickled ({error}); use functions and objects that hold no locks, files or connections."
        ) from error


# On a worker.


def train_here(comm: Communicator, packed_task: bytes, parts: list[list[Part]]) -> WorkerAnswer:
    """Train on this worker's parts of the training data and of each evaluation set, together with the others."""
    from distributed import get_worker
    from distributed.protocol.pickle import loads

    with listening() as heard:
        task: WorkerTask = loads(packed_task)
        estimator = task.estimator
        if estimator.n_jobs is None:  # the worker was started with a number of threads
            estimator.set_params(n_jobs=get_worker().state.nthreads)
            comm.shares_threads = False

        def read() -> list[GivenRows]:
            forms = [GivenRows(None, None), *task.sets.values()]
            nothing = rowless(parts[0][0], comm.rank)
            return [
                put_together(form, own or [only(names, nothing)])
                for form, own, names in zip(forms, parts, task.columns, strict=True)
            ]

        given, *evaluated = all_or_none(read, comm)
        sets = dict(zip(task.sets, evaluated, strict=True))
        result = estimator._train(given, sets, task.options, comm)
    return WorkerAnswer(result if comm.rank == 0 else None, heard)


def rowless(part: Part, rank: int) -> Part:
    """A part without rows, with the columns of this one, at a position that no other part has."""
    empty = {name: column[:0] for name, column in part[1].items()}
    return -1 - rank, empty


def only(names: Sequence[str], part: Part) -> Part:
    """The part with these columns alone; those that it lacks are empty."""
    return part[0], {name: part[1].get(name, np.empty(0)) for name in names}


def put_together(form: GivenRows, parts: Sequence[Part]) -> GivenRows:
    """One set of rows from several parts; X is not copied."""
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
        init_score=joined(parts, "init_score"),
        blocks=[(index, n_rows(columns["X"])) for index, columns in parts],
    )


def check_parts(parts: Sequence[Part]) -> None:
    """Check that all parts have the same columns and that no query is cut, which Dask cannot guarantee."""
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
                f"{np.sum(columns[NOT_BY_ROW]):g}; let no query continue in the next partition, or pass qid."
            )


def joined(parts: Sequence[Part], name: str) -> np.ndarray | None:
    """A column of all parts, always copied: arrays from other workers are read-only, and would need other kernels."""
    values = [np.asarray(columns[name]) for _, columns in parts if name in columns]
    filled = [each for each in values if len(each)] or values[:1]  # a part without rows does not decide the dtype
    return np.concatenate(filled) if filled else None
