"""A minute of the attack: the corpus, some cases of every kind, and cases that show that each failure is found."""

import os

import pytest
from case import UNTOUCHED
from children import run_cases
from kinds import FUZZED, HOSTILE

from thoroughness import IS_THOROUGH

N_SEEDS = 20 if IS_THOROUGH else 5  # of each kind
N_CHILDREN = 2

# The children may have to compile the kernels first.
pytestmark = pytest.mark.timeout(900)


def run_all(cases, n_children=N_CHILDREN):
    return {(result.kind, result.seed): result for result in run_cases(cases, n_children)}


@pytest.fixture(scope="module")
def results():
    """Untouched inputs come first, which loads and compiles what the others need."""
    untouched = [(kind, UNTOUCHED) for kind in FUZZED]
    corpus = [(kind, 0) for kind in HOSTILE]
    return run_all([*untouched, *corpus, *((kind, seed) for seed in range(N_SEEDS) for kind in FUZZED)])


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_corpus_does_no_harm(results, kind):
    result = results[kind, 0]
    assert result.verdict != "failed", f"{result.command}\n{result.detail}"


@pytest.mark.parametrize("kind", FUZZED)
def test_hostile_input_is_refused_in_a_sentence_or_used_safely(results, kind):
    assert results[kind, UNTOUCHED].verdict == "accepted", results[kind, UNTOUCHED].detail
    failed = [result for (its, _), result in results.items() if its == kind and result.verdict == "failed"]
    assert not failed, "\n".join(f"{result.command}\n{result.detail}" for result in failed)


def test_mutations_are_neither_too_weak_nor_too_strong_to_say_anything(results):
    verdicts = [results[kind, seed].verdict for kind in FUZZED for seed in range(N_SEEDS)]
    assert verdicts.count("accepted") > len(verdicts) / 10 and verdicts.count("refused") > len(verdicts) / 10


def test_a_case_is_a_pure_function_of_its_seed(results):
    """In another order, in another process."""
    cases = [(kind, seed) for kind in reversed(FUZZED) for seed in (2, 4)]
    for case, again in run_all(cases, 1).items():
        assert again.verdict == results[case].verdict
        assert _without_folders(again.detail) == _without_folders(results[case].detail)


def _without_folders(text):
    return "".join(word for word in text.split() if os.sep not in word)


FOUND = {
    "self/raises": "ValueError: not the package's own",
    "self/differs": "Broken: the models differ",
    "self/allocates": "Unable to allocate 2.00 GiB",
    "self/dies": "It was ended by SIGSEGV.",
    "self/works": "It worked for too long; the limit is 0.5 s.",
    "self/waits": "It waited for too long; the limit is 0.5 s.",
}


def test_every_failure_is_found_and_the_others_go_on():
    cases = [case for kind in FOUND for case in ((kind, 0), ("self/accepted", len(kind)))]
    results = {(r.kind, r.seed): r for r in run_cases(cases, N_CHILDREN, seconds=0.5)}
    for kind, text in FOUND.items():
        assert results[kind, 0].verdict == "failed" and text in results[kind, 0].detail
        assert results[kind, 0].command == f"python tests/attack {kind}:0"
        assert results["self/accepted", len(kind)].verdict == "accepted"


def test_a_case_that_kills_a_later_one_is_named():
    killed = list(run_cases([("self/dies-later", 0), ("self/accepted", 1)], 1))[-1]
    assert killed.verdict == "failed" and "SIGSEGV" in killed.detail
    assert killed.command == "python tests/attack self/dies-later:0 self/accepted:1"
