"""``pvtree predict``: files in, a table of predictions out, in a stream."""

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
    help="A .csv, .tsv, .parquet or .npy file; default -, CSV on standard output.",
)
@click.option("--proba", is_flag=True, help="The probability of each class.")
@click.option("--raw", is_flag=True, help="The scores that predictions are made of.")
@click.option("--leaf", is_flag=True, help="The number of each row's leaf, of every tree.")
@click.option("--contrib", is_flag=True, help="What each column adds to the raw score (SHAP values).")
@click.option("--num-iteration", type=click.IntRange(min=1), help="Use the first iterations only.")
@click.option("--n-jobs", type=int, help="The number of threads; default all cores.")
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
    """Predict for every row of files, in their order: a class, or a value.

    The model's columns are picked by their names; files may have others beside them.

    \b
    pvtree predict --model model.json --data new.csv --output predictions.csv
    """
    refuse_ranks("predict")
    from pvtree.front.cli import prediction_columns as answers
    from pvtree.front.cli.prediction_files import prediction_file
    from pvtree.model.model import Model
    from pvtree.parameters.params import n_threads
    from pvtree.parameters.rules import RULES
    from pvtree.reading import files

    kind = chosen_kind([name for name, is_given in kinds.items() if is_given])
    check_output(output, data, model)
    RULES["n_jobs"].check("n_jobs", n_jobs)
    loaded = Model.load(model)
    answer = answers.answer(loaded, kind, num_iteration, n_threads(n_jobs))
    place = place_of(data, format, no_header, delimiter)
    n_rows = 0
    with prediction_file(output, answer.names) as write:
        for block in files.stream(place, loaded.columns, loaded.classes):
            write(answer.of_rows(block))
            n_rows += len(block)
    if output != "-":
        click.echo(f"{n_rows:,} rows written to {output}")


def chosen_kind(given: list[str]) -> str:
    """The one that is asked for; those of the command line win over those of a config file, like any option."""
    source = click.get_current_context().get_parameter_source
    typed = [name for name in given if source(name) is ParameterSource.COMMANDLINE]
    asked = typed or given
    if len(asked) > 1:
        flags = " and ".join(f"--{name}" for name in asked)
        raise InvalidParameterError(f"{flags} are different predictions; give one of them.")
    return asked[0] if asked else "prediction"
