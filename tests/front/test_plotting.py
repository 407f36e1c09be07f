"""Plots show what the model and the training contain."""

import re
import sys

import numpy as np
import pytest

import pvtree
from pvtree.comm.traffic import PHASES, format_bytes
from pvtree.errors import (
    InvalidDataError,
    InvalidParameterError,
    InvalidTypeError,
    MissingDependencyError,
)
from pvtree.front.plotting.axes import COLOURS
from pvtree.front.plotting.traffic_plots import PHASE_COLOURS
from pvtree.front.plotting.tree_layout import APART, lay_out
from pvtree.model.tree_graph import LINE, draw

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 5))
X[:, 4] = rng.integers(0, 4, 300)
y = X[:, 0] + np.isin(X[:, 4], [1, 3]) * 2 + 0.1 * X[:, 1]


@pytest.fixture(scope="module")
def model():
    fitted = pvtree.GBDTRegressor(n_estimators=4, num_leaves=5, categorical_feature=[4], n_jobs=1)
    return fitted.fit(
        X[:200], y[:200], eval_set=[(X[200:], y[200:])], eval_metric=["l2", "l1"], feature_name=[*"abcd", "kind"]
    )


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


def test_importance_is_in_order(model):
    ax = pvtree.plot_importance(model, importance_type="gain", max_num_features=2)
    gains = model.model_.feature_importance("gain")
    order = np.argsort(gains)[-2:]
    assert [label.get_text() for label in ax.get_yticklabels()] == [model.feature_name_[j] for j in order]
    assert [bar.get_width() for bar in ax.patches] == gains[order].tolist()
    assert len(pvtree.plot_importance(model.booster_, ignore_zero=False).patches) == 5


def test_importance_says_what_is_counted(model):
    ax = pvtree.plot_importance(model, importance_type="gain")
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("Total gain", "", "Feature importance")
    assert pvtree.plot_importance(model).get_xlabel() == "Number of splits"
    given = {"title": "t", "xlabel": "x @importance_type@", "ylabel": "y", "importance_type": "gain", "precision": 3}
    ax = pvtree.plot_importance(model, **given)
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("t", "x gain", "y")
    assert ax.texts[-1].get_text() == f"{model.model_.feature_importance('gain').max():.3f}"


def test_metric_is_drawn_by_iteration(model):
    _, own = matplotlib.pyplot.subplots()
    ax = pvtree.plot_metric(model, "l1", ax=own)
    assert ax is own
    values = model.evals_result_["valid_0"]["l1"]
    assert ax.lines[0].get_ydata().tolist() == values
    assert (ax.get_ylabel(), ax.lines[0].get_xdata().tolist()) == ("l1", [1, 2, 3, 4])
    name, best = ax.texts
    assert name.get_text() == "valid_0" and best.get_text() == f"{round(min(values), 4)} at {1 + np.argmin(values)}"
    with pytest.raises(InvalidDataError, match="Nothing was evaluated"):
        pvtree.plot_metric({})
    with pytest.raises(InvalidParameterError, match="'auc' was not recorded; use one of l2, l1"):
        pvtree.plot_metric(model, "auc")


def test_several_metrics_are_panels(model):
    axes = pvtree.plot_metric(model, title="t")
    assert [ax.get_ylabel() for ax in axes] == ["l2", "l1"]
    assert [ax.get_title() for ax in axes] == ["t", ""] and axes[1].get_xlabel() == "Iterations"
    _, own = matplotlib.pyplot.subplots()
    with pytest.warns(UserWarning, match="only l2 is drawn"):
        assert pvtree.plot_metric(model, ax=own).get_ylabel() == "l2"


def test_lines_are_named_apart_and_the_best_of_a_rising_metric_is_the_highest():
    curves = {"training": {"auc": [0.6, 0.7, 0.8]}, "test": {"auc": [0.6, 0.81, 0.8001]}}
    ax = pvtree.plot_metric(curves)
    assert ax.get_ylabel() == "AUC"
    ax.figure.canvas.draw()
    training, test, best = ax.texts
    assert {training.get_text(), test.get_text()} == {"training", "test"}
    boxes = [text.get_window_extent() for text in (training, test)]
    assert not boxes[0].overlaps(boxes[1])
    assert best.get_text() == "0.81 at 2"  # of the rows that were not trained on


@pytest.mark.parametrize("orientation", ["horizontal", "vertical"])
def test_tree_has_all_nodes(model, orientation):
    ax = pvtree.plot_tree(model, tree_index=1, show_info=["leaf_count", "split_gain"], orientation=orientation)
    texts = [text.get_text() for text in ax.texts]
    tree = model.model_.trees[1]
    assert sum("rows" in text for text in texts) == tree.n_leaves
    assert sum("gain" in text for text in texts) == tree.n_leaves - 1
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    with pytest.raises(InvalidParameterError, match="There is no tree 4; the model has trees 0 to 3"):
        pvtree.plot_tree(model, tree_index=4)
    with pytest.raises(InvalidParameterError, match="show_info must be a list of some of split_gain"):
        pvtree.plot_tree(model, show_info=["gain"])


@pytest.mark.parametrize("across", [True, False])
def test_nodes_of_a_level_keep_apart(across):
    grown = pvtree.GBDTRegressor(n_estimators=1, num_leaves=31, min_child_samples=2, n_jobs=1).fit(X, y)
    drawn = draw(grown.model_, 0)
    layout = lay_out(drawn, across)
    beside = 1 if across else 0
    for parent, left, _ in drawn.edges[::2]:
        middle = layout.centres[[left, left + 1], beside].mean()
        assert layout.centres[parent, beside] == pytest.approx(middle)
    low, high = ((layout.centres + sign * layout.sizes / 2)[:, beside] for sign in (-1, 1))
    for level in range(drawn.depth.max() + 1):
        nodes = np.flatnonzero(drawn.depth == level)
        nodes = nodes[np.argsort(low[nodes])]
        assert np.all(low[nodes[1:]] - high[nodes[:-1]] >= APART - 1e-9)
    assert low.min() >= -1e-9
    figure = pvtree.plot_tree(grown, orientation="horizontal" if across else "vertical").figure
    assert max(figure.get_size_inches()) <= 24


def test_long_lists_of_categories_are_wrapped(model):
    labels = [f"occupation-{i}" for i in range(14)]
    kind = np.array(labels, dtype=object)[np.arange(280) % 14]
    target = np.isin(np.arange(280) % 14, [1, 2, 5, 6, 8, 11]) * 1.0
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"job": pandas.Categorical(kind)})
    fitted = pvtree.GBDTRegressor(n_estimators=1, num_leaves=2, min_child_samples=1, n_jobs=1)
    label = draw(fitted.fit(frame, target).model_, 0).labels[0]
    assert re.match(r"job in [68] of 14: ", label) and max(map(len, label.split("\n"))) <= LINE
    width, height = pvtree.plot_tree(fitted).figure.get_size_inches()
    assert width < 6 and height < 3


def test_dot_says_where_rows_go(model):
    text = model.model_.to_dot(0, ["leaf_count"])
    tree = model.model_.trees[0]
    assert len(re.findall(r"^  \d+ -> \d+ ", text, re.M)) == tree.n_nodes - 1
    counts = [int(count) for count in re.findall(r"(\d+) rows", text)]
    assert sum(counts) == 200 and counts == tree.count[tree.feature < 0].tolist()
    assert re.search(r'label="kind in 2 of 4: (0\.0, 2\.0|1\.0, 3\.0)"', text)


def test_graphviz_gets_the_same_text(model):
    pytest.importorskip("graphviz")
    assert pvtree.create_tree_digraph(model, 0).source == model.model_.to_dot(0)


@pytest.fixture(scope="module")
def voted():
    small = {"n_estimators": 4, "num_leaves": 5, "top_k": 2, "n_workers": 3, "n_jobs": 1}
    return pvtree.GBDTRegressor(**small, tree_learner="voting", audit=2).fit(X, y)


def test_traffic_adds_up(voted):
    traffic = voted.traffic_
    by_tree = np.sum(list(traffic.by_iteration.values()), axis=0)
    assert by_tree.shape == (4,)
    after = round(traffic.bytes_per_tree * 4 * 3) - by_tree.sum()
    assert 0 <= after < 100  # a last comparison of what was decided, after the last tree
    sent, votes = pvtree.plot_traffic(voted)
    handles, labels = sent.get_legend_handles_labels()
    assert sorted(labels) == sorted([*traffic.by_iteration, "audited"])
    drawn = dict(zip(labels, handles, strict=True))
    tops = drawn[list(traffic.by_iteration)[-1]].get_data().values
    unit = 1e3 if sent.get_ylabel().startswith("kB") else 1
    np.testing.assert_allclose(tops * unit, by_tree)
    assert drawn["audited"].get_xdata().tolist() == [1 + each.tree for each in voted.certificates_] == [1, 3]
    assert "bins" in traffic.before_trees
    assert sum(traffic.before_trees.values()) + by_tree.sum() + after == traffic.total_bytes
    once = ", ".join(f"{phase} {format_bytes(n)}" for phase, n in traffic.before_trees.items())
    assert sent.texts[0].get_text() == f"3 workers; before the first tree: {once}"
    shares = votes.get_legend_handles_labels()[0][0].get_data().values
    np.testing.assert_allclose(shares, [100 * each.all / each.splits for each in voted.votes_])
    assert votes.get_title()
    plain = pvtree.GBDTRegressor(n_estimators=1, num_leaves=3, tree_learner="voting", n_workers=2, n_jobs=1).fit(X, y)
    assert plain.certificates_ is None
    assert "audited" not in pvtree.plot_traffic(plain)[0].get_legend_handles_labels()[1]
    with pytest.raises(InvalidDataError, match="Nothing was sent"):
        pvtree.plot_traffic(pvtree.GBDTRegressor(n_estimators=1, n_jobs=1).fit(X, y))
    with pytest.raises(InvalidTypeError, match="call fit first"):
        pvtree.plot_traffic(pvtree.GBDTRegressor())


def test_certificates_add_up_to_the_splits(voted, model):
    _, own = matplotlib.pyplot.subplots()
    assert pvtree.plot_certificates(voted, ax=own) is own
    found = voted.certificates_
    heights = np.array([bar.get_height() for bar in own.patches]).reshape(3, len(found))
    assert heights[0].tolist() == [each.at_once + each.unvoted for each in found]
    assert heights[1].tolist() == [each.rounded for each in found]
    assert heights.sum(axis=0).tolist() == [each.splits for each in found]
    assert own.get_legend_handles_labels()[1][2] == f"not proven, {sum(each.merged for each in found)}"
    with pytest.raises(InvalidDataError, match="No split has a proof"):
        pvtree.plot_certificates(model)


def test_partial_dependence_is_the_mean_prediction(model):
    _, own = matplotlib.pyplot.subplots()
    assert pvtree.plot_partial_dependence(model, X, "a", ax=own, n_points=5) is own
    grid, mean = own.lines[0].get_data()
    for value, drawn in zip(grid, mean, strict=True):
        changed = X.copy()
        changed[:, 0] = value
        assert drawn == pytest.approx(model.predict(changed).mean())
    assert sum(bar.get_height() > 0 for bar in own.patches) > 5 and own.get_xlabel() == "a"
    by_kind = pvtree.plot_partial_dependence(model, X, 4)
    names = [label.get_text() for label in by_kind.get_yticklabels()]
    assert sorted(names) == ["0.0", "1.0", "2.0", "3.0"] and set(names[2:]) == {"1.0", "3.0"}  # they add 2
    with pytest.raises(InvalidParameterError, match="There is no feature 'z'"):
        pvtree.plot_partial_dependence(model, X, "z")


def test_calibration_compares_probabilities_with_shares(model):
    label = np.where(y > 1, "high", "low")
    weight = rng.random(300)
    fitted = pvtree.GBDTClassifier(n_estimators=3, num_leaves=4, n_jobs=1).fit(X, label)
    ax = pvtree.plot_calibration(fitted, X, label, target="high", sample_weight=weight, n_groups=4)
    predicted, share = ax.lines[-1].get_data()
    score = fitted.predict_proba(X)[:, 0]
    order = np.argsort(score, kind="stable").reshape(4, 75)
    np.testing.assert_allclose(predicted, (score * weight)[order].sum(axis=1) / weight[order].sum(axis=1))
    np.testing.assert_allclose(share, ((label == "high") * weight)[order].sum(axis=1) / weight[order].sum(axis=1))
    assert ax.get_xlabel().endswith("of high") and ax.texts[-1].get_text() == "4 groups of 75 rows; dotted: perfect"
    with pytest.raises(InvalidParameterError, match="'x' is no class; use one of high, low"):
        pvtree.plot_calibration(fitted, X, label, target="x")
    with pytest.raises(InvalidTypeError, match="needs a classifier, got GBDTRegressor"):
        pvtree.plot_calibration(model, X, y)


# Machado, Oliveira and Fernandes (2009): what people without red or green cones see of linear RGB.
VIEWS = {
    "full": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}


def lab(colour, view):
    """CIE Lab of a colour, as someone with this view sees it."""
    srgb = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(VIEWS[view]) @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ seen
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("view", VIEWS)
def test_colours_differ_for_everybody(view):
    for colours in ([PHASE_COLOURS[phase] for phase in PHASES], COLOURS[:6]):
        seen = [lab(colour, view) for colour in colours]
        nearest = min(np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i])
        assert nearest > 8, nearest


def test_what_is_missing_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(
        MissingDependencyError, match=r"Plots need matplotlib; install it with pip install 'pvtree\[plot\]'"
    ):
        pvtree.plot_importance(model)
    with pytest.raises(InvalidTypeError, match="must be a fitted estimator, a Booster or a Model, got int"):
        pvtree.plot_importance(3)
