"""A checkpoint is of this training if all that decides the model is the same, however the rows are spread."""

import json
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from checkpoints import GROUP, HISTORY, WEIGHT, N, Y, mark_of, model_of, shard_of
from pvtree.comm import Solo
from pvtree.comm.local import run
from pvtree.errors import InvalidParameterError
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds
from pvtree.training.checkpoint_file import Checkpoint


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path / "folder")


@pytest.mark.parametrize("arguments", [{}, {"weight": WEIGHT}, {"weight": WEIGHT, "group": GROUP}])
def test_fingerprints_do_not_depend_on_the_partition(arguments):
    alone = mark_of(shard=shard_of([(0, N)], **arguments))
    cuts = [0, 5, 6, 36, N] if "group" in arguments else [0, 13, 13, 14, N]
    parts = [[run] for run in pairwise(cuts)]
    if "group" in arguments:
        groups = [GROUP[:1], GROUP[1:2], GROUP[2:3], GROUP[3:]]
    else:
        parts, groups = [[(30, N), (0, 13)], [], [(13, 14)], [(14, 30)]], [None] * 4  # several runs, not in order

    def work(comm):
        shard = shard_of(parts[comm.rank], **arguments | {"group": groups[comm.rank]})
        mark = mark_of(Params(n_workers=4, tree_learner="data", n_threads=7), shard, comm)
        return mark, comm.traffic.total().calls

    assert run(work, 4, timeout=20) == [(alone, 0)] * 4
    every_row = Params(tree_learner="attribute", n_workers=2)
    columns = run(lambda comm: mark_of(every_row, shard_of([(0, N)], **arguments), comm), 2, timeout=20)
    assert columns == [alone] * 2
    assert json.loads(json.dumps(alone)) == alone


def other_objective(y, p):
    return p - y, np.ones_like(y)


def changed(values, at, to):
    values = values.copy()
    values[at] = to
    return values


WHOLE = shard_of([(0, N)], weight=WEIGHT, group=GROUP)
DIFFERENT = {
    "learning_rate was 0.1 and is 0.2": ({"params": Params(learning_rate=0.2)}, {}),
    "num_leaves was 31 and is 7; seed was 0 and is 1": ({"params": Params(num_leaves=7, seed=1)}, {}),
    "tree_learner was 'serial' and is 'voting'": ({"params": Params(tree_learner="voting")}, {}),
    "objective was 'regression' and is 'test_fi": ({"params": Params(objective=other_objective)}, {}),
    "it had 40 rows, now there are 41": ({}, {"ids": RowIds.consecutive(N, 0, 41)}),
    "the values of X have changed": ({}, {"thresholds": shard_of([(0, N)], upper=2.0).thresholds}),
    "y, the weights or the queries have changed": ({}, {"y": changed(Y, [3, 4], Y[[4, 3]])}),
    "the weights or the queries have changed": (
        {},
        {"y": changed(Y, [7, 8], Y[[8, 7]]), "weight": changed(WEIGHT, [7, 8], WEIGHT[[8, 7]])},
    ),
    "the weights or the queries have": ({}, {"weight": changed(WEIGHT, 0, 0.5)}),
    "or the queries have changed": ({}, {"weight": None}),
    "the queries have changed": ({}, {"group": np.array([5, 31, 4])}),
    "queries have changed": ({}, {"group": None}),
    "continued another init_model": ({"init_model": model_of(1)}, {}),
    "it evaluated .*, now it is .'v l2'.": ({"evaluation": ["v l2"]}, {}),
}


@pytest.mark.parametrize("difference", DIFFERENT)
def test_another_training_is_refused_by_what_differs(checkpoint, difference):
    arguments, of_shard = DIFFERENT[difference]
    checkpoint.resume(mark_of(shard=WHOLE), Solo())
    checkpoint.save(model_of(2), HISTORY[:2], mark_of(shard=WHOLE))
    assert checkpoint.resume(mark_of(shard=WHOLE), Solo()) is not None
    mark = mark_of(shard=replace(WHOLE, **of_shard), **arguments)
    with pytest.raises(InvalidParameterError, match=f"of another training: .*{difference}") as error:
        checkpoint.resume(mark, Solo())
    told = str(error.value).split("of another training: ")[1].split(". Train with the same settings and data")[0]
    assert told.count(";") == (1 if "seed" in difference else 0 if "voting" not in difference else 3)
    assert mark_of(shard=WHOLE) == mark_of(shard=replace(WHOLE))


def test_what_may_change_between_two_runs():
    free = Params(n_threads=9, verbosity=-1, n_estimators=7, early_stopping_rounds=3, packs_histograms=False, top_k=3)
    assert mark_of(free) == mark_of() == mark_of(Params(tree_learner="data", n_workers=3, quantized_bins=0.3))
    assert mark_of(Params(tree_learner="voting", top_k=3)) != mark_of(Params(tree_learner="voting", top_k=4))


def test_callable_objects_have_names():
    class Mine:
        def __call__(self, y, p): ...

    assert "Mine" in mark_of(Params(objective=Mine()))["parameters"]["objective"]


def test_voting_on_other_parts_goes_on_with_a_warning(checkpoint):
    voting = Params(tree_learner="voting")

    def resume(*parts):
        def work(comm):
            return checkpoint.resume(mark_of(voting, shard_of(parts[comm.rank]), comm), comm)

        return run(work, len(parts), timeout=20)

    assert resume([(0, 10)], [(10, N)]) == [None, None]
    mark = run(lambda comm: mark_of(voting, shard_of([[(0, 10)], [(10, N)]][comm.rank]), comm), 2, timeout=20)[0]
    checkpoint.save(model_of(2), HISTORY[:2], mark)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(resume([(0, 10)], [(10, N)]))
        assert all(resume([(20, N), (10, 20)], [(0, 10)]))  # the same parts, in other words
    with pytest.warns(UserWarning, match="distributed differently over the workers; voting resumes") as told:
        assert all(resume([(0, 11)], [(11, N)]))
    assert len(told) == 1
    with pytest.warns(UserWarning, match="distributed differently"):
        assert all(resume([(0, 10)], [(10, N)], []))
