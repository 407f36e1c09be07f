"""LightGBM's modules. They are imported as ``pvtree.basic``, ``pvtree.sklearn`` and so on: see ``pvtree.__path__``."""
