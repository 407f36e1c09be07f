"""A task in a folder: its training rows, binned once for all trainings, and its raw test rows.

Bins do not depend on the partition, so a worker's shard is a slice of the whole task's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from made_tasks import Clicks, Ranking, Rows
from pvtree.binning import thresholds as binning
from pvtree.binning.binned_rows import BinnedRows
from pvtree.binning.coarsening import coarsen
from pvtree.binning.shard import Shard, make_shard
from pvtree.binning.thresholds import Thresholds, block_starts
from pvtree.kernels.constants import BLOCK
from pvtree.kernels.team import Team
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds
from pvtree.reading.training_rows import TrainingRows
from pvtree.training import train as ensemble

ARRAYS = ("bins", "block_start", "n_bins", "is_categorical")
MAKERS = {"LTR": Ranking, "CTR": Clicks}
FIRST_TEST_BLOCK = 1_000_000  # no training has this many blocks


@dataclass(frozen=True)
class Task:
    """What a training needs to know about a task besides its rows."""

    name: str
    kind: str  # "ranking" | "binary"
    metric: str  # "NDCG@10" | "AUC"
    n_rows: int
    n_test: int
    n_features: int
    is_real: bool = False

    @property
    def objective(self) -> str:
        return "lambdarank" if self.kind == "ranking" else "binary"


def make(folder: Path, name: str, n_rows: int, n_features: int, n_test: int) -> Task:
    """A synthetic task of this many rows, in whole blocks."""
    maker = MAKERS[name](n_features)
    return write(folder, name, maker.kind, maker.rows(0, n_rows), maker.rows(FIRST_TEST_BLOCK, n_test))


def write(folder: Path, name: str, kind: str, train: Rows, test: Rows, is_real: bool = False) -> Task:
    """Bin the training rows and write everything to ``folder``."""
    folder.mkdir(parents=True)
    # The layout of one thread is that of a virtual machine with one core. Bundles are of a machine's own rows, so that
    # those of all rows could not be cut.
    with Team(1) as team, patch.object(binning, "saves_by_bundles", return_value=False):
        whole = make_shard(TrainingRows(train.X, train.y, group=train.group), {}, Params(), team)
    arrays = {name: getattr(whole.data, name) for name in ARRAYS} | vars(whole.thresholds)
    for key, value in arrays.items():
        np.save(folder / f"{key}.npy", value)
    for part, rows in (("train", train), ("test", test)):
        np.save(folder / f"{part}-y.npy", rows.y)
        if rows.group is not None:
            np.save(folder / f"{part}-group.npy", rows.group)
    np.save(folder / "test-X.npy", test.X)
    metric = "NDCG@10" if kind == "ranking" else "AUC"
    task = Task(name, kind, metric, len(train.y), len(test.y), train.X.shape[1], is_real)
    (folder / "task.json").write_text(json.dumps(vars(task)))
    return task


@lru_cache(maxsize=1)  # the tasks of one process come one after the other
def read(folder: Path) -> tuple[Task, Shard, Rows]:
    """The task, all its training rows as one shard, and its test rows."""
    task = Task(**json.loads((folder / "task.json").read_text()))

    def load(name: str) -> Any:
        path = folder / f"{name}.npy"
        return np.load(path) if path.exists() else None

    thresholds = Thresholds(**{name: load(name) for name in Thresholds.__dataclass_fields__})
    y = load("train-y").astype(np.float64)
    whole = Shard(
        BinnedRows(*map(load, ARRAYS)), thresholds, y, None, load("train-group"), RowIds.consecutive(len(y)), 0
    )
    return task, whole, Rows(load("test-X"), load("test-y"), load("test-group"))


@contextmanager
def binned_before(whole: Shard, params: Params) -> Iterator[None]:
    """Trainings inside the block use rows that are already binned: workers get slices of ``whole``."""
    if params.tree_learner == "quantized":
        with Team(1) as team:
            own = whole.data._replace(bins=whole.data.bins.copy())  # coarsening overwrites them
            coarse, thresholds = coarsen(own, whole.thresholds, whole.ids.sample(), params, team, None)
        whole = replace(whole, data=coarse, thresholds=thresholds)

    def cut(part: TrainingRows, *_: Any) -> Shard:
        if part.features is not None:
            first, stop = part.features
            return replace(whole, data=some_features(whole.data, first, stop), first_feature=first)
        if part.ids is None or len(part.y) == whole.n_rows:
            return whole
        numbers = part.ids.numbers()
        first, stop = (int(numbers[0]), int(numbers[-1]) + 1) if len(numbers) else (0, 0)
        bins = np.ascontiguousarray(whole.data.bins[:, first * BLOCK : stop * BLOCK])
        return Shard(
            whole.data._replace(bins=bins), whole.thresholds, whole.y[first:stop], None, part.group, part.ids, 0
        )

    with patch.object(ensemble, "make_shard", cut):
        yield


def some_features(data: BinnedRows, first: int, stop: int) -> BinnedRows:
    """The same rows with only the columns first..stop."""
    starts = block_starts(stop - first, 1)
    before = data.bins.reshape(len(data.bins), data.n_rows, BLOCK)
    bins = np.zeros((len(starts) - 1, data.n_rows, BLOCK), np.uint8)
    for feature in range(first, stop):
        block = int(np.searchsorted(data.block_start, feature, side="right")) - 1
        new = int(np.searchsorted(starts, feature - first, side="right")) - 1
        bins[new, :, feature - first - starts[new]] = before[block, :, feature - data.block_start[block]]
    return BinnedRows(
        bins.reshape(len(bins), data.n_rows * BLOCK), starts, data.n_bins[first:stop], data.is_categorical[first:stop]
    )
