"""PV-Tree on MPI: each rank brings its own rows. Run with: mpiexec -n 4 python examples/mpi_training.py"""

import numpy as np
from mpi4py import MPI

from pvtree import GBDTClassifier

comm = MPI.COMM_WORLD


def read_rows(n_rows, n_columns=100):
    """A stand-in for reading this rank's files."""
    X = rng.normal(size=(n_rows, n_columns))
    return X, X[:, :10].sum(axis=1) + rng.normal(size=n_rows) > 0


rng = np.random.default_rng(comm.rank)
X, y = read_rows(5_000)
held_out = read_rows(1_000)

# Every rank passes its own rows, to train on and to evaluate on, and gets the same model.
classifier = GBDTClassifier(n_estimators=10, learning_rate=0.3, tree_learner="voting", top_k=10)
classifier.fit(X, y, eval_set=[held_out], eval_metric="auc", comm=comm)

if comm.rank == 0:
    auc = classifier.evals_result_["valid_0"]["auc"][-1]
    print(f"{comm.size} ranks, AUC {auc:.3f} on the held-out rows of all ranks\n\n{classifier.traffic_}")
