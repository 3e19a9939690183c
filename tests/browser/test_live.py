import pytest
from playwright.sync_api import Page

from tests.browser.live import (
    compare,
    compare_segmentation,
    odd_texts,
    translated,
    translator,
    typed,
)
from ui.export.live import live_model, why_not_live


@pytest.mark.parametrize(
    ("name", "odd"),
    [("everyday-en-de", "Zoë 😀 has ½ ﬁg — 東京!"), ("multi30k-en-de", "Zoë 😀 has ½ ﬁg — 東京!"),
     ("reverse-toy", "Aa ß9")],
)  # fmt: skip
def test_the_browser_translates_like_python(live: dict[str, Page], name: str, odd: str) -> None:
    """The other models have the sizes of these; see soak_live.py."""
    for sentence in (odd, *typed(name, 3)):
        for beam in (1, 4):
            compare(live[name], name, sentence, beam)


def test_a_head_switched_off_in_the_browser_is_the_edit(live: dict[str, Page]) -> None:
    for edit in ("cross.2.3", "encoder.1.4", "decoder.4.1"):
        compare(live["multi30k-en-de"], "multi30k-en-de", "A dog runs on the beach.", 4, edit)


def test_a_translation_cut_at_the_length_limit(live: dict[str, Page]) -> None:
    sentence = "dog " * 60
    compare(live["multi30k-en-de"], "multi30k-en-de", sentence, 1)


@pytest.mark.parametrize("name", ["everyday-en-de", "multi30k-en-de", "reverse-toy"])
def test_the_browser_segments_like_python(live: dict[str, Page], name: str) -> None:
    compare_segmentation(live[name], name, odd_texts(500))


def test_a_blank_and_a_too_long_sentence_are_refused(live: dict[str, Page]) -> None:
    page = live["reverse-toy"]
    assert translated(page, " \t\u200b")["error"] == "Type a sentence first."
    error = translated(page, "ab " * 300)["error"]
    assert "tokens; at most 512 are allowed" in error
    assert translated(page, "ab")["text"]


def test_models_that_the_scripts_cannot_compute_are_named() -> None:
    t5 = translator("t5-en-de")
    reason = why_not_live(t5)
    assert reason is not None and "The browser computes models with" in reason
    with pytest.raises(ValueError, match="The browser computes"):
        live_model(t5)
    edited = translator("reverse-toy").edited("off cross.1.1")
    assert why_not_live(edited) == (
        "The browser translates with unedited models by the paper's rule only."
    )
