"""Gives the tests a folder for compiled kernels, before anything imports pvtree, and the same examples."""

import os
import signal
from pathlib import Path

from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start background jobs; some tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = str(Path(__file__).resolve().parent.parent / ".numba_cache")
# The same examples in every run. ``make unit PROFILE=random`` draws others, and prints how to repeat one that fails.
settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile("random", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile("fixed")
