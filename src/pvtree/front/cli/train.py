"""``pvtree train``: trains on files, in this process, on all ranks of mpiexec, or on workers that meet over TCP."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from pvtree.errors import InvalidParameterError
from pvtree.front.cli.config import config_option
from pvtree.front.cli.data_options import PATH, check_label, check_output, column_options, data_options, place_of
from pvtree.front.cli.options import ENSEMBLES, TASKS, estimator_class, parameter_options, python_values
from pvtree.front.cli.ranks import n_ranks, on_mpi
from pvtree.front.cli.tcp_options import TCPOptions, tcp_options

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.reading.files import FileRows, Place


@dataclass(frozen=True)
class TrainOptions:
    """The options of ``train`` other than the estimator's parameters."""

    data: str
    task: str
    ensemble: str
    model: str
    format: str | None = None
    no_header: bool = False
    delimiter: str | None = None
    label: str | None = None
    weight: str | None = None
    qid: str | None = None
    valid: str | None = None
    eval_metric: tuple[str, ...] = ()
    checkpoint: str | None = None
    checkpoint_freq: int = 10
    timeout: float = 600.0

    def place(self, path: str) -> Place:
        return place_of(path, self.format, self.no_header, self.delimiter)


@click.command()
@config_option
@data_options
@column_options
@click.option("--valid", type=PATH, metavar="PATH", help="Files of rows to evaluate on, with the same columns.")
@click.option("--task", required=True, type=click.Choice(TASKS), help="What to predict.")
@click.option("--ensemble", default="gbdt", show_default=True, type=click.Choice(ENSEMBLES), help="What to train.")
@click.option(
    "--model",
    default="model.json",
    show_default=True,
    type=PATH,
    metavar="FILE",
    help="The model file to write.",
)
@click.option("--eval-metric", multiple=True, metavar="NAME", help="A metric to measure on --valid. May be repeated.")
@click.option("--checkpoint", type=PATH, metavar="DIR", help="Save checkpoints here, and resume from the last one.")
@click.option(
    "--checkpoint-freq",
    default=10,
    show_default=True,
    type=click.IntRange(min=1),
    help="Iterations between checkpoints.",
)
@click.option(
    "--timeout",
    default=600.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds to wait for a worker that does not answer.",
)
@tcp_options
@click.option("--quiet", "-q", is_flag=True, help="Show no progress and no summary.")
@parameter_options
def train(quiet: bool, **values: Any) -> None:
    """Train on Parquet, CSV or libsvm files and write the model.

    Parquet and CSV files are streamed. Under mpiexec all ranks train together, each on a part of the rows:

    \b
    mpiexec -n 8 pvtree train --data DIR --label y --task regression

    Processes that anything else has started train together too, if they meet in a folder that all of them see:

    \b
    pvtree train --rendezvous file:///shared/job1 --rank 0 --size 8 --data DIR --label y --task regression
    """
    options = TrainOptions(**{name: values.pop(name) for name in TrainOptions.__dataclass_fields__})
    place = TCPOptions(**{name: values.pop(name) for name in TCPOptions.__dataclass_fields__})
    given = {name: value for name, value in values.items() if value is not None}
    kind = estimator_class(options.task, options.ensemble, given)
    if quiet:
        given["verbosity"] = 0
    place.check()
    if place.rendezvous is not None:  # even if Slurm's variables look like those of mpiexec
        with place.connect(options.timeout) as comm:
            check_learner(given, comm.size, "at --rendezvous")
            run_training(options, kind, given, quiet, comm)
    elif n_ranks() > 1:
        check_learner(given, n_ranks(), "under mpiexec")
        on_mpi(lambda comm: run_training(options, kind, given, quiet, comm), options.timeout)
    else:
        from pvtree.comm import Solo

        run_training(options, kind, given, quiet, Solo())


def check_learner(given: dict[str, Any], size: int, where: str) -> None:
    """Refuse what suits one process only."""
    if size > 1 and given.get("tree_learner") == "serial":
        raise click.UsageError(
            f"There are {size} workers {where}, but --tree-learner serial trains on one; "
            "leave it out for the model of one machine, or use voting for the least traffic."
        )
    if size > 1 and "n_workers" in given:
        raise click.UsageError(f"--workers creates virtual machines in one process; leave it out {where}.")


def run_training(options: TrainOptions, kind: type, given: dict[str, Any], quiet: bool, comm: Communicator) -> None:
    """Train on every rank; worker 0 writes the model and prints a summary."""
    from pvtree.comm.agreement import all_or_none, share
    from pvtree.training.progress_bar import note_before_bar

    began = perf_counter()
    with note_before_bar(f"reading {file_name(options.data)} ...", comm.rank == 0 and not quiet):
        estimator, n_own = fit_files(options, kind, given, comm)
    n_rows = sum(share(n_own, comm))
    all_or_none(lambda: estimator.model_.save(options.model) if comm.rank == 0 else None, comm)
    if comm.rank == 0 and not quiet:
        click.echo(summary(estimator, options, n_rows, comm.size, perf_counter() - began))


def fit_files(options: TrainOptions, kind: type, given: dict[str, Any], comm: Communicator) -> tuple[Any, int]:
    """The fitted estimator, and the number of this rank's rows."""
    from pvtree.comm.agreement import all_or_none

    def prepare() -> tuple[Any, FileRows, FileRows | None]:
        if comm.rank == 0:
            check_output(options.model, options.data, options.valid)
            check_target(options.model)
        estimator = kind(**python_values(given))
        return estimator, *read_files(options, comm)

    from pvtree.front.estimators.eval_arguments import ExactMetrics

    estimator, rows, valid = all_or_none(prepare, comm)
    arguments: dict[str, Any] = {"checkpoint": options.checkpoint, "checkpoint_freq": options.checkpoint_freq}
    if options.task == "ranking":
        arguments["qid"] = rows.qid
    if valid is not None:
        arguments["eval_set"], arguments["eval_names"] = [(valid.X, valid.y)], [set_name(str(options.valid))]
        arguments["eval_metric"] = ExactMetrics(options.eval_metric) or None
        if options.weight is not None:
            arguments["eval_sample_weight"] = [valid.weight]
        if options.task == "ranking":
            arguments["eval_qid"] = [valid.qid]
    estimator.fit(rows.X, rows.y, rows.weight, comm=comm, timeout=options.timeout, **arguments)
    return estimator, len(rows)


def file_name(path: str) -> str:
    return os.path.basename(path.rstrip("/")) or path


def set_name(path: str) -> str:
    """The name of the evaluation set in files: theirs, unless early stopping would take it for the training rows."""
    from pvtree.training.callbacks import TRAINING_NAMES

    name = file_name(path)
    return f"./{name}" if name in TRAINING_NAMES else name


def read_files(options: TrainOptions, comm: Communicator) -> tuple[FileRows, FileRows | None]:
    """This rank's rows to train on and to evaluate on, with the same columns."""
    from pvtree.reading.files import expected_as, read_rows

    place = options.place(options.data)
    check_label(place, options.label)
    is_ranking, names = options.task == "ranking", (options.label, options.weight, options.qid)
    lacks_queries = is_ranking and options.qid is None and place.format != "libsvm"
    if lacks_queries or (options.qid is not None and not is_ranking):
        raise InvalidParameterError("--task ranking needs --qid COLUMN, and no other task accepts it.")
    rows = read_rows(place, *names, rank=comm.rank, size=comm.size)
    if is_ranking and rows.qid is None and len(rows):
        raise InvalidParameterError(f"{place.path} has no qid:, which --task ranking needs; add it after the labels.")
    if options.valid is None:
        return rows, None
    valid = read_rows(options.place(options.valid), *names, expected_as(rows), comm.rank, comm.size)
    return rows, valid


def check_target(path: str) -> None:
    """Raise, before training, if the model cannot be written."""
    folder = Path(path).absolute().parent
    if path == "-" or Path(path).is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InvalidParameterError(
            f"The model cannot be written to {path}; give the name of a file in a folder that exists and is writable."
        )


def summary(estimator: Any, options: TrainOptions, n_rows: int, n_ranks: int, seconds: float) -> str:
    from pvtree.parameters.params import learner_for

    model, n_workers = estimator.model_, n_ranks if n_ranks > 1 else estimator.n_workers
    learner = learner_for(estimator.tree_learner, n_workers)
    workers = "" if learner == "serial" else f" by {learner} on {n_workers} worker{'s' * (n_workers > 1)}"
    lines = [
        f"{len(model.trees)} trees on {n_rows:,} rows x {model.n_features} columns{workers} in {seconds:.1f} s "
        f"(binning {estimator.timings_['binning']:.1f} s, training {estimator.timings_['training']:.1f} s)"
    ]
    for metrics in estimator.evals_result_.values():
        at = (estimator.best_iteration_ or model.n_iterations) - 1
        shown = ", ".join(f"{name} {values[min(at, len(values) - 1)]:.6g}" for name, values in metrics.items())
        lines.append(f"{options.valid}: {shown} after iteration {at + 1}")
    if n_workers > 1:
        lines.append(str(estimator.traffic_).splitlines()[0])
    lines.append(f"model written to {options.model}")
    return "\n".join(lines)
