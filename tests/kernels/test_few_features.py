"""A few of many features are added up alike from columns, from whole rows and one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from pvtree.kernels.growing.few_features import LINE, add_by_columns, add_by_rows
from pvtree.kernels.growing.records import TREE, fill_record
from thoroughness import examples


@pytest.mark.parametrize("add", [add_by_columns, add_by_rows])
@examples(20)
@given(st.integers(0, 2**32), st.integers(1, 3000), st.integers(1, 200), st.data())
def test_sums_are_those_of_numpy(add, seed, n_rows, n_features, data):
    rng = np.random.default_rng(seed)
    n_wanted = data.draw(st.integers(1, min(n_features, 40)))
    bins = rng.integers(0, 256, (n_rows, n_features), dtype=np.uint8)
    columns = bins.T.copy()  # records hold addresses only, so both copies need a name
    padded = np.pad(bins, ((0, 0), (0, -n_features % int(LINE))))
    tree = fill_record(
        TREE,
        {"n_all_rows": n_rows, "columns": columns, "n_columns": n_features,
         "row_bins": padded, "row_bytes": padded.shape[1]},
    )[0]  # fmt: skip
    features = np.sort(rng.choice(n_features, n_wanted, replace=False)).astype(np.int64)
    rows = rng.permutation(n_rows).astype(np.uint32)
    words = rng.integers(-(2**60), 2**60, n_rows)
    start, stop = sorted(rng.integers(0, n_rows + 1, 2).tolist())
    packed = np.zeros(n_wanted * 256, np.int64)
    add(features, rows, words, np.int64(start), np.int64(stop), tree, packed)
    expected = np.zeros((n_wanted, 256), np.int64)
    for i, feature in enumerate(features):
        np.add.at(expected[i], bins[rows[start:stop], feature], words[start:stop])
    assert_array_equal(packed.reshape(n_wanted, 256), expected)
