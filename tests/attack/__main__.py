"""``python tests/attack``: attacks for some minutes, or repeats the cases that are named."""

from __future__ import annotations

import itertools
import re
import secrets
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from children import Result, run_cases
from kinds import FUZZED, HOSTILE, KINDS
from tqdm import tqdm

SAVED = Path("build/fuzz")
VERDICTS = ("refused", "accepted", "failed")


@click.command()
@click.argument("cases", nargs=-1, metavar="[KIND:SEED]...")
@click.option("--minutes", default=1.0, show_default=True, help="How long to attack if no cases are named.")
@click.option("--kind", "kinds", multiple=True, help="Attack by this kind only, or by those that begin with it.")
@click.option("--seed", type=click.IntRange(0), help="The first seed of each kind; a fresh one by default.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="How many processes attack.")
def main(cases: tuple[str, ...], minutes: float, kinds: tuple[str, ...], seed: int | None, jobs: int) -> None:
    """Attack pvtree with hostile input; repeat the cases KIND:SEED, in this order in one process, if some are given."""
    if cases:
        results = list(run_cases(map(parsed, cases), 1, save))
        for result in results:
            click.echo(f"{result.name}: {result.verdict}\n{result.detail}")
    else:
        seed = secrets.randbelow(2**40) if seed is None else seed
        chosen = [kind for kind in (*HOSTILE, *FUZZED) if not kinds or kind.startswith(kinds)]
        if not chosen:
            raise click.UsageError(f"--kind is none of {', '.join(FUZZED)}.")
        click.echo(f"The first seed is {seed}; --seed {seed} begins with the same cases.")
        results = list(watched(endless(chosen, seed, time.monotonic() + 60 * minutes), minutes, jobs))
        click.echo(table(results))
    failed = [result for result in results if result.verdict == "failed"]
    by_cause: dict[str, list[Result]] = {}
    for result in failed:
        by_cause.setdefault(cause(result), []).append(result)
    for text, alike in by_cause.items():
        more = f" (and {len(alike) - 1} more)" if len(alike) > 1 else ""
        click.echo(f"FAILED {alike[0].command}{more}: {text}")
    if failed:
        click.echo(f"What failed is in {SAVED}/, each with the command that repeats it.")
    sys.exit(bool(failed))


def parsed(name: str) -> tuple[str, int]:
    kind, _, seed = name.rpartition(":")
    if kind not in KINDS or not seed.removeprefix("-").isdecimal():
        raise click.UsageError(f"{name!r} is no case; write KIND:SEED, such as csv:7, with one of {', '.join(FUZZED)}.")
    return kind, int(seed)


def endless(kinds: list[str], seed: int, end: float) -> Iterator[tuple[str, int]]:
    """The corpus once, then a case of every kind, and again with the next seed, until the time is over."""
    yield from ((kind, 0) for kind in kinds if kind in HOSTILE)
    fuzzed = [kind for kind in kinds if kind not in HOSTILE]
    for number in itertools.count(seed) if fuzzed else ():
        for kind in fuzzed:
            if time.monotonic() > end:
                return
            yield kind, number


def watched(cases: Iterator[tuple[str, int]], minutes: float, jobs: int) -> Iterator[Result]:
    """The results, with a bar that shows the time and what has been found."""
    began, counts = time.monotonic(), Counter[str]()
    with tqdm(total=round(60 * minutes), unit="s", bar_format="{l_bar}{bar}| {n:.0f}/{total} s{postfix}") as bar:
        for result in run_cases(cases, jobs, save):
            counts[result.verdict] += 1
            bar.n = min(bar.total, round(time.monotonic() - began))
            bar.set_postfix({verdict: counts[verdict] for verdict in VERDICTS}, refresh=False)
            bar.update(0)
            yield result


def save(result: Result) -> None:
    """What a failed case wrote, what came of it and the command that repeats it."""
    if result.verdict != "failed" or result.folder is None:
        return
    folder = SAVED / result.name.replace("/", "-").replace(":", "-")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(result.folder, folder)
    (folder / "failure.txt").write_text(f"{result.command}\n\n{result.detail}\n", errors="backslashreplace")


def cause(result: Result) -> str:
    """What was raised or seen, and the package's line nearest to it: cases of one cause are told once."""
    lines = [line.strip() for line in result.detail.splitlines() if line.strip()] or [""]
    what = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    places = re.findall(r'File "[^"]*/src/(\S+)", line (\d+)', result.detail)
    is_trace_of_error = lines[0].startswith("Traceback")  # else by faulthandler, the innermost first
    where = places[-1 if is_trace_of_error else 0] if places else (result.kind, "")
    return f"{re.sub(r'[0-9]+', 'N', what)[:160]} [{':'.join(filter(None, where))}]"


def table(results: list[Result]) -> str:
    counts = Counter((result.kind.partition("/")[0], result.verdict) for result in results)
    kinds = list(dict.fromkeys(kind for kind, _ in counts))
    lines = [f"{'kind':<22}{'tried':>9}" + "".join(f"{verdict:>10}" for verdict in VERDICTS)]
    for name, its in [*((kind, [kind]) for kind in sorted(kinds)), ("all", kinds)]:
        numbers = [sum(counts[kind, verdict] for kind in its) for verdict in VERDICTS]
        lines.append(f"{name:<22}{sum(numbers):>9,}" + "".join(f"{number:>10,}" for number in numbers))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
