"""The options that say which files are read, and how; the same for train, predict and evaluate."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pvtree.errors import InvalidParameterError

if TYPE_CHECKING:
    from pvtree.reading.files import Place

FORMATS = ("parquet", "csv", "libsvm")
PATH = click.Path(readable=False, allow_dash=True)  # completed by shells, and checked where it is opened


def model_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--model",
        default="model.json",
        show_default=True,
        type=PATH,
        metavar="FILE",
        help="A model that pvtree has saved.",
    )(command)


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--data",
            required=True,
            type=PATH,
            metavar="PATH",
            help="A Parquet, CSV or libsvm file, or a folder of Parquet or CSV files.",
        ),
        click.option("--format", type=click.Choice(FORMATS), help="What the suffixes of files do not tell."),
        click.option("--no-header", is_flag=True, help="CSV without names: columns are known by numbers, from 0."),
        click.option("--delimiter", metavar="CHAR", help="Of CSV; by default a comma, in .tsv files a tab."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def column_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--label", metavar="COLUMN", help="The column to predict; libsvm files have it in front."),
        click.option("--weight", metavar="COLUMN", help="The column of row weights."),
        click.option(
            "--qid", metavar="COLUMN", help="The column of query ids, for ranking; a query's rows stand together."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def place_of(path: str, format: str | None, no_header: bool, delimiter: str | None) -> Place:
    from pvtree.reading.csv_tables import CsvForm
    from pvtree.reading.files import Place

    if delimiter is not None:
        delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
        if len(delimiter) != 1 or not delimiter.isascii():
            raise InvalidParameterError(f"--delimiter must be one character, such as ; or tab, got {delimiter!r}.")
    return Place.of(path, format, CsvForm(not no_header, delimiter))


def check_output(output: str, *inputs: str | None) -> None:
    """Before anything is read: an output that takes the place of an input destroys it."""
    for path in inputs:
        if path is not None and os.path.isfile(output) and os.path.isfile(path) and os.path.samefile(output, path):
            raise InvalidParameterError(f"{output} is read, so it cannot be written as well; give another name.")


def check_label(place: Place, label: str | None) -> None:
    if place.format != "libsvm" and label is None:
        # No UsageError: under mpiexec all ranks must come to it together.
        raise InvalidParameterError(f"Missing option '--label': which column of {place.path} is predicted?")
