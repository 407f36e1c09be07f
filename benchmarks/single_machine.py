"""pvtree against LightGBM, XGBoost and scikit-learn on one machine: speed, memory and test metric.

Every measurement runs in its own process, one after another; repetitions alternate between the libraries.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import made_data
from libraries import LIBRARIES
from made_data import TASKS, Task
from tables import command, scaling_table, summary_table, task_table, write_between_marks

MEASURE = Path(__file__).with_name("measure.py")
SCALING = Task("scaling", "binary", 0, 0, 63, 20, 2_000)
SCALING_ROWS = [(n_rows, 100) for n_rows in (125_000, 250_000, 500_000, 1_000_000)]
SCALING_FEATURES = [(125_000, n_features) for n_features in (100, 200, 400, 800)]


def main() -> None:
    options = read_options()
    results = stored(options.store)
    with tempfile.TemporaryDirectory(prefix="pvtree-bench-") as folder:
        bench = Bench(Path(folder), options.threads)
        load = os.getloadavg()[0]
        print(results["environment"], flush=True)
        if "pvtree" in options.libraries:
            results["start_up"] = bench.start_up()
            keep(options.store, results)
        for name in options.data:
            task = with_options(TASKS[name], options)
            repeats = options.repeats or (9 if task.fresh_draws else 3)
            runs = bench.compare(task, options.libraries, repeats)
            results[name] = {
                "title": task.title,
                "metric": task.metric,
                "command": command("single_machine.py", "--store", "--output", "--summary"),
                "repeats": repeats,
                "conditions": f"{options.threads} threads, load {load:.1f} before the start",
                "runs": runs,
            }
            keep(options.store, results)
            print(f"\n{task.title}\n\n{task_table(runs, task.metric)}\n", flush=True)
        if options.scaling:
            results["scaling"] = bench.scaling(options.repeats or 3, options.quick)
            keep(options.store, results)
    text = report(results)
    print(text)
    if options.output:
        write_between_marks(options.output, text)
    if options.summary:
        write_between_marks(options.summary, summary(results))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=names_of(TASKS), default=list(TASKS), help="tasks, of a,b,c,d (all)")
    parser.add_argument(
        "--libraries", type=names_of(LIBRARIES), default=list(LIBRARIES), help=",".join(LIBRARIES) + " (all)"
    )
    parser.add_argument("--repeats", type=int, help="repetitions (3 for large tasks, 9 for small ones)")
    parser.add_argument("--trees", type=int, help="trees per fit (50 for a and b, 100 for c and d)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the rows and 10 trees, to try it out")
    parser.add_argument("--scaling", action="store_true", help="time per tree for 4 numbers of rows and attributes")
    parser.add_argument("--store", type=Path, help="JSON file that collects the measurements of several runs")
    parser.add_argument("--output", type=Path, help="markdown file to write the tables into")
    parser.add_argument("--summary", type=Path, help="markdown file to write the short table into")
    return parser.parse_args()


def names_of(known: Any) -> Any:
    def names(text: str) -> list[str]:
        chosen = [name for name in text.split(",") if name]
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown {unknown[0]!r}; use some of {', '.join(known)}")
        return chosen

    return names


def with_options(task: Task, options: argparse.Namespace) -> Task:
    task = task.reduced() if options.quick else task
    return replace(task, n_trees=options.trees) if options.trees else task


class Bench:
    """Generates the data and starts the processes; its folder also caches the kernels that pvtree compiles."""

    def __init__(self, folder: Path, n_threads: int) -> None:
        self.data, self.n_threads = folder / "data", n_threads
        self.environment = os.environ | {
            "OMP_NUM_THREADS": str(n_threads),  # scikit-learn has no parameter for it
            "NUMBA_CACHE_DIR": str(folder / "kernels"),
        }

    def run(self, what: str, *arguments: object) -> dict[str, float] | None:
        done = subprocess.run(
            [sys.executable, str(MEASURE), what, *map(str, arguments)],
            env=self.environment, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            print(f"{what} failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
            return None
        return json.loads(done.stdout.splitlines()[-1])

    def start_up(self) -> dict[str, Any]:
        """Start up without compiled kernels, then twice with them; the first of these also warms file caches."""
        return {"empty": self.run("start-up"), "again": self.run("start-up"), "cached": self.run("start-up")}

    def measure(self, library: str, task: Task) -> dict[str, float] | None:
        if task.kind == "ranking" and not LIBRARIES[library].ranks:
            return None
        return self.run(
            library, "--folder", self.data, "--kind", task.kind, "--num-leaves", task.num_leaves,
            "--trees", task.n_trees, "--threads", self.n_threads,
        )  # fmt: skip

    def compare(self, task: Task, libraries: list[str], repeats: int) -> dict[str, list[dict[str, float]]]:
        """Repetitions alternate, so that a slow minute of the machine affects every library equally."""
        runs: dict[str, list[dict[str, float]]] = {library: [] for library in libraries}
        for repetition in range(repeats):
            if repetition == 0 or task.fresh_draws:
                make(task, self.data, seed=repetition)
            for library in libraries:
                run = self.measure(library, task)
                if run:
                    runs[library].append(run)
                    print(f"{task.name} {repetition + 1}/{repeats} {library}: {shown(run)}", flush=True)
        return runs

    def scaling(self, repeats: int, quick: bool) -> dict[str, list[dict[str, float]]]:
        """pvtree's time per tree as rows and attributes double."""
        points: dict[str, list[dict[str, float]]] = {}
        for axis, sizes in (("rows", SCALING_ROWS), ("attributes", SCALING_FEATURES)):
            points[axis] = []
            for n_rows, n_features in sizes:
                task = replace(SCALING, n_rows=n_rows // (20 if quick else 1), n_features=n_features)
                make(task, self.data, seed=0)
                runs = [run for run in (self.measure("pvtree", task) for _ in range(repeats)) if run]
                if not runs:
                    continue
                seconds = median(run["tree_seconds"] for run in runs)
                point = {"n_rows": task.n_rows, "n_features": n_features, "tree_seconds": seconds}
                print(f"scaling: {shown(point)}", flush=True)
                points[axis].append(point)
        return points


def make(task: Task, folder: Path, seed: int) -> None:
    """Generate the data in a separate process, so that this process stays small and affects no peak of memory."""
    code = "import sys, json, made_data as m, pathlib as p; a = json.loads(sys.argv[1])\n"
    code += "m.write(m.Task(**a['task']), p.Path(a['folder']), a['seed'])"
    arguments = {"task": vars(task), "folder": str(folder), "seed": seed}
    subprocess.run([sys.executable, "-c", code, json.dumps(arguments)], check=True, cwd=Path(made_data.__file__).parent)


def shown(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.5g}" for name, value in figures.items())


def stored(path: Path | None) -> dict[str, Any]:
    """Measurements of earlier runs, if they come from the same machine and versions."""
    here = environment()
    if path and path.exists():
        results = json.loads(path.read_text())
        if results["environment"] == here:
            return results
        print(f"{path} is from another machine or other versions; it is replaced.")
    return {"environment": here}


def keep(path: Path | None, results: dict[str, Any]) -> None:
    if path:
        path.write_text(json.dumps(results, indent=1))


def environment() -> str:
    """The machine and the versions, in one line."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    packages = ["pvtree", "lightgbm", "xgboost", "scikit-learn", "numba", "numpy"]
    versions = ", ".join(f"{package} {installed(package)}" for package in packages)
    python = platform.python_version()
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {python}, {versions}"


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def report(results: dict[str, Any]) -> str:
    """All tables, with the commands that repeat them."""
    parts = [f"Machine: {results['environment']}."]
    for name in TASKS:
        if name in results:
            result = results[name]
            parts += [
                f"## {result['title']}",
                f"Median of {result['repeats']}; {result['conditions']}; `{result['command']}`. "
                "In brackets: how many times as good as the best peer.",
                task_table(result["runs"], result["metric"]),
            ]
    if "scaling" in results:
        parts.append("## Growth with rows and attributes (pvtree, 63 leaves)")
        parts += [scaling_table(points) for points in results["scaling"].values()]
    if "start_up" in results and all(results["start_up"].values()):
        empty, cached = results["start_up"]["empty"], results["start_up"]["cached"]
        parts += [
            "## First use and start-up (pvtree)",
            f"From import to the first tree: {empty['first_tree']:.1f} s when kernels must be compiled, "
            f"{cached['first_tree']:.1f} s in later processes. "
            f"Until every estimator has trained and predicted: {empty['every_estimator']:.1f} s "
            f"and {cached['every_estimator']:.1f} s.",
        ]
    return "\n\n".join(parts)


def summary(results: dict[str, Any]) -> str:
    """The README's table."""
    tasks = {
        name: (results[name]["title"], results[name]["metric"], results[name]["runs"])
        for name in TASKS
        if name in results
    }
    return (
        "How many times as fast, or as small in memory above the raw data, pvtree is as the best of LightGBM, XGBoost "
        "and scikit-learn. [Benchmarks](docs/benchmarks.md) has the figures of each and the commands.\n\n"
        f"{summary_table(tasks)}\n\n{results['environment']}."
    )


if __name__ == "__main__":
    main()
