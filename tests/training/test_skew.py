"""The warning before doubtful votes: sorted data always get it, rows and queries spread at random never."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pvtree
from pvtree.binning.shard import make_shard, split_by_rows
from pvtree.comm.local import run
from pvtree.kernels.team import Team
from pvtree.parameters.params import Params
from pvtree.reading.training_rows import TrainingRows
from pvtree.training.skew import Skew, SkewWarning, measure_skew, warn_if_skewed

WORKERS = [2, 3, 5, 8]


def on_workers(function, X, y, n_workers, n_classes=1, group=None, tree_learner="voting", categorical=None):
    """``function(shard, params, comm)`` on every worker."""
    parts = split_by_rows(TrainingRows(X, y, group=group), n_workers)
    params = Params(tree_learner=tree_learner, n_classes=n_classes)

    def work(comm):
        with Team(1) as team:
            shard = make_shard(parts[comm.rank], categorical or {}, params, team, comm)
        return function(shard, params, comm)

    return run(work, n_workers, timeout=20)


def skew_of(X, y, n_workers, n_classes=1, group=None, **options) -> Skew:
    def measure(shard, params, comm):
        return measure_skew(shard, params.n_classes, comm)

    results = on_workers(measure, X, y, n_workers, n_classes, group, **options)
    for result in results:
        assert result.label == results[0].label and result.features.tobytes() == results[0].features.tobytes()
    return results[0]


def warning_of(X, y, n_workers, n_classes=1, group=None, names=None, tree_learner="voting") -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        on_workers(
            lambda shard, params, comm: warn_if_skewed(shard, params, comm, names),
            X, y, n_workers, n_classes, group, tree_learner,
        )  # fmt: skip
    assert all(each.category is SkewWarning for each in caught)
    return [str(each.message) for each in caught]


def is_quiet(skew: Skew) -> bool:
    return skew.label == 0 and not skew.features.any()


@pytest.mark.parametrize("n_workers", WORKERS)
@pytest.mark.parametrize("n_rows", [100, 3000])
def test_sorted_labels_are_found(n_rows, n_workers):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 5))
    sorted_share = pytest.approx(1 - 1 / n_workers**2, abs=0.02)
    for y in (rng.normal(size=n_rows), np.exp(4 * rng.normal(size=n_rows)), 1e9 + rng.normal(size=n_rows)):
        skew = skew_of(X, np.sort(y), n_workers)
        assert skew.label == sorted_share and not skew.features.any()
    assert skew_of(X, np.arange(n_rows) * 2.0 // n_rows, n_workers, 2).label > 0.9  # 1 if the blocks are equal


def test_whoever_grows_trees_alone_is_warned_too():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(300, 3)), np.sort(rng.normal(size=300))
    for learner in ("svore", "yu"):
        (warning,) = warning_of(X, y, 3, tree_learner=learner)
        assert "their trees may fit their own rows only" in warning and "grow every tree on all rows" in warning
    assert warning_of(X, y, 3, tree_learner="data") == []


@pytest.mark.parametrize("n_workers", WORKERS)
def test_sorted_classes_are_found_even_if_rare(n_workers):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 3))
    rare = (np.arange(3000) >= 2940).astype(float)  # 2 % in the last worker only: little variance, but all of it
    assert skew_of(X, rare, n_workers, 2).label == pytest.approx(1.0, abs=0.01)
    assert skew_of(X, np.sort(rng.integers(0, 7, 3000)).astype(float), n_workers, 7).label > 0.95
    assert is_quiet(skew_of(X, rng.permutation(rare), n_workers, 2))


@pytest.mark.parametrize("n_workers", WORKERS)
def test_columns_that_follow_the_order_of_rows_are_found(n_workers):
    rng = np.random.default_rng(2)
    n_rows = 2000
    time = np.arange(n_rows)
    X = np.column_stack([
        rng.normal(size=n_rows), time, np.where(rng.random(n_rows) < 0.3, np.nan, -time),
        1 + time * 12 // n_rows, rng.integers(1, 13, n_rows), np.where(time < n_rows // 2, np.nan, 1.0),
    ])  # fmt: skip
    skew = skew_of(X, rng.normal(size=n_rows), n_workers, categorical={3: 12, 4: 12})
    np.testing.assert_array_equal(np.flatnonzero(skew.features), [1, 2, 3, 5])
    assert skew.features[1] == pytest.approx(1 - 1 / n_workers**2, abs=0.02) and skew.label == 0


def test_more_rows_than_are_looked_at(monkeypatch):
    monkeypatch.setattr("pvtree.training.skew.FEATURE_ROWS", 500)
    monkeypatch.setattr("pvtree.reading.row_ids.SAMPLE_ROWS", 1000)
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(5000, 3)), rng.normal(size=5000)
    assert is_quiet(skew_of(X, y, 4))
    X[:, 1], y = np.arange(5000), np.sort(y)
    skew = skew_of(X, y, 4)
    assert skew.label > 0.9 and skew.features[1] > 0.9 and not skew.features[[0, 2]].any()


@pytest.mark.parametrize("seed", range(8))
def test_rows_spread_at_random_are_never_suspected(seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n_rows, n_features = int(10 ** rng.uniform(0.0, 3.0)), int(rng.integers(3, 60))
        X = rng.normal(size=(n_rows, n_features))
        X[:, 0] = rng.random(n_rows) < 0.02
        X[:, 1] = np.exp(3 * X[:, 1])
        X[:, 2] = 5.0
        n_classes = int(rng.choice([1, 2, 6]))
        y = np.exp(3 * rng.normal(size=n_rows))
        if n_classes > 1:
            y = rng.choice(n_classes, n_rows, p=rng.dirichlet(np.full(n_classes, 0.3))).astype(float)
        assert is_quiet(skew_of(X, y, int(rng.integers(2, 9)), n_classes))


@pytest.mark.parametrize("seed", range(4))
def test_queries_that_differ_moderately_are_not_suspected(seed):
    rng = np.random.default_rng(seed)
    for turn in range(15):
        n_queries = int(10 ** rng.uniform(0.5, 2.5))
        group = rng.geometric(1 / 20, n_queries) if turn % 2 else np.full(n_queries, 20)
        query = np.repeat(np.arange(n_queries), group)
        of_query, of_row = rng.normal(size=(n_queries, 12)), rng.normal(size=(len(query), 12))
        X = np.hstack([of_query[query, :6], (of_query[query] + of_row)[:, 6:]])
        y = np.clip(np.round(1 + of_query[query, 0] + of_row[:, 0]), 0, 4)
        assert is_quiet(skew_of(X, y, int(rng.integers(2, 9)), group=group))


@pytest.mark.parametrize("n_workers", WORKERS)
def test_sorted_queries_are_found(n_workers):
    group = np.full(300, 10)
    query = np.repeat(np.arange(300), group)
    rng = np.random.default_rng(4)
    X = np.column_stack([query, rng.normal(size=3000)])
    messages = warning_of(X, (query * 5 // 300).astype(float), n_workers, group=group)
    assert len(messages) == 1 and "the label" in messages[0] and "column 0 (" in messages[0]
    assert "shuffle the queries" in messages[0]


def test_workers_without_rows(monkeypatch):
    X, y = np.arange(6.0).reshape(3, 2), np.array([0.0, 1.0, 1.0])
    assert is_quiet(skew_of(X, y, 8, 2)) and is_quiet(skew_of(X, y, 8)) and is_quiet(skew_of(X[:1], y[:1], 3))
    # Who has no rows does not hide the others' difference.
    monkeypatch.setattr(
        "pvtree.binning.shard.row_bounds", lambda n_rows, _: np.array([0, n_rows // 2, n_rows // 2, n_rows])
    )
    time = np.arange(1000.0)
    skew = skew_of(time[:, None], time // 500, 3, 2)
    assert skew.label == 1.0 and skew.features[0] == pytest.approx(0.75, abs=0.02)
    # One query of a thousand rows: a single worker has everything.
    rng = np.random.default_rng(5)
    assert is_quiet(skew_of(rng.normal(size=(1000, 2)), np.zeros(1000), 4, group=np.array([1000])))


def test_the_sentence_names_what_differs_and_the_remedy():
    rng = np.random.default_rng(6)
    time, noise = np.arange(1000), rng.normal(size=1000)
    X = np.column_stack([noise, time, time + 900 * noise, 3 * time, -time, time])
    (message,) = warning_of(X, np.sort(noise), 4, names=["noise", "day", "drift", "month", "left", "id"])
    assert message == (
        "The workers hold different data, so their votes may miss the best features (share of the possible variance "
        "between workers: the label (94%), column 'day' (94%), column 'month' (94%), column 'left' (94%) and "
        "1 more column); shuffle the rows (sklearn.utils.shuffle) before training, or use tree_learner='exact_voting', "
        "which proves every split, or 'data', which does not vote."
    )
    (message,) = warning_of(X[:, :2], noise, 4)
    assert "between workers: column 1 (94%)); shuffle" in message
    (message,) = warning_of(X[:, :2], noise, 4, tree_learner="yu")
    assert message.endswith("or use tree_learner='exact_voting' or 'data', which grow every tree on all rows.")


@pytest.mark.parametrize("how", ["estimator", "train"])
def test_the_line_that_called_fit_is_named(how):
    X, y = np.arange(400.0).reshape(-1, 2), np.arange(200.0)
    params = {"tree_learner": "voting", "n_workers": 2, "top_k": 1, "verbosity": 0}
    with pytest.warns(SkewWarning, match="exact_voting") as heard:
        if how == "train":
            pvtree.train(params, pvtree.Dataset(X, y), 1)
        else:
            pvtree.GBDTRegressor(n_estimators=1, **params).fit(X, y)
    assert [each.filename for each in heard] == [__file__]


def test_only_voting_workers_are_warned():
    X, y = np.arange(500.0)[:, None], np.arange(500.0)
    assert len(warning_of(X, y, 3)) == 1
    assert warning_of(X, y, 3, tree_learner="data") == []
    assert warning_of(X, y, 1) == []


def test_the_cost_does_not_grow_with_rows():
    def measure(shard, params, comm):
        before = comm.traffic.snapshot()
        measure_skew(shard, params.n_classes, comm)
        return (comm.traffic - before).total()

    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(8000, 50)), rng.normal(size=8000)
    for n_classes, n_calls in ((1, 2), (2, 1)):
        traffic = on_workers(measure, X, np.abs(y) // 9 if n_classes > 1 else y, 2, n_classes)[0]
        assert traffic.calls == n_calls and traffic.bytes <= 8 * (1 + 3 * 54) + 8 * 600
