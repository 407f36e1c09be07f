"""A tree on bins in a file against one on bins in memory, with less memory than the bins take.

Memory is limited by a control group, which needs root; without it only the file itself is measured.
Run it as ``python benchmarks/bins_on_disk.py --folder FOLDER``, on the disk that is to be measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from statistics import median

import numpy as np

PART_ROWS = 2**16
OTHER_BYTES = 400e6  # Python, kernels, kept histograms and what training keeps for each row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_500_000)
    parser.add_argument("--columns", type=int, default=800)
    parser.add_argument("--trees", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--share", type=float, default=1 / 3, help="memory for bins, as a share of them (1/3)")
    parser.add_argument("--groups", type=Path, default=Path("/sys/fs/cgroup"), help="where control groups are mounted")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the bins' file is made")
    parser.add_argument("--place", choices=("memory", "file"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.place:
        print(json.dumps(train(options)))
        return
    n_bytes = options.rows * options.columns
    limit = int(n_bytes * options.share + 60 * options.rows + OTHER_BYTES)
    found: dict[str, list[float]] = {"memory": [], "file": []}
    for _ in range(options.repeats):
        for place, seconds in found.items():
            seconds.append(run(place, limited_group(options.groups, limit) if place == "file" else None))
    memory, file = (median(found[place]) for place in ("memory", "file"))
    print(
        f"{options.rows:,} x {options.columns:,}, bins of {n_bytes / 1e9:.1f} GB, {limit / 1e9:.1f} GB of memory: "
        f"a tree {1e3 * memory:.0f} ms in memory, {1e3 * file:.0f} ms in a file: {file / memory:.1f} times as long"
    )


def run(place: str, group: Path | None) -> float:
    command = [sys.executable, __file__, *sys.argv[1:], "--place", place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=joining(group)) as process:
        out, _ = process.communicate()
    if group is not None:
        with suppress(OSError):
            group.rmdir()
    return float(json.loads(out.splitlines()[-1]))


def limited_group(groups: Path, limit: int) -> Path | None:
    group = groups / f"pvtree-{os.getpid()}"
    try:
        group.mkdir(exist_ok=True)
        files = (group / "memory.max", group / "memory.limit_in_bytes")  # of versions 2 and 1
        next((file for file in files if file.exists()), files[0]).write_text(str(limit))
    except OSError as error:
        print(f"Memory is not limited ({error.strerror}): run this as root, with --groups.")
        return None
    return group


def joining(group: Path | None):
    return None if group is None else lambda: (group / "cgroup.procs").write_text(str(os.getpid()))


def train(options: argparse.Namespace) -> float:
    """Seconds of a tree, without those of the first, which loads kernels and touches all memory."""
    from pvtree.binning.mapped_bins import make_bins
    from pvtree.binning.shard import Shard
    from pvtree.comm import Solo
    from pvtree.parameters.params import Params
    from pvtree.training import train as training

    rng = np.random.default_rng(0)
    y = rng.normal(size=options.rows)
    X = np.broadcast_to(np.float32(0), (options.rows, options.columns))
    made = bins_of(options, rng, y, make_bins)
    params = Params(n_estimators=1 + options.trees, num_leaves=63, n_threads=2, verbosity=0)
    result = binned(training, Shard, made, y).train(X, y, params, comm=Solo())
    return (result.seconds[-1] - result.seconds[0]) / options.trees


def bins_of(options, rng, y, make_bins):
    """Random bins, of which some follow y, written part by part."""
    from pvtree.binning.binned_rows import BinnedRows
    from pvtree.binning.thresholds import block_starts
    from pvtree.kernels.constants import BLOCK, N_BINS

    starts = block_starts(options.columns, 2)
    folder = options.folder if options.place == "file" else None
    bins = make_bins((len(starts) - 1, options.rows * int(BLOCK)), folder)
    for block in range(len(starts) - 1):
        for first in range(0, options.rows, PART_ROWS):
            last = min(first + PART_ROWS, options.rows)
            part = rng.integers(1, int(N_BINS) - 1, (last - first, int(BLOCK)), np.uint8)
            part[:, 0] = np.clip(128 + 20 * y[first:last] + 40 * rng.normal(size=last - first), 1, 250)
            bins[block, first * BLOCK : last * BLOCK] = part.ravel()
    n_bins = np.full(options.columns, int(N_BINS) - 2)
    return BinnedRows(bins, starts, n_bins, np.zeros(options.columns, np.uint8))


def binned(training, Shard, data, y):
    """The training module, for which all rows are binned already."""
    from pvtree.binning.thresholds import Thresholds
    from pvtree.kernels.constants import N_BINS
    from pvtree.reading.row_ids import RowIds

    upper = np.tile(np.arange(int(N_BINS), dtype=float), (data.n_features, 1))
    thresholds = Thresholds(upper, data.n_bins, data.is_categorical)
    shard = Shard(data, thresholds, y, None, None, RowIds.consecutive(len(y)), 0)
    training.make_shard = lambda *_: shard
    return training


if __name__ == "__main__":
    main()
