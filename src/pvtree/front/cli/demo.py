"""``pvtree demo``."""

from __future__ import annotations

import click


@click.command()
def demo() -> None:
    """Compare with scikit-learn on the data that it contains, then all strategies on 8 virtual machines."""
    from pvtree.front import demo as tables

    tables.main()
