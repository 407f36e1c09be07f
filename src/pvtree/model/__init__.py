"""Models as immutable data: prediction, explanation, files and the formats of other programs."""

from pvtree.model.model import Model
from pvtree.model.tree import Tree

__all__ = ["Model", "Tree"]
