"""PV-Tree on MPI: each rank brings its own rows. Run with: mpiexec -n 4 python examples/mpi_training.py"""

import numpy as np
from sklearn.metrics import roc_auc_score

from pvtree.comm import mpi
from pvtree.dataset import Part
from pvtree.ensemble import Job, train_worker
from pvtree.model import Model
from pvtree.params import Params


def make_rows(seed, n_rows=5_000, n_columns=100):
    """Stands for reading this rank's files."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    return X, (X[:, :10].sum(axis=1) + rng.normal(size=n_rows) > 0).astype(float)


def train(comm):
    X, y = make_rows(seed=comm.rank)
    part = Part(X, y, first_row=comm.rank * len(y), n_all_rows=comm.size * len(y))
    params = Params(objective="binary", n_classes=2, n_estimators=30, tree_learner="voting", top_k=10)
    trained = train_worker(part, Job(params), comm)
    model = Model(tuple(trained.trees), "binary", "gbdt", X.shape[1], trained.n_outputs, trained.init_score)
    if comm.rank == 0:  # all ranks have the same model, so one is enough to speak of it
        X_test, y_test = make_rows(seed=1_000_000)
        print(f"{comm.size} ranks, AUC {roc_auc_score(y_test, model.predict_raw(X_test).ravel()):.3f}")
        print(trained.traffic)


# An exception on one rank ends all of them, so nobody waits for it.
mpi.run(train)
