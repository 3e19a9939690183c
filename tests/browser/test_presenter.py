"""Presenter mode on every page: keys alone lead a class, and pictures fit the projector."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.test_console import NOTE, QUERY, SPOILT, TOO_WIDE, settled
from tests.browser.waiting import eventually, until_at, until_settled, until_the_url_says
from ui.frame.page import all_pages

#: Windows of projectors.
SIZES = ((1920, 1080), (1024, 768), (1280, 720))

#: Counts arrows that come to the window: one that a picture took must not come again.
COUNT = """window.arrows = 0;
addEventListener("keydown", ({ key }) => { window.arrows += key === "ArrowRight"; });"""

#: The element with the focus, in shadow roots too, or "" if it is the page itself.
FOCUSED = """() => {
    let at = document.activeElement;
    while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
    return at.matches("body, [data-testid=stMain]") ? "" : at.outerHTML.slice(0, 160);
}"""

#: Charts that reach out of their column.
CUT = """() => [...document.querySelectorAll("main :is(svg.marks, .js-plotly-plot)")]
    .filter((each) => each.getBoundingClientRect().right
        > each.closest("[data-testid=stColumn], [data-testid=stMainBlockContainer]")
            .getBoundingClientRect().right + 1)
    .map((each) => each.outerHTML.slice(0, 160))"""


@pytest.fixture
def page(window: BrowserContext) -> Iterator[Page]:
    page = window.new_page()
    page.add_init_script(NOTE)
    page.add_init_script(COUNT)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 720})
    yield page
    page.close()


def test_every_page_is_led_by_keys_and_fits_projectors(app: str, page: Page) -> None:
    pages = all_pages()
    page.goto(f"{app}/?{QUERY}&present=on")
    settled(page)
    wrong = []
    for spec, after in pairwise((*pages, pages[0])):
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            settled(page)
            found = [*page.evaluate(SPOILT), *page.evaluate(CUT)]
            if any(beside > 0 for beside in page.evaluate(TOO_WIDE)):
                found.append("it scrolls sideways")
            wrong += [f"{spec.path}, {width} px: {each}" for each in found]
        page.evaluate("arrows = 0")
        page.keyboard.press("ArrowRight")
        if page.evaluate("arrows") > 1:
            wrong.append(f"{spec.path}: an arrow is handled twice")
        settled(page)
        page.keyboard.press("Escape")
        until_the_url_says(page, present="off")
        expect(page.get_by_test_id("stSidebar")).to_be_visible()
        eventually(page, lambda: page.evaluate(FOCUSED), "")
        page.keyboard.press("Shift+P")
        until_the_url_says(page, present="on")
        until_settled(page)
        page.keyboard.press("Shift+ArrowRight")
        until_at(page, "/" if after is pages[0] else f"/{after.path}")
        until_the_url_says(page, present="on")
        settled(page)
    page.keyboard.press("Shift+ArrowLeft")
    until_at(page, f"/{pages[-1].path}")
    assert not wrong


def test_the_first_arrow_is_one_step(app: str, page: Page) -> None:
    page.goto(f"{app}/?{QUERY}&present=on&step=5")
    settled(page)
    count = page.locator(".player .count")
    for key, step in (("ArrowRight", 6), ("ArrowRight", 7), ("ArrowLeft", 6), ("Home", 1)):
        page.keyboard.press(key)
        until_the_url_says(page, step=str(step))
        expect(count).to_contain_text(f"step {step} of")
    player = page.locator(".player")
    expect(player).to_be_focused()
    expect(player).to_have_css("outline-width", "0px")  # no frame around the picture


def test_clocks_are_circles(app: str, page: Page) -> None:
    page.goto(f"{app}/positions?{QUERY}&present=on")
    faces = page.locator("svg.marks").first.locator("[class*=layer_0_marks] path")
    expect(faces.first).to_be_attached()
    settled(page)
    boxes = faces.evaluate_all("all => all.map((each) => each.getBoundingClientRect().toJSON())")
    assert len(boxes) >= 5
    for box in boxes:
        assert box["width"] == pytest.approx(box["height"], rel=0.02)
