"""Phrases that readers stumbled over stay out of the sources and the documentation."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = (
    "src/**/*.py",
    "docs/**/*.md",
    "examples/*.py",
    "benchmarks/**/*.py",
    "tests/**/*.py",
    "*.md",
    "Makefile",
    "pyproject.toml",
)

# Underscores stand for spaces, so that a search for a phrase does not find this list.
PHRASES = [
    "Train_on_the_rows_of_this_process_and_of_those_at_the_other_ends_of",
    "Beside_an_X_in_memory_nothing_is_Dask's",
    "The_trees_of_a_forest_are_no_steps_to_stop_at",
    "mend_that_one",
    "a_checkpoint_is_gone_on_from_only_by",
    "What_the_suffixes_of_files_do_not_tell",
    "is_not_done_by",
    "what_gains_less_than_the_last_tree's_splits_did_waits_until_nothing_else_is_left",
    "Of_every_node_the_number_that_it_compares_with",
    "choose_one_of",
    "columns_end_with_';'",
    "so_many_iterations",
]
WORDS = ("m_end", "m_ends", "m_ended", "m_ending")


def text_of(path: Path) -> str:
    """The file in one line, without the marks of comments and string literals at the ends and beginnings of lines."""
    return re.sub(r"""["' ]*\n[\s#]*f?["']?\s*""", " ", path.read_text(encoding="utf-8"))


TEXTS = {path.relative_to(ROOT): text_of(path) for place in PLACES for path in sorted(ROOT.glob(place))}


def places_of(pattern: str) -> list[str]:
    return [str(path) for path, text in TEXTS.items() if re.search(pattern, text, re.IGNORECASE)]


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_is_gone(phrase):
    words = phrase.split("_")
    assert places_of(r"\s+".join(map(re.escape, words))) == []


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_gone(word):
    assert places_of(rf"\b{word.replace('_', '')}\b") == []


def test_a_phrase_is_found_across_lines_comments_and_literals(tmp_path):
    sample = tmp_path / "sample.py"
    for written in ("# first\n    # second", 'raise E(\n    "first "\n    f"second"', "first\nsecond"):
        sample.write_text(written)
        assert "first second" in text_of(sample)


def test_there_is_something_to_search():
    assert len(TEXTS) > 150
