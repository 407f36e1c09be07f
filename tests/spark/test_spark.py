"""Spark: tasks in several executor processes train the models of one process, and go on after one was killed."""

from __future__ import annotations

import os
import sys
import threading
import time

import numpy as np
import pytest

pytest.importorskip("pyspark")
from pyspark import BarrierTaskContext
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

import pvtree
from accidents import Kill, executor, last_victim
from page_lines import ROOT, first_lines, run_program
from pvtree import spark as pvtree_spark
from pvtree.comm import local, tcp
from pvtree.comm.tcp_greeting import CHALLENGE
from pvtree.engines.spark.training import explained
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, PeerFailedError
from spark_rows import as_frame, make_rows
from tcp_strangers import attack_together, listening_ports

pytestmark = pytest.mark.spark
SMALL = {"n_estimators": 4, "num_leaves": 7, "min_child_samples": 5, "random_state": 3}
NAMES = ["a", "b", "c", "d"]


def virtual_model(X, y, n_workers, **options):
    def train(comm):
        cut = slice(len(y) * comm.rank // comm.size, len(y) * (comm.rank + 1) // comm.size)
        return pvtree.GBDTClassifier(**SMALL, **options).fit(X[cut], y[cut], comm=comm).model_.to_json()

    return local.run(train, n_workers)[0]


@pytest.mark.filterwarnings("ignore::pvtree.SkewWarning")
def test_models_are_those_of_one_process_and_of_the_virtual_cluster(spark):
    X, signal = make_rows()
    y = (signal > 0).astype(np.float64)
    serial = pvtree.GBDTClassifier(**SMALL).fit(X, y).model_.to_json()
    for size, learner in ((1, "exact_voting"), (2, "data"), (4, "exact_voting"), (4, "voting")):
        options = {"tree_learner": learner, "top_k": 1}
        fitted = pvtree_spark.GBDTClassifier(**SMALL, **options, num_workers=size).fit(
            as_frame(spark, X, size, label=y)
        )
        expected = virtual_model(X, y, size, **options) if learner == "voting" else serial
        assert fitted.model_.to_json() == expected, (size, learner)
    assert expected != serial  # otherwise voting's equality would prove little
    assert fitted.traffic_.total_bytes > 0 and fitted.votes_ is not None


def test_columns_of_numbers_and_text_with_weights_and_validation(spark):
    """Columns by name, as Spark's own tables have them; then with partitions that have no rows at all."""
    X, signal = make_rows()
    y, is_valid = signal, np.arange(len(X)) % 5 == 0
    weight, city = np.arange(len(X)) % 3 + 1.0, np.where(X[:, 1] > 0, "Bonn", "Ulm")
    frame = as_frame(spark, X, 2, label=y, city=city, w=weight, valid=is_valid)
    frame = frame.selectExpr("features[0] as a", "features[1] as b", "city", "label", "w", "valid")
    empty = spark.createDataFrame(spark.sparkContext.parallelize([], 2), frame.schema)
    options = {**SMALL, "n_estimators": 60, "early_stopping_rounds": 2, "learning_rate": 0.5, "eval_metric": "l1"}
    estimator = pvtree_spark.GBDTRegressor(
        features_col=["a", "b", "city"], weight_col="w", validation_indicator_col="valid", num_workers=2, **options
    )
    model = estimator.fit(frame)
    import pandas as pd

    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "city": city})
    train, valid = table[~is_valid], table[is_valid]
    serial = pvtree.GBDTRegressor(**options).fit(
        train, y[~is_valid], weight[~is_valid],
        eval_set=[(valid, y[is_valid])], eval_sample_weight=[weight[is_valid]],
    )  # fmt: skip
    assert model.model_.to_json() == serial.model_.to_json()
    assert model.evals_result_ == serial.evals_result_ and model.best_iteration_ == serial.best_iteration_ < 60
    predicted = [row.prediction for row in model.transform(frame).select("prediction").collect()]
    np.testing.assert_array_equal(predicted, serial.predict(table))
    # A barrier stage cannot follow a union, so rows are dealt out anew: in another order, hence not to the last bit.
    dealt = estimator.copy({estimator.num_workers: 4}).fit(frame.union(empty))
    assert dealt.best_iteration_ < 60 and min(dealt.evals_result_["valid_0"]["l1"]) == pytest.approx(
        min(serial.evals_result_["valid_0"]["l1"]), rel=0.1
    )


def test_partitions_without_rows_take_part(spark):
    X, signal = make_rows()
    rows = list(zip(X.tolist(), signal.tolist(), strict=True))
    parts = spark.sparkContext.parallelize(range(4), 4).flatMap(lambda m: rows if m == 2 else [])
    frame = spark.createDataFrame(parts, "features array<double>, label double")
    serial = pvtree.GBDTRegressor(**SMALL).fit(X, signal).model_.to_json()
    for learner in ("data", "exact_voting"):
        fitted = pvtree_spark.GBDTRegressor(**SMALL, num_workers=4, tree_learner=learner).fit(frame)
        assert fitted.model_.to_json() == serial
    with pytest.raises(InvalidDataError, match="has no rows"):
        pvtree_spark.GBDTRegressor(**SMALL, num_workers=2).fit(frame.where("label > 1e9"))


def test_rankers_bring_the_rows_of_a_query_together(spark):
    X, signal = make_rows()
    relevance, qid = np.digitize(signal, [0.0, 1.0]), np.repeat(np.arange(30), 10)
    shuffled = np.random.default_rng(0).permutation(len(X))
    frame = as_frame(spark, X[shuffled], 3, label=relevance[shuffled], q=qid[shuffled])
    model = pvtree_spark.GBDTRanker(qid_col="q", num_workers=2, **SMALL).fit(frame)
    assert sorted(row.prediction for row in model.transform(frame).collect()) == pytest.approx(
        sorted(model.estimator.predict(X))
    )
    with pytest.raises(InvalidParameterError, match="needs qid_col"):
        pvtree_spark.GBDTRanker(**SMALL).fit(frame)


def test_pipelines_cross_validation_and_files(spark, tmp_path):
    X, signal = make_rows()
    frame = as_frame(spark, np.nan_to_num(X), 2, label=np.where(signal > 0, 1.0, 0.0))
    frame = frame.selectExpr(*(f"features[{j}] as {name}" for j, name in enumerate(NAMES)), "label")
    classifier = pvtree_spark.RandomForestClassifier(n_estimators=2, num_workers=2, pred_contrib_col="shap")
    pipeline = Pipeline(stages=[VectorAssembler(inputCols=NAMES, outputCol="features"), classifier])
    grid = ParamGridBuilder().addGrid(classifier.max_depth, [1, 3]).build()
    search = CrossValidator(
        estimator=pipeline, estimatorParamMaps=grid, evaluator=BinaryClassificationEvaluator(), numFolds=2, seed=1
    )
    found = search.fit(frame)
    assert found.avgMetrics[1] > found.avgMetrics[0] > 0.5
    best = found.bestModel
    assert best.stages[-1].estimator.max_depth == 3
    answered = best.transform(frame).collect()
    trees = best.stages[-1].estimator
    np.testing.assert_allclose([row.probability.toArray() for row in answered], trees.predict_proba(np.nan_to_num(X)))
    assert len(answered[0].shap) == 2 * 5 or len(answered[0].shap) == 5
    assert answered[0].rawPrediction.size == 2
    best.write().overwrite().save(str(tmp_path / "pipeline"))
    again = PipelineModel.load(str(tmp_path / "pipeline")).transform(frame).collect()
    assert [row.prediction for row in again] == [row.prediction for row in answered]
    (file,) = (tmp_path / "pipeline").glob("stages/*/model/part-*")
    plain = pvtree.load(file)  # without Spark
    np.testing.assert_array_equal(plain.predict_proba(np.nan_to_num(X)), trees.predict_proba(np.nan_to_num(X)))
    classifier.write().overwrite().save(str(tmp_path / "estimator"))
    loaded = pvtree_spark.RandomForestClassifier.load(str(tmp_path / "estimator"))
    assert loaded.getOrDefault("n_estimators") == 2 and loaded.getOrDefault("num_workers") == 2


# What goes wrong


def test_spark_goes_on_from_the_checkpoint_after_an_executor_was_killed(spark, tmp_path):
    X, signal = make_rows()
    serial = pvtree.GBDTRegressor(**SMALL).fit(X, signal).model_.to_json()
    fit = {"checkpoint": str(tmp_path / "kept"), "checkpoint_freq": 1, "callbacks": [Kill(tmp_path, [2], executor)]}
    estimator = pvtree_spark.GBDTRegressor(**SMALL, tree_learner="data", num_workers=3, **fit)
    assert estimator.fit(as_frame(spark, X, 3, label=signal)).model_.to_json() == serial
    assert last_victim(tmp_path)


def test_errors_are_ours_and_named(spark):
    def fails(env):
        raise KeyError("in a callback")

    X, signal = make_rows(40)
    frame = as_frame(spark, X, 2, label=np.append(signal[:-1], np.nan), text=["word"] * 40)
    fit = {"num_workers": 2, **SMALL}
    with pytest.raises(InvalidDataError, match=r"y .*This is about the data of worker 1"):
        pvtree_spark.GBDTRegressor(**fit).fit(frame)
    with pytest.raises(KeyError, match="in a callback"):
        pvtree_spark.GBDTClassifier(callbacks=[fails], label_col="text2", **fit).fit(
            frame.selectExpr("features", "if(features[0] > 0, 'yes', 'no') as text2")
        )
    with pytest.raises(InvalidDataError, match="has no column 'target'; it has 'features'"):
        pvtree_spark.GBDTRegressor(label_col="target", **fit).fit(frame)
    with pytest.raises(InvalidTypeError, match="'text' holds string; name a column of vectors"):
        pvtree_spark.GBDTRegressor(features_col="text", **fit).fit(frame)
    with pytest.raises(InvalidParameterError, match="num_leaves must be"):
        pvtree_spark.GBDTRegressor(num_leaves=1).fit(frame)
    with pytest.raises(InvalidParameterError, match="num_leafs"):
        pvtree_spark.GBDTRegressor(num_leafs=3)


def test_strangers_at_every_port_are_refused_and_the_tasks_do_not_notice(spark, tmp_path):
    """Task 1 comes late: until then strangers are alone with the others. They get a challenge and no more."""
    folder, here = tmp_path, tmp_path / "here"

    def wait_until(is_so):
        deadline = time.monotonic() + 60
        while not (found := is_so()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def work(_):
        context = BarrierTaskContext.get()
        rank = context.partitionId()
        (folder / f"{rank} {os.getpid()}").touch()
        if rank == 1:
            wait_until(here.exists)
        with tcp.connect(tcp.Engine(rank, 3, context.allGather), host="127.0.0.1", timeout=60) as comm:
            return [comm.allreduce(np.array([comm.rank + 1]), "rows").tolist()]

    def ports_of(rank):
        return [port for path in folder.glob(f"{rank} *") for port in listening_ports(int(path.name.split()[1]))]

    def attack_both():
        wait_until(lambda: ports_of(0) and ports_of(2))
        answers.extend(attack_together([*ports_of(0), *ports_of(2)], here.touch))

    answers: list[int] = []
    strangers = threading.Thread(target=attack_both)
    strangers.start()
    sums = spark.sparkContext.parallelize(range(3), 3).barrier().mapPartitions(work).collect()
    strangers.join()
    assert sums == [[6]] * 3
    assert answers == [CHALLENGE.size] * 6


def test_the_lost_task_is_named_even_if_no_other_has_told():
    text = (
        "Job aborted due to stage failure: ResultStage 3 has failed the maximum allowable number of times: 4. Most "
        "recent failure reason: Stage failed because barrier task ResultTask(3, 1) finished unsuccessfully.\n"
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)"
    )
    error = explained(RuntimeError(text), 2)
    assert isinstance(error, PeerFailedError) and "Spark lost worker 1 of 2" in str(error)
    assert "ExecutorLostFailure" in str(error)


def test_too_few_slots_are_told_apart_from_a_loss():
    text = "BarrierJobSlotsNumberCheckFailed: [SPARK-24819]: Barrier execution mode does not allow run a barrier stage"
    error = explained(RuntimeError(text), 40)
    assert isinstance(error, InvalidParameterError) and "cannot run 40 tasks at the same time" in str(error)


def test_the_example_and_the_first_lines_of_the_page_run(tmp_path):
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    # In one process, as Spark starts slowly. The example ends the session.
    example = f"import runpy; runpy.run_path({str(ROOT / 'examples' / 'spark_training.py')!r}, run_name='__main__')"
    printed = run_program(f"{first_lines('Spark')}\n{example}", tmp_path, **environment)
    assert "|prediction|" in printed and "area under the ROC curve: 0.9" in printed
    assert pvtree.load(tmp_path / "model.json").n_features_in_ == 30
