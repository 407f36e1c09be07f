"""``pvtree demo``."""

from __future__ import annotations

import click


@click.command()
def demo() -> None:
    """Train on data that comes with scikit-learn, beside its models, then by every strategy on 8 virtual machines."""
    from pvtree.front import demo as shown

    shown.main()
