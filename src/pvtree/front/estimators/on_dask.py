"""fit with Dask collections: every Dask worker trains on the rows it holds, and the first one returns the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pvtree.comm import Communicator
from pvtree.comm import dask as engine
from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidDataError, InvalidParameterError, PvtreeError
from pvtree.front.estimators.eval_arguments import given_sets
from pvtree.front.estimators.worker_parts import WorkerAnswer, WorkerTask, pickled, result_of, train_parts
from pvtree.parameters.params import refuse_serial
from pvtree.reading.dask_data import NOT_BY_ROW, Part, align, get_client, is_collection, n_parts, place

if TYPE_CHECKING:
    import distributed

    from pvtree.front.estimators.fit import Fitting
    from pvtree.front.estimators.fit_options import FitOptions
    from pvtree.reading.training_rows import GivenRows
    from pvtree.training.train import TrainResult

LARGE_BYTES = 1 << 20  # a larger argument of a task travels apart from the task, as Dask recommends


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
    return result_of(answers)


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

    return pickled(WorkerTask.of(estimator, options, sets, by_column), dumps, "the Dask workers")


# On a worker.


def train_here(comm: Communicator, packed_task: bytes, parts: list[list[Part]]) -> WorkerAnswer:
    """Train on this worker's parts of the training data and of each evaluation set, together with the others."""
    from distributed import get_worker
    from distributed.protocol.pickle import loads

    return train_parts(comm, loads(packed_task), lambda: parts, get_worker().state.nthreads)
