"""Plots show what the model and the training contain."""

import re
import sys

import numpy as np
import pytest

import pvtree
from pvtree.comm.traffic import format_bytes
from pvtree.errors import (
    InvalidDataError,
    InvalidParameterError,
    InvalidTypeError,
    MissingDependencyError,
)
from pvtree.model.tree_graph import draw

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


def test_metric_is_drawn_by_iteration(model):
    _, own = matplotlib.pyplot.subplots()
    ax = pvtree.plot_metric(model, "l1", ax=own)
    assert ax is own
    assert ax.lines[0].get_ydata().tolist() == model.evals_result_["valid_0"]["l1"]
    assert (ax.get_ylabel(), ax.lines[0].get_xdata().tolist()) == ("l1", [1, 2, 3, 4])
    with pytest.raises(InvalidParameterError, match="several metrics; set metric to one of l2, l1"):
        pvtree.plot_metric(model.evals_result_)
    with pytest.raises(InvalidDataError, match="Nothing was evaluated"):
        pvtree.plot_metric({})


@pytest.mark.parametrize("orientation", ["horizontal", "vertical"])
def test_tree_has_all_nodes(model, orientation):
    ax = pvtree.plot_tree(model, tree_index=1, show_info=["leaf_count", "split_gain"], orientation=orientation)
    texts = [text.get_text() for text in ax.texts]
    tree = model.model_.trees[1]
    assert sum("rows" in text for text in texts) == tree.n_leaves
    assert sum("gain" in text for text in texts) == tree.n_leaves - 1
    places = {(round(t.get_position()[0], 6), round(t.get_position()[1], 6)) for t in ax.texts}
    assert len(places) == len(texts)  # nothing covers anything
    drawn = draw(model.model_, 1)
    depth, place = drawn.place.T
    for (parent, left, _), (_, right, _) in zip(drawn.edges[::2], drawn.edges[1::2], strict=True):
        assert depth[left] == depth[right] == depth[parent] + 1
        assert place[left] < place[parent] == (place[left] + place[right]) / 2
    with pytest.raises(InvalidParameterError, match="There is no tree 4; the model has trees 0 to 3"):
        pvtree.plot_tree(model, tree_index=4)
    with pytest.raises(InvalidParameterError, match="show_info must be a list of some of split_gain"):
        pvtree.plot_tree(model, show_info=["gain"])


def test_dot_says_where_rows_go(model):
    text = model.model_.to_dot(0, ["leaf_count"])
    tree = model.model_.trees[0]
    assert len(re.findall(r"^  \d+ -> \d+ ", text, re.M)) == tree.n_nodes - 1
    counts = [int(count) for count in re.findall(r"(\d+) rows", text)]
    assert sum(counts) == 200 and counts == tree.count[tree.feature < 0].tolist()
    assert re.search(r'label="kind in (0\.0, 2\.0|1\.0, 3\.0)"', text)


def test_graphviz_gets_the_same_text(model):
    pytest.importorskip("graphviz")
    assert pvtree.create_tree_digraph(model, 0).source == model.model_.to_dot(0)


def test_traffic_adds_up():
    fitted = pvtree.GBDTRegressor(n_estimators=3, num_leaves=5, tree_learner="voting", top_k=2, n_workers=3, n_jobs=1)
    fitted.fit(X, y)
    traffic = fitted.traffic_
    by_tree = np.sum(list(traffic.by_iteration.values()), axis=0)
    assert by_tree.shape == (3,)
    after = round(traffic.bytes_per_tree * 3 * 3) - by_tree.sum()
    assert 0 <= after < 100  # a last comparison of what was decided, after the last tree
    sent, votes = pvtree.plot_traffic(fitted)
    handles, labels = sent.get_legend_handles_labels()
    drawn = dict(zip(labels, handles, strict=True))
    tops = drawn[list(traffic.by_iteration)[-1]].get_data().values
    assert labels == [*traffic.by_iteration, *(f"{p} once, {format_bytes(n)}" for p, n in traffic.before_trees.items())]
    unit = 1e3 if sent.get_ylabel().startswith("kB") else 1
    np.testing.assert_allclose(tops * unit, by_tree)
    assert "bins" in traffic.before_trees
    assert sum(traffic.before_trees.values()) + by_tree.sum() + after == traffic.total_bytes
    bars = [drawn[f"{p} once, {format_bytes(n)}"][0] for p, n in traffic.before_trees.items()]
    heights = [bar.get_height() * unit for bar in bars]
    np.testing.assert_allclose(heights, list(traffic.before_trees.values()))
    assert {bar.get_x() + bar.get_width() / 2 for bar in bars} == {0.0}
    assert sent.get_xlim()[0] < 0 < sent.get_ylim()[1] < 2 * tops.max()  # higher bars do not flatten the iterations
    shares = votes.get_legend_handles_labels()[0][0].get_data().values
    np.testing.assert_allclose(shares, [100 * each.all / each.splits for each in fitted.votes_])
    with pytest.raises(InvalidDataError, match="Nothing was sent"):
        pvtree.plot_traffic(pvtree.GBDTRegressor(n_estimators=1, n_jobs=1).fit(X, y))
    with pytest.raises(InvalidTypeError, match="call fit first"):
        pvtree.plot_traffic(pvtree.GBDTRegressor())


def test_what_is_missing_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(
        MissingDependencyError, match=r"Plots need matplotlib; install it with pip install 'pvtree\[plot\]'"
    ):
        pvtree.plot_importance(model)
    with pytest.raises(InvalidTypeError, match="must be a fitted estimator, a Booster or a Model, got int"):
        pvtree.plot_importance(3)
