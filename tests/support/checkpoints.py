"""Small models, rows and fingerprints to make checkpoints of."""

import math

import numpy as np

from pvtree.binning.shard import Shard
from pvtree.binning.thresholds import Thresholds
from pvtree.comm import Solo
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds
from pvtree.training.callbacks import EvalResult
from pvtree.training.checkpoint_file import fingerprint
from random_trees import random_model

N = 40
RNG = np.random.default_rng(0)
Y, WEIGHT, GROUP = RNG.normal(size=N), RNG.random(N), np.array([5, 1, 30, 4])
HISTORY = [
    [EvalResult("v", "l2", 0.1 + i, False), EvalResult('t"\n', "auc", [math.nan, math.inf, -math.inf][i % 3], True)]
    for i in range(3)
]


def model_of(n_trees, n_outputs=1):
    return random_model(n_trees, [5] * n_trees * n_outputs, n_outputs)


def shard_of(runs, y=Y, weight=None, group=None, upper=1.0):
    """The rows from..to of each run, of N rows."""
    rows = np.concatenate([np.arange(*each) for each in runs] or [np.arange(0)]).astype(int)
    ids = RowIds.of_runs([stop - start for start, stop in runs], [start for start, _ in runs], N)
    thresholds = Thresholds(np.full((3, 256), upper), np.full(3, 2), np.zeros(3, np.uint8))
    return Shard(
        data=None, thresholds=thresholds, y=y[rows], weight=None if weight is None else weight[rows], group=group,
        ids=ids, first_feature=0,
    )  # fmt: skip


def mark_of(params=Params(), shard=None, comm=None, **arguments):  # noqa: B008
    return fingerprint(params, shard or shard_of([(0, N)]), comm or Solo(), **arguments)
