"""Ranking with LambdaMART, measured by NDCG. The rows of a query must be adjacent."""

import numpy as np

from pvtree import GBDTRanker

rng = np.random.default_rng(0)


def make_queries(n_queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each query has 10 to 30 documents. Their relevance, from 0 to 4, depends on two of ten columns."""
    group = rng.integers(10, 31, n_queries)
    X = rng.standard_normal((group.sum(), 10), np.float32)
    relevance = X[:, 0] + np.abs(X[:, 1]) + 0.3 * rng.standard_normal(len(X))
    return X, np.digitize(relevance, [0.5, 1.2, 2.0, 2.8]), group


X_train, y_train, group_train = make_queries(200)
X_test, y_test, group_test = make_queries(100)

ranker = GBDTRanker(n_estimators=50, num_leaves=15, random_state=0)
ranker.fit(
    X_train,
    y_train,
    group=group_train,
    eval_set=[(X_test, y_test)],
    eval_names=["test"],
    eval_group=[group_test],
    eval_at=[5, 10],
)
for metric, values in ranker.evals_result_["test"].items():
    print(f"{metric} {values[0]:.4f} after the first tree, {values[-1]:.4f} after the last")

first_query = slice(0, group_test[0])
order = np.argsort(-ranker.predict(X_test[first_query]))
print("relevance of the first query's documents in ranked order:", *y_test[first_query][order])
