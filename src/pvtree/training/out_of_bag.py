"""A forest judged by rows that its trees have not seen: each row by the trees whose sample did not draw it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pvtree.binning.shard import all_numbers, in_order
from pvtree.comm import Communicator
from pvtree.growing.sampling import bootstrap_copies, is_empty
from pvtree.kernels.team import Team
from pvtree.model.model import Model
from pvtree.objectives.fixed_point import exact_means_of
from pvtree.parameters.params import Params
from pvtree.reading.sources import as_source
from pvtree.reading.training_rows import TrainingRows


class OutOfBag(NamedTuple):
    """What a forest predicts for its training rows without the trees that saw them."""

    score: float  # accuracy or R^2, as the mean over the targets
    predictions: np.ndarray  # (n_rows, n_outputs) of all workers' rows in their order; NaN if all trees saw a row


def judge_out_of_bag(model: Model, rows: TrainingRows, params: Params, comm: Communicator, team: Team) -> OutOfBag:
    """``rows`` are this worker's rows with all columns; all workers call it and get the same."""
    ids = rows.row_ids
    sums, n_trees = np.zeros((len(rows.y), model.n_outputs)), np.zeros(len(rows.y), np.int64)
    leaves = [model.predict_leaf(block, n_threads=team.n_threads) for block in as_source(rows.X).blocks()]
    leaf = np.vstack(leaves) if leaves else np.empty((0, len(model.trees)), np.int32)
    per = model.trees_per_iteration
    for number in range(model.n_iterations):
        copies = bootstrap_copies(params, number, ids, team)
        unseen = copies == 0
        if is_empty(np.flatnonzero(copies), comm):  # then all rows were taken
            continue
        n_trees += unseen
        for k, tree in enumerate(model.trees[number * per : (number + 1) * per]):
            value = tree.value[tree.feature < 0][leaf[unseen, number * per + k]]
            sums[unseen, k : k + value.shape[1]] += value
    with np.errstate(invalid="ignore"):
        predicted = sums / n_trees[:, None]
    is_judged = n_trees > 0
    score = _score(rows.y[is_judged], predicted[is_judged], model, comm)
    return OutOfBag(score, in_order(predicted, all_numbers(rows, comm), comm))


def _score(y: np.ndarray, predicted: np.ndarray, model: Model, comm: Communicator) -> float:
    others = comm if comm.size > 1 else None
    if model.classes is not None:
        of_columns = np.split(predicted, np.cumsum(model.target_sizes)[:-1].astype(np.int64), axis=1)
        right = [its.argmax(axis=1) == label for its, label in zip(of_columns, np.atleast_2d(y.T), strict=True)]
        return float(np.mean(exact_means_of([(each.astype(np.float64), None) for each in right], others, "metrics")))
    labels = np.atleast_2d(y.T)
    means = exact_means_of([(label, None) for label in labels], others, "metrics")
    terms = [(np.square(label - column), None) for label, column in zip(labels, predicted.T, strict=True)]
    terms += [(np.square(label - mean), None) for label, mean in zip(labels, means, strict=True)]
    found = exact_means_of(terms, others, "metrics")
    errors, spreads = found[: len(labels)], found[len(labels) :]
    return float(np.mean([1.0 - e / s if s > 0.0 else 0.0 for e, s in zip(errors, spreads, strict=True)]))
