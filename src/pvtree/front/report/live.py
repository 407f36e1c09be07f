"""A callback that rewrites a report while training goes on."""

from __future__ import annotations

import os
import time
from typing import Any

from pvtree.errors import InvalidParameterError, public
from pvtree.front.report.page import Section, load_package, render
from pvtree.front.report.training import add_metrics
from pvtree.model.atomic_file import write_at_once


@public
class live_report:
    """Rewrite an HTML file while training goes on; a browser that shows it reads it again by itself.

    Parameters
    ----------
    path : str or path-like
        The file to write or replace. ``estimator.report`` writes the full report afterwards.
    every : float, default=5.0
        The least number of seconds between two versions. Must be positive.
    """

    before_iteration = False
    order = 20  # before early stopping, so that the last iteration is seen too
    replays = True  # a resumed training shows all iterations

    def __init__(self, path: str | os.PathLike[str], every: float = 5.0) -> None:
        if not every > 0:
            raise InvalidParameterError(f"every={every!r} must be a positive number of seconds.")
        load_package("altair")
        load_package("vl_convert")
        self.path, self.every = os.fspath(path), every
        self.results: dict[str, dict[str, list[float]]] = {}
        self._began: float | None = None
        self._written = float("-inf")

    def __call__(self, env: Any) -> None:
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        for name, metric, value, *_ in env.evaluation_result_list or ():
            self.results.setdefault(name, {}).setdefault(metric, []).append(value)
        done, total = env.iteration + 1 - env.begin_iteration, env.end_iteration - env.begin_iteration
        is_last = done == total
        if is_last or now - self._written >= self.every:
            self._write(done, total, now - self._began, is_last)
            self._written = time.monotonic()

    def _write(self, done: int, total: int, seconds: float, is_last: bool) -> None:
        section = Section("training", "Training")
        left = f", about {seconds / done * (total - done):.0f} s left" if done > 1 and not is_last else ""
        section.text(f"{done:,} of {total:,} iterations in {seconds:.0f} s{left}.")
        if not self.results:
            section.text("Pass eval_set to fit to see metrics here.")
        add_metrics(section, self.results, 0)
        page = render(
            "Training" if is_last else "Training ...", [section], None if is_last else max(1, int(self.every))
        )
        write_at_once(self.path, page.encode("utf-8"))
