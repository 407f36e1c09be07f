"""Gives the tests compiled kernels that match the sources, before anything imports pvtree, and the same examples."""

import hashlib
import os
import shutil
import signal
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".numba_cache"
N_KEPT = 10  # so that going back and forth between versions, or testing several at once, stays quick


def use_cache_of_these_sources() -> None:
    """numba recompiles a kernel when its own file changes, but not when one that it calls changes elsewhere."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src" / "pvtree").rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode())
        digest.update(path.read_bytes())
    folder = CACHE / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    folder.touch()
    for old in sorted(CACHE.iterdir(), key=lambda path: path.stat().st_mtime)[:-N_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = str(folder)


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start background jobs; some tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
if "NUMBA_CACHE_DIR" not in os.environ:
    use_cache_of_these_sources()
# The same examples in every run. ``make unit PROFILE=random`` draws others, and prints how to repeat one that fails.
settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile("random", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile("fixed")
