"""``pvtree predict``: files in, a table of predictions out, in a stream."""

from __future__ import annotations

import click

from pvtree.cli.config import config_option
from pvtree.cli.data_options import PATH, check_output, data_options, model_option, place_of
from pvtree.cli.ranks import refuse_ranks


@click.command()
@config_option
@model_option
@data_options
@click.option(
    "--output",
    default="-",
    type=PATH,
    metavar="FILE",
    help="A .csv, .tsv, .parquet or .npy file; default -, CSV on standard output.",
)
@click.option("--proba", "kind", flag_value="proba", help="The probability of each class.")
@click.option("--raw", "kind", flag_value="raw", help="The scores that predictions are made of.")
@click.option("--leaf", "kind", flag_value="leaf", help="The number of each row's leaf, of every tree.")
@click.option("--contrib", "kind", flag_value="contrib", help="What each column adds to the raw score (SHAP values).")
@click.option("--num-iteration", type=click.IntRange(min=1), help="Use the first iterations only.")
@click.option("--n-jobs", type=int, help="The number of threads; default all cores.")
def predict(
    model: str,
    data: str,
    format: str | None,
    no_header: bool,
    delimiter: str | None,
    output: str,
    kind: str | None,
    num_iteration: int | None,
    n_jobs: int | None,
) -> None:
    """Predict for every row of files, in their order: a class, or a value.

    The model's columns are picked by their names; files may have others beside them.

    \b
    pvtree predict --model model.json --data new.csv --output predictions.csv
    """
    refuse_ranks("predict")
    from pvtree import files
    from pvtree.files import answers
    from pvtree.files.predictions import prediction_file
    from pvtree.model import Model
    from pvtree.params import RULES, n_threads

    check_output(output, data, model)
    RULES["n_jobs"].check("n_jobs", n_jobs)
    loaded = Model.load(model)
    answer = answers.answer(loaded, kind or "prediction", num_iteration, n_threads(n_jobs))
    place = place_of(data, format, no_header, delimiter)
    n_rows = 0
    with prediction_file(output, answer.names) as write:
        for block in files.stream(place, loaded):
            write(answer.of_rows(block))
            n_rows += len(block)
    if output != "-":
        click.echo(f"{n_rows:,} rows written to {output}")
