"""Files have at most 400 lines and functions at most 60, but for those that are listed with their reason."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES, FUNCTION_LINES = 400, 60
SOURCES = sorted(
    path for folder in ("src", "benchmarks", "examples", "tests") for path in (ROOT / folder).rglob("*.py")
)

LONG_FILES = {
    "tests/comm/conformance.py": "one class, which every communicator's tests inherit",
    "tests/comm/test_dask.py": "one cluster serves all of its tests",
    "tests/front/test_dask_estimators.py": "one cluster serves all of its tests",
}
LONG_FUNCTIONS = {
    "src/pvtree/front/functional/cross_validation.py: cv": "half of it documents LightGBM's 15 arguments",
    "src/pvtree/as_xgboost/training.py: train": "half of it documents XGBoost's 12 arguments",
    "src/pvtree/front/functional/training.py: train": "most of it lists and documents LightGBM's arguments",
    "src/pvtree/front/estimators/gbdt.py: __init__": "a parameter a line",
    "src/pvtree/front/estimators/ranker.py: __init__": "a parameter a line",
    "src/pvtree/front/estimators/ranker.py: fit": "all of it lists and documents arguments, but for one call",
    "src/pvtree/as_xgboost/training.py: cv": "half of it lists and documents XGBoost's arguments",
    "src/pvtree/front/plotting/model_plots.py: plot_importance": "half of it documents LightGBM's arguments",
}


def long_files(paths: list[Path], root: Path) -> dict[str, int]:
    lengths = {path.relative_to(root).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    return {name: n_lines for name, n_lines in lengths.items() if n_lines > FILE_LINES}


def long_functions(paths: list[Path], root: Path) -> dict[str, int]:
    """From ``def`` to the last line, docstrings included; decorators are not counted."""
    return {
        f"{path.relative_to(root).as_posix()}: {node.name}": n_lines
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (n_lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }


def test_long_files_are_listed_and_nothing_else_is():
    assert long_files(SOURCES, ROOT).keys() == LONG_FILES.keys()


def test_long_functions_are_listed_and_nothing_else_is():
    assert long_functions(SOURCES, ROOT).keys() == LONG_FUNCTIONS.keys()


@pytest.mark.parametrize("more", [0, 1])
def test_one_line_too_many_is_found(more, tmp_path):
    path = tmp_path / "a.py"
    path.write_text("def f():\n" + "    pass\n" * (FUNCTION_LINES - 1 + more) + "\n" * (FILE_LINES - FUNCTION_LINES))
    assert long_functions([path], tmp_path) == ({"a.py: f": FUNCTION_LINES + 1} if more else {})
    assert long_files([path], tmp_path) == ({"a.py": FILE_LINES + 1} if more else {})


def test_the_package_has_few_entries():
    """A listing shows the way of the data; caches of Python's are not counted."""
    entries = [path.name for path in (ROOT / "src" / "pvtree").iterdir() if path.name != "__pycache__"]
    assert len(entries) <= 20
