"""Gives the tests a folder for compiled kernels, before anything imports pvtree, and the same examples."""

import os
from pathlib import Path

from hypothesis import settings

if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = str(Path(__file__).resolve().parent.parent / ".numba_cache")
settings.register_profile("same every time", derandomize=True, database=None, deadline=None)
settings.load_profile("same every time")
