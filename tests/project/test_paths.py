"""Every path and every relative link that the documentation names exists."""

import re
from pathlib import Path

import pytest

import pvtree

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "pvtree"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
ROOMS = sorted(folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists())
FOLDERS = "|".join(["src", "docs", "tests", "benchmarks", "examples", *ROOMS])
# The changelog tells of modules under the names that they had at the time; its links are checked all the same.
HISTORY = {"CHANGELOG.md"}
PATTERN = "docs/adr/NNNN-title.md"


def named_paths(text: str) -> list[str]:
    """Paths such as ``src/pvtree/errors.py``, ``comm/network.py`` or ``tests/chaos``."""
    inside = re.findall(rf"(?<![\w/.:-])((?:{FOLDERS})/[\w/.-]*\w/?)", text)
    modules = re.findall(r"`([\w-]+/[\w/.-]+\.py)`", text)
    return sorted({*inside, *modules} - {PATTERN})


def relative_links(text: str) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [target.split("#")[0] for target in targets if not re.match(r"https?:|mailto:|#", target)]


def exists(path: str) -> bool:
    return any((folder / path).exists() for folder in (ROOT, PACKAGE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    paths = [] if page.name in HISTORY else named_paths(text)
    assert [path for path in paths if not exists(path)] == []
    assert [link for link in relative_links(text) if not (page.parent / link).exists()] == []


def test_paths_and_links_are_recognised():
    text = "See `growing/frontier.py`, docs/plan.md. [One](plan.md#a) and [another](https://example.org/docs/a.md)."
    assert named_paths(text) == ["docs/plan.md", "growing/frontier.py"]
    assert relative_links(text) == ["plan.md"]
    assert not exists("growing/no_such_module.py")


PROGRAMS = sorted(path for folder in ("tests", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py"))
IMPORTED = re.compile(r"\bfrom (pvtree[\w.]*) import (?:\(([^)]*)\)|([\w, ]+))")


def imported_names(text: str) -> list[tuple[str, str]]:
    """(module, name) of every import from the package, also in programs that stand in strings."""
    return [
        (module, re.split(r"\s+as\s+", name.strip())[0])
        for module, in_brackets, in_line in IMPORTED.findall(text)
        for name in re.sub(r"#.*", "", in_brackets or in_line).split(",")
        if name.strip().partition(" ")[0].isidentifier()
    ]


def is_there(module: str, name: str) -> bool:
    """Whether a module has a name or a submodule, by its text alone."""
    public = ".".join(module.split(".")[:2])
    module = pvtree._PUBLIC_PATHS.get(public, public) + module.removeprefix(public)
    place = PACKAGE.parent.joinpath(*module.split("."))
    source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    is_module = (place / name).is_dir() or (place / f"{name}.py").exists()
    return is_module or (source.exists() and re.search(rf"\b{name}\b", source.read_text(encoding="utf-8")) is not None)


def test_what_programs_import_exists():
    missing = [
        f"{path.relative_to(ROOT)}: {module}.{name}"
        for path in PROGRAMS
        for module, name in imported_names(path.read_text(encoding="utf-8"))
        if not is_there(module, name)
    ]
    assert missing == []


def test_imports_are_recognised():
    text = 'f("from pvtree import GBDTRegressor, theory")\nfrom pvtree.comm import (\n    Solo,\n    local as near,\n)'
    names = [("pvtree", "GBDTRegressor"), ("pvtree", "theory"), ("pvtree.comm", "Solo"), ("pvtree.comm", "local")]
    assert imported_names(text) == names
    assert all(is_there(*each) for each in names)
    assert not is_there("pvtree", "row_ids") and not is_there("pvtree.kernels.fixed_point", "kernel")
