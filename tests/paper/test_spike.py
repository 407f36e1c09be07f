"""Ballots are consistent: an attribute that gains at one boundary out of 254 is named once there are enough rows."""

import numpy as np
import pytest

from pvtree import DecisionTreeRegressor

N_VALUES, AT = 255, 130  # neither neighbour of the boundary after bin 130 is a multiple of 4


def rows_with_a_spike(n_rows):
    """Attribute 0 gains 1.0 after one value and nothing elsewhere, attribute 1 gains 0.6 everywhere, others nothing."""
    rng = np.random.default_rng(4)
    place = rng.permutation(n_rows)
    X = np.column_stack([place % N_VALUES + 1.0, place // N_VALUES % 2, rng.integers(0, N_VALUES, n_rows)])
    spike = N_VALUES * ((X[:, 0] == AT).astype(float) - (X[:, 0] == AT + 1))
    return X, spike + np.sqrt(0.6 * 4) * (2 * X[:, 1] - 1)


@pytest.mark.parametrize("n_rows", [20_000, 80_000])
@pytest.mark.parametrize("ballot_rows", ["all", 8192])
def test_a_gain_at_one_boundary_is_seen(n_rows, ballot_rows):
    X, y = rows_with_a_spike(n_rows)
    roots = []
    for learner, n_workers in (("serial", 1), ("voting", 4)):
        stump = DecisionTreeRegressor(
            tree_learner=learner, n_workers=n_workers, top_k=1, ballot_rows=ballot_rows,
            num_leaves=2, verbosity=0, n_jobs=1,
        )  # fmt: skip
        tree = stump.fit(X, y).model_.trees[0]
        roots.append((int(tree.feature[0]), float(tree.threshold[0])))
    assert roots[0] == roots[1]
    assert roots[0][0] == 0
