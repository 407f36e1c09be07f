"""Builds a wheel that carries compiled kernels: ``make wheel``. Fits from it begin without a compiler.

The kernels are those of this Python, numba and llvmlite, for the baselines that this processor can run. With any other
version or processor, the wheel compiles them as a clone does.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import llvmlite.binding as llvm

ROOT = Path(__file__).parents[1]


def build(target: Path, baselines: list[str] | None = None, trainings: list[str] | None = None) -> Path:
    """Write the wheel to ``target``, by default with all baselines and all trainings of ``pvtree warmup``."""
    from pvtree.front.warmup import TRAININGS
    from pvtree.kernels.stamp import BASELINES

    has = llvm.get_host_cpu_features()
    can_run = [name for name, needs in BASELINES.items() if all(has.get(need) for need in needs)]
    with tempfile.TemporaryDirectory() as folder:
        pure = _pure_wheel(Path(folder))
        content = Path(folder) / "content"
        zipfile.ZipFile(pure).extractall(content)
        compiled = {}
        for baseline in baselines or can_run:
            kept = Path(folder) / baseline
            environment = os.environ | {
                "PYTHONPATH": str(content), "NUMBA_CACHE_DIR": str(kept), "NUMBA_CPU_NAME": baseline,
                "NUMBA_CPU_FEATURES": "",
            }  # fmt: skip
            for training in trainings or list(TRAININGS):
                command = [sys.executable, "-m", "pvtree.front.warmup", training]
                subprocess.run(command, env=environment, cwd=folder, check=True)
            found = (kept / "pvtree").glob("*/*.kernel")
            compiled |= {f"pvtree/kernels/compiled/{path.parent.name}/{path.name}": path for path in found}
        return _with_files(pure, compiled, target)


def _pure_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "wheel", "--no-deps"]
    command += ["--no-build-isolation"] if _has_setuptools() else []
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT)], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def _has_setuptools() -> bool:
    try:
        import setuptools
    except ImportError:
        return False
    return int(setuptools.__version__.split(".")[0]) >= 77


def _with_files(pure: Path, files: dict[str, Path], target: Path) -> Path:
    """The same wheel with more files, for this Python and platform."""
    name, version, *_ = pure.stem.split("-")
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}-none-{platform}"
    info = f"{name}-{version}.dist-info"
    target.mkdir(parents=True, exist_ok=True)
    wheel = target / f"{name}-{version}-{tag}.whl"
    lines = []
    with zipfile.ZipFile(pure) as old, zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as new:
        contents = {each: old.read(each) for each in old.namelist() if not each.endswith("/RECORD")}
        contents |= {each: path.read_bytes() for each, path in sorted(files.items())}
        about = contents[f"{info}/WHEEL"].decode()
        about = about.replace("Tag: py3-none-any", f"Tag: {tag}").replace("Purelib: true", "Purelib: false")
        contents[f"{info}/WHEEL"] = about.encode()
        for each, content in contents.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{each},sha256={digest},{len(content)}\n")
            new.writestr(each, content)
        new.writestr(f"{info}/RECORD", "".join(lines) + f"{info}/RECORD,,\n")
    return wheel


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, default=ROOT / "dist", help="folder of the wheel")
    parser.add_argument("--baselines", type=lambda text: text.split(","), help="x86-64-v4,x86-64-v3; default: all")
    parser.add_argument(
        "--trainings", type=lambda text: text.split(","), help="as in pvtree.front.warmup; default: all"
    )
    given = parser.parse_args()
    print(build(given.target, given.baselines, given.trainings))
