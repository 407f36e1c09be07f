"""fit on a Spark DataFrame, at the driver: selects the columns, runs one barrier stage and reads what it handed in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from pvtree.comm.outcome import cause_of
from pvtree.engines.spark.rows import ARRAY, IS_VALID, LABEL, QUERY, WEIGHT, Form
from pvtree.engines.spark.task import ANSWER_DDL, Answer, Task, train_partition
from pvtree.errors import (
    InvalidDataError,
    InvalidParameterError,
    InvalidTypeError,
    MissingDependencyError,
    PeerFailedError,
)
from pvtree.front.estimators.for_workers import sendable
from pvtree.front.estimators.worker_parts import pickled, result_of
from pvtree.parameters.params import refuse_serial

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pvtree.front.estimators.fit import Fitting
    from pvtree.front.estimators.fit_options import FitOptions

# Spark puts what a task has raised between tracebacks of several languages.
TOLD = re.compile(r"(?:PeerFailedError|WorkerTimeoutError): (Worker \d+ (?:lost|waited|of \d+ stops)[^\n]*)")
UNSUITABLE = "SPARK-24820"  # a barrier stage cannot follow a union or the like; it can follow a shuffle
NO_SLOTS = "SPARK-24819"  # fewer tasks can run at the same time than the stage has
SLOT_SECONDS, LOOK_SECONDS = 30.0, 1.0  # how long to wait for slots, and between two looks
LOST = re.compile(r"barrier task \w+\(\d+, (\d+)\) finished unsuccessfully\.?")  # partitions are ranks


def fit_on_spark(
    estimator: Fitting,
    dataset: DataFrame,
    features: str | Sequence[str],
    columns: dict[str, str | None],
    num_workers: int,
    options: FitOptions,
) -> None:
    """Train on all rows of the DataFrame, in ``num_workers`` tasks that run at the same time."""
    import cloudpickle

    checked = estimator._checked(options.stopping_with({}, getattr(estimator, "early_stopping_rounds", None)))
    refuse_serial(estimator.tree_learner, num_workers)
    selected, form = select(dataset, features, columns)
    selected = spread(selected, num_workers, QUERY in form.columns)
    packed = pickled(Task(*sendable(estimator, checked), form), cloudpickle.dumps, "Spark's executors")
    train: Any = partial(train_partition, packed=packed)
    rows = run_stage(selected, train, num_workers)
    answers = [read_answer(bytes(row["answer"])) for row in sorted(rows, key=lambda row: row["rank"])]
    error = cause_of(answer.error for answer in answers if answer.error is not None)
    if error is not None:
        raise error
    estimator._keep(result_of(answers), checked.callbacks)


def run_stage(selected: DataFrame, train: Any, num_workers: int) -> list[Any]:
    """What the tasks of one barrier stage hand in."""
    deadline = monotonic() + SLOT_SECONDS
    while True:
        try:
            # Spark runs a failed barrier stage again only if another stage follows it.
            return selected.mapInArrow(train, ANSWER_DDL, barrier=True).repartition(1).collect()
        except Exception as error:  # of Spark's several kinds
            if UNSUITABLE in str(error):
                return run_stage(selected.repartition(num_workers), train, num_workers)
            if NO_SLOTS not in str(error) or monotonic() > deadline:
                raise explained(error, num_workers) from error
        sleep(LOOK_SECONDS)  # an executor may be on its way, in place of one that was lost


def select(dataset: DataFrame, features: str | Sequence[str], columns: dict[str, str | None]) -> tuple[DataFrame, Form]:
    """The columns that are needed, under names that the tasks know."""
    chosen, names = feature_columns(dataset, features)
    given = [(columns.get(name), name) for name in (LABEL, WEIGHT, QUERY, IS_VALID)]
    for column, name in given:
        if column is not None:
            check_present(dataset, column)
            chosen.append(dataset[column].alias(name))
    return dataset.select(chosen), Form(names, tuple(name for column, name in given if column is not None))


def feature_columns(dataset: DataFrame, features: str | Sequence[str]) -> tuple[list[Column], tuple[str, ...] | None]:
    """One column of arrays and None, or several columns and their names."""
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql.types import ArrayType, NumericType

    if not isinstance(features, str):
        for name in features:
            check_present(dataset, name)
        if not features or len(set(features)) < len(features):
            raise InvalidParameterError(
                "features_col is a list without names or with one twice; name each column once."
            )
        return [dataset[name] for name in features], tuple(features)
    check_present(dataset, features)
    kind = dataset.schema[features].dataType
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType):
        return [dataset[features].alias(ARRAY)], None
    if kind.typeName() == "udt" or type(kind).__name__ == "VectorUDT":
        return [vector_to_array(dataset[features]).alias(ARRAY)], None
    raise InvalidTypeError(
        f"The column {features!r} holds {kind.simpleString()}; name a column of vectors or of arrays of numbers, or "
        "give features_col a list of columns."
    )


def check_present(dataset: DataFrame, name: str) -> None:
    if name not in dataset.columns:
        raise InvalidDataError(
            f"The DataFrame has no column {name!r}; it has {', '.join(map(repr, dataset.columns[:20]))}."
        )


def spread(dataset: DataFrame, num_workers: int, has_queries: bool) -> DataFrame:
    """One partition per worker. Rows of a query come together, in one partition and one after the other."""
    if has_queries:
        return dataset.repartitionByRange(num_workers, QUERY).sortWithinPartitions(QUERY)
    return dataset if n_partitions(dataset) == num_workers else dataset.repartition(num_workers)


def n_partitions(dataset: DataFrame) -> int | None:
    """How many partitions there are already; None if that is not known before the query runs, as on Spark Connect."""
    try:
        return int(dataset.rdd.getNumPartitions())
    except Exception:
        return None


def read_answer(packed: bytes) -> Answer:
    import cloudpickle

    load: Callable[[bytes], Answer] = cloudpickle.loads
    return load(packed)


def explained(error: Exception, num_workers: int) -> Exception:
    """Spark has tried the stage as often as it may: name the task that was lost."""
    text = str(error)
    if "No module named 'pvtree'" in text:
        return MissingDependencyError(
            "Spark's executors cannot import pvtree; install it on all of them: pip install 'pvtree[spark]'."
        )
    if NO_SLOTS in text:
        return InvalidParameterError(
            f"Spark cannot run {num_workers} tasks at the same time; lower num_workers, or give it more cores."
        )
    told, lost = TOLD.search(text), LOST.search(text)
    if told is not None:  # by a task that waited for it
        return PeerFailedError(told[1].strip())
    reason = " ".join((text[lost.end() :] if lost else text).split())[:200].strip(" .")
    who = f"worker {lost[1]} of {num_workers}" if lost else "a task"
    return PeerFailedError(
        f"Spark lost {who} during the training ({reason}); find out why in the executors' logs, such as too little "
        "memory, and fit again, with the same checkpoint to go on."
    )
