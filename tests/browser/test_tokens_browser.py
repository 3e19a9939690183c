"""The Tokens page in a real browser: a piece is followed, another cut translated, text is text."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import expect

from tests.browser.waiting import OpenPage, until_idle, until_it_fits, until_the_url_says
from transformer.translator import Translator
from ui.tokens.views import cuts_of

#: Marked up, right to left, combining, an emoji, a ligature, and 200 letters without a space.
SENTENCE = f"The <b>cat</b> שלום e\u0301\u0323 🐕 ﬁne {'x' * 200}"


def test_the_sentence_is_followed_from_its_cut_to_its_vectors(
    open_page: OpenPage, address: str, root: Path
) -> None:
    model = Translator.load(root / "words", device="cpu")
    ids = model.read(SENTENCE).ids
    page = open_page(f"{address}/tokens?checkpoint=words&beam=1&sentence={quote(SENTENCE)}", "dark")
    pieces = page.locator(".cut .piece")
    expect(pieces).to_have_count(len(ids))
    expect(pieces.locator(".id")).to_have_text(list(map(str, ids)))
    strange = page.locator(".cut .piece.byte")
    expect(strange).to_have_count(sum(index in model.tokenizer.byte_ids for index in ids))
    expect(page.locator(".cut .changed")).to_contain_text("ﬁ → fi")
    assert page.locator(".cut b, .cut script").count() == 0
    expect(page.locator(".stVegaLiteChart canvas, .stVegaLiteChart svg")).to_have_count(3)

    # A piece is followed: everything below speaks of it, and the link holds it.
    until_idle(page)
    third = pieces.nth(2)
    third.click()
    expect(third).to_have_attribute("aria-pressed", "true")
    until_the_url_says(page, token=str(ids[2]))
    expect(page.get_by_text(f"id {ids[2]}.")).to_be_visible()
    until_idle(page)
    third.press("ArrowRight")
    page.keyboard.press("Enter")
    until_the_url_says(page, token=str(ids[3]))
    expect(page.get_by_text(f"id {ids[3]}.")).to_be_visible()
    until_idle(page)
    expect(pieces.nth(3)).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(pieces.nth(4)).to_be_focused()

    # Another cut is translated.
    rows = page.locator(".cut .row")
    cuts = cuts_of(model.tokenizer, SENTENCE, 0.1, 0)
    expect(rows).to_have_count(len(cuts))
    rows.nth(1).click()
    until_the_url_says(page, cut="2")
    found = model.translate([cuts[1].ids], beam_size=1)[0]
    expect(page.get_by_text("From split 2:")).to_contain_text(" ".join(found.text.split())[:20])
    expect(page.get_by_test_id("stException")).to_have_count(0)
    until_it_fits(page)
