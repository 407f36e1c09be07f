"""``python -m pvtree`` is the command ``pvtree``."""

from pvtree.cli import main

main()
