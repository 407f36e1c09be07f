"""Programs of the documentation, run as a reader would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def first_lines(section: str) -> str:
    """The Python that a section of the page about clusters begins with."""
    page = (ROOT / "docs" / "training-on-clusters.md").read_text()
    return page.partition(f"\n## {section}\n")[2].partition("```python\n")[2].partition("```")[0]


def run_program(program: str | Path, folder: Path, **environment: str) -> str:
    """What a program, or a file of it, prints."""
    command = [sys.executable, str(program)] if isinstance(program, Path) else [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
