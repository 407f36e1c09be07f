"""Training on Ray: a Dataset is trained on where its blocks are; then Ray Train and Tune compare learning rates.

pip install 'pvtree[ray]'
python examples/ray_training.py
"""

import os

import ray
from ray import train, tune
from ray.tune.integration.ray_train import TuneReportCallback
from sklearn.datasets import load_breast_cancer

import pvtree
import pvtree.ray


def loop(config):
    """What Ray Train calls on every worker, with the worker's own rows."""
    rows, held = (train.get_dataset_shard(name).materialize().to_pandas() for name in ("train", "valid"))
    (X, y), valid = ((each.drop(columns="target"), each["target"]) for each in (rows, held))
    model = pvtree.GBDTClassifier(n_estimators=10, eval_metric="binary_logloss", **config)
    model.fit(X, y, eval_set=[valid], comm=pvtree.ray.get_comm(), callbacks=[pvtree.ray.report(every=5)])
    pvtree.ray.report_model(model)


if __name__ == "__main__":
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    rows = load_breast_cancer(as_frame=True).frame
    dataset = ray.data.from_pandas(rows).repartition(4).materialize()

    workers = train.ScalingConfig(num_workers=2, placement_strategy="SPREAD")
    classifier = pvtree.GBDTClassifier(n_estimators=20).fit(dataset, "target", client=workers)
    print(f"accuracy: {classifier.score(dataset, 'target'):.3f}")
    print(classifier.traffic_)

    storage = os.path.abspath("ray-results")
    rows, held = dataset.train_test_split(0.25, shuffle=True, seed=0)

    def trial(config):
        run = train.RunConfig(storage_path=storage, callbacks=[TuneReportCallback()])
        pvtree.ray.PvtreeTrainer(
            loop,
            train_loop_config=config,
            scaling_config=workers,
            run_config=run,
            datasets={"train": rows, "valid": held},
        ).fit()

    rates = tune.grid_search([0.01, 0.3])
    config = tune.TuneConfig(metric="valid_0-binary_logloss", mode="min", max_concurrent_trials=1)
    found = tune.Tuner(trial, param_space={"learning_rate": rates}, tune_config=config).fit()
    print(f"best learning rate: {found.get_best_result().config['learning_rate']}")
    ray.shutdown()
