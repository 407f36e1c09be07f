"""``pvtree export``: a model file in another program's format."""

from __future__ import annotations

import click

from pvtree.front.cli.config import config_option
from pvtree.front.cli.data_options import PATH, check_output, model_option


@click.command()
@config_option
@model_option
@click.option(
    "--output",
    required=True,
    type=PATH,
    metavar="FILE",
    help="The file to write; - for standard output.",
)
@click.option(
    "--format",
    "kind",
    default="lightgbm",
    show_default=True,
    type=click.Choice(["lightgbm"]),
    help="The format to write.",
)
@click.option(
    "--average-output/--no-average-output",
    default=True,
    show_default=True,
    help="For forests: mark the trees to be averaged; or write values divided by the number of trees, for programs "
    "that can only add trees.",
)
def export(model: str, output: str, kind: str, average_output: bool) -> None:
    """Write a model as a LightGBM text model, which LightGBM, treelite, lleaves, SHAP and ONNX converters read."""
    from pvtree.model.export_lightgbm import dump
    from pvtree.model.model import Model

    check_output(output, model)
    loaded = Model.load(model)
    if output == "-":
        click.echo(dump(loaded, average_output), nl=False)
        return
    loaded.export_lightgbm(output, average_output)
    click.echo(f"{len(loaded.trees)} trees written to {output}")
