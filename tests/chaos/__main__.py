"""Disturbs trainings on MPI and Dask at seeded moments, and prints what came of it: ``python tests/chaos --help``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAVED = HERE.parent.parent / "build" / "chaos"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/chaos", description=__doc__.partition(":")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to go on (default: 60)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: from the clock")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run this scenario of the seed alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    # Python cleans up after killed processes too, but would say so.
    os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker"
    sys.path[:0] = [str(HERE.parent), str(HERE.parent / "comm")]
    import_module("conftest")  # chooses compiled kernels that match the sources, before pvtree is imported
    from session import Session

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # everything is cleaned up then too
    print(f"Seed {options.seed}; what goes wrong is saved in {os.path.relpath(SAVED)}.")
    is_interrupted = False
    with Session(options.seed, SAVED, tell) as session:
        try:
            if options.only is not None:
                session.run(options.only)
            else:
                session.run_for(60 * options.minutes)
        except KeyboardInterrupt:
            is_interrupted = True
            print("\nInterrupted.")
        print(f"\n{session.table}")
    return 1 if session.table.n_wrong else 130 if is_interrupted else 0


def tell(progress: str) -> None:
    """A line that is rewritten, on a terminal; in a file, a line for each."""
    print(
        f"\r{progress}\033[K" if sys.stdout.isatty() else progress, end="" if sys.stdout.isatty() else "\n", flush=True
    )


if __name__ == "__main__":
    sys.exit(main())
