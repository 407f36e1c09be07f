"""The progress bar of a training: trees done, trees per second, bytes per tree, time left and metrics, on one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from pvtree.comm.traffic import format_bytes

if TYPE_CHECKING:
    from pvtree.comm.traffic import Traffic

SILENT_SECONDS = 2.0  # shorter trainings show no bar
FORMAT = "{desc}{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}{sent}{postfix}]"
LONGEST_NOTE = 60  # characters, so that whatever is written next covers it


@contextmanager
def note_before_bar(words: str, is_shown: bool) -> Iterator[None]:
    """Show ``words`` on a terminal until the bar, or the end of the ``with`` block, takes their place."""
    is_shown = is_shown and sys.stderr.isatty()
    words = words if len(words) <= LONGEST_NOTE else f"{words[: LONGEST_NOTE - 4]} ..."
    if is_shown:
        print(words, end="\r", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if is_shown:
            print(" " * len(words), end="\r", file=sys.stderr, flush=True)


class TrainingBar(tqdm):
    """tqdm's bar, with the bytes that worker 0 has sent per tree if there are other workers."""

    def __init__(self, total: int, n_done: int, noun: str, is_shown: bool, traffic: Traffic) -> None:
        self.noun, self.traffic, self.sent_before = noun, traffic, traffic.total().bytes
        super().__init__(
            total=total,
            initial=n_done,
            unit=f" {noun}s",
            delay=SILENT_SECONDS,
            bar_format=FORMAT,
            leave=False,
            dynamic_ncols=True,
            disable=None if is_shown else True,  # None: hidden unless standard error is a terminal
        )

    def set_postfix(self, *args: Any, **kwargs: Any) -> None:
        """Show metrics when the bar is drawn next: drawing at once may take longer than growing a small tree."""
        super().set_postfix(*args, **{**kwargs, "refresh": False})

    @property
    def format_dict(self) -> Mapping[str, Any]:
        sent, n_new = self.traffic.total().bytes - self.sent_before, self.n - self.initial
        shown = f", {format_bytes(sent / n_new)}/{self.noun}" if sent and n_new else ""
        return {**super().format_dict, "sent": shown}
