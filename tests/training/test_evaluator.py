"""Evaluation sets whose rows are spread over workers, iteration by iteration and after a restart."""

from dataclasses import replace

import numpy as np
import pytest

from pvtree.comm.local import run
from pvtree.kernels.team import Team
from pvtree.objectives.metrics import CustomMetric, get_metric
from pvtree.parameters.params import Params
from pvtree.training.evaluator import EvalSet, Evaluator
from pvtree.training.options import TrainOptions
from random_trees import random_model, random_rows

N_ITERATIONS, N_ROWS = 5, 60


def evaluator_of(model, sets, metrics, comm=None):
    return Evaluator(TrainOptions(Params(ensemble=model.ensemble), eval_sets=sets, metrics=metrics), comm)


def make_model(ensemble, n_outputs):
    n_trees = N_ITERATIONS * (n_outputs if ensemble == "gbdt" else 1)
    model = random_model(1, [7] * n_trees, n_outputs, ensemble)
    return model if ensemble == "gbdt" else replace(model, init_score=np.zeros(n_outputs))


def make_sets(n_classes):
    rng = np.random.default_rng(2)
    y = [rng.integers(0, n_classes, N_ROWS).astype(float) for _ in range(2)]
    return [
        EvalSet("first", random_rows(rng, N_ROWS), y[0]),
        EvalSet("second", random_rows(rng, N_ROWS), y[1], rng.random(N_ROWS)),
    ]


def iterations(model, start=0):
    step = model.trees_per_iteration
    return [(model.trees[i * step : (i + 1) * step], i + 1) for i in range(start, model.n_iterations)]


def evaluate_all(evaluator, model, start=None):
    with Team(1) as team:
        evaluator.begin(model.n_outputs, model.init_score, team, start)
        return [evaluator.evaluate(*each) for each in iterations(model, 0 if start is None else start.n_iterations)]


def first_half(model):
    return replace(model, trees=model.trees[: 2 * model.trees_per_iteration])


CASES = [("gbdt", 1, "regression", ["l2", "l1"]), ("gbdt", 3, "multiclass", ["multi_logloss"]),
         ("forest", 1, "regression", ["rmse"]), ("forest", 3, "classification", ["multi_error"])]  # fmt: skip


@pytest.mark.parametrize(("ensemble", "n_outputs", "objective", "names"), CASES)
def test_metrics_are_those_of_the_models_predictions(ensemble, n_outputs, objective, names):
    model, sets = make_model(ensemble, n_outputs), make_sets(max(2, n_outputs))
    metrics = [get_metric(name, objective) for name in names]
    results = evaluate_all(evaluator_of(model, sets, metrics), model)
    for i, its_results in enumerate(results):
        expected = []
        for each in sets:
            scores = np.ascontiguousarray(model.predict_raw(each.X, i + 1).T)
            expected += [(each.name, m.name, m(each.y, scores, each.weight), m.greater_is_better) for m in metrics]
        assert its_results == expected


@pytest.mark.parametrize(("ensemble", "n_outputs", "objective", "names"), CASES)
def test_a_restart_goes_on_with_the_same_bits(ensemble, n_outputs, objective, names):
    model, sets = make_model(ensemble, n_outputs), make_sets(max(2, n_outputs))
    metrics = [get_metric(name, objective) for name in names]
    whole = evaluate_all(evaluator_of(model, sets, metrics), model)
    start = first_half(model)
    assert evaluate_all(evaluator_of(model, sets, metrics), model, start) == whole[2:]
    from_init_model = evaluator_of(model, sets, metrics)
    with Team(1) as team:
        from_init_model.begin(n_outputs, np.full(n_outputs, 99.0), team, start)  # the init_model brings its own
        assert [from_init_model.evaluate(*each) for each in iterations(model, 2)] == whole[2:]


def test_workers_share_the_rows_and_get_the_same_results_in_few_exchanges():
    model, sets = make_model("gbdt", 1), make_sets(2)
    metrics = [*(get_metric(name, "binary") for name in ("binary_logloss", "binary_error", "auc")),
               CustomMetric(lambda y, p, weight: ("mine", float(len(y) + p[7]), True), "binary")]  # fmt: skip
    alone = evaluate_all(evaluator_of(model, sets, metrics), model)
    owner = np.sort(np.random.default_rng(3).choice([0, 2, 3], N_ROWS))  # worker 1 has nothing

    def work(comm):
        rows = owner == comm.rank
        own = [EvalSet(s.name, s.X[rows], s.y[rows], None if s.weight is None else s.weight[rows]) for s in sets]
        own[0] = sets[0] if comm.rank == 2 else sets[0].without_rows()
        results = evaluate_all(evaluator_of(model, own, metrics, comm), model)
        return results, comm.traffic["metrics"].calls / N_ITERATIONS

    for results, calls in run(work, 4, timeout=60):
        assert results == alone
        # Means 2 for both sets; AUC 2 where one worker has all rows, else 3; custom: y, p, (weight), answer.
        assert calls == 2 + (2 + 3) + (3 + 4)


def test_nothing_to_evaluate_exchanges_nothing():
    model = make_model("gbdt", 1)

    def work(comm):
        return evaluate_all(evaluator_of(model, [], [], comm), model), comm.traffic.total().calls

    assert run(work, 2, timeout=60) == [([[]] * N_ITERATIONS, 0)] * 2


def test_a_set_without_rows_has_what_the_others_have():
    y = np.arange(3.0)
    empty = EvalSet("v", np.ones((3, 5), np.float32), y, y, np.array([1, 2])).without_rows()
    assert (empty.name, empty.X.shape, empty.X.dtype) == ("v", (0, 5), np.float32)
    assert [len(array) for array in (empty.y, empty.weight, empty.group)] == [0, 0, 0]
    assert EvalSet("v", np.ones((3, 5)), y).without_rows().weight is None


def test_what_is_asked_for_has_names():
    def mine(y, p):
        return "x", 1.0, True

    asked = evaluator_of(make_model("gbdt", 1), make_sets(2), [get_metric("l2", "regression"),
                      CustomMetric(mine, "regression")]).asked  # fmt: skip
    assert [each.split(".")[-1] for each in asked] == ["first l2", "mine", "second l2", "mine"]
