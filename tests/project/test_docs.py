"""The documentation builds without a warning, and its Python runs from top to bottom, page by page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import pvtree

DOCS = Path(__file__).resolve().parents[2] / "docs"
# Needs ranks or a cluster: tests/project/test_examples.py runs the complete programs that it names.
NOT_RUN = {"training-on-clusters"}


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


PAGES = [page for page in sorted(DOCS.glob("*.md")) if python_blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in python_blocks(page):
        code = compile(block, str(page), "exec")
        if page.stem not in NOT_RUN:
            exec(code, names)


def test_quickstart_has_code_to_run():
    assert len(python_blocks(DOCS / "quickstart.md")) >= 4


def test_documentation_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(tmp_path / "trees")]
    built = subprocess.run([*command, str(DOCS), str(tmp_path / "html")], capture_output=True, text=True, timeout=240)
    assert built.returncode == 0, built.stderr
    assert "GBDTClassifier" in (tmp_path / "html" / "api.html").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference():
    reference = (DOCS / "api.md").read_text(encoding="utf-8")
    errors = {name for name in pvtree.__all__ if name.endswith("Error")}
    missing = [
        name for name in set(pvtree.__all__) - errors - {"__version__"} if not re.search(rf"\b{name}\b", reference)
    ]
    assert not missing
