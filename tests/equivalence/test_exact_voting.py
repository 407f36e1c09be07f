"""Exact voting makes the sequential model, byte for byte: every split is proven, or the attributes that could still win
are merged as well. Few are elected here, and rows are spread as badly as possible, so that the proofs are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pvtree
from pvtree.comm import local
from pvtree.find_split import exact_voting, proof
from pvtree.find_split.certificates import Certificate
from pvtree.parameters.params import Params
from pvtree.training.options import TrainOptions
from pvtree.training.train import TrainResult, train, train_worker
from small_data import categories_of
from strategy_cases import ANYTHING, CASES, Case, Rows, as_model, make_rows, split_at
from thoroughness import checkered, examples, one_in

pytestmark = pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")
WORKERS = (2, 3, 8, 16)
TOP_K = (1, 5, 20)


def widened(case: Case) -> Case:
    """With 42 columns instead of 7, even an election of 40 leaves some out."""
    kinds = case.kinds * 6 if len(case.kinds) == 7 else case.kinds
    return replace(case, kinds=kinds, n_rows=max(400, case.n_rows))


WIDE = {name: widened(case) for name, case in CASES.items()}


def train_on(rows: Rows, case: Case, **strategy: Any) -> TrainResult:
    params = replace(case.settled(), **strategy)
    return train(
        rows.X, rows.y, params, weight=rows.weight, group=rows.group, categorical=categories_of(case.kinds)
    )  # fmt: skip


@contextmanager
def everywhere(proves: bool = True) -> Iterator[None]:
    """Vote and prove even where it is no use: at nodes of few rows, and where too much was in doubt above."""
    if not proves:
        yield
        return
    with (
        patch.multiple(exact_voting, _SMALL=0, _MOST_OF_ALL=1.0),
        patch.multiple(proof, _LEAST_ROUNDED=0),
    ):
        yield


@cache
def serial_json(name: str) -> str:
    return train_on(make_rows(WIDE[name]), WIDE[name]).model.to_json()


# Every kind of training, every number of workers and of votes


def check_certificates(result: TrainResult) -> list[Certificate]:
    """One for each tree, which accounts for all of its splits."""
    certificates = result.certificates
    assert certificates is not None
    assert [each.tree for each in certificates] == list(range(len(result.model.trees)))
    for each, tree in zip(certificates, result.model.trees, strict=True):
        assert each.splits == (tree.feature >= 0).sum()
        assert each.unvoted + each.at_once + each.rounded + each.merged == each.splits
        # A split on an attribute that was not elected is known only after that attribute was merged.
        assert each.missed <= min(each.merged, each.n_extra)
        assert each.rounded_bytes > 0 or each.n_rounded == each.rounded == 0
        assert each.extra_bytes > 0 or each.n_extra == each.merged == 0
    sent = result.traffic.bytes_per_tree * len(certificates)
    assert sum(each.bound_bytes + each.rounded_bytes + each.extra_bytes for each in certificates) < max(sent, 1)
    return certificates


@pytest.mark.parametrize("number, name", list(enumerate(one_in(2, WIDE))))
def test_models_are_those_of_one_worker(number: int, name: str) -> None:
    rows = make_rows(WIDE[name])
    # Any twelve cases after each other have each pair once; every third proves only where it pays.
    n_workers, top_k = WORKERS[number % len(WORKERS)], TOP_K[number % len(TOP_K)]
    with everywhere(proves=number // 12 != number % 3):
        result = train_on(rows, WIDE[name], tree_learner="exact_voting", n_workers=n_workers, top_k=top_k)
    assert result.model.to_json() == serial_json(name), (n_workers, top_k)
    check_certificates(result)


@pytest.mark.parametrize(
    "name", one_in(2, ["binary", "multiclass", "lambdarank", "rows sampled", "forest of classes", "depth"])
)
def test_votes_chosen_automatically_change_no_model(name: str) -> None:
    case = replace(WIDE[name], params=WIDE[name].params | {"n_estimators": 12})
    rows = make_rows(case)
    alone = train_on(rows, case).model.to_json()
    n_workers = (3, 8)[len(name) % 2]
    with everywhere(proves=n_workers == 8):
        result = train_on(rows, case, tree_learner="exact_voting", n_workers=n_workers, top_k="auto")
    assert result.model.to_json() == alone
    tried = {k for each in check_certificates(result) for k in each.top_k}
    assert len(tried) > 1 <= min(tried)


# Rows spread as badly as possible: (rows, their bounds on so many workers)

Spread = tuple[Rows, list[int]]


def reordered(rows: Rows, by: np.ndarray) -> Rows:
    """Rows in ascending order of ``by``; of rankings, whole queries in the order of their mean."""
    order, group = np.argsort(by, kind="stable"), None
    if rows.group is not None:
        ends = np.concatenate(([0], np.cumsum(rows.group)))
        queries = np.argsort([by[start:stop].mean() for start, stop in pairwise(ends)], kind="stable")
        order = np.concatenate([np.arange(ends[q], ends[q + 1]) for q in queries])
        group = rows.group[queries]
    return Rows(rows.X[order], rows.y[order], None if rows.weight is None else rows.weight[order], group)


def shares(rows: Rows, *fractions: float) -> list[int]:
    """Bounds at these fractions of the rows; queries stay whole."""
    ends = np.arange(len(rows.y) + 1) if rows.group is None else np.concatenate(([0], np.cumsum(rows.group)))
    places = np.searchsorted(ends, np.array(fractions) * len(rows.y), side="right") - 1
    return [0, *ends[places].tolist(), len(rows.y)]


def even(rows: Rows, n_workers: int) -> list[int]:
    return shares(rows, *(m / n_workers for m in range(1, n_workers)))


def sorted_by_label(rows: Rows, n_workers: int) -> Spread:
    ordered = reordered(rows, rows.y)
    return ordered, even(ordered, n_workers)


def sorted_by_attribute(rows: Rows, n_workers: int) -> Spread:
    ordered = reordered(rows, np.nan_to_num(rows.X[:, 0]))
    return ordered, even(ordered, n_workers)


def one_class_alone(rows: Rows, n_workers: int) -> Spread:
    """Worker 0 has half of the rows of the lowest label, and no others."""
    first = np.flatnonzero(rows.y == rows.y.min())
    by = np.ones(len(rows.y))
    by[first[: (len(first) + 1) // 2]] = 0.0
    ordered = reordered(rows, by)
    share = (len(first) + 1) // 2 / len(rows.y)
    return ordered, shares(ordered, *(share + (1.0 - share) * m / (n_workers - 1) for m in range(n_workers - 1)))


def empty_workers(rows: Rows, n_workers: int) -> Spread:
    """Only worker 1 and the last one have rows."""
    middle = shares(rows, 0.4)[1]
    return rows, [0, 0, *[middle] * (n_workers - 2), len(rows.y)]


def nearly_all_on_one(rows: Rows, n_workers: int) -> Spread:
    n = len(rows.y)
    return rows, shares(rows, *(max(0.0, 1.0 - (n_workers - m) / n) for m in range(1, n_workers)))


def spread_evenly(rows: Rows, n_workers: int) -> Spread:
    return rows, even(rows, n_workers)


SPREADS: tuple[Callable[[Rows, int], Spread], ...] = (
    sorted_by_label, sorted_by_attribute, one_class_alone, empty_workers, nearly_all_on_one, spread_evenly,
)  # fmt: skip


def check_spread(case: Case, spread: Callable[[Rows, int], Spread], n_workers: int, **others: Any) -> None:
    """All workers have the model that one worker makes of the rows in the same order."""
    rows, bounds = spread(make_rows(case), n_workers)
    alone = train_on(rows, case).model
    params = replace(case.settled(), tree_learner="exact_voting", n_workers=n_workers, **others)
    parts, options = split_at(rows, bounds), TrainOptions(params, categories_of(case.kinds))
    for trained in local.run(lambda comm: train_worker(parts[comm.rank], options, comm), n_workers):
        assert as_model(trained, alone).to_json() == alone.to_json(), bounds


SPREAD = ["regression", "binary", "multiclass", "lambdarank", "columns of nodes", "tree of 12 classes",
          "tree of values", "forest of classes", "packed words too short", "only categories"]  # fmt: skip


# Each training with one or two spreads, and each spread with two or three trainings.
@pytest.mark.parametrize(("name", "spread"), one_in(4, product(SPREAD, SPREADS[:-1])))
def test_rows_spread_badly(name: str, spread: Callable[[Rows, int], Spread]) -> None:
    number = list(WIDE).index(name) + SPREADS.index(spread)
    with everywhere():
        check_spread(WIDE[name], spread, WORKERS[number % len(WORKERS)], top_k=TOP_K[number % 2])


@examples(18)
@given(
    ANYTHING, st.sampled_from([1, 4]), st.sampled_from(SPREADS), st.sampled_from(WORKERS),
    st.sampled_from([1, 1, 2, 5, "auto"]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_training_on_any_partition(
    case: Case, times: int, spread: Callable[[Rows, int], Spread], n_workers: int, top_k: int | str, packs: bool,
    proves: bool,
) -> None:  # fmt: skip
    case = replace(case, n_rows=times * case.n_rows)
    with everywhere(proves):
        check_spread(case, spread, n_workers, top_k=top_k, packs_histograms=packs)


# Data with something to learn, where bounds alone prove some splits, rounded sums others, and the rest is merged


def informative(n_rows: int, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    score = X[:, 0] + 0.7 * X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 3]) + 0.1 * X[:, 4:14].sum(axis=1)
    return X, (score + rng.normal(size=n_rows) > 0.4).astype(np.float64)


BINARY = Params(
    objective="binary", n_classes=2, num_leaves=15, max_bin=63, min_child_weight=0.0, n_estimators=12, verbosity=0
)  # fmt: skip


def test_every_stage_proves_some_splits() -> None:
    X, y = informative(12_000, 60, seed=1)
    alone = train(X, y, BINARY).model
    for top_k in (3, "auto"):
        result = train(X, y, replace(BINARY, tree_learner="exact_voting", n_workers=3, top_k=top_k))
        assert result.model.to_json() == alone.to_json()
        totals = np.sum([each[1:-1] for each in check_certificates(result)], axis=0)
        splits, _, at_once, rounded, merged, missed, n_rounded, n_extra, *n_bytes = totals.tolist()
        if top_k == 3:  # more names leave little to prove
            assert min(at_once, rounded, merged, missed, *n_bytes) > 0
        # Most attributes are ruled out: by their bounds, or by rounded sums.
        assert n_extra < n_rounded < splits * 60
        assert n_extra < splits * 60 / 4


# Missed winners: stumps, where the one split of voting is right if and only if the model is that of one worker


@pytest.mark.parametrize(
    ("objective", "spread"), checkered(["binary", "classes", "values"], [spread_evenly, sorted_by_attribute])
)
def test_a_split_that_voting_missed_is_never_called_proven(
    objective: str, spread: Callable[[Rows, int], Spread]
) -> None:
    seen = set()
    for seed in range(12):
        case = Case(objective, {"n_estimators": 1, "max_depth": 1}, 300, ("many", "gaps", "few") * 8, 2, seed=seed)
        rows, _ = spread(make_rows(case), 4)
        alone = train_on(rows, case).model.to_json()
        votes: dict[str, Any] = {"n_workers": 4, "top_k": 1}
        voted = train_on(rows, case, tree_learner="voting", audit=1, ballot_rows=0, **votes)
        with patch.object(exact_voting.ExactVoting, "_vote", exact_voting.AuditedVoting._vote):  # the same ballots
            exact = train_on(rows, case, tree_learner="exact_voting", **votes)
        (audited,), (certificate,) = voted.certificates, exact.certificates  # type: ignore[misc]
        is_missed = voted.model.to_json() != alone
        is_proven = audited.proven == 1
        assert not (is_missed and is_proven)
        assert exact.model.to_json() == alone
        assert certificate.missed == is_missed
        seen.add((is_missed, is_proven))
    assert (True, False) in seen


def test_audits_prove_what_is_clear() -> None:
    X, y = informative(4_000, 40, seed=2)
    y = (X[:, 0] > 0.3).astype(np.float64)
    stump = replace(BINARY, n_estimators=1, max_depth=1, tree_learner="voting", n_workers=4, top_k=2)
    assert train(X, y, replace(stump, audit=1)).certificates[0].at_once == 1  # type: ignore[index]


@pytest.mark.parametrize("name", ["binary", "multiclass", "forest of classes", "tree of values", "only categories"])
def test_audits_do_not_change_the_model(name: str) -> None:
    case = replace(WIDE[name], params=WIDE[name].params | {"n_estimators": 3})
    rows = make_rows(case)
    voting: dict[str, Any] = {"tree_learner": "voting", "n_workers": 3, "top_k": 1}
    plain = train_on(rows, case, **voting)
    assert plain.certificates is None
    for audit in one_in(2, (2, 1)):  # of three trees, the first and the last
        audited = train_on(rows, case, audit=audit, **voting)
        assert audited.model.to_json() == plain.model.to_json()
        assert audited.votes == plain.votes
        assert audited.certificates is not None
        assert [each.tree for each in audited.certificates] == list(range(0, len(plain.model.trees), audit))
        for each in audited.certificates:
            assert each.unvoted + each.at_once + each.rounded + each.merged == each.splits
            assert each.n_extra == 0


def test_audits_are_booked_as_proofs_alone() -> None:
    """An audited tree sends the same votes and histograms as any other; bounds only share their messages."""
    rows, case = make_rows(WIDE["binary"]), replace(WIDE["binary"], params={"n_estimators": 7, "max_depth": 3})
    voting: dict[str, Any] = {"tree_learner": "voting", "n_workers": 3, "top_k": 1}
    plain, audited = (train_on(rows, case, audit=audit, **voting).traffic.by_iteration for audit in (0, 5))
    proofs = audited.pop("proofs")
    assert audited == plain
    assert [n > 0 for n in proofs] == [True, False, False, False, False, True, False]


# What users see


def test_estimators_tell_their_certificates() -> None:
    X, y = informative(600, 30, seed=3)
    settled: dict[str, Any] = {"n_estimators": 4, "num_leaves": 6, "n_workers": 3, "top_k": 2, "verbosity": 0}
    exact = pvtree.GBDTClassifier(tree_learner="exact_voting", **settled).fit(X, y)
    assert all(isinstance(each, Certificate) for each in exact.certificates_)
    assert [each.tree for each in exact.certificates_] == [0, 1, 2, 3]
    assert {each.splits for each in exact.certificates_} == {5}
    for others, trees in (({"audit": 3}, [0, 3]), ({}, None)):
        voting = pvtree.GBDTClassifier(tree_learner="voting", **settled, **others).fit(X, y)
        assert trees == (None if voting.certificates_ is None else [each.tree for each in voting.certificates_])
    assert pvtree.GBDTClassifier(tree_learner="data", **settled).fit(X, y).certificates_ is None
