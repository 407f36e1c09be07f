"""Trainings whose models must not depend on the engine: ``mpi_trainings.py TASK FOLDER [ARGUMENTS]``.

Many ranks start this file, so it imports little.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from itertools import pairwise
from pathlib import Path

if __name__ == "__main__":
    gc.disable()  # a tenth of the time that a rank takes to start
    sys.modules["scipy"] = None  # numba would import it, to no purpose, in a fifth of a second

import numpy as np

from moments import Moment, disturbance
from mpi_memory import note_shared_memory
from pvtree.binning.shard import split_by_columns
from pvtree.comm import Communicator, mpi
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds
from pvtree.reading.training_rows import TrainingRows
from pvtree.training.checkpoint_file import FILE_NAME, Checkpoint
from pvtree.training.options import TrainOptions
from pvtree.training.train import train_worker

N_TREES = 12  # of a training that is interrupted
LEARNERS = ("data", "attribute", "voting", "quantized")
CASES = ("binary", "ranking", "forest")
SHARES = {
    1: (0, 1),
    2: (0, 0.3, 1),
    3: (0, 0.4, 0.6, 1),
    4: (0, 0.3, 0.7, 0.7, 1),
    5: (0, 0.1, 0.1, 0.6, 0.9, 1),
}  # of the rows; one of the four and one of the five have none


def make_parts(case: str, learner: str, size: int) -> list[TrainingRows]:
    """Gaps and ties in X, labels that need most columns; blocks of whole queries by SHARES, or of columns."""
    rng = np.random.default_rng(5)
    n_rows, n_in_query = 301, 7
    X = rng.normal(size=(n_rows, 12))
    X[:, 3] = np.where(rng.random(n_rows) < 0.3, np.nan, np.round(X[:, 3]))
    X[:, 7] = np.round(X[:, 7] * 2)
    signal = np.nan_to_num(X[:, :8]).sum(axis=1) + rng.normal(size=n_rows)
    y = np.clip(np.floor(signal / 2 + 2), 0, 4) if case == "ranking" else (signal > 0).astype(np.float64)
    weight = rng.choice([0.5, 1.0, 2.7], n_rows) if case == "binary" else None
    group = np.full(n_rows // n_in_query, n_in_query) if case == "ranking" else None
    if learner == "attribute":  # all workers know the owner of a column by its number
        return split_by_columns(TrainingRows(X, y, weight, group), size)
    queries = np.rint(np.array(SHARES[size]) * (n_rows // n_in_query)).astype(int).tolist()
    return [
        TrainingRows(
            X[first * n_in_query : stop * n_in_query],
            y[first * n_in_query : stop * n_in_query],
            None if weight is None else weight[first * n_in_query : stop * n_in_query],
            None if group is None else group[first:stop],
            RowIds.consecutive((stop - first) * n_in_query, first * n_in_query, n_rows),
        )
        for first, stop in pairwise(queries)
    ]


def train_model(
    case: str, learner: str, comm: Communicator, n_estimators: int = 4, checkpoint: Path | None = None
) -> str:
    """This worker's model, as it would be saved."""
    params = Params(
        ensemble="forest" if case == "forest" else "gbdt",
        objective={"binary": "binary", "ranking": "lambdarank", "forest": "classification"}[case],
        criterion="entropy" if case == "forest" else "gradient",
        n_classes=1 if case == "ranking" else 2,
        bootstrap=case == "forest",
        n_estimators=n_estimators,
        num_leaves=9,
        min_child_samples=3,
        max_bin=31,
        quantized_bins=0.4,
        tree_learner=learner,
        top_k=2,
        verbosity=0,
    )
    part = make_parts(case, learner, comm.size)[comm.rank]
    options = TrainOptions(params, checkpoint=None if checkpoint is None else Checkpoint(checkpoint, every=3))
    return train_worker(part, options, comm).model.to_json()


def equality(folder: Path) -> None:
    def work(comm: Communicator) -> None:
        for case in CASES:
            for learner in LEARNERS:
                (folder / f"{case}-{learner}-{comm.rank}.json").write_text(train_model(case, learner, comm))

    mpi.run(work)


def training(
    folder: Path,
    learners: str,
    victim: str = "-1",
    exchange: str = "0",
    seconds: str = "0",
    what: str = "kill",
    case: str = "binary",
    way: str = "run",
    timeout: str = "600",
) -> None:
    """Trainings with checkpoints, in which something may happen to a rank some time after its n-th exchange.

    Exchange 0 stands for the moment before the ranks meet. A training goes on from a checkpoint if there is one. The
    ranks meet by ``mpi.run``, as on the command line, or by ``mpi.join``, as in a script's fit.
    """
    world = mpi.checked_comm(None)
    rank = world.rank
    (folder / f"{rank}.pid").write_text(str(os.getpid()))
    note_shared_memory(folder)
    act = disturbance(what, folder / f"{learners} checkpoint" / FILE_NAME)
    moment = Moment(folder, act, int(exchange) if rank == int(victim) else -1, float(seconds))

    def work(comm: Communicator) -> None:
        for learner in learners.split("+"):
            before = moment.n_seen
            model = train_model(case, learner, comm, N_TREES, folder / f"{learner} checkpoint")
            (folder / f"{learner}-{rank}.json").write_text(model)
            (folder / f"{learner} exchanges").write_text(str(moment.n_seen - before))

    moment.pass_by()
    moment.watch(mpi.MPICommunicator)
    if way == "run":
        mpi.run(work, timeout=float(timeout))
    else:
        with mpi.join(world, float(timeout)) as comm:
            work(comm)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    tasks = {task.__name__: task for task in (equality, training)}
    tasks[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
