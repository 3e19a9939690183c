"""A translation in a loop is shown once everywhere, with a note of the cut."""

import dataclasses

import pytest

from tests.factories import make_trace
from ui.core.loops import cut_in_short, cut_notice, first_words, headline
from ui.tours.stops import translation

WORDS = ["Ein", "Mann", *["und", "der", "Hund"] * 5, "un"]
TRACE = make_trace()
LOOPED = dataclasses.replace(TRACE, text=" ".join(WORDS), complete=False)
UNFINISHED = dataclasses.replace(TRACE, text="Ein Mann", complete=False)


def test_a_loop_is_cut_and_told_but_not_one_that_ends_by_itself() -> None:
    assert headline(LOOPED) == "Ein Mann und der Hund …"
    assert translation(LOOPED) == "“Ein Mann und der Hund …”"
    assert "`und der Hund` 5 times" in cut_notice(LOOPED)
    assert cut_in_short(LOOPED).endswith(": `und der Hund` 5 times, shown once")
    whole = dataclasses.replace(LOOPED, complete=True)
    assert headline(whole) == LOOPED.text
    assert cut_in_short(whole) == cut_notice(whole) == ""


def test_a_cut_without_a_loop_is_told() -> None:
    assert headline(UNFINISHED) == "Ein Mann"
    assert cut_notice(UNFINISHED).endswith("the model did not finish the sentence by itself.")
    assert cut_in_short(UNFINISHED) == f"Cut at {len(TRACE.predicted_tokens)} tokens"


@pytest.mark.parametrize("word", ["{}", "▁{}"])
def test_as_many_words_stand_on_compare_as_in_the_headline(word: str) -> None:
    words = [word.format(each) for each in WORDS]
    assert first_words(LOOPED, words) == 5
    assert first_words(dataclasses.replace(LOOPED, complete=True), words) == len(words)
