"""One training on virtual machines: the cluster's clock and the test metric after every tree."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from binned_task import Task, binned_before, read
from pvtree.binning.shard import Shard
from pvtree.comm.virtual import Cluster
from pvtree.objectives.metrics import get_metric
from pvtree.parameters.params import Params
from pvtree.training.skew import SkewWarning
from pvtree.training.train import TrainResult, train

NAMES = {
    "serial": "sequential", "attribute": "attribute-parallel", "data": "data-parallel",
    "quantized": "data-parallel, 10 % bins", "voting": "PV-Tree", "svore": "Svore", "yu": "Yu",
}  # fmt: skip
WARM_TREES = 2


@dataclass(frozen=True)
class Training:
    """The algorithm, task and machines of one training."""

    task: str
    learner: str
    n_workers: int
    top_k: int = 20
    seed: int = 0

    @property
    def name(self) -> str:
        return NAMES[self.learner]

    def with_seed(self, seed: int) -> Training:
        return replace(self, seed=seed)


@dataclass(frozen=True)
class Setting:
    """Settings common to all trainings."""

    n_trees: dict[str, int]  # by task
    learning_rate: float
    num_leaves: int
    network: str
    latency: float
    cores: float

    def cluster(self) -> Cluster:
        return Cluster(self.network, self.latency, self.cores)

    def params(self, task: Task, training: Training, n_trees: int) -> Params:
        return Params(
            objective=task.objective, n_classes=2 if task.kind == "binary" else 1, n_estimators=n_trees,
            learning_rate=self.learning_rate, num_leaves=self.num_leaves, tree_learner=training.learner, ballot_rows=0,
            n_workers=training.n_workers, top_k=training.top_k, n_threads=1, seed=training.seed,
            verbosity=0,
        )  # fmt: skip


@dataclass(frozen=True)
class Curve:
    """Result of a training: figures after each tree, and the bytes that a worker sent per tree."""

    training: Training
    seconds: list[float]  # of virtual time, from the first tree's begin to the end of each
    metric: list[float]
    bytes_per_tree: float
    calls_per_tree: float

    def time_to(self, target: float) -> float | None:
        """Virtual seconds until the metric first reaches the target."""
        reached = np.flatnonzero(np.array(self.metric) >= target)
        return self.seconds[reached[0]] if len(reached) else None


class Kept:
    """A file with one line per finished training, so that an interruption does not lose an hour's work."""

    def __init__(self, path: Path | None, tasks: Sequence[Task], setting: Setting) -> None:
        self.path, self.curves = path, dict[Training, Curve]()
        head = json.dumps([vars(setting), [vars(task) for task in tasks]])
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        if lines and lines[0] != head:
            raise SystemExit(f"{path} has trainings of other data or settings; remove it, or name another file.")
        if path is not None and not lines:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{head}\n")
        for line in lines[1:]:
            fields = json.loads(line)
            curve = Curve(Training(**fields.pop("training")), **fields)
            self.curves[curve.training] = curve

    def add(self, curve: Curve) -> None:
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(f"{json.dumps(asdict(curve))}\n")


def measure(folder: Path, training: Training, setting: Setting) -> Curve:
    task, whole, test = read(folder)
    n_trees = setting.n_trees[task.name]
    warnings.simplefilter("ignore", SkewWarning)
    train_binned(whole, setting.params(task, training, WARM_TREES), setting.cluster())  # compiled, and in memory
    result = train_binned(whole, setting.params(task, training, n_trees), setting.cluster())
    metric = get_metric(task.metric.lower(), task.objective)
    scores = result.model.staged_raw(test.X)
    values = [metric(test.y.astype(np.float64), np.ascontiguousarray(raw.T), None, test.group) for raw in scores]
    n_parallel, cost = result.model.n_parallel_trees, result.traffic  # an iteration of Yu's has a tree of each machine
    return Curve(training, result.seconds, values, n_parallel * cost.bytes_per_tree, n_parallel * cost.calls_per_tree)


def train_binned(whole: Shard, params: Params, cluster: Cluster) -> TrainResult:
    nothing = np.broadcast_to(np.float32(0.0), (whole.n_rows, whole.n_all_features))  # the rows are binned already
    with binned_before(whole, params):
        return train(nothing, whole.y, params, group=whole.group, cluster=cluster)
