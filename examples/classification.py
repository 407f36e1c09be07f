"""Binary classification: train, measure, save the model and load it again."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from pvtree import GBDTClassifier, Model

X, y = load_breast_cancer(return_X_y=True, as_frame=False)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

classifier = GBDTClassifier(n_estimators=100, num_leaves=15, random_state=0).fit(X_train, y_train)
probability = classifier.predict_proba(X_test)[:, 1]
print(f"AUC {roc_auc_score(y_test, probability):.4f}, accuracy {classifier.score(X_test, y_test):.4f}")

# A model file is plain JSON: any program can read it, and loading it runs no code.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.json"
    classifier.model_.save(path)
    loaded = Model.load(path)
same = np.array_equal(loaded.predict_raw(X_test)[:, 0], classifier.predict(X_test, raw_score=True))
print(f"the loaded model predicts the same as the estimator: {same}")
