"""PV-Tree on eight virtual machines: the rows are spread over workers, and every byte between them is counted."""

from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score

from pvtree import GBDTClassifier

X, y = make_classification(20_000, 300, n_informative=20, flip_y=0.1, class_sep=0.5, random_state=0)
X_train, X_test, y_train, y_test = X[:15_000], X[15_000:], y[:15_000], y[15_000:]

# At every node each worker votes for its 10 best columns. The histograms of the 20 with the most votes are merged.
classifier = GBDTClassifier(n_estimators=20, tree_learner="voting", n_workers=8, top_k=10)
classifier.fit(X_train, y_train)
auc = roc_auc_score(y_test, classifier.predict_proba(X_test)[:, 1])
print(f"AUC {auc:.3f}\n\n{classifier.traffic_}\n")

everyone, half, fewer, _ = map(sum, zip(*classifier.votes_, strict=True))
print(f"Splits by the votes for their column: {everyone} by all workers, {half} by at least half, {fewer} by fewer.")

# Merging all columns gives the model of a single machine, bit for bit, for any number of workers.
alone = GBDTClassifier(n_estimators=20).fit(X_train, y_train)
together = GBDTClassifier(n_estimators=20, tree_learner="data", n_workers=5).fit(X_train, y_train)
print(f"data-parallel on 5 workers gives the same model: {together.model_ == alone.model_}")
