"""scikit-learn's whole list of estimator checks, each on some of the estimators; on all by ``make thorough``."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import pvtree
from thoroughness import one_in_each

ESTIMATORS = [
    pvtree.GBDTClassifier(n_estimators=30),
    pvtree.GBDTRegressor(n_estimators=30),
    pvtree.GBDTRanker(n_estimators=30),
    pvtree.RandomForestClassifier(n_estimators=10),
    pvtree.RandomForestRegressor(n_estimators=10),
    pvtree.DecisionTreeClassifier(),
    pvtree.DecisionTreeRegressor(),
]


def expected_failures(estimator):
    """The only check that scikit-learn excuses its own HistGradientBoosting from, for the same reasons.

    Rows are counted, drawn and rounded one by one: a row of weight 2 is not two rows.
    """
    if isinstance(estimator, pvtree.DecisionTreeClassifier | pvtree.DecisionTreeRegressor):
        return {}  # class counts and labels' sums are exact
    reason = "sample_weight is not equivalent to repeating samples."
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


def checks():
    """By the check's name, all estimators that it is for."""
    by_name = {}
    for estimator in ESTIMATORS:
        failures = expected_failures(estimator)
        for pair in estimator_checks_generator(estimator, expected_failed_checks=failures, mark="xfail"):
            given = pair if isinstance(pair, tuple) and not hasattr(pair, "marks") else pair.values
            name = getattr(given[1], "func", given[1]).__name__
            marks = getattr(pair, "marks", ())
            by_name.setdefault(name, []).append(
                pytest.param(*given, marks=marks, id=f"{type(estimator).__name__}-{name}")
            )
    return by_name


@pytest.mark.filterwarnings("ignore:All rows are ranked as one query:UserWarning")
@pytest.mark.parametrize(("estimator", "check"), one_in_each(3, checks().values()))
def test_estimator_passes_check(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it scikit-learn skips its array API check
    check(estimator)
