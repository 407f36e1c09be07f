"""``python -m pvtree`` is the command ``pvtree``."""

from pvtree.front.cli import main

main()
