"""What exact voting costs, tree by tree, beside voting and data: bytes sent, splits proven and how, test metric.

Made data is wide; a folder of real data is that of voting_accuracy.py. Everything runs in this process, on virtual
machines that are its threads. With --csv the figures of several runs are kept together, and tables show all of them.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import astuple, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from made_data import make_binary
from single_machine import environment, names_of
from sklearn.metrics import log_loss, roc_auc_score
from tables import markdown, write_between_marks
from voting_accuracy import ESTIMATORS, REAL, Data

from pvtree.certificates import Certificate
from pvtree.comm.traffic import format_bytes
from pvtree.growing import GradientTreeMaker
from pvtree.metrics import get_metric
from pvtree.model import Tree
from pvtree.skew import SkewWarning
from pvtree.tree_memory import GrownTree

VOTING, EXACT, AUTO, DATA = "voting", "exact voting", "exact voting, k auto", "data"
STRATEGIES: dict[str, dict[str, Any]] = {
    EXACT: {"tree_learner": "exact_voting"},
    AUTO: {"tree_learner": "exact_voting", "top_k": "auto"},
    VOTING: {"tree_learner": "voting"},
    DATA: {"tree_learner": "data"},
}
LOADERS = {load.__name__: load for load in REAL}
RANGES = (0, 10, 50, 100, 150, 200)  # of tree numbers in the tables
FIRST_TREES = 50
DATA_EVERY = 10  # data sends nearly the same for every tree
TARGETS = {"first": 2.0, "all": 4.0, "data": 0.2, "tree": 1.0}  # on the made set with 8 workers


@dataclass(frozen=True)
class TreeCost:
    """A line of the CSV file: one tree of one training. The certificate's fields are 0 where there is none."""

    data: str
    workers: int
    strategy: str
    tree: int  # from 1
    bytes: float  # sent by the average worker
    splits: int = 0
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
    def training(self) -> tuple[str, int, str]:
        return self.data, self.workers, self.strategy


CERTIFIED = [name for name in Certificate._fields if name not in ("tree", "top_k")]


def main() -> None:
    options = read_options()
    warnings.simplefilter("ignore", SkewWarning)
    costs = read_csv(options.csv) if options.csv and options.csv.exists() else []
    check_same_as_serial(options)
    for load in loads(options):
        data = load()
        for n_workers in options.workers:
            for measured in measure(data, n_workers, options):
                done = {cost.training for cost in measured}
                costs = [cost for cost in costs if cost.training not in done] + measured
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
    parser.add_argument("--workers", type=whole_numbers, default=[4, 8, 32], help="virtual machines (4,8,32)")
    parser.add_argument("--trees", type=int, default=200, help="trees of each training (200)")
    parser.add_argument("--rows", type=int, default=500_000, help="rows of made data (500,000)")
    parser.add_argument("--test-rows", type=int, default=100_000, help="rows of made data to test on (100,000)")
    parser.add_argument("--features", type=int, default=1_000, help="attributes of made data (1,000)")
    parser.add_argument("--leaves", type=int, default=63, help="leaves of a tree (63)")
    parser.add_argument("--top-k", type=int, default=20, help="votes of a worker, where they are not chosen (20)")
    parser.add_argument("--data", type=Path, help="folder of real data; without it there is only made data")
    parser.add_argument("--csv", type=Path, help="file that keeps the figures of several runs together")
    parser.add_argument("--output", type=Path, help="markdown file to write the tables into")
    parser.add_argument("--figure", type=Path, help="PNG file to draw; needs matplotlib")
    options = parser.parse_args()
    if options.figure:
        import_pyplot()  # rather now than after hours
    return options


def whole_numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def tell(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


# Data


def loads(options: argparse.Namespace) -> Iterator[Callable[[], Data]]:
    if "made" in options.only:
        yield lambda: made(options.rows, options.test_rows, options.features)
    for name, load in LOADERS.items():
        if options.data and ("real" in options.only or name in options.only):
            yield lambda load=load: load(options.data)


def made(n_rows: int, n_test: int, n_features: int) -> Data:
    tell(f"making {n_rows + n_test:,} x {n_features:,}")
    X, y, _ = make_binary(n_rows + n_test, n_features, seed=0)
    return Data(f"made, {n_rows:,} x {n_features:,}", "clicks", X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


# Measuring


@dataclass
class Watched:
    """A training seen from outside."""

    sent: dict[int, dict[int, int]] = field(default_factory=dict)  # rank -> tree number -> bytes
    trees: dict[int, tuple[GrownTree, Tree]] = field(default_factory=dict)  # as worker 0 grew them


@dataclass(frozen=True)
class KnownTree(GrownTree):
    """Grown in another training: nobody knows where this training's rows ended up."""


@contextmanager
def watching(title: str) -> Iterator[Watched]:
    """Note what each worker sends for each tree of the training that runs inside."""
    watched, make, began = Watched(), GradientTreeMaker.make, time.perf_counter()

    def make_noted(self: GradientTreeMaker, grad: Any, hess: Any, number: int, *rest: Any, **others: Any) -> Any:
        rank, before = self.comm.rank, self.comm.traffic.total().bytes
        grown, tree = make(self, grad, hess, number, *rest, **others)
        sent = watched.sent.setdefault(rank, {})
        sent[number] = self.comm.traffic.total().bytes - before
        if rank == 0:
            watched.trees[number] = grown, tree
            if len(sent) % 10 == 0:
                seconds = time.perf_counter() - began
                tell(f"{title}: {len(sent)} trees, the last {format_bytes(sent[number])}, {seconds:.0f} s")
        return grown, tree

    with patch.object(GradientTreeMaker, "make", make_noted):
        yield watched


@contextmanager
def replaying(known: dict[int, tuple[GrownTree, Tree]]) -> Iterator[None]:
    """Only every DATA_EVERY-th tree is grown; rows get the outputs of the known tree in place of the others.

    Exact strategies make the same trees, so those before a tree need not be grown again to measure it.
    """
    make, add_to_scores = GradientTreeMaker.make, GradientTreeMaker.add_to_scores
    nowhere = dict.fromkeys(("run_leaf", "run_stop", "run_buffer"), np.empty(0, np.int64))

    def make_or_recall(self: GradientTreeMaker, grad: Any, hess: Any, number: int, *rest: Any, **others: Any) -> Any:
        grown, tree = known[number]
        if number % DATA_EVERY:
            return KnownTree(**vars(grown) | nowhere), tree
        return make(self, grad, hess, number, *rest, **others)

    def add_anyway(self: GradientTreeMaker, grown: GrownTree, tree: Tree, walkers: Any, scores: Any) -> None:
        if isinstance(grown, KnownTree):
            walkers = np.arange(self.data.n_rows, dtype=np.uint32)  # all rows walk down the tree
        add_to_scores(self, grown, tree, walkers, scores)

    with (
        patch.object(GradientTreeMaker, "make", make_or_recall),
        patch.object(GradientTreeMaker, "add_to_scores", add_anyway),
    ):
        yield


def fit(data: Data, n_trees: int, options: argparse.Namespace, **strategy: Any) -> Any:
    n_outputs = len(np.unique(data.y)) if data.kind == "multiclass" else 1
    settled = {
        "n_estimators": max(1, n_trees // n_outputs), "num_leaves": options.leaves, "top_k": options.top_k,
        "random_state": 0, "verbosity": 0,
    }  # fmt: skip
    queries = {} if data.group is None else {"group": data.group}
    return ESTIMATORS[data.kind](**settled | strategy).fit(data.X, data.y, **queries)


def test_score(data: Data, model: Any) -> float:
    if data.kind == "ranking":
        scores = model.predict(data.X_test)[None]
        return get_metric("ndcg@10", "lambdarank")(data.y_test, scores, None, data.group_test)
    if data.kind == "clicks":
        return float(roc_auc_score(data.y_test, model.predict_proba(data.X_test)[:, 1]))
    if data.kind == "multiclass":
        return float(log_loss(data.y_test, model.predict_proba(data.X_test)))
    return float(np.sqrt(np.mean((model.predict(data.X_test) - data.y_test) ** 2)))


def measure(data: Data, n_workers: int, options: argparse.Namespace) -> Iterator[list[TreeCost]]:
    """The costs of one training after another; exact voting comes first, data replays its trees."""
    known: dict[int, tuple[GrownTree, Tree]] = {}
    exact_model = ""
    for strategy, chosen in STRATEGIES.items():
        title = f"{data.name}, {n_workers} workers, {strategy}"
        with watching(title) as watched, replaying(known) if strategy == DATA else nullcontext():
            model = fit(data, options.trees, options, n_workers=n_workers, **chosen)
        outcome = {"metric": data.metric, "score": test_score(data, model), "model": digest(model)}
        known, exact_model = known or watched.trees, exact_model or outcome["model"]
        if strategy != VOTING and outcome["model"] != exact_model:
            raise RuntimeError(f"{title}: the model is not that of {EXACT}.")
        costs = []
        for number in sorted(watched.sent[0]):
            sent = sum(by_tree[number] for by_tree in watched.sent.values()) / n_workers
            cost = TreeCost(data.name, n_workers, strategy, number + 1, sent, **outcome)
            costs.append(with_certificate(cost, model.certificates_[number]) if model.certificates_ else cost)
        yield costs


def with_certificate(cost: TreeCost, certificate: Certificate) -> TreeCost:
    told = {name: getattr(certificate, name) for name in CERTIFIED}
    return replace(cost, **told, top_k=" ".join(map(str, certificate.top_k)))


def digest(model: Any) -> str:
    return hashlib.sha256(model.model_.to_json().encode()).hexdigest()[:12]


def check_same_as_serial(options: argparse.Namespace) -> None:
    """On a small scale, because serial itself is not measured; compiles the kernels, too."""
    data = made(3_000, 100, 60)
    small = argparse.Namespace(leaves=options.leaves, top_k=3)
    exact = fit(data, 5, small, n_workers=4, tree_learner="exact_voting")
    if digest(exact) != digest(fit(data, 5, small)):
        raise RuntimeError("Exact voting does not make the model of serial.")


def read_csv(path: Path) -> list[TreeCost]:
    kinds = {each.name: {"int": int, "float": float, "str": str}[str(each.type)] for each in fields(TreeCost)}
    with path.open(newline="") as file:
        return [TreeCost(**{name: kinds[name](text) for name, text in line.items()}) for line in csv.DictReader(file)]


def write_csv(path: Path, costs: list[TreeCost]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(each.name for each in fields(TreeCost))
        writer.writerows(map(astuple, costs))


# Tables


class Costs:
    """The trainings of one data set with one number of workers."""

    def __init__(self, costs: list[TreeCost]) -> None:
        self.by_strategy = {name: [cost for cost in costs if cost.strategy == name] for name in STRATEGIES}
        exact = self.by_strategy[EXACT]
        self.trees = np.array([cost.tree for cost in exact])
        self.bytes = {
            # Between the trees that were measured, data's bytes are taken to change linearly.
            name: np.interp(self.trees, [cost.tree for cost in own], [cost.bytes for cost in own])
            for name, own in self.by_strategy.items()
        }

    def ranges(self) -> list[tuple[int, int]]:
        last = int(self.trees[-1])
        bounds = [*(bound for bound in RANGES if bound < last), last]
        return [*pairwise(bounds), *([(0, last)] if len(bounds) > 2 else [])]

    def ratio(self, one: str, other: str, n_trees: int | None = None) -> float:
        return float(self.bytes[one][:n_trees].sum() / self.bytes[other][:n_trees].sum())

    def bytes_table(self) -> str:
        shown = (VOTING, EXACT, AUTO, DATA)
        compared = [(one, other) for one in (EXACT, AUTO) for other in (VOTING, DATA)]
        rows = []
        for first, stop in self.ranges():
            sent = {name: self.bytes[name][first:stop].mean() for name in shown}
            ratios = [f"{sent[one] / sent[other]:.2f}" for one, other in compared]
            rows.append([f"{first + 1}-{stop}", *map(format_bytes, sent.values()), *ratios])
        return markdown(["trees", *shown, *(f"{one} / {other}" for one, other in compared)], rows)

    def proofs_table(self) -> str:
        rows = []
        for name in (EXACT, AUTO):
            for first, stop in self.ranges():
                costs = self.by_strategy[name][first:stop]
                mean = {what: np.mean([getattr(cost, what) for cost in costs]) for what in CERTIFIED}
                splits = max(1.0, mean["splits"])
                shares = [f"{mean[how] / splits:.1%}" for how in ("at_once", "rounded", "merged", "missed")]
                each_split = [f"{mean[what] / splits:.2f}" for what in ("n_rounded", "n_extra")]
                n_bytes = [format_bytes(mean[kind]) for kind in ("bound_bytes", "rounded_bytes", "extra_bytes")]
                votes = np.mean([int(k) for cost in costs for k in cost.top_k.split()] or [0])
                rows.append([name, f"{first + 1}-{stop}", *shares, *each_split, *n_bytes, f"{votes:.1f}"])
        header = [
            "strategy", "trees", "proven at once", "after rounded sums", "after merging more", "winner not elected",
            "attributes rounded per split", "merged per split", "bytes of bounds", "of rounded sums", "of merging more",
            "mean k of levels",
        ]  # fmt: skip
        return markdown(header, rows)

    def ratios(self) -> str:
        lines = []
        for name in (EXACT, AUTO):
            first, every = (self.ratio(name, VOTING, n) for n in (FIRST_TREES, None))
            by_tree = self.bytes[name] / self.bytes[DATA]
            worst = int(by_tree.argmax())
            lines.append(
                f"- {name}: {first:.2f} times voting over the first {min(FIRST_TREES, len(self.trees))} trees "
                f"(to reach: {TARGETS['first']:g}), {every:.2f} times over all {len(self.trees)} ({TARGETS['all']:g}); "
                f"{self.ratio(name, DATA):.3f} of data over all trees ({TARGETS['data']:g}), at most "
                f"{by_tree[worst]:.3f} at a single tree, number {self.trees[worst]} ({TARGETS['tree']:g})."
            )
        return "\n".join(lines)


def report(costs: list[TreeCost]) -> str:
    """Everything that was measured, and the accuracy at the end."""
    parts = [f"`{command()}`; {environment()}."]
    accuracy = []
    for data, n_workers in complete(costs):
        own = Costs([cost for cost in costs if cost.training[:2] == (data, n_workers)])
        parts.append(f"## {data}, {n_workers} workers\n\nBytes sent per worker and tree.")
        parts += [own.bytes_table(), own.ratios(), own.proofs_table()]
        exact, voting = (own.by_strategy[name][0] for name in (EXACT, VOTING))
        scores = [f"{exact.score:.5f}", f"{voting.score:.5f}", f"{voting.score - exact.score:+.5f}"]
        accuracy.append([data, str(n_workers), str(len(own.trees)), exact.metric, *scores, exact.model])
    header = ["data", "workers", "trees", "test metric", "exact voting, as serial", VOTING, "difference", "exact model"]
    parts.append(f"## Accuracy\n\n{markdown(header, accuracy)}")
    return "\n\n".join(parts)


def complete(costs: list[TreeCost]) -> list[tuple[str, int]]:
    """Data and workers of which every strategy was measured."""
    known = {cost.training for cost in costs}
    pairs = dict.fromkeys(cost.training[:2] for cost in costs)
    return [pair for pair in pairs if all((*pair, name) in known for name in STRATEGIES)]


def command() -> str:
    """What was run, without the options that say where results go."""
    words, places = sys.argv[1:], {"--output", "--figure", "--csv"}
    kept = [word for i, word in enumerate(words) if not places & {word.split("=")[0], *words[max(0, i - 1) : i]}]
    return shlex.join(["python", "benchmarks/exact_voting.py", *kept])


# The figure


def import_pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("--figure needs matplotlib; pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw(costs: list[TreeCost], path: Path) -> None:
    """Bytes per tree, and below them how splits were proven, of the first data set; a column for each M."""
    pyplot, pairs = import_pyplot(), complete(costs)
    pairs = sorted(pair for pair in pairs if pair[0] == pairs[0][0])
    size = (4.2 * len(pairs) + 0.8, 6.0)
    figure, axes = pyplot.subplots(2, len(pairs), figsize=size, sharex=True, sharey="row", squeeze=False)
    for (data, n_workers), (above, below) in zip(pairs, axes.T, strict=True):
        own = Costs([cost for cost in costs if cost.training[:2] == (data, n_workers)])
        for name in (DATA, EXACT, AUTO, VOTING):
            above.plot(own.trees, own.bytes[name] / 1e6, label=name, linewidth=1.2)
        above.set(yscale="log", title=f"{data}, {n_workers} workers")
        above.grid(alpha=0.3)
        exact = own.by_strategy[EXACT]
        counts = np.array([(cost.at_once, cost.rounded, cost.merged) for cost in exact], float).T
        labels = ["by the bounds alone", "after rounded sums", "after merging more"]
        shares = 100.0 * counts / np.maximum(counts.sum(axis=0), 1.0)
        below.stackplot(own.trees, shares, labels=labels, colors=["#4c9f70", "#e3b23c", "#c8553d"])
        below.set(xlabel="tree", ylim=(0, 100), xlim=(own.trees[0], max(own.trees[-1], own.trees[0] + 1)))
    axes[0, 0].set_ylabel("MB per worker and tree")
    axes[1, 0].set_ylabel("splits proven, %")
    axes[0, -1].legend(fontsize="small")
    axes[1, -1].legend(fontsize="small", loc="lower left")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
