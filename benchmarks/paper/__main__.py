"""Repeats the paper's tables and figures on virtual machines with a clock: ``python benchmarks/paper``, or make paper.

Trains every algorithm of every table on generated data, and writes docs/paper.md with CSV files and pictures. Real
ranking and click data sets in the folder that PVTREE_DATA names are trained too. --quick takes a few minutes.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from tqdm import tqdm  # noqa: E402

import binned_task  # noqa: E402
import real_tasks  # noqa: E402
import sections  # noqa: E402
from binned_task import Task  # noqa: E402
from claims import SAME_TIME, close_calls, verdicts  # noqa: E402
from experiments import MADE, of_made_task, of_real_task  # noqa: E402
from reading import Results  # noqa: E402
from single_machine import environment  # noqa: E402
from tables import command  # noqa: E402
from trainings import Curve, Kept, Setting, Training, measure  # noqa: E402

PAGE = HERE.parent.parent / "docs" / "paper.md"
REAL_TREES = 50


def main() -> None:
    options = read_options()
    began = time.perf_counter()
    setting = Setting(
        {"LTR": options.ltr_trees, "CTR": options.ctr_trees}, options.learning_rate, options.leaves, options.network,
        options.latency, options.cores,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="pvtree-paper-") as name, pool(options.jobs) as workers:
        folder = Path(name)
        tasks = make_tasks(folder, options, workers)
        setting.n_trees.update({task.name: REAL_TREES for task in tasks if task.is_real})
        kept = Kept(options.keep, tasks, setting)
        by_name = {task.name: task for task in tasks}
        results = Results(by_name, train_all(folder, all_trainings(tasks), setting, workers, kept))
        # One run each is enough where it is clear; where noise may decide, the median of several does. Medians may
        # come close to something else, hence the loop.
        while again := further_runs(results, options.seeds):
            print(f"{len(again)} further runs of trainings that are close to what they are compared with", flush=True)
            results = Results(by_name, {**results.curves, **train_all(folder, again, setting, workers, kept)})
    took = f"in {(time.perf_counter() - began) / 60:.0f} minutes"
    if kept.curves:
        took += f" with {len(kept.curves)} of {len(results.curves)} trainings kept from an earlier run"
    parts = sections.of(results)
    write(options.output, parts, results, introduction(results, parts, setting, options.seeds, took))
    print(f"{options.output} and its pictures, {took}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/paper", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    quick = "--quick" in sys.argv
    sizes = {
        "ltr-rows": (560_000, 16_384), "ltr-attributes": (1_200, 200), "ltr-trees": (40, 8),
        "ctr-rows": (1_000_000, 32_768), "ctr-attributes": (800, 200), "ctr-trees": (25, 8),
        "test-rows": (80_000, 8_192), "seeds": (3, 2),
    }  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="small data and few trees, only to try it")
    for name, values in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=values[quick], help=f"({values[0]:,}; quick: {values[1]:,})")
    parser.add_argument("--learning-rate", type=float, default=0.25, help="of all trainings (0.25)")
    parser.add_argument("--leaves", type=int, default=31, help="of a tree (31)")
    parser.add_argument("--network", default="1gbit", help="rate of the machines' links (1gbit)")
    parser.add_argument("--latency", type=float, default=50e-6, help="seconds one way (50e-6)")
    parser.add_argument("--cores", type=float, default=1.0, help="of each virtual machine (1)")
    parser.add_argument("--jobs", type=int, default=usable_cores(), help="trainings at a time (one for each core)")
    parser.add_argument("--keep", type=Path, help="file that keeps finished trainings, which are not trained again")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page; pictures go into a folder of its name")
    return parser.parse_args()


def usable_cores() -> int:
    import joblib

    return joblib.cpu_count()


@contextmanager
def pool(n_jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Separate processes, because threads would disturb each other's clocks; an error ends all of them at once."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # for the processes, which start with this environment
    workers = ProcessPoolExecutor(n_jobs, multiprocessing.get_context("spawn"))
    try:
        yield workers
    finally:
        workers.shutdown(wait=True, cancel_futures=True)


def make_tasks(folder: Path, options: argparse.Namespace, workers: ProcessPoolExecutor) -> list[Task]:
    """Synthetic tasks, and real ones if there are any; binned."""
    print("making the data ...", flush=True)
    sizes = {
        "LTR": (options.ltr_rows, options.ltr_attributes), "CTR": (options.ctr_rows, options.ctr_attributes),
    }  # fmt: skip
    made = [
        workers.submit(binned_task.make, folder / name, name, n_rows, n_attributes, options.test_rows)
        for name, (n_rows, n_attributes) in sizes.items()
    ]
    tasks = [future.result() for future in made]
    place = os.environ.get("PVTREE_DATA")
    for found in real_tasks.find(Path(place)) if place else ():
        rows = found.train, found.test
        tasks.append(binned_task.write(folder_of(folder, found.name), found.name, found.kind, *rows, is_real=True))
        print(f"found {found.name}: {found.train.X.shape[0]:,} x {found.train.X.shape[1]:,}", flush=True)
    return tasks


def folder_of(folder: Path, name: str) -> Path:
    return folder / name.replace("/", "-")


def all_trainings(tasks: Sequence[Task]) -> list[Training]:
    return [
        training
        for task in tasks
        for training in (of_real_task(task.name, task.n_features) if task.is_real else of_made_task(task.name))
    ]


def further_runs(results: Results, n_seeds: int) -> list[Training]:
    """With every seed that is still missing, of those trainings where noise may decide."""
    close = close_calls([claim for part in sections.of(results) for claim in part.claims])
    wanted = [training.with_seed(seed) for training in close for seed in range(1, n_seeds)]
    return [training for training in wanted if training not in results.curves]


def train_all(
    folder: Path, trainings: Sequence[Training], setting: Setting, workers: ProcessPoolExecutor, kept: Kept
) -> dict[Training, Curve]:
    """The longest first, so that no process is left with one at the end."""
    found = {training: kept.curves[training] for training in trainings if training in kept.curves}
    missing = [training for training in trainings if training not in found]
    by_length = sorted(missing, key=lambda training: (training.task not in MADE, -training.n_workers))
    running = {workers.submit(measure, folder_of(folder, each.task), each, setting): each for each in by_length}
    with tqdm(total=len(running), unit="training", disable=not running) as bar:
        for future in as_completed(running):
            training = running[future]
            found[training] = future.result()
            kept.add(found[training])
            bar.set_postfix_str(f"{training.task} {training.name} on {training.n_workers}")
            bar.update()
    return {training: found[training] for training in trainings}


def introduction(results: Results, parts: Sequence[sections.Section], setting: Setting, n_seeds: int, took: str) -> str:
    agreed = [claim.agrees for part in parts for claim in part.claims]
    allowed = [f"{results.tolerance(name):.4f} of {results.tasks[name].metric}" for name in MADE]
    return (
        "# The paper's experiments\n\n"
        f"Written by `{command('paper', '--output', '--keep')}` (`make paper`) {took}; {environment()}.\n\n"
        "Every table and figure of the paper's section 5, numbered as in the paper, on as many virtual machines as the "
        "paper had real ones. Each machine has a clock: computing moves it by the processor time that the work took "
        "here, a message by what the network would take ([virtual time](virtual-time.md)). Machines have "
        f"{setting.cores:g} core each and a link of {setting.network}, {setting.latency * 1e6:.0f} microseconds away "
        "from every other. The data are made from a seed and have far fewer rows than the paper's (Table 1), but so "
        "many for LTR that data-parallel and sequential training take about equally long, as they did in the paper. "
        "Compare ratios and orders, not seconds.\n\n"
        f"Trees have {setting.num_leaves} leaves, the learning rate is {setting.learning_rate:g}, k = 20 unless said "
        f"otherwise. A training has converged once its test metric is near to its best: by {' or '.join(allowed)}, "
        "which is about what the test rows can tell apart.\n\n"
        "Each observation of the paper **agrees** or **differs**. It agrees if it is seen here beyond the tolerance: "
        f"{(SAME_TIME - 1) * 100:.0f} % for times (the paper's own ratio will do, too), the figures above for metrics. "
        f"{where_close(n_seeds)}{sum(agreed)} of {len(agreed)} observations agree."
    )


def where_close(n_seeds: int) -> str:
    if n_seeds < 2:
        return ""
    return (
        f"Trainings that are close to a limit were run with {n_seeds} seeds; tables and verdicts have the medians, and "
        '"runs" says how many there were. '
    )


def write(page: Path, parts: Sequence[sections.Section], results: Results, text: str) -> None:
    import pictures

    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        blocks = [f"## {part.title}", f"Paper: {part.paper}", part.ours]
        if pictures.draw(part, results, folder / f"{part.name}.png"):
            blocks.append(f"![{part.title}]({folder.name}/{part.name}.png)")
        with (folder / f"{part.name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([part.header, *part.rows])
        blocks += [verdicts(part.claims), f"{part.note} ([CSV]({folder.name}/{part.name}.csv))".lstrip()]
        text += "".join(f"\n\n{block}" for block in blocks if block)
    page.write_text(text + "\n")


if __name__ == "__main__":
    main()
