"""Two sides' translations in numbers and words, and their measured figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_trace
from transformer.catalogue import Entry, ModelRef
from ui.compare.choice import better_known, readers
from ui.compare.matching import sentences_for
from ui.compare.numbers import published
from ui.compare.texts import Text, text_of, where_they_differ
from ui.core.examples import examples_for
from ui.core.view import View
from ui.frame.twice import Setup


def text(*words: str, total: float = -2.0) -> Text:
    return Text(words, tuple(-0.5 for _ in words), tuple((i,) for i in range(len(words))), total, 9)


def test_a_word_is_as_probable_as_all_of_its_pieces() -> None:
    trace = replace(
        make_trace(T=4), predicted_tokens=("▁Stra", "ße", "▁da", "</s>"),
        log_probs=np.array([-0.5, -0.25, -1, -2], dtype=np.float32),
    )  # fmt: skip
    found = text_of(trace)
    assert found.words == ("Straße", "da")
    assert found.log_probs == (-0.75, -1.0)
    assert found.groups == ((0, 1), (2,))
    assert found.total == -3.75  # </s> included
    cut = replace(trace, predicted_tokens=("▁Stra", "ße", "▁da", "▁x"), complete=False)
    assert text_of(cut).words == ("Straße", "da", "x")
    assert text_of(make_trace(S=4)).source == ("the", "cat", "sat")


def test_letters_are_compared_one_by_one() -> None:
    trace = replace(make_trace(T=4), predicted_tokens=("▁", "c", "b", "</s>"))
    found = text_of(trace, "token")
    assert found.words == ("▁", "c", "b")
    assert found.log_probs == tuple(map(float, trace.log_probs[:3]))
    assert text_of(make_trace(S=4), "token").source == ("▁the", "▁cat", "▁sat")
    other = text_of(replace(trace, predicted_tokens=("▁", "c", "a", "</s>")), "token")
    assert "They diverge at token 3" in where_they_differ(found, other)


def test_the_sentence_names_the_first_word_that_differs() -> None:
    said = where_they_differ(text("das", "Tier", "*war*"), text("das", "Tier", "ging"))
    assert said.startswith("They diverge at word 3: A writes `*war*`")
    assert "(log p −0.50), B `ging` (−0.50)." in said
    assert "Even the first word differs" in where_they_differ(text("a"), text("b"))
    assert "B nothing more" in where_they_differ(text("a", "b"), text("a"))
    assert "diverge at word 2" in where_they_differ(text("a", "b"), text("a"))


def test_equal_words_are_told_apart_by_their_probability() -> None:
    assert "same probability" in where_they_differ(text("a"), text("a"))
    assert "A finds them likelier, by 1.50 nats" in where_they_differ(
        text("a", total=-1.5), text("a", total=-3.0)
    )
    assert where_they_differ(text("a"), text("a"), followed=True).startswith("B reads A’s words")
    assert where_they_differ(text(), text()) == "Neither side writes anything."
    assert where_they_differ(text("a"), text()) == "Only A writes anything."
    assert where_they_differ(text(), text("a")) == "Only B writes anything."


def test_readers_of_the_same_come_first_and_of_these_the_same_languages() -> None:
    names = ("everyday-en-fr", "multi30k-en-de", "reverse-toy", "everyday-en-de", "everyday-de-en")
    usable: dict[str, dict[str, Any]] = {name: {} for name in names}
    assert readers("everyday-en-de", usable) == (
        "multi30k-en-de", "everyday-en-fr", "everyday-en-de", "everyday-de-en", "reverse-toy",
    )  # fmt: skip
    # Before one that only reads and comes earlier in the alphabet.
    assert readers("everyday-en-fr", {**usable, "bert-everyday": {}})[0] == "everyday-en-de"
    # The others do not read letters, or German.
    assert readers("reverse-toy", usable)[0] == "reverse-toy"
    assert readers("everyday-de-en", usable)[0] == "everyday-de-en"
    german = {"training": {"recipe": {"data": {"src": "de"}}}}
    assert readers("everyday-de-en", {**usable, "mine": german})[0] == "mine"
    assert readers("alpha", {"beta": {}, "alpha": {}}) == ("beta", "alpha")


@pytest.mark.parametrize(("left", "right", "sentence"), [
    ("everyday-en-de", "multi30k-en-de", "A dog runs through the snow."),
    ("multi30k-en-de", "everyday-en-fr", "A dog runs through the snow."),
    ("everyday-de-en", "multi30k-de-en", "Ein Kind rennt durch den Schnee."),
    ("everyday-en-de", "everyday-en-fr", ""),  # any sentence is known to both
    ("everyday-en-de", "everyday-de-en", ""),  # and here none
    ("everyday-en-de", "reverse-toy", ""),
])  # fmt: skip
def test_models_of_two_kinds_share_an_example(left: str, right: str, sentence: str) -> None:
    sides = [View(Entry(name, ModelRef(Path())), "cpu", "x") for name in (left, right)]
    setup = Setup("models", sides[0], sides[1], (right,))
    assert better_known(setup) == sentence
    assert better_known(replace(setup, pairing="sentences")) == ""


@pytest.mark.parametrize("metrics", [
    {}, {"training": 3}, {"training": {"recipe": {"data": {"src": ["de"]}}}},
    {"training": {"recipe": {"data": {"src": "xx"}}}},
])  # fmt: skip
def test_examples_without_a_known_language_are_english(metrics: dict[str, Any]) -> None:
    assert examples_for("mine", metrics).language == "en"


@pytest.mark.parametrize("name", [
    "everyday-en-de", "multi30k-en-de", "reverse-toy", "everyday-de-en", "multi30k-de-en",
])  # fmt: skip
def test_every_example_has_a_counterpart_with_one_change(name: str) -> None:
    for item in examples_for(name).items:
        assert item.beside and item.beside != item.sentence
        one, other = item.sentence.split(), item.beside.split()
        assert len(one) == len(other)
        assert sum(a != b for a, b in zip(one, other, strict=True)) == 1


def test_published_figures_are_read_and_nothing_else() -> None:
    metrics = {
        "tests": {
            "test_2016": {"bleu": 40.07, "chrf": 64.7, "lc_tok_bleu": 40.4, "exact_match": 0.07},
            "reverse_test": {"bleu": 0.0, "exact_match": 1.0},
            "odd": {"bleu": "many", "chrf": float("nan"), "lc_tok_bleu": True},
            "worse": 3,
        }
    }
    assert published(metrics) == {
        ("test_2016", "sacreBLEU, cased"): "40.1",
        ("test_2016", "lc_tok_bleu"): "40.4",
        ("test_2016", "chrF"): "64.7",
        ("reverse_test", "exactly right"): "100.0%",
    }


json_like = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


@given(json_like)
def test_no_metrics_file_breaks_the_table(anything: object) -> None:
    found = published({"tests": anything})
    assert all(isinstance(value, str) for value in found.values())
    assert published(anything) == {} or isinstance(anything, dict)  # type: ignore[arg-type]


def test_sentences_are_the_examples_of_both_sides_once_each() -> None:
    class Side:
        def __init__(self, name: str) -> None:
            self.kind, self.examples = "checkpoint", examples_for(name)

    class Both:
        left, right = Side("everyday-en-de"), Side("multi30k-en-de")

    found = sentences_for(Both())  # type: ignore[arg-type]
    assert len(found) == len(set(found)) == 2 * (6 + 6 - 1)  # one example is in both
