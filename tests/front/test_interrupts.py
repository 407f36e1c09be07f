"""Ctrl-C during long work: Python handles it between two kernel calls, so no call may take long."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WORK = ("contributions", "prediction", "tree", "forest")


@pytest.fixture(scope="module")
def told():
    """The work would take hours; the limit only ends a failing test."""
    program = Path(__file__).with_name("interrupted_program.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=290, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("work", WORK)
def test_an_interrupt_ends_all_threads(told, work):
    assert told[work]["ending"] == "interrupted"
    assert told[work]["threads"] == []
    assert told[work]["calls_after"] < 100  # of thousands: each thread ends the call that it is in
