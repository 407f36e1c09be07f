"""The section about columns: importance, thresholds in use, partial dependence and interactions."""

from __future__ import annotations

from collections import Counter

import numpy as np

from pvtree.front.curves import partial_dependence
from pvtree.front.report.charts import bar_chart, line_chart, points, with_distribution
from pvtree.front.report.page import Section
from pvtree.front.report.subject import Subject

N_SHOWN = 20  # columns in the table and the chart
N_DRAWN = 6  # columns whose partial dependence is drawn
N_GRID = 24  # places of a partial dependence
N_CATEGORIES = 12  # the most frequent ones
N_PAIRS = 10
REPEATS = 3  # permutations of a column


def section(subject: Subject) -> Section | None:
    model, names = subject.model, subject.names
    gain, split = model.feature_importance("gain"), model.feature_importance("split")
    order = [int(j) for j in np.argsort(-gain, kind="stable") if split[j]]
    if not order:
        return None
    found = Section("columns", "Columns")
    top = order[:N_SHOWN]
    found.text(f"{len(order):,} of {model.n_features:,} columns are in use.")
    found.chart(
        bar_chart([names[j] for j in top], gain[top].tolist(), "Total gain"), "Total gain of a column's splits."
    )
    header, cells = (
        ["column", "total gain", "splits", "thresholds or sets"],
        [[names[j], float(gain[j]), int(split[j]), n_thresholds(subject, j)] for j in top],
    )
    if subject.rows is not None:
        header += ["missing", "loss if shuffled", "mean |SHAP|"]
        shuffled, shap = permutation_loss(subject, top), mean_shap(subject)
        for row, j, lost in zip(cells, top, shuffled, strict=True):
            row += [f"{100 * np.isnan(subject.sample[:, j]).mean():.1f} %", lost, float(shap[j])]
    found.table(header, cells, "The columns with the largest gain." + explained(subject))
    if subject.rows is not None:
        add_dependence(found, subject, order[:N_DRAWN])
    if pairs := strongest_pairs(subject):
        found.heading("Columns that act together")
        rows = [(names[a], names[b], score) for (a, b), score in pairs]
        found.table(["column", "and", "gain"], rows, "Gain of splits whose parent splits by the other column.")
    return found


def explained(subject: Subject) -> str:
    if subject.rows is None:
        return ""
    return (
        f" By {len(subject.sample):,} rows of this report: the loss is the rise of the mean squared error, or of the "
        "log loss, when the column is shuffled; SHAP values are on the scale of raw scores."
    )


def n_thresholds(subject: Subject, feature: int) -> int:
    seen: set[object] = set()
    for tree in subject.model.trees:
        for node in np.flatnonzero(tree.feature == feature):
            own = tree.cat_set[node]
            seen.add(float(tree.threshold[node]) if own < 0 else tree.cat_sets[own].tobytes())
    return len(seen)


def mean_shap(subject: Subject) -> np.ndarray:
    values = np.abs(np.asarray(subject.model.predict_contrib(subject.sample)))
    by_output = values.reshape(len(values), subject.model.n_outputs, -1)[:, :, :-1]  # the last one is the base
    mean: np.ndarray = by_output.mean(axis=0).sum(axis=0)
    return mean


def permutation_loss(subject: Subject, features: list[int]) -> list[float]:
    """By how much the loss of the sampled rows rises when one column is shuffled, with a fixed seed."""
    assert subject.rows is not None
    X, y, rng = subject.sample, subject.rows.y[subject.sampled_at], np.random.default_rng(0)
    before = loss(subject, X, y)
    found = []
    for feature in features:
        changed, losses = X.copy(), []
        for _ in range(REPEATS):
            changed[:, feature] = rng.permutation(X[:, feature])
            losses.append(loss(subject, changed, y))
        found.append(float(np.mean(losses)) - before)
    return found


def loss(subject: Subject, X: np.ndarray, y: np.ndarray) -> float:
    predicted = subject.predict_rows(X)
    if subject.task == "classes":
        return float(-np.log(np.clip(predicted[np.arange(len(y)), y.astype(np.int64)], 1e-15, None)).mean())
    return float(((predicted.reshape(len(y), -1) - y[:, None]) ** 2).mean())


def add_dependence(found: Section, subject: Subject, features: list[int]) -> None:
    """The mean prediction if a column had a given value in all rows, with the column's distribution below."""
    found.heading("Partial dependence")
    what = f"mean probability of {subject.classes[-1]}" if subject.task == "classes" else "mean prediction"
    found.text("The mean prediction if a column had a given value in all rows. Grey bars show where the rows lie.")
    with found.side_by_side():
        for feature in features:
            add_dependence_on(found, subject, feature, what)


def add_dependence_on(found: Section, subject: Subject, feature: int, what: str) -> None:
    labels = subject.model.categories.get(feature)
    n_points = N_GRID if labels is None else N_CATEGORIES
    found_curve = partial_dependence(subject.predict_rows, subject.sample, feature, labels, n_points)
    if found_curve is None:
        return
    name, (grid, mean, names, edges, counts) = subject.names[feature], found_curve
    if names is not None:
        order = np.argsort(-mean, kind="stable").tolist()
        found.chart(bar_chart([names[i] for i in order], mean[order].tolist(), what), name)
        return
    span = (float(grid[0]), float(grid[-1])) if len(grid) > 1 else None
    titles, x, values = (name, what), grid.tolist(), mean.tolist()
    drawn = points(x, values, titles) if span is None else line_chart(x, values, titles, span=span)
    found.chart(with_distribution(drawn.properties(height=190), edges.tolist(), counts.tolist(), name), name)


def strongest_pairs(subject: Subject) -> list[tuple[tuple[int, int], float]]:
    """Pairs of different columns by the gain of splits directly below a split by the other one."""
    scores: Counter[tuple[int, int]] = Counter()
    for tree in subject.model.trees:
        parents = np.flatnonzero(tree.feature >= 0)
        for side in (0, 1):
            children = tree.left_child[parents] + side
            inner = tree.feature[children] >= 0
            for parent, child in zip(parents[inner], children[inner], strict=True):
                a, b = sorted((int(tree.feature[parent]), int(tree.feature[child])))
                if a != b:
                    scores[a, b] += float(tree.gain[child])  # type: ignore[assignment]
    return [(pair, float(score)) for pair, score in scores.most_common(N_PAIRS)]
