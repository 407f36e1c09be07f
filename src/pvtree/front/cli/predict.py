"""``pvtree predict``: streams files in and a table of predictions out."""

from __future__ import annotations

import click
from click.core import ParameterSource

from pvtree.errors import InvalidParameterError
from pvtree.front.cli.config import config_option
from pvtree.front.cli.data_options import PATH, check_output, data_options, model_option, place_of
from pvtree.front.cli.ranks import refuse_ranks


@click.command()
@config_option
@model_option
@data_options
@click.option(
    "--output",
    default="-",
    type=PATH,
    metavar="FILE",
    help="A .csv, .tsv, .parquet or .npy file; default: CSV on standard output (-).",
)
@click.option("--proba", is_flag=True, help="Predict the probability of each class.")
@click.option("--raw", is_flag=True, help="Predict raw scores.")
@click.option("--leaf", is_flag=True, help="Predict the number of the row's leaf in every tree.")
@click.option("--contrib", is_flag=True, help="Predict each column's contribution to the raw score (SHAP values).")
@click.option("--num-iteration", type=click.IntRange(min=1), help="Use only this many iterations; default: all.")
@click.option("--n-jobs", type=int, help="The number of threads; default: all cores.")
def predict(
    model: str,
    data: str,
    format: str | None,
    no_header: bool,
    delimiter: str | None,
    output: str,
    num_iteration: int | None,
    n_jobs: int | None,
    **kinds: bool,
) -> None:
    """Predict a class or a value for every row of files, in order.

    Columns are found by name. The files may have other columns too.

    \b
    pvtree predict --model model.json --data new.csv --output predictions.csv
    """
    refuse_ranks("predict")
    from pvtree.front.cli.prediction_columns import prediction_columns
    from pvtree.front.cli.prediction_files import prediction_file
    from pvtree.model.model import Model
    from pvtree.parameters.params import n_threads
    from pvtree.parameters.rules import RULES
    from pvtree.reading import files

    kind = chosen_kind([name for name, is_given in kinds.items() if is_given])
    check_output(output, data, model)
    RULES["n_jobs"].check("n_jobs", n_jobs)
    loaded = Model.load(model)
    columns = prediction_columns(loaded, kind, num_iteration, n_threads(n_jobs))
    place = place_of(data, format, no_header, delimiter)
    n_rows = 0
    with prediction_file(output, columns.names) as write:
        for block in files.stream(place, loaded.columns, loaded.classes):
            write(columns.predict(block))
            n_rows += len(block)
    if output != "-":
        click.echo(f"{n_rows:,} rows written to {output}")


def chosen_kind(given: list[str]) -> str:
    """The kind of prediction that was asked for. The command line takes precedence over a config file."""
    source = click.get_current_context().get_parameter_source
    typed = [name for name in given if source(name) is ParameterSource.COMMANDLINE]
    asked = typed or given
    if len(asked) > 1:
        flags = " and ".join(f"--{name}" for name in asked)
        raise InvalidParameterError(f"{flags} are different predictions; use only one of them.")
    return asked[0] if asked else "prediction"
