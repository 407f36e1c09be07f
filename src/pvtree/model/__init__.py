"""Models as immutable data: prediction, explanation, files, and other programs' formats."""

from pvtree.model.model import Model, Tree

__all__ = ["Model", "Tree"]
