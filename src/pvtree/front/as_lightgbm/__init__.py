"""LightGBM's modules, imported as ``pvtree.basic``, ``pvtree.sklearn`` and so on: see ``pvtree.__init__``."""
