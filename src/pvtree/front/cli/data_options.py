"""The options about the files to read, which train, predict, evaluate and report share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pvtree.errors import InvalidParameterError
from pvtree.parameters.paths import checked_path

if TYPE_CHECKING:
    from pvtree.reading.files import Place

FORMATS = ("parquet", "csv", "libsvm")


class FilePath(click.Path):
    """A path that shells complete; the file is checked when it is opened, the name already here."""

    def __init__(self, allow_dash: bool = True) -> None:
        super().__init__(readable=False, allow_dash=allow_dash)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            checked_path(value)
        except OSError as error:
            self.fail(f"{value!r} cannot be opened ({error.strerror}); give another.", param, ctx)
        return super().convert(value, param, ctx)


PATH = FilePath()


def model_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--model",
        default="model.json",
        show_default=True,
        type=PATH,
        metavar="FILE",
        help="The model file.",
    )(command)


def data_options(command: Callable[..., Any], required: bool = True) -> Callable[..., Any]:
    options = (
        click.option(
            "--data",
            required=required,
            type=PATH,
            metavar="PATH",
            help="A Parquet, CSV or libsvm file, or a folder of Parquet or CSV files.",
        ),
        click.option("--format", type=click.Choice(FORMATS), help="File format; default: from the suffix."),
        click.option("--no-header", is_flag=True, help="CSV files have no header; columns are numbered from 0."),
        click.option("--delimiter", metavar="CHAR", help="CSV delimiter; default: a comma, or a tab in .tsv files."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def column_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--label", metavar="COLUMN", help="The column to predict. Not for libsvm files, where it comes first."
        ),
        click.option("--weight", metavar="COLUMN", help="The column of row weights."),
        click.option(
            "--qid", metavar="COLUMN", help="The column of query ids, for ranking. Rows of a query must be adjacent."
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
            raise InvalidParameterError(f"--delimiter must be one character, such as ; or tab; got {delimiter!r}.")
    return Place.of(path, format, CsvForm(not no_header, delimiter))


def check_output(output: str, *inputs: str | None) -> None:
    """Raise, before anything is read, if the output would overwrite an input."""
    for path in inputs:
        if path is not None and os.path.isfile(output) and os.path.isfile(path) and os.path.samefile(output, path):
            raise InvalidParameterError(f"{output} is an input, so it cannot be the output too; give another name.")


def check_label(place: Place, label: str | None) -> None:
    if place.format != "libsvm" and label is None:
        # Not a UsageError: under mpiexec all ranks must raise it together.
        raise InvalidParameterError(f"Missing option '--label'; name the column of {place.path} to predict.")
