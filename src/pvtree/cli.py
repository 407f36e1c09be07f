"""The command line: ``pvtree train`` on Parquet files, in this process or on all ranks that mpiexec has started.

``pvtree plan`` is cli_plan.py, ``pvtree export`` cli_export.py.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

import click

from pvtree.cli_export import export
from pvtree.cli_options import ENSEMBLES, TASKS, estimator_class, parameter_options, python_values
from pvtree.cli_plan import plan
from pvtree.errors import CommunicationError, InvalidParameterError, PvtreeError

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.comm.mpi import MPICommunicator
    from pvtree.parquet import ParquetTable

SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")
RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
AGREE_SECONDS = 0.6  # for all ranks to come to the same error; those that only hear of it wait longer to speak


@dataclass(frozen=True)
class Order:
    """What the user asked ``train`` for, beside the estimator's parameters."""

    data: str
    label: str
    task: str
    ensemble: str
    model: str
    weight: str | None = None
    qid: str | None = None
    valid: str | None = None
    eval_metric: tuple[str, ...] = ()
    checkpoint: str | None = None
    checkpoint_freq: int = 10
    timeout: float = 600.0


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pvtree", prog_name="pvtree")
def cli() -> None:
    """Decision trees, forests and boosting whose workers vote (PV-Tree)."""


cli.add_command(plan)
cli.add_command(export)


@cli.command()
@click.option("--data", required=True, metavar="PATH", help="A Parquet file, or a folder of *.parquet files.")
@click.option("--label", required=True, metavar="COLUMN", help="The column to predict.")
@click.option("--weight", metavar="COLUMN", help="The column of row weights.")
@click.option("--qid", metavar="COLUMN", help="The column of query ids, for ranking; a query's rows stand together.")
@click.option("--valid", metavar="PATH", help="Parquet of rows to evaluate on, with the same columns.")
@click.option("--task", required=True, type=click.Choice(TASKS), help="What is predicted.")
@click.option("--ensemble", default="gbdt", show_default=True, type=click.Choice(ENSEMBLES), help="What is trained.")
@click.option("--model", default="model.json", show_default=True, metavar="FILE", help="Where the model is written.")
@click.option("--eval-metric", multiple=True, metavar="NAME", help="What is measured on --valid; may be repeated.")
@click.option("--checkpoint", metavar="DIR", help="Where the training is kept, to go on from after a crash.")
@click.option(
    "--checkpoint-freq", default=10, show_default=True, type=click.IntRange(min=1), help="Every how many iterations."
)
@click.option(
    "--timeout",
    default=600.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds to wait for a worker that does not answer.",
)
@parameter_options
def train(**options: Any) -> None:
    """Train on Parquet files, read in a stream, and write the model.

    Under mpiexec all ranks train together, each on some of the row groups:

    \b
    mpiexec -n 8 pvtree train --tree-learner voting --data DIR --label y --task regression
    """
    order = Order(**{name: options.pop(name) for name in Order.__dataclass_fields__})
    given = {name: value for name, value in options.items() if value is not None}
    kind = estimator_class(order.task, order.ensemble, given)
    if (order.task == "ranking") != (order.qid is not None):
        raise click.UsageError("--task ranking needs --qid COLUMN, and no other task takes it.")
    size = n_ranks()
    if size > 1 and given.get("tree_learner", "serial") == "serial":
        raise click.UsageError(
            f"mpiexec has started {size} ranks, but tree learner 'serial' trains on one; "
            "add --tree-learner voting, or data for the model of one machine."
        )
    if size > 1 and "n_workers" in given:
        raise click.UsageError("--workers makes virtual machines in one process; leave it out under mpiexec.")
    if size > 1:
        on_mpi(lambda comm: run_training(order, kind, given, comm), order.timeout)
    else:
        from pvtree.comm import Solo

        run_training(order, kind, given, Solo())


def run_training(order: Order, kind: type, given: dict[str, Any], comm: Communicator) -> None:
    """What every rank does; worker 0 writes the model and tells about it."""
    from pvtree.agreement import all_or_none, share
    from pvtree.parquet import ParquetTable

    began = perf_counter()

    def read(path: str) -> ParquetTable:
        return ParquetTable(path, order.label, order.weight, order.qid, comm.rank, comm.size)

    def prepare() -> tuple[Any, ParquetTable, ParquetTable | None]:
        if comm.rank == 0:
            check_target(order.model)
        estimator = kind(**python_values(given))
        table = read(order.data)
        return estimator, table, None if order.valid is None else read(order.valid)

    estimator, table, valid = all_or_none(prepare, comm)
    arguments: dict[str, Any] = {"checkpoint": order.checkpoint, "checkpoint_freq": order.checkpoint_freq}
    if order.qid is not None:
        arguments["qid"] = table.qid
    if valid is not None:
        arguments["eval_set"] = [(valid, valid.y)]
        arguments["eval_metric"] = list(order.eval_metric) or None
        if order.weight is not None:
            arguments["eval_sample_weight"] = [valid.weight]
        if order.qid is not None:
            arguments["eval_qid"] = [valid.qid]
    estimator.fit(table, table.y, table.weight, comm=comm, timeout=order.timeout, **arguments)
    n_rows = sum(share(len(table), comm))
    all_or_none(lambda: estimator.model_.save(order.model) if comm.rank == 0 else None, comm)
    if comm.rank == 0:
        click.echo(summary(estimator, order, n_rows, comm.size, perf_counter() - began))


def check_target(path: str) -> None:
    """Before training, not after it: whether the model can be written."""
    folder = Path(path).absolute().parent
    if Path(path).is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InvalidParameterError(
            f"The model cannot be written to {path}; give the name of a file in a folder that exists and is writable."
        )


def summary(estimator: Any, order: Order, n_rows: int, n_ranks: int, seconds: float) -> str:
    model, learner = estimator.model_, estimator.tree_learner
    n_workers = n_ranks if n_ranks > 1 else estimator.n_workers
    workers = "" if learner == "serial" else f" by {learner} on {n_workers} worker{'s' * (n_workers > 1)}"
    lines = [
        f"{len(model.trees)} trees of {n_rows:,} rows x {model.n_features} columns{workers} in {seconds:.1f} s "
        f"(binning {estimator.timings_['binning']:.1f} s, training {estimator.timings_['training']:.1f} s)"
    ]
    for metrics in estimator.evals_result_.values():
        at = (estimator.best_iteration_ or model.n_iterations) - 1
        shown = ", ".join(f"{name} {values[min(at, len(values) - 1)]:.6g}" for name, values in metrics.items())
        lines.append(f"{order.valid}: {shown} after iteration {at + 1}")
    if n_workers > 1:
        lines.append(str(estimator.traffic_).splitlines()[0])
    lines.append(f"model written to {order.model}")
    return "\n".join(lines)


# -- Under mpiexec --------------------------------------------------------------------------------------------


def n_ranks() -> int:
    """How many ranks mpiexec has started; 1 without it."""
    sizes = [int(os.environ[name]) for name in SIZE_VARIABLES if os.environ.get(name, "").isdigit()]
    if not sizes and "PMIX_RANK" in os.environ:  # tells that there are ranks, but not how many
        from pvtree.comm.mpi import load_mpi

        return int(load_mpi().COMM_WORLD.size)
    return max(sizes, default=1)


def is_speaker() -> bool:
    """Whether this rank tells what all ranks know; without asking MPI, which may not have started."""
    return all(os.environ.get(name, "0") == "0" for name in RANK_VARIABLES)


def on_mpi(work: Callable[[Communicator], None], timeout: float) -> None:
    """Run ``work(comm)`` on all ranks. One of them tells of wrong input in a sentence; else it is as with mpi.run."""
    from pvtree.comm import mpi

    def attempt(line: MPICommunicator) -> PvtreeError | None:
        """``line`` stays whole when the training's own communicator breaks, so ranks can still meet on it."""
        try:
            with mpi.MPICommunicator(timeout=timeout) as comm:
                work(comm)
        except CommunicationError:
            raise
        except PvtreeError as error:
            line.timeout = AGREE_SECONDS
            try:
                line.leave()
            except CommunicationError:  # this rank alone has failed: the others wait for it, or hear of it
                click.echo(f"Error: {error}", err=True)
                sleep(mpi.OUTPUT_SECONDS)
                mpi.load_mpi().COMM_WORLD.Abort(2)
            return error
        return None

    error = mpi.run(attempt, timeout=timeout)
    if error is not None:
        raise error


@contextmanager
def one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, *_: Any) -> None:
        if is_speaker():
            click.echo(f"Warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def main(arguments: list[str] | None = None) -> None:
    """Exit code 2 and one sentence for wrong input, once however many ranks there are."""
    try:
        with one_line_warnings():
            cli.main(arguments, prog_name="pvtree", standalone_mode=False)
    except (click.ClickException, PvtreeError) as error:
        sentence = error.format_message() if isinstance(error, click.ClickException) else str(error)
        if is_speaker():
            click.echo(f"Error: {sentence}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
