"""What an engine's driver sends to its workers, and how these train on the parts of the data that they hold.

Dask's partitions and Ray's blocks become the same parts. Spark, whose tasks have one part each, shares the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pvtree.comm import Communicator
from pvtree.comm.agreement import all_or_none
from pvtree.comm.user_warnings import Heard, listening, warn_user
from pvtree.errors import InvalidDataError, InvalidTypeError
from pvtree.front.estimators.for_workers import sendable
from pvtree.reading import inputs
from pvtree.reading.dask_data import NOT_BY_ROW, Part, check_rows, n_rows
from pvtree.reading.stacked import Stacked
from pvtree.reading.training_rows import GivenRows

if TYPE_CHECKING:
    from pvtree.front.estimators.fit import Fitting
    from pvtree.front.estimators.fit_options import FitOptions
    from pvtree.training.train import TrainResult


@dataclass(frozen=True)
class WorkerTask:
    """What the driver sends to every worker, apart from its rows."""

    estimator: Any  # not fitted
    options: FitOptions
    sets: dict[str, GivenRows]  # the evaluation sets by name, without their rows
    columns: list[list[str]]  # the columns of the training data and of each evaluation set: "X", "y", "qid", ...

    @classmethod
    def of(
        cls,
        estimator: Fitting,
        options: FitOptions,
        sets: dict[str, GivenRows],
        by_column: Sequence[Iterable[str]],
    ) -> WorkerTask:
        unfitted, sent = sendable(estimator, options)
        described = {
            name: replace(given, X=None, y=None, weight=None, group=None, qid=None, init_score=None)
            for name, given in sets.items()
        }
        return cls(unfitted, sent, described, [list(columns) for columns in by_column])


class WorkerAnswer(NamedTuple):
    """What a worker sends back; only the first sends the result, which is the same on all."""

    result: TrainResult | None
    warnings: list[Heard]


# At the driver.


def pickled(task: Any, dumps: Callable[[Any], Any], whither: str) -> bytes:
    """The task as bytes, or an error that says what may not be in it."""
    try:
        return bytes(dumps(task))
    except Exception as error:
        raise InvalidTypeError(
            f"The estimator's parameters, eval_metric and callbacks are sent to {whither}, but one of them "
            f"cannot be pickled ({error}); use functions and objects that hold no locks, files or connections."
        ) from error


def result_of(answers: Sequence[Any]) -> TrainResult:
    """The first worker's result; what all of them warn of is shown once."""
    for category, sentence in dict.fromkeys(each for answer in answers for each in answer.warnings):
        warn_user(sentence, category)
    result: TrainResult | None = answers[0].result
    assert result is not None  # the first worker sends it
    return result


# On a worker.


def give_threads(estimator: Any, n_threads: int, comm: Communicator) -> None:
    """Use the threads that the engine has given to this worker, unless the user has chosen a number."""
    if estimator.n_jobs is None:
        estimator.set_params(n_jobs=n_threads)
        comm.shares_threads = False


def train_parts(
    comm: Communicator, task: WorkerTask, read_parts: Callable[[], list[list[Part]]], n_threads: int
) -> WorkerAnswer:
    """Train on this worker's parts of the training data and of each evaluation set, together with the others."""
    with listening() as heard:
        give_threads(task.estimator, n_threads, comm)

        def read() -> list[GivenRows]:
            forms, parts = [GivenRows(None, None), *task.sets.values()], read_parts()
            nothing = rowless(parts[0][0], comm.rank)
            return [
                put_together(form, own or [only(names, nothing)])
                for form, own, names in zip(forms, parts, task.columns, strict=True)
            ]

        given, *evaluated = all_or_none(read, comm)
        sets = dict(zip(task.sets, evaluated, strict=True))
        result = task.estimator._train(given, sets, task.options, comm)
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
        X=one_table(tables),
        y=joined(parts, "y"),
        weight=joined(parts, "sample_weight"),
        qid=joined(parts, "qid"),
        group=joined(parts, NOT_BY_ROW),
        init_score=joined(parts, "init_score"),
        blocks=[(index, n_rows(columns["X"])) for index, columns in parts],
    )


def one_table(tables: Sequence[Any]) -> Any:
    """The tables one after the other, not copied."""
    if len(tables) == 1:
        return tables[0]
    if type(tables[0]).__module__.partition(".")[0] == "pyarrow":
        import pyarrow as pa

        return pa.concat_tables(tables, promote_options="default")
    return Stacked(tables)


def check_parts(parts: Sequence[Part]) -> None:
    """Check that all parts have the same columns and that no query is cut, which no engine guarantees."""
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
