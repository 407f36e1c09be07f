import pytest

from pvtree.errors import InvalidParameterError, InvalidTypeError
from pvtree.training.callbacks import CallbackEnv, EarlyStopException, early_stopping


def run(callback, *series, begin=0):
    """Iterations run and best iteration; a series is (set, metric, is_higher_better, values)."""
    n = len(series[0][3])
    for i in range(n):
        results = [(name, metric, values[i], higher) for name, metric, higher, values in series]
        try:
            callback(CallbackEnv(None, None, begin + i, begin, begin + n, results))
        except EarlyStopException as stop:
            return i + 1, stop
    return n, None


def test_stops_after_the_patience_and_names_the_best():
    n_run, stop = run(early_stopping(2), ("valid_0", "l2", False, [5.0, 4.0, 4.5, 4.0, 3.0]))
    assert n_run == 4  # an equal value is no improvement
    assert stop.best_iteration == 1
    assert stop.best_score == [("valid_0", "l2", 4.0, False)]


def test_higher_can_be_better():
    n_run, stop = run(early_stopping(2), ("v", "auc", True, [0.5, 0.7, 0.6, 0.6, 0.9]))
    assert (n_run, stop.best_iteration) == (4, 1)


def test_without_a_stop_the_best_iteration_of_the_first_metric_is_kept():
    n_run, stop = run(early_stopping(10), ("v", "l2", False, [3.0, 1.0, 2.0]), ("v", "l1", False, [3.0, 2.0, 1.0]))
    assert (n_run, stop.best_iteration) == (3, 1)


def test_any_metric_of_any_set_can_stop():
    improving = [5.0, 4.0, 3.0, 2.0, 1.0]
    for series in (("a", "l1", False, [1.0] * 5), ("b", "l2", False, [1.0] * 5)):
        n_run, stop = run(early_stopping(2), ("a", "l2", False, improving), series)
        assert (n_run, stop.best_iteration) == (3, 0)


def test_first_metric_only():
    improving = [5.0, 4.0, 3.0, 2.0, 1.0]
    n_run, stop = run(
        early_stopping(2, first_metric_only=True),
        ("a", "l2", False, improving),
        ("a", "l1", False, [1.0] * 5),
    )
    assert (n_run, stop.best_iteration) == (5, 4)


def test_training_data_never_decides():
    flat = ("training", "l2", False, [1.0] * 5)
    n_run, stop = run(early_stopping(2), flat, ("v", "l2", False, [5.0, 4.0, 3.0, 2.0, 2.5]))
    assert (n_run, stop.best_iteration) == (5, 3)
    alone = early_stopping(2)
    with pytest.warns(UserWarning, match="Only training set found"):
        assert run(alone, flat)[0] == 5
    assert not alone.enabled
    assert run(alone, ("v", "l2", False, [1.0] * 5))[0] == 3  # the same callback watches again


def test_min_delta():
    falling = ("v", "l2", False, [5.0, 4.9, 4.8, 4.7, 4.6])
    assert run(early_stopping(2, min_delta=0.5), falling)[0] == 3
    assert run(early_stopping(2, min_delta=0.05), falling)[0] == 5
    other = ("v", "l1", False, [5.0, 4.0, 3.0, 2.0, 1.0])
    assert run(early_stopping(2, min_delta=[0.0, 5.0]), falling, other)[0] == 3
    assert run(early_stopping(2, True, min_delta=[0.0, 5.0]), falling, other)[0] == run(early_stopping(2), falling)[0]
    with pytest.raises(InvalidParameterError, match="one for each of the 1 metrics"):
        run(early_stopping(2, min_delta=[0.0, 5.0]), falling)


def test_iterations_continue_those_of_an_earlier_model():
    n_run, stop = run(early_stopping(1), ("v", "l2", False, [2.0, 1.0, 1.5]), begin=10)
    assert (n_run, stop.best_iteration) == (3, 11)


def test_one_callback_serves_several_fits():
    callback = early_stopping(2)
    run(callback, ("v", "l2", False, [0.0, 1.0, 1.0]))
    assert run(callback, ("v", "l2", False, [5.0, 4.0, 3.0]))[1].best_iteration == 2


def test_nan_is_never_the_best():
    nan = float("nan")
    assert run(early_stopping(5), ("v", "l2", False, [nan, 3.0, nan, 4.0]))[1].best_iteration == 1


def test_verbose_says_why(capsys):
    run(early_stopping(1, verbose=True), ("v", "l2", False, [1.0, 2.0]))
    expected = "v l2 has not improved for 1 iterations; the best iteration is 1: v l2 1\n"
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("rounds", [1.5, "3", True])
def test_bad_arguments(rounds):
    with pytest.raises((InvalidParameterError, InvalidTypeError), match="should be an integer"):
        early_stopping(rounds)
    with pytest.raises(InvalidParameterError, match="min_delta must be"):
        early_stopping(1, min_delta=-1.0)
