"""One task of a barrier stage: it meets the others, trains with them on its partition, and hands in what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from pvtree.comm import tcp
from pvtree.comm.agreement import all_or_none
from pvtree.comm.outcome import able_to_travel
from pvtree.comm.tcp_gate import bindable
from pvtree.comm.user_warnings import Heard, listening
from pvtree.engines.spark.rows import Form, as_given, gather, spool
from pvtree.errors import CommunicationError
from pvtree.front.estimators.worker_parts import give_threads

if TYPE_CHECKING:
    from pyspark import BarrierTaskContext

    from pvtree.front.estimators.fit_options import FitOptions
    from pvtree.training.train import TrainResult

ANSWER = pa.schema([("rank", pa.int32()), ("answer", pa.binary())])
ANSWER_DDL = "rank int, answer binary"


@dataclass(frozen=True)
class Task:
    """What the driver sends to every task, apart from its rows."""

    estimator: Any  # not fitted
    options: FitOptions
    form: Form


class Answer(NamedTuple):
    """What a task hands in; only the first has the result, which is the same on all."""

    result: TrainResult | None
    warnings: list[Heard]
    error: BaseException | None = None


def train_partition(batches: Iterator[pa.RecordBatch], packed: bytes) -> Iterator[pa.RecordBatch]:
    """Called by Spark on every task of the stage.

    Errors of the user's data, parameters and functions are handed in, because to try again would end alike. The loss of
    another task is raised, so that Spark runs the stage again, which then goes on from the checkpoint.
    """
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    try:
        answer = train_here(context, batches, packed)
    except BaseException as error:
        if is_loss(error) or not isinstance(error, Exception):
            raise
        answer = Answer(None, [], error)
    yield pa.RecordBatch.from_pydict({"rank": [context.partitionId()], "answer": [dumped(answer)]}, schema=ANSWER)


def train_here(context: BarrierTaskContext, batches: Iterator[pa.RecordBatch], packed: bytes) -> Answer:
    import cloudpickle

    task: Task = cloudpickle.loads(packed)
    rank, infos = context.partitionId(), context.getTaskInfos()
    place = tcp.Engine(rank, len(infos), context.allGather)
    address = infos[rank].address  # where Spark reaches this executor
    with (
        tcp.connect(place, host=bindable(address.rpartition(":")[0] or address), timeout=task.options.timeout) as comm,
        listening() as heard,
    ):
        estimator = task.estimator
        give_threads(estimator, context.cpus(), comm)
        spools = all_or_none(lambda: spool(batches, task.form), comm)
        given, *evaluated = gather(spools, task.form, comm)
        sets = {
            f"valid_{i}": as_given(fields, prefix="eval_", suffix=f" of eval_set {i}")
            for i, fields in enumerate(evaluated)
        }
        result = estimator._train(as_given(given), sets, task.options, comm)
    return Answer(result if rank == 0 else None, heard)


def is_loss(error: BaseException) -> bool:
    """Whether a task is lost or late, and not merely failed."""
    return isinstance(error, CommunicationError) and (hasattr(error, "about") or " about worker" in str(error))


def dumped(answer: Answer) -> bytes:
    """An answer that reaches the driver even if its exception cannot be pickled."""
    import cloudpickle

    if answer.error is not None:
        answer = answer._replace(error=able_to_travel(answer.error, cloudpickle.dumps))
    return bytes(cloudpickle.dumps(answer))
