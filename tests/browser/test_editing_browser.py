"""Parts are taken out by pointer and keyboard: heads by switches, words, and edges by cells."""

import re

from playwright.sync_api import Page, expect

from tests.browser import waiting
from tests.browser.test_attention_browser import opened
from tests.browser.waiting import OpenPage, until_idle, until_the_url_says
from transformer.trace.records import Trace


def turn(page: Page, layer: int, head: int) -> None:
    """Press a switch, which shows under the pointer."""
    page.get_by_role("gridcell", name=f"Layer {layer}, head {head}:").hover()
    page.get_by_role("switch", name=f"Layer {layer}, head {head}", exact=True).click()


def out(page: Page, *heads: str) -> None:
    """Check which heads are off: their switches, and what their maps say."""
    expect(page.locator(".switch[aria-checked=false]")).to_have_count(len(heads))
    for head in heads:
        layer, number = head.split(".")
        name = f"Layer {layer}, head {number}: off;"
        expect(page.get_by_role("gridcell", name=name)).to_be_visible()


def edited(page: Page, edits: str | None) -> str:
    link = until_the_url_says(page, edit=edits)
    until_idle(page)
    return link


def test_switches_take_heads_out_alone_and_together(open_page: OpenPage, address: str) -> None:
    page = opened(open_page, address, kind="cross", layer="2", head="1")
    page.mouse.move(2, 2)
    expect(page.locator(".switch").nth(3)).to_have_css("opacity", "0")
    turn(page, 1, 2)
    edited(page, "off cross.1.2")
    out(page, "1.2")
    page.keyboard.down("Shift")
    turn(page, 3, 1)
    turn(page, 2, 2)
    out(page, "1.2", "2.2", "3.1")  # at once, but the model waits until Shift is up
    edited(page, "off cross.1.2")
    page.keyboard.up("Shift")
    link = edited(page, "off cross.1.2; off cross.2.2, off cross.3.1")
    expect(page.locator(".strip .parting .unseen")).to_have_text(re.compile("becomes|is gone"))

    page = open_page(link, anew=True)  # as in another browser
    out(page, "1.2", "2.2", "3.1")
    page.get_by_role("button", name="Undo").click()
    edited(page, "off cross.1.2")
    out(page, "1.2")
    page.get_by_role("button", name="Restore all").click()
    edited(page, None)
    out(page)


def test_keys_turn_switches(open_page: OpenPage, address: str) -> None:
    page = opened(open_page, address, kind="encoder_self", layer="1", head="1")
    page.get_by_role("gridcell", name="Layer 1, head 1:").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Delete")
    edited(page, "off encoder.1.2")
    expect(page.get_by_role("gridcell", name="Layer 1, head 2: off;")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("switch", name="Layer 1, head 2", exact=True)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    edited(page, "off encoder.1.2; off encoder.2.2")
    expect(page.get_by_role("switch", name="Layer 2, head 2", exact=True)).to_be_focused()
    page.keyboard.press("Shift+Enter")  # which brings it back
    edited(page, "off encoder.1.2")


def test_a_word_is_hidden_and_an_edge_is_cut(
    open_page: OpenPage, address: str, trace: Trace
) -> None:
    page = opened(open_page, address, kind="cross", layer="2", head="1")
    words = page.get_by_role("list", name=waiting.starting_with("Sentence"))
    words.get_by_role("button").nth(0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Hide this word from the decoder").click()
    expect(page.locator(".strip .struck")).to_have_text(re.compile(r"\(hidden\)"))
    page.get_by_role("button", name="Clear").click()
    edited(page, None)
    cells = page.locator("canvas.cells")
    waiting.point(cells, 1, 2, len(trace.src_tokens), len(trace.tgt_tokens))
    page.mouse.down()
    page.mouse.up()
    page.get_by_role("button", name=re.compile("^Cut this edge.*: layer 2, head 1$")).click()
    edited(page, "cut cross.2.1 q3 k2")
