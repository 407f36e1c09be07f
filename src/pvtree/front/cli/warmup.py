"""``pvtree warmup``."""

from __future__ import annotations

import os

import click

from pvtree.errors import PvtreeError


@click.command()
@click.option("--all", "takes_all", is_flag=True, help="Also forests, rankings, sparse data, SHAP and all strategies.")
@click.option(
    "--jobs", default=lambda: os.cpu_count() or 1, show_default="the number of cores", type=click.IntRange(1),
    help="Processes that compile at the same time.",
)  # fmt: skip
def warmup(takes_all: bool, jobs: int) -> None:
    """Compile kernels now, so that no later fit waits for it: for images and test environments."""
    from pvtree.front.warmup import TRAININGS, USUAL, compile_ahead
    from pvtree.kernels.cache_folder import folders

    failed = compile_ahead(list(TRAININGS) if takes_all else USUAL, jobs)
    if failed:
        raise PvtreeError(f"Compiling kernels for {', '.join(failed)} failed; the messages above say why.")
    new, _, why = folders()
    if new is None:
        raise PvtreeError(f"Kernels cannot be kept, because {why}; set NUMBA_CACHE_DIR to a folder that is writable.")
    click.echo(f"Kernels are compiled and kept in {new}.")
