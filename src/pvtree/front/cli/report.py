"""``pvtree report``: a model as an HTML page, with its predictions of files if there are any."""

from __future__ import annotations

from functools import partial

import click

from pvtree.errors import InvalidParameterError
from pvtree.front.cli.config import config_option
from pvtree.front.cli.data_options import (
    PATH,
    check_label,
    check_output,
    column_options,
    data_options,
    model_option,
    place_of,
)
from pvtree.front.cli.ranks import refuse_ranks


@click.command()
@config_option
@model_option
@partial(data_options, required=False)
@column_options
@click.option(
    "--output", default="report.html", show_default=True, type=PATH, metavar="FILE", help="The HTML file to write."
)
def report(
    model: str,
    data: str | None,
    format: str | None,
    no_header: bool,
    delimiter: str | None,
    label: str | None,
    weight: str | None,
    qid: str | None,
    output: str,
) -> None:
    """Write a report of a model: one HTML file with charts, which needs no network.

    \b
    pvtree report --model model.json --data test.parquet --label y --output report.html
    """
    refuse_ranks("report")
    check_output(output, model, data)
    from pvtree.front.estimators.loading import load
    from pvtree.front.report import write_report
    from pvtree.reading import files

    estimator = load(model)
    if data is None:
        if label or weight or qid:
            raise InvalidParameterError("--label, --weight and --qid name columns of --data; name the file too.")
        write_report(estimator, output)
    else:
        place = place_of(data, format, no_header, delimiter)
        check_label(place, label)
        expected = files.expected_by(estimator.model_.columns, estimator.model_.classes)
        rows = files.read_rows(place, label, weight, qid, expected)
        write_report(estimator, output, rows.X, rows.y, rows.weight, qid=rows.qid)
    click.echo(output)
