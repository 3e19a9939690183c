"""Presenter mode on every page: keys alone lead a class, and pictures fit the projector."""

from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_console import NOTE, QUERY, SPOILT, TOO_WIDE, settled
from tests.browser.waiting import at_rest, eventually, until_at, until_settled, until_the_url_says
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


def test_every_page_is_led_by_keys_and_fits_projectors(app: str, page: Page) -> None:
    pages = all_pages()
    page.add_init_script(NOTE)
    page.add_init_script(COUNT)
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
        for _ in spec.entries[1:]:  # its further views come first
            page.keyboard.press("Shift+ArrowRight")
            settled(page)
        page.keyboard.press("Shift+ArrowRight")
        until_at(page, "/" if after is pages[0] else f"/{after.path}")
        until_the_url_says(page, present="on")
        settled(page)
    page.keyboard.press("Shift+ArrowLeft")
    until_at(page, f"/{pages[-1].path}")
    assert not wrong


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_player_ends_on_screen(app: str, page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(f"{app}/?{QUERY}&present=on")
    settled(page)
    box = page.locator(".player").bounding_box()
    assert box is not None and box["y"] + box["height"] <= height


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


def test_a_clicker_turns_pages_and_blanks_the_screen(app: str, page: Page) -> None:
    page.goto(f"{app}/heads?{QUERY}&present=on")
    settled(page)
    page.keyboard.press("b")
    expect(page.locator(".blank")).to_be_visible()
    page.keyboard.press("PageDown")  # only brings the page back
    expect(page.locator(".blank")).to_be_hidden()
    for key, path in (("PageUp", "/head"), ("PageDown", "/heads")):
        page.keyboard.press(key)
        until_at(page, path)
        settled(page)


def test_clocks_are_circles(app: str, page: Page) -> None:
    page.goto(f"{app}/positions?{QUERY}&present=on")
    faces = page.locator("svg.marks").first.locator("[class*=layer_0_marks] path")
    expect(faces.first).to_be_attached()
    settled(page)
    boxes = faces.evaluate_all("all => all.map((each) => each.getBoundingClientRect().toJSON())")
    assert len(boxes) >= 5
    for box in boxes:
        assert box["width"] == pytest.approx(box["height"], rel=0.02)


#: Share of the window's height that the largest picture on screen has, labels and scale included.
SHARE = """() => {
    const kinds = ".grid, .lens, .lines, .tree, .plan, .stages, .scroller, .parse, .cut, svg.marks";
    const shown = all(document.querySelector("main")).filter((each) => each.matches(kinds))
        .map((each) => each.getBoundingClientRect())
        .map(({ top, bottom }) => Math.min(bottom, innerHeight) - Math.max(top, 0));
    return Math.max(0, ...shown) / innerHeight;
}"""

#: Views, and the least share of the height: less than 0.7 for what is flat, in a row or below one.
FILL = {
    "": 0.5, "?view=layers": 0.7, "?view=why": 0.7, "beam": 0.25,
    "attention?display=grid": 0.7, "attention?display=heads": 0.7, "attention?display=matrix": 0.7,
    "head": 0.7, "heads": 0.76, "removals": 0.72, "compare": 0.5, "complexity": 0.7,
    "floor": 0.7, "parsing": 0.65, "family": 0.54, "tokens": 0.25, "positions": 0.4,
}  # fmt: skip


def test_the_picture_fills_the_screen(app: str, page: Page) -> None:
    short = []
    for view, least in FILL.items():
        page.goto(f"{app}/{view}{'&' if '?' in view else '?'}{QUERY}&present=on")
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            settled(page)
            if (share := page.evaluate(SHARE)) < least:
                short.append(f"{view}, {width} px: {share:.2f} of the height")
    assert not short


#: Where the pictures of the page begin; sentences stand below them, and a shorter translation has
#: fewer rows.
PLACES = """() => {
    return all(document.querySelector("main"))
        .filter((each) => each.matches(".player, .grid, .lens, canvas"))
        .map((each) => each.getBoundingClientRect())
        .map(({ x, y, width }) => [x, y, width].map(Math.round).join())
        .slice(0, %d);
}"""


@pytest.mark.parametrize("present", ["off", "on"])
@pytest.mark.parametrize("at", ["", "attention?kind=cross", "attention?kind=cross&display=matrix"])
def test_nothing_moves_under_the_pointer(app: str, page: Page, at: str, present: str) -> None:
    """Neither a click on a cell nor a head that is taken out moves a picture."""
    page.goto(f"{app}/{at}{'&' if '?' in at else '?'}{QUERY}&present={present}")
    settled(page)
    cells = page.locator("canvas.cells, canvas.matrix").first
    expect(cells).to_be_visible()
    places = PLACES % len(page.evaluate(PLACES % 99))  # what comes below does not count
    before = page.evaluate(places)
    size = cells.bounding_box()
    assert size is not None and len(before) > 2
    cells.click(position={"x": 0.42 * size["width"], "y": 0.3 * size["height"]})
    if at:
        expect(page.get_by_text("From the query")).to_be_visible()
    settled(page)
    eventually(page, lambda: page.evaluate(places), before)
    if at.endswith("cross"):
        page.locator(".grid .cell").nth(3).hover()
        page.locator(".grid .switch").nth(3).click()
    elif not at:
        page.get_by_role("button", name="Take it out").first.click()
    if not at.endswith("matrix"):
        expect(page.locator(".st-key-edits")).to_be_in_viewport()
        settled(page)
        eventually(page, lambda: page.evaluate(places), before)


def test_a_head_is_enlarged_on_the_first_screen(app: str, page: Page) -> None:
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.goto(f"{app}/attention?display=grid&{QUERY}&present=on")
        settled(page)
        page.locator(".grid .map").nth(4).click()
        cells = page.locator(".lens canvas.cells")
        box = lambda: cells.bounding_box() or {"y": -1, "height": 0}  # noqa: E731, B023
        fits = lambda: 0 < box()["y"] < height - box()["height"] < 2 * height / 3  # noqa: E731, B023
        eventually(page, fits, True)


@pytest.mark.parametrize("at", ["self", "cross.1", "self&present=on", "cross.1&present=on"])
def test_a_head_s_switch_moves_nothing(app: str, page: Page, at: str) -> None:
    page.goto(f"{app}/floor?{QUERY}&focus=decoder.2.{at}")
    places = PLACES.replace(".player, .grid", ".token, .band, .unfolded, .candidates") % 99
    before = at_rest(page, lambda: page.evaluate(places))
    for count in (1, 0):  # off, and on again
        page.get_by_role("switch", name="head 2.1").click()
        expect(page.locator(".st-key-edits, .card:has-text('(was ')")).to_have_count(2 * count)
        assert at_rest(page, lambda: page.evaluate(places)) == before
        expect(page.get_by_role("switch", name="head 2.1")).to_be_focused()
    assert len(before) > 30


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
@pytest.mark.parametrize(
    "view", ["attention?display=heads&kind=cross&pin=q4", "heads?", "removals?"]
)
def test_a_result_comes_into_sight(
    app: str, page: Page, view: str, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(f"{app}/{view}&{QUERY}")
    settled(page)
    if view.startswith("attention"):
        page.get_by_role("button", name="Which heads look from").click()
    else:
        cells = page.locator("svg.marks").first.locator("path[aria-roledescription='rect mark']")
        cells.nth(13).click()
    result = page.locator("[class*=st-key-result_]")
    tops = lambda: [(each.bounding_box() or {"y": 0})["y"] for each in result.all()]  # noqa: E731
    eventually(page, lambda: any(0 < top < height - 100 for top in tops()), True)
    if view == "removals?":  # its colour keys are still there at the new address
        here = "all => all.every((each) => each.getAttribute('fill').includes(`${location.href}#`))"
        eventually(page, lambda: page.locator("svg [fill^='url(http']").evaluate_all(here), True)
