"""fit with rows spread over workers: what they read, agree on and refuse, and that the model is that of all rows."""

import json
import warnings
from itertools import pairwise

import numpy as np
import pytest

from city_table import city_table
from pvtree import GBDTClassifier, GBDTRanker, GBDTRegressor, RandomForestClassifier
from pvtree.comm import local
from pvtree.errors import InvalidDataError, InvalidParameterError
from thoroughness import checkered

N_ROWS = 240
# Where the rows are cut: evenly, unevenly with workers that have none, and more workers than some have rows for.
CUTS = ([120], [0, 7, 100, 100, 240], [3, 4, 5, 6, 7, 8, 200])
SMALL = {"n_estimators": 4, "num_leaves": 7, "min_child_samples": 5, "max_bin": 63, "verbosity": 0}


def table():
    return city_table(N_ROWS)


def pieces(values, cuts):
    if values is None:
        return [None] * (len(cuts) + 1)
    bounds = [0, *cuts, len(values)]
    return [values[start:stop] for start, stop in pairwise(bounds)]


def fit_spread(make, cuts, X, y, weight=None, qid=None, evaluation=None, **more):
    """The estimators of all workers."""
    parts = [pieces(values, cuts) for values in (X, y, weight, qid)]
    held = [pieces(values, cuts) for values in evaluation or ()]

    def work(comm):
        X, y, weight, qid = (part[comm.rank] for part in parts)
        options = dict(more)
        if qid is not None:
            options["qid"] = qid
        if held:
            own = [part[comm.rank] for part in held]
            options["eval_set"] = [tuple(own[:2])]
            if len(own) > 2:
                options["eval_qid"] = [own[2]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of skewed rows: they are sorted by a column on purpose
            return make().fit(X, y, weight, comm=comm, **options)

    return local.run(work, len(cuts) + 1, timeout=60)


def same_models(fitted, whole):
    for each in fitted:
        assert json.loads(each.model_.to_json()) == json.loads(whole.model_.to_json())
        assert each.evals_result_ == whole.evals_result_
        assert each.best_iteration_ == whole.best_iteration_
        assert each.best_score_ == whole.best_score_


@pytest.mark.parametrize(("cuts", "learner"), checkered(CUTS, ["data", "attribute", "quantized"]), ids=str)
def test_spread_rows_give_the_model_of_all_rows(cuts, learner):
    """Names, categories counted over all workers, text classes of which some workers have one, rows of weight 0."""
    X, signal = table()
    y = np.array(["low", "middle", "high"])[np.digitize(signal, [0.0, 1.0])]
    order = np.argsort(y, kind="stable")
    X, y = X.iloc[order].reset_index(drop=True), y[order]
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.5], N_ROWS)

    def make(n_workers=1):
        return GBDTClassifier(tree_learner=learner, quantized_bins=0.5, n_workers=n_workers, **SMALL)

    held = table()[0].sample(frac=0.5, random_state=1), y[::2]
    whole = make(2).fit(X, y, weight, eval_set=[held], eval_metric=["multi_logloss", "multi_error"])
    fitted = fit_spread(make, cuts, X, y, weight, evaluation=held, eval_metric=["multi_logloss", "multi_error"])
    same_models(fitted, whole)
    assert all((each.classes_ == whole.classes_).all() for each in fitted)
    assert list(fitted[0].feature_names_in_) == list(X.columns)


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_auc_decides_the_same_on_all_workers(cuts):
    X, signal = table()
    y = signal > 0.5
    held = table()[0].sample(frac=0.9, random_state=1), (signal > 0.4)[: round(N_ROWS * 0.9)]

    def make(learner="data"):
        return GBDTClassifier(tree_learner=learner, early_stopping_rounds=2, **SMALL | {"n_estimators": 30})

    whole = make("serial").fit(X, y, eval_set=[held], eval_metric=["auc", "logloss"])
    assert 0 < whole.best_iteration_ < 28
    same_models(fit_spread(make, cuts, X, y, evaluation=held, eval_metric=["auc", "logloss"]), whole)


@pytest.mark.parametrize("cuts", CUTS, ids=str)
@pytest.mark.parametrize(("has_weight", "dtype"), checkered([False, True], [np.float32, np.float64]))
def test_queries_that_a_cut_goes_through_are_moved(cuts, has_weight, dtype):
    """A query may reach over several workers, and one worker may have no other rows than its middle."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_ROWS, 5)).astype(dtype)
    y = rng.integers(0, 3, N_ROWS) + (X[:, 0] > 1)
    qid = np.repeat(["first", "second", "third", "fourth", "last"], [2, 50, 53, 120, 15])
    weight = rng.choice([0.5, 1.0], N_ROWS) if has_weight else None

    def make(learner="data"):
        return GBDTRanker(tree_learner=learner, **SMALL)

    whole = make("serial").fit(X, y, weight, qid=qid, eval_set=[(X[::-1], y)], eval_qid=[qid])
    same_models(fit_spread(make, cuts, X, y, weight, qid, evaluation=(X[::-1], y, qid)), whole)
    attribute = fit_spread(lambda: make("attribute"), cuts, X, y, weight, qid, evaluation=(X[::-1], y, qid))
    same_models(attribute, whole)


def test_a_query_in_two_places_is_refused():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    qid = np.repeat([1, 2, 1], 10)
    with pytest.raises(InvalidDataError, match=r"The query 1 is in two places, one of them on worker 0; sort"):
        fit_spread(lambda: GBDTRanker(tree_learner="data", **SMALL), [10, 20], X, y, qid=qid)


@pytest.mark.parametrize("learner", ["data", "attribute"])
def test_training_goes_on_from_an_earlier_model(learner):
    X, y = table()
    first = GBDTRegressor(**SMALL).fit(X, y)
    whole = GBDTRegressor(**SMALL).fit(X, y, init_model=first)
    same_models(
        fit_spread(lambda: GBDTRegressor(tree_learner=learner, **SMALL), CUTS[1], X, y, init_model=first), whole
    )


def test_votes_are_those_of_virtual_workers_with_the_same_rows():
    X, y = table()
    for cuts in ([80, 160], [60, 120, 180]):
        options = {"tree_learner": "voting", "top_k": 1, **SMALL}
        virtual = GBDTRegressor(n_workers=len(cuts) + 1, **options).fit(X, y)
        same_models(fit_spread(lambda options=options: GBDTRegressor(**options), cuts, X, y), virtual)


def test_forests():
    X, y = table()
    options = {**SMALL, "random_state": 3}
    whole = RandomForestClassifier(**options).fit(X, y > 0)
    same_models(fit_spread(lambda: RandomForestClassifier(tree_learner="data", **options), CUTS[1], X, y > 0), whole)


def wrong(**changes):
    """Two workers' rows, of which the second's are changed."""
    X, y = table()
    rows = {"X": X.iloc[120:], "y": y[120:], "weight": None, **changes}

    def work(comm):
        own = {"X": X.iloc[:120], "y": y[:120], "weight": None} if comm.rank == 0 else rows
        return GBDTRegressor(tree_learner="data", **SMALL).fit(own["X"], own["y"], own["weight"], comm=comm)

    return work


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"y": np.full(120, np.nan)}, r"y contains NaN; .*\(This is about the data of worker 1\.\)"),
        ({"y": np.zeros(7)}, r"y has length 7, but X has 120 rows.*worker 1"),
        ({"weight": np.ones(120)}, "sample_weight is given on some workers only; pass it on all"),
        ({"X": table()[0].iloc[120:, :3]}, r"worker 0 has 5, worker 1 has 3.*pass the same columns"),
        ({"X": table()[0].iloc[120:, [1, 0, 2, 3, 4]]}, "have 'a' and 'b' in the same place"),
        ({"X": np.zeros((120, 5))}, "only one of worker 0 and worker 1 has names"),
    ],
)
def test_all_workers_tell_the_same_error(changes, sentence):
    def work(comm):
        with pytest.raises(InvalidDataError, match=sentence) as caught:
            wrong(**changes)(comm)
        return str(caught.value)

    first, second = local.run(work, 2, timeout=20)
    assert first == second


def test_serial_is_for_one_worker():
    X, y = table()
    with pytest.raises(InvalidParameterError, match="tree_learner='serial' trains on one worker, but there are 2"):
        fit_spread(lambda: GBDTRegressor(tree_learner="serial", **SMALL), [100], X, y)


def test_workers_have_a_learner_by_default():
    X, y = table()
    whole = GBDTRegressor(**SMALL).fit(X, y)
    for fitted in fit_spread(lambda: GBDTRegressor(top_k=1, **SMALL), [100], X, y):
        assert fitted.model_.to_json() == whole.model_.to_json()
        assert len(fitted.certificates_) == len(whole.model_.trees)


def test_one_class_in_all():
    X, _ = table()
    with pytest.raises(InvalidDataError, match="y has only one class, 1"):
        fit_spread(lambda: GBDTClassifier(tree_learner="data", **SMALL), [100], X, np.ones(N_ROWS, int))
    mixed = [np.array(["a"] * 100), np.arange(140) % 2]
    with pytest.raises(InvalidDataError, match="labels of another type on some workers"):
        local.run(
            lambda comm: GBDTClassifier(tree_learner="data", **SMALL).fit(
                pieces(X, [100])[comm.rank], mixed[comm.rank], comm=comm
            ),
            2,
        )


@pytest.mark.parametrize(
    ("options", "more", "sentence"),
    [
        (
            [{"num_leaves": 7}, {"num_leaves": 9}],
            [{}, {}],
            "num_leaves is 7 on worker 0 and 9 on worker 1; use the",
        ),
        ([{"random_state": 1}, {"random_state": 2}], [{}, {}], "random_state is 1 on worker 0 and 2 on worker 1"),
        ([{}, {}], [{}, {"callbacks": [print]}], "the number of callbacks is 0 on worker 0 and 1 on worker 1"),
        ([{}, {}], [{"checkpoint": "x"}, {}], "checkpoint is given on worker 0 and not given on worker 1"),
    ],
)
def test_all_workers_must_train_the_same(options, more, sentence):
    X, y = table()

    def work(comm):
        own = {**SMALL, "num_leaves": 7, **options[comm.rank]}
        with pytest.raises(InvalidParameterError, match=sentence):
            GBDTRegressor(tree_learner="data", **own).fit(
                pieces(X, [100])[comm.rank], pieces(y, [100])[comm.rank], comm=comm, **more[comm.rank]
            )

    local.run(work, 2, timeout=20)


def test_virtual_workers_are_no_use_where_there_are_others():
    X, y = table()

    def work(comm):
        own = pieces(X, [100])[comm.rank], pieces(y, [100])[comm.rank]
        return GBDTRegressor(tree_learner="data", n_workers=3, **SMALL).fit(*own, comm=comm)

    with pytest.warns(UserWarning, match="n_workers does nothing because comm has 2 workers already"):
        same_models(local.run(work, 2), GBDTRegressor(**SMALL).fit(X, y))
