"""``pvtree evaluate``: metrics of a model on files."""

from __future__ import annotations

import json

import click

from pvtree.front.cli.config import config_option
from pvtree.front.cli.data_options import check_label, column_options, data_options, model_option, place_of
from pvtree.front.cli.ranks import refuse_ranks


@click.command()
@config_option
@model_option
@data_options
@column_options
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="A metric; default: the task's own. May be repeated."
)
@click.option("--num-iteration", type=click.IntRange(min=1), help="Use only this many iterations; default: all.")
@click.option("--n-jobs", type=int, help="The number of threads; default: all cores.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def evaluate(
    model: str,
    data: str,
    format: str | None,
    no_header: bool,
    delimiter: str | None,
    label: str | None,
    weight: str | None,
    qid: str | None,
    metrics: tuple[str, ...],
    num_iteration: int | None,
    n_jobs: int | None,
    as_json: bool,
) -> None:
    """Measure how well a model predicts the labels in files.

    \b
    pvtree evaluate --model model.json --data test.csv --label y --metric auc --metric binary_logloss
    """
    refuse_ranks("evaluate")
    from pvtree.front.cli import evaluation
    from pvtree.model.model import Model
    from pvtree.parameters.params import n_threads
    from pvtree.parameters.rules import RULES
    from pvtree.reading import files

    RULES["n_jobs"].check("n_jobs", n_jobs)
    loaded = Model.load(model)
    place = place_of(data, format, no_header, delimiter)
    check_label(place, label)
    measures = evaluation.measures(loaded, metrics)
    rows = files.read_rows(place, label, weight, qid, files.expected_by(loaded.columns, loaded.classes))
    found = evaluation.evaluate(loaded, rows, measures, num_iteration, n_threads(n_jobs))
    if as_json:
        click.echo(json.dumps({"data": data, "rows": len(rows), "metrics": found}, indent=1))
        return
    width = max(map(len, found))
    for name, value in found.items():
        click.echo(f"{name:<{width}}  {value:.6g}")
