"""A translation in a loop is shown once everywhere, with a note of the cut."""

from __future__ import annotations

import dataclasses

import pytest

from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.core.loops import cut_in_short, cut_notice, first_words, headline
from ui.tours.stops import translation


@pytest.fixture(scope="module")
def trace(tiny_translator: Translator) -> Trace:
    return tiny_translator.trace("A dog runs.", beam_size=1)


def test_a_loop_is_cut_for_the_headline_only(trace: Trace) -> None:
    text = "Ein Mann" + " und der Hund" * 5 + " un"
    other = dataclasses.replace(trace, text=text, complete=False)
    assert headline(other) == "Ein Mann und der Hund …"
    assert other.text == text
    # A translation that ends by itself is shown in full.
    assert headline(dataclasses.replace(other, complete=True)) == text
    assert headline(dataclasses.replace(other, text="Der Hund und")) == "Der Hund und"


@pytest.mark.parametrize("word", ["{}", "▁{}"])
def test_as_many_words_stand_on_compare_as_in_the_headline(trace: Trace, word: str) -> None:
    words = [word.format(each) for each in ["Ein", "Mann", *["und", "der", "Hund"] * 5, "un"]]
    looped = dataclasses.replace(
        trace, text="Ein Mann" + " und der Hund" * 5 + " un", complete=False
    )
    assert first_words(looped, words) == 5
    assert first_words(dataclasses.replace(looped, complete=True), words) == len(words)
    assert "`und der Hund` 5 times" in cut_notice(looped)
    assert cut_in_short(looped).endswith(": `und der Hund` 5 times, shown once")
    assert translation(looped) == "“Ein Mann und der Hund …”"
    unfinished = dataclasses.replace(trace, text="Ein Mann", complete=False)
    assert cut_notice(unfinished).endswith("the model did not finish the sentence by itself.")
    assert cut_in_short(unfinished) == f"Cut at {len(unfinished.predicted_tokens)} tokens"
    assert cut_in_short(dataclasses.replace(unfinished, complete=True)) == ""
    assert cut_notice(dataclasses.replace(unfinished, complete=True)) == ""
