"""The package as a whole: what importing it loads, what it exports, and that its version has one source."""

import ast
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pvtree

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENGINES = {"spark": {"pyspark", "pyarrow"}, "ray": {"ray"}}  # what each may import at module level
OPTIONAL = (
    "pandas",
    "lightgbm",
    "xgboost",
    "matplotlib",
    "dask",
    "distributed",
    "pyarrow",
    "pyspark",
    "ray",
    "mpi4py",
    "pytest",
    "hypothesis",
)


def modules_after(code):
    """Top-level modules loaded by a fresh interpreter that runs the code."""
    code += "\nimport sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


FIT = "import pvtree; pvtree.GBDTClassifier(n_estimators=1).fit([[0.0], [1.0]] * 40, [0, 1] * 40).predict([[0.0]])"


def test_importing_loads_nothing_optional():
    assert not set(modules_after("import pvtree")) & set(OPTIONAL)


def test_using_it_loads_nothing_optional():
    assert not set(modules_after(FIT)) & set(OPTIONAL)


def test_what_scikit_learn_imports_too_early_is_there_when_it_is_used():
    pytest.importorskip("pandas")
    loaded = modules_after(
        FIT + "; import sys; assert not {'pandas', 'scipy.stats'} & set(sys.modules)"
        "; from sklearn.utils import fixes; assert fixes._mode([3, 3, 1])[0] == 3"
        "; assert fixes.pd.DataFrame is __import__('pandas').DataFrame; import pandas.core, scipy.stats.mstats"
        "; pvtree.GBDTRegressor(n_estimators=1).fit(pandas.DataFrame({'a': range(40)}), range(40))"
    )
    assert "pandas" in loaded


def test_works_where_nothing_optional_is_installed():
    blocked = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL}))\n"  # importing None is an ImportError
    modules_after(blocked + "from pvtree import *\n" + FIT)


def test_every_source_file_imports_only_required_or_guarded_packages():
    """At module level: what an optional feature needs is imported where it is used. Each engine is one as a whole."""
    required = {"numpy", "numba", "llvmlite", "sklearn", "tqdm", "joblib", "threadpoolctl", "scipy", "click", "pvtree"}
    for path in (ROOT / "src" / "pvtree").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            own = ENGINES.get(path.parent.name, set()) if path.parent.parent.name == "engines" else set()
            foreign = {name.partition(".")[0] for name in names} - required - own - set(sys.stdlib_module_names)
            assert not foreign, f"{path.relative_to(ROOT)} imports {foreign} for everyone"


def test_all_names_exist_and_are_listed():
    assert len(set(pvtree.__all__)) == len(pvtree.__all__)
    for name in pvtree.__all__:
        assert getattr(pvtree, name) is not None
    assert set(pvtree.__all__) <= set(dir(pvtree))


def test_all_is_complete():
    """Every estimator and every error of the error tree is public."""
    from sklearn.base import BaseEstimator

    from pvtree import errors
    from pvtree.front import estimators

    public = {
        name
        for module, base in ((estimators, BaseEstimator), (errors, errors.PvtreeError))
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and not name.startswith("_")
    }
    assert len(public) >= 7 + 6
    assert public | {"Model", "__version__"} <= set(pvtree.__all__)


def test_public_classes_and_functions_name_the_package_as_their_home():
    """So that pickles and tracebacks do not depend on where a file lies."""
    for name in set(pvtree.__all__) - {"__version__", "as_xgboost", "comm", "theory"}:
        thing = getattr(pvtree, name)
        assert (thing.__module__, thing.__qualname__) == ("pvtree", name)
        assert pickle.loads(pickle.dumps(thing)) is thing


@pytest.mark.parametrize(
    "use",
    [
        "as_xgboost.XGBClassifier()",
        "basic.LightGBMError",
        "sklearn.LGBMModel()",
        "comm.Solo()",
        "comm.virtual",
        "theory",
        "SkewWarning",
        "errors.PvtreeError",
    ],
)
def test_submodules_are_there_after_a_bare_import(use):
    modules_after(f"import pvtree; pvtree.{use}")


def test_a_warning_can_be_ignored_without_loading_the_kernels():
    assert "numba" not in modules_after("import pvtree; pvtree.SkewWarning")


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'GradientBooster'"):
        pvtree.GradientBooster  # noqa: B018


def test_version_agrees_with_the_project_and_the_changelog():
    assert pvtree.__version__ == PROJECT["version"]
    assert f"## [{PROJECT['version']}]" in (ROOT / "CHANGELOG.md").read_text()
