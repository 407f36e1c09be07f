"""``pvtree plan``: accepts numbers as people write them, prints a table or JSON, and one sentence for wrong input."""

from __future__ import annotations

import json

import pytest

from pvtree.front.cli import main
from pvtree.planning import calibration

PAPER = ["plan", "--rows", "1e9", "--attributes", "1200", "--machines", "8", "--network", "1gbit", "--leaves", "63"]


def run(capsys, *arguments: str) -> str:
    main(list(arguments))
    return capsys.readouterr().out


def test_the_table_and_what_is_recommended(capsys) -> None:
    text = run(capsys, *PAPER, "--no-calibrate")
    assert "strategy" in text and "Recommended on 8 machines: voting" in text
    columns = {line.split()[0]: line for line in text.splitlines() if line.startswith(("data", "voting"))}
    assert "MB" in columns["voting"] and set(columns) == {"data", "voting"}


def test_numbers_as_people_write_them(capsys) -> None:
    texts = {run(capsys, "plan", "--rows", rows, "--attributes", "1_200", "--no-calibrate")
             for rows in ("1e9", "1000000000", "1_000_000_000", "1E+9")}  # fmt: skip
    assert len(texts) == 1


def test_json(capsys) -> None:
    found = json.loads(run(capsys, *PAPER, "--no-calibrate", "--json", "--memory-per-machine", "1TB", "--top-k", "15"))
    assert found["setting"]["n_rows"] == 10**9 and found["setting"]["top_k"] == 15
    options = {option["strategy"]: option for option in found["options"]}
    assert not options["serial"]["fits"] and options["voting"]["fits"]
    voting = options["voting"]
    assert voting["seconds"] == pytest.approx(voting["compute_seconds"] + voting["network_seconds"])
    assert found["recommended"]["strategy"] == "voting"


def test_this_machine_is_measured_once(capsys, monkeypatch, tmp_path) -> None:
    calls = []
    monkeypatch.setattr(calibration, "cache_file", lambda: tmp_path / "speeds.json")
    monkeypatch.setattr(calibration, "measure", lambda say: calls.append(say("measuring")) or calibration.TYPICAL)
    first = run(capsys, *PAPER)
    assert first == run(capsys, *PAPER) == run(capsys, *PAPER, "--no-calibrate")
    assert len(calls) == 1
    main([*PAPER, "--recalibrate"])
    told = capsys.readouterr()
    assert len(calls) == 2 and told.out == first and told.err.endswith("pvtree: measuring\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rows", "many"], "not a whole number"),
        (["--rows", "1.5"], "not a whole number"),
        (["--rows", "inf"], "not a whole number"),
        (["--rows", "0"], "rows must be"),
        (["--network", "quick"], "network is 'quick'"),
        (["--leaves", "1"], "leaves must be"),
        (["--memory-per-machine", "much"], "not a size"),
        (["--recalibrate", "--no-calibrate"], "exclude each other"),
    ],
)
def test_wrong_input_is_told_in_a_sentence(capsys, monkeypatch, arguments, words) -> None:
    monkeypatch.setattr(calibration, "measure", lambda say: pytest.fail("measured before looking at the options"))
    monkeypatch.setattr(calibration, "_read", lambda path: None)
    with pytest.raises(SystemExit) as stop:
        main([*PAPER, *arguments])
    assert stop.value.code == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith("Error: ") and words in told.err and told.err.count("\n") == 1
