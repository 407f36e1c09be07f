"""What exact voting costs per tree, compared with voting and data: bytes sent, splits proven and how, test metric.

Synthetic data is wide; a folder of real data is that of voting_accuracy.py. Everything runs on virtual machines, which
are threads of this process. With --csv, a file collects the figures of several runs, and tables show all of them.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import astuple, dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from made_data import make_binary
from pvtree.comm.traffic import format_bytes
from pvtree.find_split.certificates import Certificate
from pvtree.growing.tree_maker import GradientTreeMaker
from pvtree.growing.tree_memory import GrownTree
from pvtree.model import Tree
from pvtree.training import train as ensemble
from pvtree.training.skew import SkewWarning
from single_machine import environment, names_of
from tables import command, markdown, write_between_marks
from voting_accuracy import REAL, Data, test_score

VOTING, EXACT, AUTO, DATA = "voting", "exact voting", "exact voting, k auto", "data"
STRATEGIES: dict[str, dict[str, Any]] = {
    EXACT: {"tree_learner": "exact_voting"},
    AUTO: {"tree_learner": "exact_voting", "top_k": "auto"},
    VOTING: {"tree_learner": "voting"},
    DATA: {"tree_learner": "data"},
}
LOADERS = {load.__name__: load for load in REAL}
RANGES = (0, 10, 50, 100, 150, 200)  # of tree numbers in the tables
FIRST = 50  # trees of which exact voting is to send at most twice as much as voting, on the wide set with 8 workers
DATA_EVERY = 10  # data sends nearly the same bytes for every tree
NEIGHBOURS = 2  # trees that are grown one after the other where not all are: the second learns from the first


@dataclass(frozen=True)
class TreeCost:
    """A line of the CSV file: one tree of one training. Without a certificate, its fields are 0."""

    data: str
    workers: int
    setting: str  # leaves and votes
    strategy: str
    tree: int  # from 1
    bytes: float  # sent by the average worker
    splits: int = 0
    unvoted: int = 0
    at_once: int = 0
    rounded: int = 0
    merged: int = 0
    missed: int = 0
    n_rounded: int = 0
    n_extra: int = 0
    bound_bytes: float = 0.0
    rounded_bytes: float = 0.0
    extra_bytes: float = 0.0
    top_k: str = ""  # by level, with spaces between
    metric: str = ""
    score: float = 0.0  # of the finished model on the test rows
    model: str = ""  # a digest of the finished model

    @property
    def pair(self) -> tuple[str, int]:
        """The key of a comparison: all strategies on the same data with the same number of workers."""
        return self.data, self.workers


CERTIFIED = [name for name in Certificate._fields if name not in ("tree", "top_k")]


def main() -> None:
    options = read_options()
    warnings.simplefilter("ignore", SkewWarning)
    costs = read_csv(options.csv) if options.csv and options.csv.exists() else []
    for load in loads(options):
        data = load()
        serial = trained(f"{data.name}, serial", data, options)
        for n_workers in options.workers:
            measured = measure(data, n_workers, serial, options)
            costs = [cost for cost in costs if cost.pair != measured[0].pair] + measured
            costs.sort(key=lambda cost: (not cost.data.startswith("made"), *cost.pair))
            if options.csv:
                write_csv(options.csv, costs)
        del data  # before the next one is made
    text = report(costs)
    print(text)
    if options.output:
        write_between_marks(options.output, text)
    if options.figure:
        draw(costs, options.figure)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("made", "real", *LOADERS)
    parser.add_argument("--only", type=names_of(parts), default=["made", "real"], help=f"of {','.join(parts)} (all)")
    parser.add_argument("--workers", default="4,8,32", help="virtual machines (4,8,32)")
    parser.add_argument("--trees", type=int, default=200, help="trees of each training (200)")
    parser.add_argument("--every", type=int, default=1, help="measure only two of this many trees (1: all)")
    parser.add_argument("--voting-in-full", action="store_true", help="measure all trees of voting, for its accuracy")
    parser.add_argument("--rows", type=int, default=500_000, help="rows of synthetic data (500,000)")
    parser.add_argument("--test-rows", type=int, default=100_000, help="test rows of synthetic data (100,000)")
    parser.add_argument("--features", type=int, default=1_000, help="attributes of synthetic data (1,000)")
    parser.add_argument("--leaves", type=int, default=63, help="leaves of a tree (63)")
    parser.add_argument("--top-k", type=int, default=20, help="votes of a worker, unless chosen automatically (20)")
    parser.add_argument("--data", type=Path, help="folder of real data; default: only synthetic data")
    parser.add_argument("--csv", type=Path, help="file that collects the figures of several runs")
    parser.add_argument("--output", type=Path, help="markdown file to write the tables into")
    parser.add_argument("--figure", type=Path, help="PNG file to draw; needs matplotlib")
    options = parser.parse_args()
    options.workers = [int(number) for number in options.workers.split(",")]
    if options.figure:
        import_pyplot()  # fail now rather than after hours
    return options


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def loads(options: argparse.Namespace) -> Iterator[Callable[[], Data]]:
    if "made" in options.only:
        yield lambda: made(options.rows, options.test_rows, options.features)
    for name, load in LOADERS.items():
        if options.data and ("real" in options.only or name in options.only):
            yield lambda load=load: load(options.data)


def made(n_rows: int, n_test: int, n_features: int) -> Data:
    X, y, _ = make_binary(n_rows + n_test, n_features, seed=0)
    return Data(f"made, {n_rows:,} x {n_features:,}", "clicks", X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


@dataclass
class Watched:
    """A training observed from outside."""

    sent: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))  # rank -> tree number -> bytes
    trees: dict[int, tuple[GrownTree, Tree]] = field(default_factory=dict)  # as worker 0 grew them
    score: float = 0.0  # on the test rows
    result: Any = None  # TrainResult

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.result.model.to_json().encode()).hexdigest()[:12]

    def costs(self, **setting: Any) -> Iterator[TreeCost]:
        """Costs of the trees that were grown; ``setting`` is common to all of them."""
        for i, number in enumerate(sorted(self.sent[0])):
            told: dict[str, Any] = {}
            if self.result.certificates:
                certificate = self.result.certificates[i]
                told = {name: getattr(certificate, name) for name in CERTIFIED}
                told["top_k"] = " ".join(map(str, certificate.top_k))
            sent = [by_tree[number] for by_tree in self.sent.values()]
            yield TreeCost(tree=number + 1, bytes=sum(sent) / len(sent), **setting, **told)


@dataclass(frozen=True)
class KnownTree(GrownTree):
    """A tree of another training, so the leaves of this training's rows are unknown."""


@contextmanager
def watching(title: str) -> Iterator[Watched]:
    """Record what each worker sends for each tree of the training inside the block."""
    watched, began = Watched(), time.perf_counter()
    make, train = GradientTreeMaker.make, ensemble.train_rows

    def make_noted(self: GradientTreeMaker, grad: Any, hess: Any, number: int, *rest: Any, **others: Any) -> Any:
        before = self.comm.traffic.total().bytes
        grown, tree = make(self, grad, hess, number, *rest, **others)
        if not isinstance(grown, KnownTree):
            watched.sent[self.comm.rank][number] = self.comm.traffic.total().bytes - before
        if self.comm.rank == 0:
            watched.trees[number] = grown, tree
            if len(watched.trees) % 10 == 0:
                tell(f"{title}: {len(watched.trees)} trees in {time.perf_counter() - began:.0f} s")
        return grown, tree

    def train_noted(*given: Any, **others: Any) -> Any:
        watched.result = train(*given, **others)
        return watched.result

    with patch.object(GradientTreeMaker, "make", make_noted), patch.object(ensemble, "train_rows", train_noted):
        yield watched


@contextmanager
def replaying(known: dict[int, tuple[GrownTree, Tree]], every: int) -> Iterator[None]:
    """Of each ``every`` trees only the first two are grown; rows get the outputs of the known tree in place of others.

    Exact strategies make the same trees, so those before a tree need not be grown again to measure it.
    """
    make, add_to_scores = GradientTreeMaker.make, GradientTreeMaker.add_to_scores
    nowhere = dict.fromkeys(("run_leaf", "run_stop", "run_buffer"), np.empty(0, np.int64))

    def make_or_recall(self: GradientTreeMaker, grad: Any, hess: Any, number: int, *rest: Any, **others: Any) -> Any:
        grown, tree = known[number]
        if number % every >= NEIGHBOURS:
            return KnownTree(**vars(grown) | nowhere), tree
        return make(self, grad, hess, number, *rest, **others)

    def add_anyway(self: GradientTreeMaker, grown: GrownTree, tree: Tree, walkers: Any, scores: Any) -> None:
        if isinstance(grown, KnownTree):
            walkers = np.arange(self.data.n_rows, dtype=np.uint32)  # all rows walk down the tree
        add_to_scores(self, grown, tree, walkers, scores)

    with patch.multiple(GradientTreeMaker, make=make_or_recall, add_to_scores=add_anyway):
        yield


def trained(title: str, data: Data, options: argparse.Namespace, **strategy: Any) -> Watched:
    """Train and test. With several classes, every iteration grows one tree per class."""
    n_outputs = len(np.unique(data.y)) if data.kind == "multiclass" else 1
    settled = {"num_leaves": options.leaves, "top_k": options.top_k} | strategy
    with watching(title) as watched:
        watched.score = test_score(data, max(1, options.trees // n_outputs), seed=0, **settled)
    return watched


def measure(data: Data, n_workers: int, serial: Watched, options: argparse.Namespace) -> list[TreeCost]:
    """Run all trainings on the trees of a sequential one; every exact strategy must grow the same trees."""
    costs: list[TreeCost] = []
    for strategy, chosen in STRATEGIES.items():
        title = f"{data.name}, {n_workers} workers, {strategy}"
        every = max(options.every, DATA_EVERY) if strategy == DATA else options.every
        in_full = every == 1 or (strategy == VOTING and options.voting_in_full)
        with nullcontext() if in_full else replaying(serial.trees, every):
            watched = trained(title, data, options, n_workers=n_workers, **chosen)
        if strategy != VOTING and watched.digest != serial.digest:
            raise RuntimeError(f"{title}: the model is not that of the sequential algorithm.")
        if strategy == VOTING and not in_full:
            watched.score = np.nan  # not its own trees
        setting = {
            "data": data.name, "workers": n_workers, "setting": f"{options.leaves} leaves, k = {options.top_k}",
            "strategy": strategy, "metric": data.metric, "score": watched.score, "model": watched.digest,
        }  # fmt: skip
        costs += watched.costs(**setting)
        tell(f"{title}: {data.metric} {watched.score:.5f}, the last tree {format_bytes(costs[-1].bytes)}")
    return costs


def read_csv(path: Path) -> list[TreeCost]:
    kinds = {each.name: {"int": int, "float": float, "str": str}[str(each.type)] for each in fields(TreeCost)}
    with path.open(newline="") as file:
        return [TreeCost(**{name: kinds[name](text) for name, text in line.items()}) for line in csv.DictReader(file)]


def write_csv(path: Path, costs: list[TreeCost]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(each.name for each in fields(TreeCost))
        writer.writerows(map(astuple, costs))


class Costs:
    """The trainings of one data set with one number of workers."""

    def __init__(self, costs: list[TreeCost], data: str, n_workers: int) -> None:
        costs = [cost for cost in costs if cost.pair == (data, n_workers)]
        self.by_strategy = {name: [cost for cost in costs if cost.strategy == name] for name in STRATEGIES}
        self.has_targets = data.startswith("made") and n_workers == 8
        self.trees = np.arange(1, self.by_strategy[EXACT][-1].tree + 1)
        self.bytes = {
            # Bytes are interpolated linearly between the measured trees.
            name: np.interp(self.trees, [cost.tree for cost in own], [cost.bytes for cost in own])
            for name, own in self.by_strategy.items()
        }

    def ranges(self) -> list[tuple[int, int]]:
        last = int(self.trees[-1])
        bounds = [*(bound for bound in RANGES if bound < last), last]
        return [*pairwise(bounds), *([(0, last)] if len(bounds) > 2 else [])]

    def bytes_table(self) -> str:
        rows, shown = [], (VOTING, EXACT, AUTO, DATA)
        compared = [(one, other) for one in (EXACT, AUTO) for other in (VOTING, DATA)]
        for first, stop in self.ranges():
            sent = {name: self.bytes[name][first:stop].mean() for name in shown}
            ratios = [f"{sent[one] / sent[other]:.2f}" for one, other in compared]
            rows.append([f"{first + 1}-{stop}", *map(format_bytes, sent.values()), *ratios])
        return markdown(["trees", *shown, *(f"{one} / {other}" for one, other in compared)], rows)

    def proofs_table(self) -> str:
        rows = []
        for name in (EXACT, AUTO):
            for first, stop in self.ranges():
                costs = [cost for cost in self.by_strategy[name] if first < cost.tree <= stop]
                if not costs:
                    continue
                mean = {what: np.mean([getattr(cost, what) for cost in costs]) for what in CERTIFIED}
                splits = max(1.0, mean["splits"])
                shares = [f"{mean[how] / splits:.1%}" for how in ("unvoted", "at_once", "rounded", "merged", "missed")]
                each_split = [f"{mean[what] / splits:.2f}" for what in ("n_rounded", "n_extra")]
                n_bytes = [format_bytes(mean[kind]) for kind in ("bound_bytes", "rounded_bytes", "extra_bytes")]
                votes = np.mean([int(k) for cost in costs for k in cost.top_k.split()] or [0])
                rows.append([name, f"{first + 1}-{stop}", *shares, *each_split, *n_bytes, f"{votes:.1f}"])
        shares_of = ["all merged", "proven at once", "after rounded sums", "after merging more", "winner not elected"]
        counts_of = ["attributes rounded per split", "merged per split"]
        bytes_of = ["bytes of bounds", "of rounded sums", "of merging more"]
        return markdown(["strategy", "trees", *shares_of, *counts_of, *bytes_of, "mean k of levels"], rows)

    def ratios(self) -> str:
        lines, n_trees = [], len(self.trees)
        voting, data = self.bytes[VOTING], self.bytes[DATA]
        for name in (EXACT, AUTO):
            sent = self.bytes[name]
            worst = int((sent / data).argmax())
            first, every = sent[:FIRST].sum() / voting[:FIRST].sum(), sent.sum() / voting.sum()
            of_data, at_worst = sent.sum() / data.sum(), sent[worst] / data[worst]
            goals = [" (to reach: 2)", " (4)", " (0.2)", " (1)"] if self.has_targets else [""] * 4
            lines.append(
                f"- {name}: {first:.2f} times voting over the first {min(FIRST, n_trees)} trees{goals[0]}, "
                f"{every:.2f} over all {n_trees}{goals[1]}; {of_data:.3f} times data over all trees{goals[2]}, at most "
                f"{at_worst:.3f} at a single tree, number {self.trees[worst]}{goals[3]}."
            )
        return "\n".join(lines)


def report(costs: list[TreeCost]) -> str:
    """All measurements, and the final accuracy."""
    parts = [f"`{command('exact_voting.py', '--output', '--figure', '--csv')}`; {environment()}."]
    accuracy = []
    for data, n_workers in dict.fromkeys(cost.pair for cost in costs):
        own = Costs(costs, data, n_workers)
        exact, voting = (own.by_strategy[name][0] for name in (EXACT, VOTING))
        title = f"## {data}, {n_workers} workers, {exact.setting}\n\nBytes sent per worker and tree."
        parts += [title, own.bytes_table(), own.ratios(), own.proofs_table()]
        scores = [f"{exact.score:.5f}", "not measured", ""]
        if voting.score == voting.score:
            scores[1:] = f"{voting.score:.5f}", f"{voting.score - exact.score:+.5f}"
        accuracy.append([data, str(n_workers), str(len(own.trees)), exact.metric, *scores, exact.model])
    header = ["data", "workers", "trees", "test metric", "exact voting, as serial", VOTING, "difference", "exact model"]
    parts.append(f"## Accuracy, one seed\n\n{markdown(header, accuracy)}")
    return "\n\n".join(parts)


def import_pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise SystemExit("--figure needs matplotlib; pip install matplotlib") from None
    pyplot.switch_backend("Agg")  # to files, without a screen
    return pyplot


def draw(costs: list[TreeCost], path: Path) -> None:
    """Bytes per tree of the first data set, and below them how splits were proven; one column per number of workers."""
    pairs = sorted({cost.pair for cost in costs if cost.data == costs[0].data})
    figure, axes = import_pyplot().subplots(2, len(pairs), sharex=True, sharey="row", squeeze=False)
    figure.set_size_inches(4.2 * len(pairs) + 0.8, 6.0)
    for (data, n_workers), (above, below) in zip(pairs, axes.T, strict=True):
        own = Costs(costs, data, n_workers)
        for name in (DATA, EXACT, AUTO, VOTING):
            above.plot(own.trees, own.bytes[name] / 1e6, label=name, linewidth=1.2)
        above.set(yscale="log", title=f"{data}, {n_workers} workers")
        above.grid(alpha=0.3)
        exact = own.by_strategy[EXACT]
        counts = np.array([(cost.unvoted, cost.at_once, cost.rounded, cost.merged) for cost in exact], float).T
        labels = ["all merged", "proven at once", "after rounded sums", "after merging more"]
        shares = 100.0 * counts / np.maximum(counts.sum(axis=0), 1.0)
        colors = ["#9aa5b1", "#4c9f70", "#e3b23c", "#c8553d"]
        below.stackplot([cost.tree for cost in exact], shares, labels=labels, colors=colors)
        below.set(xlabel="tree", ylim=(0, 100), xlim=(own.trees[0], max(own.trees[-1], own.trees[0] + 1)))
    axes[0, 0].set_ylabel("MB per worker and tree")
    axes[1, 0].set_ylabel("splits proven, %")
    axes[0, 0].legend(fontsize="small", loc="upper left", bbox_to_anchor=(0.02, 0.85))
    axes[1, 0].legend(fontsize="small", loc="lower left")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
