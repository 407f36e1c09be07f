"""A wheel with compiled kernels is installed into an empty folder and needs no compiler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pvtree.kernels import stamp
from thoroughness import one_in

ROOT = Path(__file__).parents[2]
USES = {
    "prediction": """
model = pvtree.Model.load({model!r})
print(model.predict_raw(np.zeros((5, model.n_features), np.float32)).shape == (5, 1))
""",
    "boosting": """
X = np.random.default_rng(0).normal(size=(500, 12)).astype(np.float32)
model = pvtree.GBDTClassifier(n_estimators=3, verbosity=0).fit(X, X[:, 0] > 0)
print(model.score(X, X[:, 0] > 0) > 0.9)
""",
}


# Kernels of predictions alone, which are compiled in seconds; ``make thorough`` compiles those of a fit too.
@pytest.mark.timeout(600)  # compiles, beside other tests that do
@pytest.mark.skipif(
    not stamp.of_baselines(), reason="this processor has no AVX2, or numba is told to compile for another"
)
@pytest.mark.parametrize("use", one_in(2, USES))
def test_what_a_wheel_has_kernels_for_needs_no_compiler(use, tmp_path):
    build = ["packaging/wheel.py", "--target", str(tmp_path), "--baselines", "x86-64-v3", "--trainings", use]
    subprocess.run([sys.executable, *build], cwd=ROOT, check=True, capture_output=True, timeout=580)
    [wheel] = tmp_path.glob("pvtree-*.whl")
    site, cache = tmp_path / "site", tmp_path / "cache"
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "install", "--no-deps", "--no-index"]
    pip += ["--no-compile"]
    subprocess.run([*pip, "--target", str(site), str(wheel)], check=True)
    begin = f"import numpy as np, pvtree; assert pvtree.__file__.startswith({str(site)!r}), pvtree.__file__"
    model = str(ROOT / "tests" / "fixtures" / "0.6.0" / "boosting-regression.json")
    result = subprocess.run(
        [sys.executable, "-c", begin + USES[use].format(model=model)], capture_output=True, text=True, check=True,
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(site), "NUMBA_CACHE_DIR": str(cache), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert (result.stdout, result.stderr) == ("True\n", "")
    assert not list(tmp_path.glob("cache/**/*.kernel")) and not list(site.glob("**/__pycache__/**/*.kernel"))
