"""Bins in a file: the same models as in memory, nothing left in the folder, one sentence where it cannot be written."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

import pvtree
from pvtree.binning.mapped_bins import is_mapped, make_bins, read_ahead
from pvtree.errors import InvalidParameterError
from pvtree.growing import frontier
from pvtree.kernels.constants import BLOCK

N_ROWS = 3000


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_ROWS, 50)).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    X[:, 7] = rng.integers(0, 9, N_ROWS)
    y = np.nan_to_num(X[:, 0] * X[:, 3]) + np.sin(np.nan_to_num(X[:, 20])) + X[:, 7] % 3
    return X, y


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_jobs": 1},
        {"n_jobs": 2, "subsample": 0.6, "subsample_freq": 1, "colsample_bynode": 0.5},
        {"n_jobs": 2, "num_leaves": -1, "max_depth": 5},
        {"tree_learner": "data", "n_workers": 2},
        {"tree_learner": "exact_voting", "n_workers": 3, "top_k": 4},
        {"tree_learner": "attribute", "n_workers": 2},
    ],
    ids=str,
)
def test_models_are_the_same(rows, tmp_path, monkeypatch, parameters):
    X, y = rows
    read = []
    monkeypatch.setattr(frontier, "read_ahead", lambda *blocks: read.append(blocks) or read_ahead(*blocks))

    def text(folder):
        few = {"n_estimators": 6, "num_leaves": 20, "min_child_samples": 5, "verbosity": 0}
        estimator = pvtree.GBDTRegressor(**few | parameters, bins_folder=folder)
        return estimator.fit(X, y, categorical_feature=[7]).model_.to_json()

    in_memory, n_read = text(None), len(read)
    assert text(tmp_path) == in_memory
    assert n_read == 0 and len(read) > 0
    assert os.listdir(tmp_path) == []


def test_bins_are_zeros_in_a_file_without_a_name(tmp_path):
    bins = make_bins((3, 100 * int(BLOCK)), str(tmp_path))
    assert is_mapped(bins) and not bins.any() and os.listdir(tmp_path) == []
    bins[2] = 7
    read_ahead(bins, 0, 9)  # beyond the end
    read_ahead(bins, 3, 5)  # nothing left
    assert bins.sum() == 7 * bins.shape[1]
    assert not is_mapped(make_bins((3, 4), None)) and not is_mapped(make_bins((0, 4), str(tmp_path)))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_is_noticed_before_training(rows, tmp_path, monkeypatch, code):
    def full(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InvalidParameterError, match=r"bins_folder=.* cannot take the bins: .*; free 0.0 GB there"):
        fit(rows, bins_folder=str(tmp_path))
    assert os.listdir(tmp_path) == []


def fit(rows, **parameters):
    return pvtree.GBDTRegressor(n_estimators=1, verbosity=0, **parameters).fit(*rows)


def test_a_folder_that_is_none_is_refused(rows, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for folder in (tmp_path / "missing", file):
        with pytest.raises(InvalidParameterError, match="make it a folder that can be written to"):
            fit(rows, bins_folder=folder)
    with pytest.raises(pvtree.errors.InvalidTypeError, match="bins_folder must be a folder"):
        fit(rows, bins_folder=3)


@pytest.mark.parametrize("learner", ["voting", "svore", "yu"])
def test_learners_that_need_memory_say_so(rows, tmp_path, learner):
    with pytest.raises(InvalidParameterError, match="bins_folder does not support tree_learner"):
        fit(rows, bins_folder=tmp_path, tree_learner=learner, n_workers=2)
