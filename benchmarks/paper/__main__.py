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
from experiments import MACHINES, of_made_task, of_real_task  # noqa: E402
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
        curves = train_all(folder, tasks, setting, workers, kept)
    parts = [sections.table_2(curves), sections.figure_2(curves), sections.table_3(MACHINES["LTR"])]
    parts += [sections.table_4(curves), sections.figure_3(curves), sections.figure_4(curves)]
    if any(task.is_real for task in tasks):
        parts.append(sections.real_data(curves, [task for task in tasks if task.is_real]))
    took = f"in {(time.perf_counter() - began) / 60:.0f} minutes"
    if kept.curves:
        took += f" with {len(kept.curves)} of {len(curves)} trainings kept from an earlier run"
    write(options.output, parts, curves, introduction(tasks, setting, took))
    print(f"{options.output} and its pictures, {took}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/paper", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    quick = "--quick" in sys.argv
    sizes = {
        "ltr-rows": (560_000, 16_384), "ltr-attributes": (1_200, 200), "ltr-trees": (40, 8),
        "ctr-rows": (1_000_000, 32_768), "ctr-attributes": (800, 200), "ctr-trees": (25, 8),
        "test-rows": (80_000, 8_192),
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


def train_all(
    folder: Path, tasks: Sequence[Task], setting: Setting, workers: ProcessPoolExecutor, kept: Kept
) -> dict[Training, Curve]:
    """Start the longest first, so that none of them is left at the end."""
    trainings = [
        training
        for task in tasks
        for training in (of_real_task(task.name, task.n_features) if task.is_real else of_made_task(task.name))
    ]
    is_real = {task.name: task.is_real for task in tasks}
    found = {training: kept.curves[training] for training in trainings if training in kept.curves}
    missing = [training for training in trainings if training not in found]
    by_length = sorted(missing, key=lambda training: (is_real[training.task], -training.n_workers))
    running = {workers.submit(measure, folder_of(folder, each.task), each, setting): each for each in by_length}
    with tqdm(total=len(running), unit="training") as bar:
        for future in as_completed(running):
            training = running[future]
            found[training] = future.result()
            kept.add(found[training])
            bar.set_postfix_str(f"{training.task} {training.name} on {training.n_workers}")
            bar.update()
    return {training: found[training] for training in trainings}


def introduction(tasks: Sequence[Task], setting: Setting, took: str) -> str:
    made = [f"{task.name} {task.n_rows:,} rows x {task.n_features:,} attributes" for task in tasks if not task.is_real]
    return (
        "# The paper's experiments\n\n"
        f"Written by `{command('paper', '--output', '--keep')}` (`make paper`) {took}; {environment()}.\n\n"
        "Every table and figure of the paper's section 5, on as many virtual machines as the paper had real ones. Each "
        "machine has a clock: computing moves it by the processor time that the work took here, a message by what the "
        f"network would take ([virtual time](virtual-time.md)). Machines have {setting.cores:g} core each and a link "
        f"of {setting.network}, {setting.latency * 1e6:.0f} microseconds away from every other. The data are made from "
        f"a seed: {', '.join(made)}, far fewer rows than the paper's 11 and 235 million, so that an hour is enough, "
        "but so many for LTR that data-parallel and sequential training take about equally long, as they did in the "
        "paper. Compare ratios and orders, not seconds.\n\n"
        f"Trees have {setting.num_leaves} leaves, the learning rate is {setting.learning_rate:g}, k = 20 unless said "
        "otherwise. A training has converged once its test metric is near to its best: by 0.005 of NDCG or 0.001 of "
        "AUC, which is about what the test rows can tell apart."
    )


def write(page: Path, parts: Sequence[sections.Section], curves: dict[Training, Curve], text: str) -> None:
    """Everything is computed before the first file is written."""
    import pictures

    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        pictures.draw(part, curves, folder / f"{part.name}.png")
        with (folder / f"{part.name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([part.header, *part.rows])
        text += (
            f"\n\n## {part.title}\n\nPaper: {part.paper}\n\n{part.ours}{chr(10) * 2 if part.ours else ''}"
            f"![{part.title}]({folder.name}/{part.name}.png)\n\n{part.verdict} ([CSV]({folder.name}/{part.name}.csv))"
        )
    page.write_text(text + "\n")


if __name__ == "__main__":
    main()
