"""A wheel with compiled kernels is installed into an empty folder and trains without compiling anything."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pvtree.kernels import stamp

FIT = """
import numpy as np, pvtree
assert pvtree.__file__.startswith({folder!r}), pvtree.__file__
X = np.random.default_rng(0).normal(size=(500, 12)).astype(np.float32)
model = pvtree.GBDTClassifier(n_estimators=3, verbosity=0).fit(X, X[:, 0] > 0)
print(model.score(X, X[:, 0] > 0) > 0.9)
"""


@pytest.mark.timeout(600)  # compiles, beside other tests that do
@pytest.mark.skipif(
    not stamp.of_baselines(), reason="this processor has no AVX2, or numba is told to compile for another"
)
def test_a_wheel_with_kernels_trains_without_compiling(tmp_path):
    root = Path(__file__).parents[2]
    build = ["packaging/wheel.py", "--target", str(tmp_path), "--baselines", "x86-64-v3", "--trainings", "boosting"]
    environment = os.environ | {"NUMBA_OPT": "0"}  # slow kernels, but compiled in a third of the time
    subprocess.run([sys.executable, *build], cwd=root, env=environment, check=True, capture_output=True, timeout=580)
    [wheel] = tmp_path.glob("pvtree-*.whl")
    site, cache = tmp_path / "site", tmp_path / "cache"
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(wheel)], check=True)
    result = subprocess.run(
        [sys.executable, "-c", FIT.format(folder=str(site))], capture_output=True, text=True, check=True, cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(site), "NUMBA_CACHE_DIR": str(cache), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert (result.stdout, result.stderr) == ("True\n", "")
    assert not list(tmp_path.glob("cache/**/*.kernel")) and not list(site.glob("**/__pycache__/**/*.kernel"))
