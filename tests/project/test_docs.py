"""The documentation builds without a warning, and its Python runs from top to bottom, page by page."""

import ast
import html as html_text
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pvtree
from absent import without_pandas
from thoroughness import IS_THOROUGH

DOCS = Path(__file__).resolve().parents[2] / "docs"
pytestmark = pytest.mark.docs
# Needs ranks or a cluster: tests/project/test_examples.py runs the complete programs that it names.
NOT_RUN = {"training-on-clusters"}


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


NOTEBOOKS = [page for page in sorted((DOCS / "gallery").glob("*.md")) if page.stem != "index"]
PAGES = [page for page in sorted(DOCS.glob("*.md")) if python_blocks(page)]
# Numbers of rows and trees that are enough to see that a page runs.
SMALLER = {"pictures": {"8_000": "2_000", "n_estimators=150": "n_estimators=30", "n_estimators=40": "n_estimators=10"}}
WITHOUT_PANDAS = {"quickstart", "why-not", "tuning"}  # for readers who have installed what pvtree itself needs
SCIKIT_LEARNS = ("instance is not fitted yet", "is expecting")  # messages
ESTIMATORS = ("GBDTClassifier", "GBDTRegressor", "GBDTRanker", "RandomForestClassifier", "DecisionTreeRegressor")


def defined_names(block: str) -> set[str]:
    """What a block imports and assigns at its top level."""
    names = set()
    for node in ast.parse(block).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return names


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in NOT_RUN], ids=lambda page: page.stem)
def test_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page.stem in WITHOUT_PANDAS:
        without_pandas(monkeypatch)
    names: dict = {}
    for block in python_blocks(page):
        for large, small in SMALLER.get(page.stem, {}).items():
            assert large in block
            block = block if IS_THOROUGH else block.replace(large, small)
        exec(compile(block, str(page), "exec"), names)
        assert defined_names(block) <= names.keys()


@pytest.mark.parametrize("page", sorted(NOT_RUN))
def test_python_of_a_page_that_is_not_run_imports_what_exists(page):
    imports = [
        node
        for block in python_blocks(DOCS / f"{page}.md")
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("pvtree")
    ]
    assert imports
    for node in imports:
        try:
            module = importlib.import_module(str(node.module))
        except pvtree.MissingDependencyError:  # Spark, which `make engines` installs and tries
            continue
        assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


def test_quickstart_has_code_to_run():
    assert len(python_blocks(DOCS / "quickstart.md")) >= 4


def build(source: Path, output: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(output / "trees")]
    if not IS_THOROUGH:  # the theme rewrites every page, which takes as long as all the rest
        command += ["-D", "html_theme=basic"]
    return subprocess.run([*command, str(source), str(output)], capture_output=True, text=True, timeout=280)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The documentation as HTML. Sphinx runs the cells of the gallery, and a cell that fails is a warning."""
    output = tmp_path_factory.mktemp("site")
    built = build(DOCS, output)
    assert built.returncode == 0, built.stderr
    return output


def test_documentation_builds_without_a_warning(site):
    assert "GBDTClassifier" in (site / "api.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_notebooks_show_what_their_cells_print_and_draw(page, site):
    assert not python_blocks(page)  # they would not be run
    captions = re.findall(r"^:caption: (.+\.|.+\?)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    html = (site / "gallery" / f"{page.stem}.html").read_text(encoding="utf-8")
    assert len(captions) >= 2 and html.count('<img alt="') == html.count("<figcaption>") == len(captions)
    notebook = json.loads((site / "gallery" / f"{page.stem}.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == len(captions)
    for output in outputs:
        if output["output_type"] == "stream":
            assert html_text.escape(output["text"].splitlines()[0], quote=False) in html
    for cell in notebook["cells"]:
        assert cell["cell_type"] == "markdown" or ast.parse(cell["source"])


def test_a_cell_that_fails_or_has_no_caption_stops_the_build(tmp_path):
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(DOCS)!r})\nextensions = ['myst_parser', 'code_cells']"
    )
    cells = "1 / 0", "from matplotlib import pyplot\npyplot.plot([1, 2]);"
    text = "\n\n".join(f"```{{code-cell}} python\n{cell}\n```" for cell in cells)
    (tmp_path / "index.md").write_text(f"# Title\n\n{text}\n")
    built = build(tmp_path, tmp_path / "html")
    assert built.returncode != 0
    assert "index.md:3: WARNING: A cell failed" in built.stderr and "ZeroDivisionError" in built.stderr
    assert "index.md:7: WARNING: A cell draws 1 pictures; give it a caption" in built.stderr


def test_every_public_name_is_in_the_reference():
    reference = (DOCS / "api.md").read_text(encoding="utf-8")
    errors = {name for name in pvtree.__all__ if name.endswith("Error")}
    missing = [
        name for name in set(pvtree.__all__) - errors - {"__version__"} if not re.search(rf"\b{name}\b", reference)
    ]
    assert not missing


def test_every_parameter_has_a_purpose():
    page = (DOCS / "parameters.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    known = {name for kind in ESTIMATORS for name in getattr(pvtree, kind)().get_params()}
    assert known - named == set()


def test_the_messages_of_the_page_are_those_of_the_program():
    """The words of each quoted message, without what is filled in, stand in the source."""
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r'^"(.+)"\n: ', page, re.MULTILINE)
    source = "".join(
        re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8"))
        for path in (DOCS.parent / "src" / "pvtree").rglob("*.py")
    )
    assert len(quoted) > 10
    for message in quoted:
        if any(words in message for words in SCIKIT_LEARNS):
            continue
        parts = re.split(r"\.\.\.|\b\d+\b|[][;?]|GBDT\w+|Worker |worker ", message)
        fixed = [part.strip() for part in parts if len(part) > 6]
        assert fixed and [part for part in fixed if part not in source] == []
