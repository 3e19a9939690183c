import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import waiting
from tests.browser.test_attention_browser import opened
from tests.browser.waiting import OpenPage, until_settled, until_the_url_says
from transformer.trace.records import Trace

QUERY = "checkpoint=reverse-toy&sentence=abcde"
HELPED = "label:has([data-testid=stTooltipHoverTarget])"


def test_the_keyboards_place_is_seen_and_keys_alone_present(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/attention?{QUERY}")
    until_settled(page)
    helped = page.get_by_test_id("stMain").locator(HELPED).first
    helped.get_by_test_id("stTooltipHoverTarget").click()  # asks for help, and turns nothing on
    expect(page.get_by_test_id("stTooltipContent")).to_be_visible()
    expect(helped.get_by_role("switch")).not_to_be_checked()
    page.keyboard.press("Tab")  # from here on the browser shows what has focus
    in_sidebar = page.get_by_test_id("stSidebar").get_by_test_id("stPageLink-NavLink")
    for link in (page.get_by_test_id("stTopNavLink").last, in_sidebar.last):
        link.focus()
        expect(link).to_have_css("outline-width", "2px")
        expect(link).to_have_css("outline-style", "solid")
    page.get_by_role("textbox", name="Sentence").focus()
    hint = page.locator(".st-key-sentence_box").get_by_test_id("InputInstructions")
    expect(hint).to_be_attached()
    expect(hint).not_to_be_visible()

    # Presenter mode, with keys alone.
    sidebar, root = page.get_by_test_id("stSidebar"), page.locator("html")
    expect(sidebar).to_be_visible()
    page.locator("textarea").first.focus()
    page.keyboard.type("P?nb")  # typing is typing
    keys = page.locator(".keys dialog.all")
    expect(keys).not_to_be_visible()
    page.locator("textarea").first.fill("abcde")
    page.locator("textarea").first.blur()

    page.keyboard.press("Shift+P")
    until_the_url_says(page, present="on")
    expect(sidebar).not_to_be_visible()
    expect(root).to_have_css("font-size", "21.6px")
    expect(root).to_have_css("--hl-scale", "1.35")
    until_settled(page)
    page.keyboard.press("?")
    expect(keys).to_be_visible()
    expect(keys).to_contain_text("next page")
    page.keyboard.press("Escape")
    expect(keys).not_to_be_visible()

    page.get_by_role("button", name="Link").click()
    address = page.get_by_label("Address of this view")
    waiting.eventually(page, lambda: address.input_value() == page.evaluate("location.href"), True)
    page.keyboard.press("Escape")
    expect(page.get_by_label("Address of this view")).not_to_be_visible()

    page.keyboard.press("Shift+ArrowRight")
    until_the_url_says(page, present="on", display="heads")
    until_settled(page)
    page.keyboard.press("Shift+ArrowLeft")
    until_the_url_says(page, display="grid")
    until_settled(page)
    expect(page.locator(".grid .map").first).to_be_visible()
    page.keyboard.press("ArrowLeft")  # without a click
    expect(page.locator(".grid .map:focus")).to_have_count(1)
    page.keyboard.press("Escape")
    until_the_url_says(page, present="off")
    expect(sidebar).to_be_visible()
    expect(root).to_have_css("font-size", "16px")


def test_a_stop_can_be_linked_answered_and_left_by_keys(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/?tour=masks&stop=3&checkpoint=reverse-toy")
    waiting.until_at(page, "/attention")
    bar = page.locator(".st-key-tour")
    expect(bar).to_contain_text("Half the map is missing")
    expect(bar).to_contain_text("The page appears once you answer.")
    grid = page.get_by_role("grid", include_hidden=True).first
    expect(grid).to_be_attached()
    expect(grid).not_to_be_visible()  # not before a prediction
    address = until_the_url_says(page, tour="masks", stop="3", kind="decoder_self", guess=None)
    sentence = parse_qs(urlsplit(address).query)["sentence"][0]
    n = len(sentence) + 2
    # The page is there all the time, and the answer leaves it as it is.
    grid.evaluate("(grid) => { grid.dataset.before = 'the answer'; }")
    bar.get_by_role("radio", name=str(n * (n - 1) // 2), exact=True).click()
    expect(bar).to_contain_text("Your answer is right")
    expect(grid).to_be_visible()
    expect(grid).to_have_attribute("data-before", "the answer")
    until_settled(page)
    page.keyboard.press("n")
    until_the_url_says(page, stop="4", kind="cross", guess=None)
    until_settled(page)
    page.keyboard.press("b")
    until_the_url_says(page, stop="3")
    until_settled(page)
    page.get_by_role("button", name="Leave").click()
    until_the_url_says(page, tour=None, stop=None)
    expect(page.locator(".st-key-tour_waiting")).to_have_count(0)
    expect(page.get_by_role("grid").first).to_be_visible()


def turn(page: Page, layer: int, head: int) -> None:
    page.get_by_role("gridcell", name=f"Layer {layer}, head {head}:").hover()
    page.get_by_role("switch", name=f"Layer {layer}, head {head}", exact=True).click()


def out(page: Page, *heads: str) -> None:
    expect(page.locator(".switch[aria-checked=false]")).to_have_count(len(heads))
    for head in heads:
        layer, number = head.split(".")
        name = f"Layer {layer}, head {number}: off;"
        expect(page.get_by_role("gridcell", name=name)).to_be_visible()


def edited(page: Page, edits: str | None) -> str:
    link = until_the_url_says(page, edit=edits)
    waiting.until_idle(page)
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
    changed = page.locator(".strip .parting .unseen", has_text=re.compile("becomes|is gone"))
    # The small model's words may stay: they hang on rounding, which processors do differently.
    expect(changed.or_(page.get_by_text(" changed: ")).first).to_be_visible()

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


def test_a_word_is_hidden_an_edge_is_cut(open_page: OpenPage, address: str, trace: Trace) -> None:
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


@pytest.mark.parametrize(("stop", "shows"), [
    ("tour=attention&stop=3", "Divide by"), ("tour=positions&stop=3", "Only the distance counts"),
])  # fmt: skip
def test_an_answer_scrolls_to_what_shows_it(
    app: str, open_page: OpenPage, stop: str, shows: str
) -> None:
    page = open_page(f"{app}/?{stop}&checkpoint=reverse-toy")
    page.get_by_role("button", name="Show me").click()
    evidence = page.get_by_role("heading", name=shows)
    expect(evidence).to_be_in_viewport()
    bar = page.locator(".st-key-tour")
    expect(bar).to_contain_text("Answer:")
    waiting.until_passes(page, lambda: check_below(evidence, bar))


def check_below(evidence: Locator, bar: Locator) -> None:
    """The evidence begins below the answer, in the upper half of the window."""
    there, above = evidence.bounding_box(), bar.bounding_box()
    assert there is not None and above is not None
    assert above["y"] + above["height"] <= there["y"] < 450
