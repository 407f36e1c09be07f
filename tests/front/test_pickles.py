"""Pickled estimators: what they need to load, and that they predict the same."""

import io
import pickle
import warnings

import pvtree


def test_a_pickled_estimator_names_no_private_module():
    """But those of ``pvtree.comm``, which are public."""
    X = [[i % 7, i % 5, i % 3] for i in range(60)]
    fitted = pvtree.GBDTRegressor(n_estimators=2, tree_learner="exact_voting", n_workers=2, top_k=1, verbosity=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pvtree.SkewWarning)
        fitted.fit(X, [sum(row) for row in X])
    assert fitted.votes_ and fitted.certificates_
    homes = set()

    class Homes(pickle.Unpickler):
        def find_class(self, module, name):
            homes.add(module)
            return super().find_class(module, name)

    loaded = Homes(io.BytesIO(pickle.dumps(fitted))).load()
    assert loaded.predict(X).tolist() == fitted.predict(X).tolist()
    assert {home for home in homes if home.startswith("pvtree")} == {"pvtree", "pvtree.comm.traffic"}
