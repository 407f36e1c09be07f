"""Regression: stop early on held-out rows, and see which columns mattered."""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from pvtree import GBDTRegressor

data = load_diabetes()
X_rest, X_test, y_rest, y_test = train_test_split(data.data, data.target, test_size=0.25, random_state=0)
X_train, X_valid, y_train, y_valid = train_test_split(X_rest, y_rest, test_size=0.25, random_state=0)

regressor = GBDTRegressor(
    n_estimators=1000, learning_rate=0.05, num_leaves=8, early_stopping_rounds=30, importance_type="gain"
)
regressor.fit(X_train, y_train, eval_set=[(X_valid, y_valid)], eval_names=["valid"], eval_metric="rmse")

history = regressor.evals_result_["valid"]["rmse"]
print(f"stopped after {len(history)} trees, kept {regressor.best_iteration_}, valid RMSE {min(history):.2f}")
print(f"test R2 {regressor.score(X_test, y_test):.3f}")
best = np.argsort(regressor.feature_importances_)[::-1][:3]
print("most gain: " + ", ".join(data.feature_names[j] for j in best))
