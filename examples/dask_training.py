"""PV-Tree on a Dask cluster: workers train on the partitions that they hold. Needs: pip install 'pvtree[dask]'"""

import dask.array as da
from distributed import Client, LocalCluster

from pvtree import GBDTClassifier


def make_rows(seed, n_rows):
    """A stand-in for dask.dataframe.read_parquet: the rows are made on the workers and stay there."""
    random = da.random.default_rng(seed)
    X = random.normal(size=(n_rows, 100), chunks=(1_000, -1))
    return X, X[:, :10].sum(axis=1) + random.normal(size=n_rows, chunks=1_000) > 0


if __name__ == "__main__":  # worker processes import this file and must not start clusters of their own
    with LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        X, y, X_test, y_test = client.persist([*make_rows(0, n_rows=20_000), *make_rows(1, n_rows=4_000)])
        classifier = GBDTClassifier(n_estimators=10, learning_rate=0.3, tree_learner="voting", top_k=10)
        classifier.fit(X, y, eval_set=[(X_test, y_test)], eval_metric="auc")
        # The metric is exact over the rows of all workers. traffic_ counts every byte between them.
        print(f"AUC {classifier.evals_result_['valid_0']['auc'][-1]:.3f}\n\n{classifier.traffic_}\n")
        # Predictions for Dask collections are lazy. The estimator itself lives in this process, like any other.
        is_right = classifier.predict(X_test) == y_test
        print(f"{is_right.mean().compute():.1%} of the test rows are predicted correctly")
