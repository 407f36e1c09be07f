"""How accurate ``pvtree plan`` is: bytes, collectives and seconds per tree against trainings on virtual machines.

Seconds are those of the clocks of ``pvtree.comm.virtual``; docs/network-benchmark.md has those of networked hosts.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

from made_data import make_binary
from pvtree.comm.traffic import format_bytes
from pvtree.comm.virtual import Cluster
from pvtree.parameters.params import Params
from pvtree.planning import calibration
from pvtree.planning.plan import plan
from pvtree.training.skew import SkewWarning
from pvtree.training.train import train
from single_machine import environment
from tables import markdown, write_between_marks

SETTINGS = ((20_000, 400, 4, 31), (100_000, 200, 8, 63), (30_000, 1_200, 4, 63), (200_000, 60, 2, 127))
LEARNERS = ("attribute", "data", "quantized", "voting")
TOP_K = 15
MEAN_BINS = 215  # of the benchmark's columns, some of which are whole numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="1gbit", help="rate of the machines' links (1gbit)")
    parser.add_argument("--trees", type=int, default=5, help="trees of each training (5)")
    parser.add_argument("--repeats", type=int, default=2, help="trainings of each, the fastest of which counts (2)")
    parser.add_argument("--output", type=Path, help="markdown file to write the table into")
    options = parser.parse_args()
    warnings.simplefilter("ignore", SkewWarning)
    header = ["data", "algorithm", "sent: plan", "training", "ratio", "calls: plan", "training", "seconds: plan",
              "training", "ratio"]  # fmt: skip
    title = (
        f"`python benchmarks/plan.py`; {environment()}. Virtual machines of one core at {options.network}, "
        f"k = {TOP_K}, mean of {options.trees} trees, the faster of {options.repeats} trainings; load "
        f"{os.getloadavg()[0]:.1f} before the start."
    )
    speeds = calibration.speeds(say=print)
    rows = []
    for setting in SETTINGS:
        rows += compare(*setting, options, speeds)
    text = f"{title}\n\n{markdown(header, rows)}"
    print(text)
    if options.output:
        write_between_marks(options.output, text)


def compare(
    n_rows: int, n_features: int, n_workers: int, n_leaves: int, options: argparse.Namespace, speeds: calibration.Speeds
) -> list[list[str]]:
    """One line per algorithm."""
    X, y, _ = make_binary(n_rows, n_features, seed=0)
    planned = plan(n_rows, n_features, n_workers, options.network, n_leaves, bins=MEAN_BINS, top_k=TOP_K, speeds=speeds)
    lines = []
    for learner in LEARNERS:
        params = Params(
            objective="binary", n_classes=2, tree_learner=learner, n_workers=n_workers, top_k=TOP_K,
            num_leaves=n_leaves, n_estimators=options.trees, n_threads=1,
        )  # fmt: skip
        cluster = Cluster(options.network)
        train(X[:500], y[:500], Params(**vars(params) | {"n_estimators": 1}), cluster=cluster)  # compiles
        results = [train(X, y, params, cluster=cluster) for _ in range(options.repeats)]
        result = results[0]  # all send the same
        seconds = min(each.timings["training"] for each in results) / options.trees
        expected = next(each for each in planned.options if each.strategy == learner)
        sent = result.traffic.bytes_per_tree
        lines.append(
            [f"{n_rows:,} x {n_features:,}, M = {n_workers}, {n_leaves} leaves", learner,
             format_bytes(expected.n_bytes), format_bytes(sent), f"{expected.n_bytes / sent:.2f}",
             str(expected.n_calls), f"{result.traffic.calls_per_tree:.1f}", f"{expected.seconds:.3f}", f"{seconds:.3f}",
             f"{expected.seconds / seconds:.2f}"]
        )  # fmt: skip
        print(*lines[-1], sep=" | ", flush=True)
    return lines


if __name__ == "__main__":
    main()
