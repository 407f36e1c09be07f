"""The tables of docs/migration.md are those of aliases.py, name by name."""

import re
from pathlib import Path

import pytest

from pvtree.as_xgboost import DEFAULTS
from pvtree.parameters.aliases import ANYWAY, CONVERSIONS, OBJECTIVE_WORDS, SYNONYMS, synonym
from pvtree.parameters.rules import RULES
from pvtree.training.callbacks import CHANGEABLE

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "migration.md").read_text()


def rows(table):
    """First name of each row, and all names in its other cells."""
    text = re.search(rf"<!-- {table}:start -->\n(.*)<!-- {table}:end -->", PAGE, re.S)[1]
    cells = [line.strip("| ").split("|", 1) for line in text.strip().splitlines()[2:]]
    return [(re.findall(r"`([^`]+)`", first), re.findall(r"`([^`]+)`", rest)) for first, rest in cells]


def test_synonyms():
    listed = {first: names for (first,), names in rows("parameters")}
    assert set(SYNONYMS) <= set(listed)
    for ours, names in listed.items():
        assert set(SYNONYMS.get(ours, "").split()) <= set(names)
        assert {synonym(name, [ours]) for name in names} == {ours}


@pytest.mark.parametrize("name", [name for name in SYNONYMS if name not in ("max_features", "colsample_bynode")])
def test_a_synonym_has_one_meaning(name):
    for word in SYNONYMS[name].split():
        assert word not in RULES or word == name
        assert [right for right in SYNONYMS if word in SYNONYMS[right].split()] == [name]


def test_objectives():
    assert {first: set(names) for (first,), names in rows("objectives")} == {
        name: set(words.split()) for name, words in OBJECTIVE_WORDS.items()
    }


def test_what_is_done_anyway():
    listed = [name for names, _ in rows("anyway") for name in names]
    assert sorted(listed) == sorted(ANYWAY)
    assert not set(listed) & set(RULES)
    assert set(CONVERSIONS) <= {word for words in SYNONYMS.values() for word in words.split()}


def test_the_rest_of_the_page():
    for name in (*CHANGEABLE, *DEFAULTS):
        assert f"`{name}`" in PAGE
