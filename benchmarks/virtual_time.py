"""How well the clock of virtual machines (pvtree.comm.virtual) predicts networked hosts: seconds per tree.

Hosts are network namespaces of this machine, which needs root (see network.py and cluster.py). The network's figures
are measured on the same hosts by single messages and rounds of messages, never by trainings.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from cluster import LONGEST, PROGRAMS, Bench, Run, rates
from cluster_programs import CLUSTER, LINKS
from libraries import LEARNING_RATE, MAX_BIN, MIN_CHILD_SAMPLES
from network import Network as Hosts
from network import NetworkError, usable_cores, why_not
from pvtree.comm import Network
from pvtree.comm.network import PAYLOAD_SHARE
from single_machine import environment, installed
from tables import command, markdown, write_between_marks

LEARNERS = ("voting", "data")
TARGET = 0.25  # predicted and measured seconds a tree may differ by this share


@dataclass(frozen=True)
class Cell:
    """All repetitions of one learner at one number of hosts and one rate."""

    n_hosts: int
    rate: float  # Mbit/s
    learner: str
    network: Network
    cores: float
    measured: list[Run]
    predicted: list[Run]

    @property
    def ratio(self) -> float:
        """Predicted divided by measured seconds, of the medians."""
        return typical(self.predicted) / typical(self.measured)


def main() -> None:
    options = read_options()
    reason = why_not()
    if reason:
        sys.exit(reason)
    load, cells = os.getloadavg()[0], []
    try:
        for n_hosts in options.hosts_list:
            cells += compare(argparse.Namespace(**vars(options) | {"hosts": n_hosts}))
    except NetworkError as error:
        sys.exit(str(error))
    text = report(options, cells, load)
    print(f"\n{text}")
    if options.output:
        write_between_marks(options.output, text)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", dest="hosts_list", type=numbers, default=[2, 4], help="numbers of hosts (2,4)")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of all hosts together (100,000)")
    parser.add_argument("--columns", type=int, default=1_200, help="columns (1,200)")
    parser.add_argument("--leaves", type=int, default=63, help="leaves of a tree (63)")
    parser.add_argument("--top-k", type=int, default=15, help="columns that a host nominates (15)")
    parser.add_argument("--trees", type=int, default=6, help="trees of a training, the first of them not timed (6)")
    parser.add_argument("--rates", type=rates, default=[1000.0, 100.0], help="Mbit/s of the links (1000,100)")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions, of which the median is shown (3)")
    parser.add_argument("--output", type=Path, help="markdown file to write the tables into")
    options = parser.parse_args()
    if options.trees < 2 or options.repeat < 1 or not all(2 <= hosts <= 200 for hosts in options.hosts_list):
        parser.error("give 2 to 200 hosts, at least 2 trees and at least 1 repetition")
    options.test_rows = 0
    return options


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


# Measuring


def compare(options: argparse.Namespace) -> Iterator[Cell]:
    """All rates and learners on one number of hosts."""
    with (
        tempfile.TemporaryDirectory(prefix="pvtree-virtual-") as folder,
        Hosts(options.hosts, Path(folder)) as hosts,
    ):
        bench = Bench(hosts, options, is_bound=True)
        for what in ("make", "warm"):
            bench.here(what)
        cores = min(1.0, usable_cores() / options.hosts)
        for rate in options.rates:
            hosts.set_rate(rate * 1e6)
            network = measure_network(bench, rate, cores)
            print(f"{options.hosts} hosts, {rate:g} Mbit/s, {network}", flush=True)
            found = {name: ([], []) for name in LEARNERS}
            for _ in range(options.repeat):
                for learner, (measured, predicted) in found.items():  # alternating: a slow minute affects both sides
                    measured.append(bench.measure(f"pvtree-{learner}", LONGEST))
                    predicted.append(bench.measure(f"virtual-{learner}", LONGEST))
                    print(f"{learner}: measured {told(measured[-1])}; predicted {told(predicted[-1])}", flush=True)
            for learner, (measured, predicted) in found.items():
                yield Cell(options.hosts, rate, learner, network, cores, measured, predicted)


def measure_network(bench: Bench, rate: float, cores: float) -> Network:
    """The hosts' network in terms of the model; it is also written to the folder for the virtual machines."""
    bench.network.mpi([sys.executable, str(PROGRAMS), "links", str(bench.folder)], bench.environment, 170.0)
    network = fit_network(json.loads((bench.folder / LINKS).read_text()), bench.options.hosts, rate * 1e6, cores)
    (bench.folder / CLUSTER).write_text(json.dumps({"network": asdict(network), "cores": cores}))
    return network


def fit_network(links: dict, n_hosts: int, bits_per_second: float, cores: float) -> Network:
    """Fit from the seconds of one message and from rounds of (bytes sent by a host, seconds, processor seconds)."""
    rounds = np.array(links["rounds"])  # (sizes, 3), smallest first
    (_, empty, busy_when_empty), (largest, seconds, busy) = rounds[0], rounds[-1]
    reached = float(largest * 8 / (seconds - empty) / PAYLOAD_SHARE)
    messages = 2 * (n_hosts - 1)
    return replace(
        Network(min(bits_per_second, reached), latency=links["one_way"]),
        per_message=max(0.0, float(empty) - links["one_way"]) / messages * cores,
        per_byte=max(0.0, float(busy - busy_when_empty)) / (2 * float(largest)),
    )


# Tables


def typical(runs: list[Run]) -> float:
    return median(run.seconds for run in runs)


def told(run: Run) -> str:
    assert run.ledger is not None
    waiting = run.ledger[:, 2].sum()
    return f"{run.seconds * 1e3:.0f} ms, {run.processor * 1e3:.0f} of the processor, {waiting * 1e3:.0f} in collectives"


def report(options: argparse.Namespace, cells: list[Cell], load: float) -> str:
    mpi = f"mpi4py {installed('mpi4py')}, mpich {installed('mpich')}"
    n_within = sum(abs(cell.ratio - 1) <= TARGET for cell in cells)
    return "\n\n".join(
        [
            f"`{command('virtual_time.py', '--output')}`; {environment()}, {mpi}; load {load:.1f} before the start.",
            f"{options.rows:,} rows x {options.columns:,} columns over all hosts, one thread a host, {options.leaves} "
            f"leaves, {MAX_BIN} bins, k = {options.top_k}, learning rate {LEARNING_RATE}, at least {MIN_CHILD_SAMPLES} "
            f"rows a leaf, {options.trees} trees, the first of them not timed. Medians of {options.repeat}, in "
            "brackets the least and the most.",
            cell_table(cells),
            f"{n_within} of {len(cells)} within {TARGET:.0%}.",
            "The networks, as measured by single messages and rounds:",
            network_table(cells),
        ]
    )


def cell_table(cells: list[Cell]) -> str:
    rows = [
        [
            str(cell.n_hosts),
            f"{cell.rate:g}",
            cell.learner,
            spread([run.seconds for run in cell.measured]),
            spread([run.seconds for run in cell.predicted]),
            f"{cell.ratio:.2f}",
            *(f"{median(run.processor for run in runs):.3f}" for runs in (cell.measured, cell.predicted)),
        ]
        for cell in cells
    ]
    header = [
        "hosts", "Mbit/s", "learner", "measured, s a tree", "predicted, s a tree", "ratio", "processor s, measured",
        "predicted",
    ]  # fmt: skip
    return markdown(header, rows)


def spread(seconds: list[float]) -> str:
    return f"{median(seconds):.3f} ({min(seconds):.3f}-{max(seconds):.3f})"


def network_table(cells: list[Cell]) -> str:
    networks = {(cell.n_hosts, cell.rate): cell for cell in cells}
    rows = [
        [
            str(n_hosts),
            f"{rate:g}",
            f"{cell.cores:g}",
            f"{cell.network.bits_per_second / 1e6:.0f}",
            f"{cell.network.latency * 1e6:.0f}",
            f"{cell.network.per_message * 1e6:.0f}",
            f"{cell.network.per_byte * 1e9:.2f}",
        ]
        for (n_hosts, rate), cell in networks.items()
    ]
    header = [
        "hosts", "Mbit/s", "cores a host", "reached, Mbit/s", "latency, us", "a message, us", "a byte, ns",
    ]  # fmt: skip
    return markdown(header, rows)


if __name__ == "__main__":
    main()
