"""The checkpoint on the other side, and the sentence that both know."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from transformer.catalogue import Entry, ModelRef
from ui.compare.choice import better_known, readers
from ui.compare.matching import sentences_for
from ui.core.examples import examples_for
from ui.core.view import View
from ui.frame.twice import Setup

EN_DE, EN_FR, DE_EN = "everyday-en-de", "everyday-en-fr", "everyday-de-en"
CAPTIONS, LETTERS = "multi30k-en-de", "reverse-toy"


def setup_of(left: str, right: str) -> Setup:
    one, other = (View(Entry(name, ModelRef(Path())), "cpu", "x") for name in (left, right))
    return Setup("models", one, other)


def test_readers_of_the_same_come_first_and_of_these_the_same_languages() -> None:
    names = (EN_FR, CAPTIONS, LETTERS, EN_DE, DE_EN)
    usable: dict[str, dict[str, Any]] = {name: {} for name in names}
    assert readers(EN_DE, usable) == (CAPTIONS, EN_FR, EN_DE, DE_EN, LETTERS)
    # Before one that only reads and comes earlier in the alphabet.
    assert readers(EN_FR, {**usable, "bert-everyday": {}})[0] == EN_DE
    # The others do not read letters, or German.
    assert all(readers(name, usable)[0] == name for name in (LETTERS, DE_EN))
    german = {"training": {"recipe": {"data": {"src": "de"}}}}
    assert readers(DE_EN, {**usable, "mine": german})[0] == "mine"
    assert readers("alpha", {"beta": {}, "alpha": {}}) == ("beta", "alpha")


@pytest.mark.parametrize(("left", "right", "sentence"), [
    (EN_DE, CAPTIONS, "A dog runs through the snow."),
    (CAPTIONS, EN_FR, "A dog runs through the snow."),
    (DE_EN, "multi30k-de-en", "Ein Kind rennt durch den Schnee."),
    (EN_DE, EN_FR, ""),  # any sentence is known to both
    (EN_DE, DE_EN, ""),  # and here none
    (EN_DE, LETTERS, ""),
])  # fmt: skip
def test_models_of_two_kinds_share_an_example(left: str, right: str, sentence: str) -> None:
    setup = setup_of(left, right)
    assert better_known(setup) == sentence
    assert better_known(replace(setup, pairing="sentences")) == ""


def test_examples_are_english_where_no_language_is_known_and_each_has_a_counterpart() -> None:
    for source in (..., 3, ["de"], "xx"):
        metrics = {} if source is ... else {"training": {"recipe": {"data": {"src": source}}}}
        assert examples_for("mine", metrics).language == "en"
    assert examples_for("mine", {"training": 3}).language == "en"
    for name in (EN_DE, CAPTIONS, LETTERS, DE_EN, "multi30k-de-en"):
        for item in examples_for(name).items:  # with one change
            one, other = item.sentence.split(), item.beside.split()
            assert sum(a != b for a, b in zip(one, other, strict=True)) == 1


def test_sentences_to_match_over_are_the_examples_of_both_sides_once_each() -> None:
    found = sentences_for(setup_of(EN_DE, CAPTIONS))
    assert len(found) == len(set(found)) == 2 * (6 + 6 - 1)  # one example is in both
