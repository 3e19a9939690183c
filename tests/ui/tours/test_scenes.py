"""A lecture's scenes: pictures and answers come from the model as it is."""

from dataclasses import replace

import numpy as np
import pytest

from figures.exhibit import Exhibit, Lines, Panel, Series
from figures.paper import HALL, to_pages, to_png
from tests.factories import make_trace
from tests.ui.tours.test_guide import CONFIG
from transformer.trace.removals import Head
from ui.components.opening import Trial
from ui.tours.guide import LECTURES
from ui.tours.scene_facts import sentences, spread
from ui.tours.stops import Broken, Scene, Target, UnfitError

SCENES = LECTURES["attention"].stops


def scene(seed: int = 0, **shape: int) -> Scene:
    trace = make_trace(seed=seed, **shape)
    later = replace(trace, text="x y z")
    return Scene(
        trace, CONFIG, without=lambda edits: "x b",
        moments=lambda: {0: trace, 10: later, 20: later},
    )  # fmt: skip


def test_what_a_scene_lacks_is_said() -> None:
    for number in (7, 8):
        facts = SCENES[number - 1].facts
        assert facts is not None
        with pytest.raises(UnfitError):
            facts(replace(scene(), moments=dict))


def test_the_new_words_of_a_broken_translation_are_marked() -> None:
    trial = Trial(("cross", 0, 0), "Gone.", "", "a **new word** stays ~~not~~ ", hit=True)
    broken = Broken(scene().trace, Target("a", 1), Head("cross", 0, 0), trial)
    facts = SCENES[6].facts
    assert facts is not None
    last = facts(replace(scene(), broken=lambda: broken)).pictures[-1]
    assert isinstance(last, Lines) and last.lines[2][1] == ("▁a", "▁new", "▁word", "▁stays")
    assert {token for line, token in last.marked if line == 2} == {1, 2}


def test_pictures_hold_the_answer_only_at_the_end() -> None:
    shown = scene(S=5, T=6, n_heads=3)
    trace, pictures = shown.trace, [stop.facts for stop in SCENES]
    (hidden, lit), steps, (one, heads), (_, masked), _, (before, after), *_ = (
        facts(shown).pictures for facts in pictures if facts and facts is not pictures[6]
    )
    assert isinstance(hidden, Lines) and isinstance(lit, Lines) and isinstance(one, Panel)
    assert hidden.light is None and lit.light is not None
    np.testing.assert_allclose(lit.values[0], trace.cross.mean((0, 1))[lit.light[1]])
    assert len(steps) == 6 + 1 and isinstance(steps[-1], Panel)
    assert np.isnan(one.values[1:]).all() and isinstance(heads, Panel)
    assert not np.isnan(heads.values).any() and isinstance(masked, Panel)
    n = len(masked.values)
    assert np.isnan(masked.values).sum() == n * (n - 1) / 2
    assert isinstance(before, Series) and isinstance(after, Series)
    assert np.isnan(before.lines["not divided"]).all()
    assert after.lines["not divided"].sum() == pytest.approx(1, abs=1e-3)


def test_training_asks_when_a_word_of_the_end_was_first_written() -> None:
    stop, shown = SCENES[7], scene()
    assert stop.facts is not None
    facts = stop.facts(replace(shown, trace=replace(shown.trace, text="x late")))
    assert facts.options[facts.answer] == "finished"
    last = facts.pictures[-1]
    assert isinstance(last, Lines) and last.lines[-1] == ("finished", ("▁x", "▁late"))
    assert last.marked == {(4, 1)}


def test_a_single_picture_is_the_answer() -> None:
    one, two = (sentences(("source", [word], ())) for word in "ab")
    question = SCENES[0].asked(None)
    single, pair = (replace(question, pictures=pictures) for pictures in ((two,), (one, two)))
    assert [single.picture(beat) for beat in (0, 1, 2)] == [None, two, two]
    assert [pair.picture(beat) for beat in (0, 1)] == [one, two]
    assert question.picture(1) is None


def test_moments_include_the_first_and_the_last() -> None:
    assert spread(range(9)) == [0, 2, 4, 6, 8] and spread([3]) == [3] and spread([]) == []


def test_a_slide_has_1920_by_1080_pixels_and_notes_a_page_each() -> None:
    lines = sentences(("source", ["▁a", "b", "▁c"], [1]), ("other", ["▁d"], []), light=(1, 0),
                      weights=np.array([0.04, 0.5, 0.46]))  # fmt: skip
    exhibit = Exhibit("scene", "Title", "Caption", (lines,))
    for preset in HALL.values():
        png = to_png(exhibit, preset)
        assert [int.from_bytes(png[at : at + 4], "big") for at in (16, 20)] == [1920, 1080]
    pages: list[tuple[int, int]] = []
    pdf = to_pages([exhibit, exhibit], HALL["light"], lambda *done: pages.append(done))
    assert pdf.startswith(b"%PDF") and b"/Count 2" in pdf and pages == [(0, 2), (1, 2)]
    assert b"HeadlightSans" in pdf and b"/Type3" not in pdf, "fonts are whole, so “ and √ are right"
    with pytest.raises(ValueError, match="first line"):
        replace(lines, columns=("x", "y", "z"))
