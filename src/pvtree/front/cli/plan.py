"""``pvtree plan``: reads its options, measures this machine if necessary, and prints the plan."""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from pvtree.front.cli.config import config_option

UNITS = {"": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2.0**10, "mib": 2.0**20,
         "gib": 2.0**30, "tib": 2.0**40}  # fmt: skip


class Count(click.ParamType):
    """A whole number, which may be written as 1e9 or 1_000_000."""

    name = "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        try:
            number = float(value)
            if number == int(number):
                return int(value) if isinstance(value, str) and value.replace("_", "").isdigit() else int(number)
        except (ValueError, OverflowError):
            pass
        self.fail(f"{value!r} is not a whole number; write 1000000, 1_000_000 or 1e6.", param, ctx)


class Size(click.ParamType):
    """Bytes, with an optional unit: 64GB."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?) *([a-z]*)", str(value).strip().lower())
        if match is None or match[2] not in UNITS:
            self.fail(f"{value!r} is not a size; write a number of bytes, or 64GB or 512MiB.", param, ctx)
        return float(match[1]) * UNITS[match[2]]


@click.command()
@config_option
@click.option("--rows", required=True, type=Count(), help="Rows on all machines together, such as 1e9.")
@click.option("--attributes", required=True, type=Count(), help="Feature columns.")
@click.option("--machines", default=8, show_default=True, type=Count(), help="Available machines.")
@click.option("--network", default="1gbit", show_default=True, help="Rate of each machine's link, such as 10gbit.")
@click.option("--latency", type=float, help="Seconds that a message takes one way; default: 50e-6.")
@click.option("--leaves", default=63, show_default=True, type=Count(), help="Leaves per tree.")
@click.option("--bins", default=255.0, show_default=True, help="Average number of bins per attribute.")
@click.option("--top-k", type=Count(), help="Attributes that a worker votes for; default: chosen by the rows per leaf.")
@click.option("--cores", default=1.0, show_default=True, help="Cores per machine.")
@click.option("--trees", default=100, show_default=True, type=Count(), help="Trees to train.")
@click.option("--memory-per-machine", type=Size(), help="Such as 64GB; strategies that need more are not recommended.")
@click.option("--recalibrate", is_flag=True, help="Measure this machine again, which takes about a minute.")
@click.option("--no-calibrate", is_flag=True, help="Use the speed of a typical machine; measure nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(recalibrate: bool, no_calibrate: bool, as_json: bool, **options: Any) -> None:
    """Estimate what a tree costs on a cluster with each strategy, and recommend one.

    Bytes and collectives come from formulas that are tested against real trainings. Seconds follow from these, the
    network, and a measurement of this machine, which is made once.

    \b
    pvtree plan --rows 1e9 --attributes 1200 --machines 8 --network 1gbit --leaves 63
    """
    if recalibrate and no_calibrate:
        raise click.UsageError("--recalibrate and --no-calibrate exclude each other; use only one of them.")
    from pvtree.planning import calibration
    from pvtree.planning import plan as planning

    # Reports wrong options at once, not after a minute of measuring.
    planning.plan(**options, speeds=calibration.TYPICAL)
    speeds = calibration.TYPICAL if no_calibrate else calibration.speeds(recalibrate, tell)
    found = planning.plan(**options, speeds=speeds)
    click.echo(as_text(found) if as_json else str(found))


def tell(text: str) -> None:
    """Show progress, on one line of a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[Kpvtree: {text}", nl=False, err=True)
    else:
        click.echo(f"pvtree: {text}", err=True)


def as_text(found: Any) -> str:
    import json
    from dataclasses import asdict

    figures = asdict(found)
    for option, each in zip(figures["options"], found.options, strict=True):
        option["seconds"] = each.seconds
    return json.dumps(figures, indent=1)
