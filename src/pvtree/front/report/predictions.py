"""The section about predictions on given rows: how good they are, where they fail and why."""

from __future__ import annotations

from html import escape
from itertools import product

import numpy as np

from pvtree.front.curves import calibration, category_name, sampled
from pvtree.front.report.charts import diagonal, heat_table, histogram, horizontal, line_chart, points, thinned
from pvtree.front.report.intervals import ndcg_by_query
from pvtree.front.report.page import Section
from pvtree.front.report.subject import Subject
from pvtree.model.number_text import shown_number

N_THRESHOLDS = 101
N_WORST = 8
N_REASONS = 3
N_POINTS = 1500
N_CALIBRATION = 10
MOST_CLASSES = 20  # of a confusion matrix that can be read


def section(subject: Subject) -> Section | None:
    if subject.rows is None:
        return None
    found = Section("predictions", "Predictions")
    if subject.task == "classes" and len(subject.classes) == 2:
        with found.side_by_side():
            add_curves(found, subject)
            add_calibration(found, subject)
        add_threshold(found, subject)
    elif subject.task == "classes":
        add_confusion(found, subject)
    elif subject.task == "ranking":
        add_queries(found, subject)
    elif subject.predicted.ndim == 1:
        add_residuals(found, subject)
    if subject.task != "ranking" and (subject.task == "classes" or subject.predicted.ndim == 1):
        add_worst(found, subject)
    return found if found.pieces else None


def add_curves(found: Section, subject: Subject) -> None:
    from sklearn.metrics import precision_recall_curve, roc_curve

    rows = subject.rows
    assert rows is not None
    if len(np.unique(rows.y)) < 2:
        found.text("All rows have one class, so there are no curves of right and wrong predictions.")
        return
    score = subject.predicted[:, 1]
    false, true, _ = roc_curve(rows.y, score, sample_weight=rows.weight)
    precision, recall, _ = precision_recall_curve(rows.y, score, sample_weight=rows.weight)
    share = float(np.average(rows.y, weights=rows.weight))
    names, at = ("false positive rate", "true positive rate"), thinned(len(false))
    chart = line_chart(false[at].tolist(), true[at].tolist(), names) + diagonal(names)
    found.chart(chart, "The dotted line is a guess.", "ROC")
    names, at = ("recall", "precision"), thinned(len(recall))
    chart = line_chart(recall[at].tolist(), precision[at].tolist(), names) + horizontal(share, names[1])
    found.chart(chart, "The dotted line is the share of positives.", "Precision and recall")


def add_calibration(found: Section, subject: Subject) -> None:
    """Predicted probabilities against the shares that came true, in ten groups of equally many rows."""
    rows = subject.rows
    assert rows is not None
    groups = calibration(subject.predicted[:, 1], rows.y, rows.weight, N_CALIBRATION)
    x, y = groups.predicted.tolist(), groups.share.tolist()
    names = "predicted probability", "share that is " + subject.classes[1]
    found.chart(
        line_chart(x, y, names) + points(x, y, names, 60) + diagonal(names),
        f"{len(x)} groups of equally many rows; on the dotted line, probabilities are right.",
        "Calibration",
    )


def add_threshold(found: Section, subject: Subject) -> None:
    rows = subject.rows
    assert rows is not None
    thresholds = np.linspace(0.0, 1.0, N_THRESHOLDS)
    score, positive = subject.predicted[:, 1], rows.y == 1
    counts = np.empty((N_THRESHOLDS, 4))
    for i, threshold in enumerate(thresholds):
        chosen = score >= threshold
        for j, (said, true) in enumerate(product((True, False), (True, False))):
            counts[i, j] = rows.weight[(chosen == said) & (positive == true)].sum()
    yes, no = escape(subject.classes[1]), escape(subject.classes[0])
    found.heading("Confusion matrix by threshold")
    cells = {name: f'<td class="number" id="threshold-{name}"></td>' for name in ("tp", "fp", "fn", "tn")}
    found.data(
        "threshold",
        {"thresholds": thresholds.round(2), "counts": counts.round(3)},
        f'<label class="screen">Predict {yes} from the probability <output id="threshold-value"></output> on'
        f'<input type="range" id="threshold" min="0" max="{N_THRESHOLDS - 1}" value="50" '
        'aria-label="Threshold of the probability"></label>'
        f'<div class="wide"><table><thead><tr><th></th><th>is {yes}</th><th>is {no}</th></tr></thead><tbody>'
        f"<tr><th>predicted {yes}</th>{cells['tp']}{cells['fp']}</tr>"
        f"<tr><th>predicted {no}</th>{cells['fn']}{cells['tn']}</tr></tbody></table></div>"
        '<p>Precision <b id="threshold-precision"></b>, recall <b id="threshold-recall"></b>, accuracy '
        '<b id="threshold-accuracy"></b>.</p>',
    )


def add_confusion(found: Section, subject: Subject) -> None:
    rows, names = subject.rows, subject.classes
    assert rows is not None
    if len(names) > MOST_CLASSES:
        return
    chosen, label = subject.predicted.argmax(axis=1), rows.y.astype(np.int64)
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, (label, chosen), rows.weight)
    cells = list(product(range(len(names)), repeat=2))
    chart = heat_table(
        [names[said] for _, said in cells],
        [names[true] for true, _ in cells],
        [round(float(counts[cell]), 2) for cell in cells],
        ("predicted", "is"),
    )
    found.heading("Confusion matrix")
    found.chart(chart, "Rows by true and predicted class.")


def add_residuals(found: Section, subject: Subject) -> None:
    rows = subject.rows
    assert rows is not None
    at = sampled(len(rows), N_POINTS)
    actual, predicted = rows.y[at], subject.predicted[at]
    low, high = float(min(actual.min(), predicted.min())), float(max(actual.max(), predicted.max()))
    names = ("predicted", "actual")
    chart = points(predicted.tolist(), actual.tolist(), names) + diagonal(names, low, high)
    found.heading("Predicted and actual values")
    found.chart(chart, "On the dotted line, predictions are right.")
    counts, edges = np.histogram(rows.y - subject.predicted, bins=40)
    found.heading("Residuals")
    found.chart(histogram(edges.tolist(), counts.tolist(), "actual - predicted"), "How far predictions are off.")


def add_queries(found: Section, subject: Subject) -> None:
    values = ndcg_by_query(subject)
    if not len(values):
        found.text("Pass group or qid to see NDCG by query.")
        return
    counts, edges = np.histogram(values, bins=20, range=(0.0, 1.0))
    found.heading("NDCG@10 by query")
    caption = f"{len(values):,} queries, mean {values.mean():.4f}, worst {values.min():.4f}."
    found.chart(histogram(edges.tolist(), counts.tolist(), "NDCG@10"), caption)


def add_worst(found: Section, subject: Subject) -> None:
    """The rows with the largest errors, and the columns that pushed their predictions most."""
    rows = subject.rows
    assert rows is not None
    label = rows.y
    if subject.task == "classes":
        error = 1.0 - subject.predicted[np.arange(len(label)), label.astype(np.int64)]
        said = [subject.classes[k] for k in subject.predicted.argmax(axis=1)]
        true = [subject.classes[int(k)] for k in label]
    else:
        error = np.abs(label - subject.predicted)
        said, true = [shown_number(float(v)) for v in subject.predicted], [shown_number(float(v)) for v in label]
    at = subject.sampled_at
    worst = np.argsort(-error[at], kind="stable")[:N_WORST]
    values = np.asarray(subject.model.predict_contrib(subject.sample[worst]))
    values = values.reshape(len(worst), subject.model.n_outputs, -1)[:, :, :-1]
    cells = []
    for place, i in enumerate(worst):
        row = int(at[i])
        output = int(subject.predicted[row].argmax()) if subject.model.n_outputs > 1 else 0
        cells.append([f"{row:,}", true[row], said[row], float(error[row]), reasons(subject, i, values[place, output])])
    found.heading("Rows that are most wrong")
    header = ["row", "is", "predicted", "error", "largest SHAP values"]
    found.table(header, cells, f"Among {len(at):,} rows; rows are counted from 0.")


def reasons(subject: Subject, sampled_row: int, values: np.ndarray) -> str:
    top = np.argsort(-np.abs(values), kind="stable")[:N_REASONS]
    named = (f"{subject.names[j]} = {shown_value(subject, sampled_row, j)}: {values[j]:+.3g}" for j in top if values[j])
    return ", ".join(named)


def shown_value(subject: Subject, row: int, feature: int) -> str:
    value, labels = float(subject.sample[row, feature]), subject.model.categories.get(int(feature))
    if labels is not None:
        return category_name(labels, value)
    return "missing" if np.isnan(value) else shown_number(value)
