"""Warnings reach the line that called pvtree, and only the list of the thread that raised them."""

import threading
import warnings

import numpy as np
import pytest

from pvtree import GBDTRanker, GBDTRegressor
from pvtree.comm.user_warnings import listening


def complain():
    warnings.warn("the same sentence in the same place", UserWarning, stacklevel=1)


@pytest.mark.parametrize(
    ("estimator", "changes", "y", "sentence"),
    [
        (GBDTRegressor, {"subsample": 0.5}, lambda X: X[:, 0], "subsample does nothing"),
        (GBDTRegressor, {}, lambda X: X[:, :1], "A column-vector y"),
        (GBDTRanker, {}, lambda X: np.arange(len(X)) % 3, "as one query"),
    ],
)
def test_the_line_that_called_fit_is_named(estimator, changes, y, sentence):
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = estimator(n_estimators=1, verbosity=0, **changes)
    with pytest.warns(UserWarning, match=sentence) as heard:
        model.fit(X, y(X))
    assert heard[0].filename == __file__


@pytest.mark.filterwarnings("default")
def test_threads_hear_their_own_warnings_while_others_listen_too():
    """The threads begin and end in an order in which Python alone would restore the wrong setting."""
    heard, steps = {}, [threading.Event() for _ in range(3)]
    before = warnings.showwarning, list(warnings.filters)

    def first():
        with listening() as heard["first"]:
            complain()
            steps[0].set()
            steps[1].wait(10)
        steps[2].set()

    def second():
        steps[0].wait(10)
        with listening() as heard["second"]:
            steps[1].set()
            steps[2].wait(10)
            complain()
            complain()

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    steps[0].wait(10)
    for thread in threads:
        thread.join()
    told = (UserWarning, "the same sentence in the same place")
    assert heard == {"first": [told], "second": [told, told]}
    assert (warnings.showwarning, list(warnings.filters)) == before


def test_who_does_not_listen_is_shown_its_warnings():
    heard = []

    def listen():
        with listening() as own:
            ready.set()
            done.wait(10)
            heard.extend(own)

    ready, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=listen)
    with pytest.warns(UserWarning, match="the same sentence"):
        thread.start()
        ready.wait(10)
        complain()
        done.set()
        thread.join()
    assert heard == []
