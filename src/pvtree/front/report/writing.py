"""Collects the sections of a report and writes the file."""

from __future__ import annotations

import os
from typing import Any

from pvtree.errors import InvalidTypeError
from pvtree.front.report import columns, predictions, summary, training, trees, workers
from pvtree.front.report.page import load_package, render
from pvtree.front.report.subject import Subject, read_rows
from pvtree.front.scikit_learn import check_is_fitted
from pvtree.model.atomic_file import write_at_once

SECTIONS = (summary, training, columns, predictions, trees, workers)


def write_report(
    estimator: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    group: Any = None,
    qid: Any = None,
) -> None:
    """See ``Fitting.report``."""
    for package in ("altair", "vl_convert"):
        load_package(package)
    check_is_fitted(estimator, "model_")
    if estimator.model_.target_sizes:
        raise InvalidTypeError("Reports do not support several columns of classes; train one model per column.")
    subject = Subject(estimator, read_rows(estimator, X, y, sample_weight, group, qid))
    found = [section for each in SECTIONS if (section := each.section(subject)) is not None]
    page = render(f"{type(estimator).__name__} report", found)
    write_at_once(os.fspath(path), page.encode("utf-8"))
