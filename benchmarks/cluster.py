"""pvtree and LightGBM on hosts with a network of a given rate: bytes, calls, seconds and test AUC of their trees.

Hosts are network namespaces of this machine, which needs root (see network.py). In every repetition, all trainings run
one after another on the same rows; each host has its own share of the rows and one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import mean, median

import numpy as np

from cluster_programs import CHECK_BYTES, Moments, Setting
from libraries import LEARNING_RATE, MAX_BIN, MIN_CHILD_SAMPLES
from network import Network, NetworkError, why_not
from pvtree.comm import PHASES
from pvtree.comm.traffic import format_bytes
from single_machine import environment, installed
from tables import command, markdown, write_between_marks

PROGRAMS = Path(__file__).with_name("cluster_programs.py")
USUAL = ("pvtree-voting", "lightgbm-voting", "pvtree-data", "lightgbm-data")
TRAININGS = (*USUAL, "tcp-voting", "tcp-data")
LABELS = {name: name.replace("lightgbm", "LightGBM").replace("-", " ") for name in USUAL}
LABELS |= {"tcp-voting": "pvtree voting over TCP", "tcp-data": "pvtree data over TCP"}
TARGET_BYTES, TARGET_SPEED, TARGET_AUC, TARGET_LEDGER, TARGET_TCP = 3.0, 3.0, 0.001, 0.15, 0.15
LONGEST = 3600.0  # seconds of one training
FIRST_PORT = 12400  # of LightGBM: a new one for every training, because the last one's stays busy for a minute


@dataclass(frozen=True)
class Run:
    """One training, per tree, as means over the hosts. The first tree is left out, because it includes the start-up."""

    seconds: float
    sent: float
    processor: float
    auc: float
    ledger: np.ndarray | None  # (phases, 3): bytes, calls, seconds in collectives; None of LightGBM

    @staticmethod
    def of(hosts: list[Moments]) -> Run:
        n_trees = len(hosts[0].seconds) - 1
        ledger = None
        if hosts[0].ledger:
            ledger = np.mean([np.subtract(host.ledger[-1], host.ledger[0]) for host in hosts], axis=0) / n_trees
            ledger[:, 2] /= 1e9
        return Run(
            max(host.seconds[-1] - host.seconds[0] for host in hosts) / n_trees,
            mean(host.sent[-1] - host.sent[0] for host in hosts) / n_trees,
            mean(host.processor[-1] - host.processor[0] for host in hosts) / n_trees,
            float("nan") if hosts[0].auc is None else hosts[0].auc,
            ledger,
        )


Runs = dict[str, list[Run]]  # by training


def main() -> None:
    options = read_options()
    reason = why_not()
    if reason:
        sys.exit(reason)
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="pvtree-cluster-") as folder,
        Network(options.hosts, Path(folder)) as network,
    ):
        bench = Bench(network, options)
        try:
            found = bench.all_rates()
        except NetworkError as error:
            sys.exit(str(error))
    text = report(options, bench, found, load)
    print(f"\n{text}")
    if options.output:
        write_between_marks(options.output, text)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4, help="hosts, each with its own share of the rows (4)")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of all hosts together (100,000)")
    parser.add_argument("--test-rows", type=int, default=50_000, help="additional rows for the AUC (50,000)")
    parser.add_argument("--columns", type=int, default=1_200, help="columns (1,200)")
    parser.add_argument("--leaves", type=int, default=63, help="leaves of a tree (63)")
    parser.add_argument("--top-k", type=int, default=15, help="columns that a host nominates (15)")
    parser.add_argument("--trees", type=int, default=10, help="trees of a training, the first of them not timed (10)")
    parser.add_argument("--rates", type=rates, default=[1000.0, 100.0], help="Mbit/s of the links (1000,100)")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions, of which the median is shown (3)")
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=list(USUAL),
        help=f"of {','.join(TRAININGS)} ({','.join(USUAL)}, which use MPI or LightGBM's sockets)",
    )
    parser.add_argument("--output", type=Path, help="markdown file to write the tables into")
    options = parser.parse_args()
    if options.hosts < 2 or options.hosts > 200 or options.trees < 2 or options.repeat < 1:
        parser.error("give 2 to 200 hosts, at least 2 trees and at least 1 repetition")
    if unknown := set(options.only) - set(TRAININGS):
        parser.error(f"unknown {sorted(unknown)[0]!r}; choose from {', '.join(TRAININGS)}")
    return options


def rates(text: str) -> list[float]:
    found = [float(word) for word in text.split(",")]
    if not all(1 <= rate <= 10_000 for rate in found):
        raise argparse.ArgumentTypeError("rates are 1 to 10000 Mbit/s, separated by commas")
    return found


class Bench:
    """Starts the programs on the hosts and reads what they measured."""

    def __init__(self, network: Network, options: argparse.Namespace, is_bound: bool = False) -> None:
        self.network, self.options, self.folder = network, options, network.folder
        self.checks: dict[float, Run] = {}
        self.ports = count(FIRST_PORT)
        self.environment = {"NUMBA_CACHE_DIR": str(self.folder / "kernels")} | os.environ
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            self.environment[name] = "1"
        Setting(
            options.rows, options.test_rows, options.columns, options.leaves, options.top_k, options.trees, 1,
            network.addresses, is_bound,
        ).write(self.folder)  # fmt: skip

    def all_rates(self) -> dict[float, Runs]:
        for what, told in (("make", "making the rows"), ("warm", "compiling")):
            print(f"{told} ...", flush=True)
            self.here(what)
        found: dict[float, Runs] = {}
        for rate in self.options.rates:
            self.network.set_rate(rate * 1e6)
            self.checks[rate] = self.measure("check", 120.0)
            print(f"{rate:g} Mbit/s: {shown(self.checks[rate])} for an all-reduce of {CHECK_BYTES:,} bytes", flush=True)
            found[rate] = {name: [] for name in self.options.only}
            for repetition in range(self.options.repeat):
                for name, runs in found[rate].items():
                    runs.append(self.measure(name, LONGEST))
                    told = f"{rate:g} Mbit/s, {repetition + 1}/{self.options.repeat}, {LABELS[name]}"
                    print(f"{told}: {shown(runs[-1])} a tree", flush=True)
        return found

    def here(self, what: str) -> None:
        done = subprocess.run(
            [sys.executable, str(PROGRAMS), what, str(self.folder)],
            env=self.environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise NetworkError(f"{what} failed:\n{done.stderr}")

    def measure(self, what: str, limit: float) -> Run:
        results = [self.folder / f"{host}.json" for host in range(self.options.hosts)]
        for result in results:
            result.unlink(missing_ok=True)
        command = [sys.executable, str(PROGRAMS), what, str(self.folder)]
        if what.startswith("lightgbm"):
            self.network.on_each([*command, str(next(self.ports))], self.environment, limit)
        elif what.startswith("tcp"):
            self.network.on_each(command, self.environment, limit)
        elif what.startswith("virtual"):
            self.here(what)
        else:
            self.network.mpi(command, self.environment, limit)
        return Run.of([Moments(**json.loads(result.read_text())) for result in results])


def shown(run: Run) -> str:
    text = (
        f"{run.seconds * 1e3:.1f} ms, {format_bytes(run.sent)} sent by a host, {run.processor * 1e3:.0f} ms of its core"
    )
    if run.ledger is not None:
        text += f", ledger {format_bytes(run.ledger[:, 0].sum())} in {run.ledger[:, 1].sum():.1f} calls"
    return text if np.isnan(run.auc) else f"{text}, AUC {run.auc:.5f}"


# Tables


def report(options: argparse.Namespace, bench: Bench, found: dict[float, Runs], load: float) -> str:
    mpi = f"mpi4py {installed('mpi4py')}, mpich {installed('mpich')}"
    parts = [
        f"`{command('cluster.py', '--output')}`; {environment()}, {mpi}; load {load:.1f} before the start.",
        f"{options.hosts} hosts with {options.rows // options.hosts:,} of {options.rows:,} rows x {options.columns:,} "
        f"columns each, one thread a host, {options.leaves} leaves, {MAX_BIN} bins, k = {options.top_k}, learning rate "
        f"{LEARNING_RATE}, at least {MIN_CHILD_SAMPLES} rows a leaf, {options.trees} trees. Medians of "
        f"{options.repeat}, per host and tree.",
    ]
    for rate, runs in found.items():
        check = bench.checks[rate]
        parts += [
            f"## {rate:g} Mbit/s",
            f"An all-reduce of {CHECK_BYTES:,} bytes takes {check.seconds * 1e3:.1f} ms, and each host sends "
            f"{format_bytes(check.sent)} for it.",
            rate_table(runs),
            "\n".join(f"- {line}" for line in against_targets(runs)),
        ]
        waits = [name for name in runs if runs[name][0].ledger is not None]
        if waits:
            parts += ["Where pvtree's time goes, milliseconds per tree:", waiting_table({n: runs[n] for n in waits})]
    return "\n\n".join(part for part in parts if part)


def typical(runs: list[Run], figure: str) -> float:
    return median(getattr(run, figure) for run in runs)


def ledger_bytes(runs: list[Run]) -> float:
    return median(float(run.ledger[:, 0].sum()) for run in runs if run.ledger is not None)


def rate_table(runs: Runs) -> str:
    rows = []
    for name, repeated in runs.items():
        ledger = calls = "-"
        if repeated[0].ledger is not None:
            ledger = format_bytes(ledger_bytes(repeated))
            calls = f"{median(run.ledger[:, 1].sum() for run in repeated if run.ledger is not None):.1f}"
        rows.append(
            [
                LABELS[name],
                format_bytes(typical(repeated, "sent")),
                ledger,
                calls,
                f"{typical(repeated, 'seconds'):.3f}",
                f"{typical(repeated, 'processor'):.3f}",
                f"{typical(repeated, 'auc'):.5f}",
            ]
        )
    header = [
        "training", "sent (interface)", "sent (ledger)", "calls", "seconds a tree", "processor seconds", "test AUC",
    ]  # fmt: skip
    return markdown(header, rows)


def against_targets(runs: Runs) -> list[str]:
    """Targets of the trainings that were run, with what they reached."""
    lines = []
    voting = runs.get("pvtree-voting")
    peers = {name: runs[name] for name in runs if name.startswith("lightgbm")}
    if voting and "lightgbm-voting" in peers:
        peer = peers["lightgbm-voting"]
        fewer = typical(peer, "sent") / typical(voting, "sent")
        apart = typical(voting, "auc") - typical(peer, "auc")
        lines.append(f"{fewer:.2f} times fewer bytes than LightGBM voting (to reach: {TARGET_BYTES:g}).")
        lines.append(f"AUC {apart:+.5f} against LightGBM voting (to reach: not below by more than {TARGET_AUC:g}).")
    if voting and peers:
        best = min(peers, key=lambda name: typical(peers[name], "seconds"))
        faster = typical(peers[best], "seconds") / typical(voting, "seconds")
        lines.append(f"{faster:.2f} times as fast per tree as {LABELS[best]} (to reach: {TARGET_SPEED:g}).")
    for learner in ("voting", "data"):
        mpi, tcp = runs.get(f"pvtree-{learner}"), runs.get(f"tcp-{learner}")
        if mpi and tcp:
            ratios = [typical(tcp, figure) / typical(mpi, figure) - 1 for figure in ("sent", "seconds")]
            lines.append(
                f"{LABELS[f'tcp-{learner}']} sends {ratios[0]:+.1%} bytes and takes {ratios[1]:+.1%} seconds against "
                f"MPI (to stay within {TARGET_TCP:.0%})."
            )
    for name in runs:
        if runs[name][0].ledger is not None:
            beyond = typical(runs[name], "sent") / ledger_bytes(runs[name]) - 1
            lines.append(
                f"{LABELS[name]}: the interface differs from the ledger by {beyond:+.1%} (to stay within "
                f"{TARGET_LEDGER:.0%})."
            )
    return lines


def waiting_table(runs: Runs) -> str:
    """Time per tree in the collectives of each phase, including the wait for slower hosts, and the rest."""
    rows = []
    for name, repeated in runs.items():
        phases = np.median([run.ledger for run in repeated if run.ledger is not None], axis=0)  # (phases, 3)
        waited = phases[:, 2].sum()
        rest = typical(repeated, "seconds") - waited
        rows.append([LABELS[name], f"{rest * 1e3:.0f}", *(f"{seconds * 1e3:.1f}" for seconds in phases[:, 2])])
    used = [i for i in range(len(PHASES)) if any(row[2 + i] != "0.0" for row in rows)]
    return markdown(
        ["training", "outside of collectives", *(PHASES[i] for i in used)],
        [[*row[:2], *(row[2 + i] for i in used)] for row in rows],
    )


if __name__ == "__main__":
    main()
