"""The Floor plan in a real browser: read with keys, played, and left by a click."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.waiting import OpenPage, at_rest, eventually, note, noted, until_idle
from transformer.translator import Translator


def test_blocks_show_their_numbers_play_and_open_their_views(
    open_page: OpenPage, address: str, tiny_translator: Translator
) -> None:
    page = open_page(f"{address}/floor?sentence=A%20dog%20runs.&step=2&source=2", "dark")
    plan, details = page.locator(".plan"), page.locator(".plan .details")
    stream = tiny_translator.stream(tiny_translator.trace("A dog runs."))
    expect(plan.locator(".block.plate")).to_have_count(1 + 2)  # beside the opened layers
    expect(details).to_contain_text("Decoder layer 3: Feed-forward")
    until_idle(page)
    share = stream.decoder.shares[2, 2, 1]
    expect(details).to_contain_text(f"{100 * share:.1f}%")
    plan.get_by_role("button", name="Encoder layer 2: Multi-head attention").hover()
    share = stream.encoder.shares[1, 0, 1]
    expect(details).to_contain_text(f"{100 * share:.1f}%")
    # Keys: to the decoder, up, and open the stream below.
    plan.locator(".block.shown").focus()
    page.keyboard.press("ArrowRight")
    expect(details).to_contain_text("Decoder")
    plan.get_by_role("button", name="Decoder layer 3: Feed-forward").focus()
    page.keyboard.press("ArrowUp")
    expect(details).to_contain_text("Add & Norm")
    page.keyboard.press("Enter")
    expect(page.get_by_text("How much each block of the decoder adds")).to_be_visible()
    expect(page).to_have_url(re.compile("block=decoder_stream"))
    plan.get_by_role("button", name="Decoder, layer 1").click()
    expect(page).to_have_url(re.compile("layer=1"))
    plan.locator(".tokens.source button").nth(2).click()
    expect(page).to_have_url(re.compile("source=3"))
    # The drawing grows with the window and ends inside it.
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
    drawing = plan.locator("svg")
    small = at_rest(page, lambda: drawing.evaluate("svg => svg.clientHeight"))
    page.set_viewport_size({"width": 1920, "height": 1080})
    eventually(page, lambda: drawing.evaluate("svg => svg.clientHeight") > 1.2 * small, True)
    end = plan.locator(".tokens.target").evaluate("row => row.getBoundingClientRect().bottom")
    assert end < 1080

    # It plays once, or goes block by block without motion, and leads to other pages.
    play = plan.locator(".play")
    expect(play).to_have_text("Play")
    until_idle(page)
    note(plan, ".details")
    play.click()
    expect(play).to_have_text("Stop")
    eventually(page, lambda: any("Encoder layer 1" in said for said in noted(plan)), True)
    play.click()
    expect(play).to_have_text("Play")
    expect(plan.locator(".dot.on")).to_have_count(0)
    page.emulate_media(reduced_motion="reduce")
    for block in ("Encoder: Embedding", "Encoder: + Position"):
        play.click()
        expect(details).to_contain_text(block)
    expect(plan.locator(".dot.on")).to_have_count(0)
    plan.get_by_role("button", name="Decoder layer 1: V K Q").last.click()
    expect(page).to_have_url(re.compile("/head.*layer=1"))
    expect(page.get_by_text("Cross-attention, layer 1")).to_be_visible()
