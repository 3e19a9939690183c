"""The Attention page in a browser: pixels are weights, clicks and keys choose, links reopen."""

from __future__ import annotations

import re
from urllib.parse import quote

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Locator, Page, expect

from figures.labels import query_labels
from figures.palette import Theme
from tests.browser.pixels import grid_map, until_the_grid_shows, until_the_lens_shows
from tests.browser.waiting import (
    OpenPage,
    at_rest,
    eventually,
    point,
    texts,
    until_idle,
    until_passes,
    until_the_url_says,
)
from transformer.measures.heads import information, kept_lines, widen
from transformer.trace.records import Trace
from transformer.translator import Translator

SENTENCE = "The cat <b>sat</b> on it."


@pytest.fixture(scope="module")
def trace(tiny_translator: Translator) -> Trace:
    made = tiny_translator.trace(SENTENCE)
    assert len(made.src_tokens) != len(made.tgt_tokens)
    return made


def link(address: str, **query: str) -> str:
    words = "&".join(f"{k}={quote(v)}" for k, v in {"sentence": SENTENCE, **query}.items())
    return f"{address}/attention?{words}"


def opened(open_page: OpenPage, address: str, theme: Theme = "light", **query: str) -> Page:
    page = open_page(link(address, **query), theme)
    expect(page.locator("canvas.cells")).to_be_visible()
    until_idle(page)
    return page


def lens_says(page: Page, query: int, key: int, weights: NDArray[np.float32], *more: str) -> None:
    """The weight of the cell that is pointed at; the lens may be made anew meanwhile."""
    n, m = weights.shape

    def check() -> None:
        point(page.locator("canvas.cells"), key, query, m, n)
        said = page.locator(".lens .readout").inner_text()
        for text in (f": {weights[query, key]:.4f}", *more):
            assert text in said

    until_passes(page, check)


def plain(token: str) -> str:
    """A token as the page writes it: the mark of a word's start is thin."""
    return token.replace("▁", "_")


def check_pixels(page: Page, trace: Trace, theme: Theme) -> None:
    """The grid's bytes and the lens's cells are the colours of the weights, rows are queries."""
    wide = widen(trace.cross)
    expect(page.locator("button.map")).to_have_count(wide.shape[0] * wide.shape[1])
    for row, column in [(0, 0), (1, 2), (3, 0), (3, 3)]:
        until_the_grid_shows(page, row, column, wide[row, column], theme)
    until_the_lens_shows(page, trace.cross[1, 2], theme, atol=1)


#: How far the maps on the grid's canvas are from the cells they belong to, in device pixels.
APART = """() => {
    const [host] = [...document.querySelectorAll("*")].filter((each) =>
        each.shadowRoot?.querySelector("canvas.maps"));
    const canvas = host.shadowRoot.querySelector("canvas.maps");
    const [, ratio, { columns, rows }] = JSON.parse(canvas.dataset.drawn);
    const from = canvas.getBoundingClientRect();
    const apart = [...host.shadowRoot.querySelectorAll("button.map")].map((button, at) => {
        const [left, width] = columns[at % columns.length];
        const [top, height] = rows[Math.floor(at / columns.length)];
        const box = button.getBoundingClientRect();
        return Math.max(...[
            [box.left, from.left, left], [box.right, from.left, left + width],
            [box.top, from.top, top], [box.bottom, from.top, top + height],
        ].map(([edge, origin, at]) => Math.abs((edge - origin) * ratio - at)));
    });
    return Math.max(...apart, Math.abs(ratio - window.devicePixelRatio),
        Math.abs((from.right - from.left) * ratio - canvas.width),
        Math.abs((from.bottom - from.top) * ratio - canvas.height));
}"""


def check_places(page: Page) -> None:
    """One canvas holds all maps, so whatever moves the cells has to move what it shows."""
    near = f"() => ({APART})() <= 0.51"
    page.wait_for_function(near)
    cell = page.locator("button.map").first
    before = at_rest(page, cell.bounding_box)
    screen = page.context.new_cdp_session(page)

    def resize(width: int, ratio: float) -> None:
        size = {"width": width, "height": 720, "deviceScaleFactor": ratio, "mobile": False}
        screen.send("Emulation.setDeviceMetricsOverride", size)
        page.wait_for_function(
            "([width, ratio]) => innerWidth === width && devicePixelRatio === ratio",
            arg=[width, ratio],
        )

    for change in (
        lambda: resize(901, 1),
        lambda: page.evaluate("() => { document.documentElement.style.fontSize = '23px'; }"),
        lambda: resize(901, 1.5),
        lambda: resize(390, 2),
    ):
        change()
        page.wait_for_function(near)  # places are measured anew, so an old drawing is not near
    assert at_rest(page, cell.bounding_box) != before
    screen.send("Emulation.clearDeviceMetricsOverride")
    screen.detach()


def test_pixels_are_the_weights_and_follow_theme_and_size_without_a_reload(
    open_page: OpenPage, address: str, trace: Trace
) -> None:
    page = opened(open_page, address, "light", kind="cross", layer="2", head="3")
    check_pixels(page, trace, "light")
    page.emulate_media(color_scheme="dark")
    check_pixels(page, trace, "dark")
    check_places(page)


def test_hover_reads_the_exact_weight_tokens_are_text_and_dimmed_columns_are_grey(
    open_page: OpenPage, address: str, trace: Trace
) -> None:
    page = opened(open_page, address, kind="cross", layer="2", head="3", dim="on", keys="none")
    n, m = trace.cross.shape[-2:]
    rows = query_labels(trace, "cross")
    for query, key in [(0, 0), (n - 1, 1), (1, m - 1)]:
        named = f"key {key + 1} {plain(trace.src_tokens[key])}"
        row = f"query {query + 1} {plain(rows[query])}, "
        lens_says(page, query, key, trace.cross[1, 2], named, row)
    expect(page.locator(".row-label").nth(1)).to_have_attribute("title", plain(rows[1]))
    labels = page.locator(".column-label")
    eventually(page, lambda: texts(labels), [plain(token) for token in trace.src_tokens])
    assert page.locator(".lens b, .lens script").count() == 0
    hidden = trace.cross[1, 2][:, -1].mean()
    expect(page.get_by_text(f"hides {hidden:.1%} of the attention")).to_be_visible()
    until_passes(
        page,
        lambda: np.testing.assert_array_equal(
            np.unique(grid_map(page, 1, 2)[:, -1], axis=0), [[0xE4, 0xE1, 0xD8]]
        ),
    )

    # Labels of the matrix choose tokens to add up.
    page.get_by_role("radio", name="Matrix", exact=True).click()
    page.locator("button.column-label").nth(1).click()
    expect(page).to_have_url(re.compile("keys=2"))
    page.locator("button.row-label").nth(3).click()
    expect(page).to_have_url(re.compile("queries=4"))
    values = trace.cross[:, :, 3, 1]
    expect(page.get_by_text(f"The largest is {values.max():.2f} in layer")).to_be_visible()
    expect(page.locator("button[aria-pressed=true].column-label")).to_have_count(1)


def test_clicks_and_keys_choose_and_the_link_reopens_it(
    open_page: OpenPage, address: str, trace: Trace
) -> None:
    page = opened(open_page, address, kind="cross", layer="1", head="1")
    page.get_by_role("gridcell", name="Layer 3, head 2:").click()
    expect(page.get_by_text("Layer 3, head 2", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("layer=3&head=2"))
    until_idle(page)
    for query, key in [(0, 1), (2, 0), (3, 4)]:
        lens_says(page, query, key, trace.cross[2, 1])
    page.get_by_role("gridcell", name="Layer 1, head 1:").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_text("Layer 2, head 2", exact=True)).to_be_visible()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Layer 2, mean over heads", exact=True)).to_be_visible()
    again = open_page(until_the_url_says(page, kind="cross", layer="2", head="mean"))
    expect(again.get_by_text("Layer 2, mean over heads", exact=True)).to_be_visible()
    chosen = again.locator("button.map[aria-selected=true]")
    expect(chosen).to_have_attribute("aria-label", re.compile("^Layer 2, mean over heads:"))


def strokes(page: Page, count: int) -> None:
    """The lines, seen and scrolled away, are as many as they should be."""
    expect(page.locator(".lines")).to_have_attribute("data-lines", str(count))


def test_lines_are_those_that_hold_the_share_and_the_legend_switches_heads(
    open_page: OpenPage, address: str, trace: Trace
) -> None:
    page = open_page(link(address, kind="cross", display="heads", heads="1.1-2.3", mass="0.6"))
    kept = {head: kept_lines(trace.cross[head], 0.6).sum() for head in np.ndindex(3, 3)}
    both = np.stack([trace.cross[0, 0], trace.cross[1, 2]])
    lead = int(information(both).mean(axis=0).argmax())
    strokes(page, kept_lines(both, 0.6)[:, lead].sum())  # of several heads, one query's lines
    page.get_by_role("button", name="Show the lines of all queries").click()
    strokes(page, kept[0, 0] + kept[1, 2])
    page.get_by_role("button", name="Layer 3, head 2").click()
    page.mouse.move(5, 5)  # a head that is pointed at is shown alone
    strokes(page, kept[0, 0] + kept[1, 2] + kept[2, 1])
    expect(page.get_by_role("button", name="Layer 3, head 2")).to_be_focused()
    expect(page).to_have_url(re.compile(r"heads=1\.1-2\.3-3\.2"))
    page.get_by_role("button", name="Layer 1, head 1").click()
    page.mouse.move(5, 5)
    strokes(page, kept[1, 2] + kept[2, 1])
    expect(page).to_have_url(re.compile(r"heads=2\.3-3\.2"))
    chips = page.locator(".chip[aria-pressed=true]")
    expect(chips).to_have_count(2)
    eventually(
        page,
        lambda: chips.evaluate_all(
            "all => new Set(all.map(each => getComputedStyle(each).backgroundColor)).size"
        ),
        2,
    )
    page.get_by_role("button", name="Layer 2", exact=True).click()  # all of its heads
    page.mouse.move(5, 5)
    strokes(page, kept[2, 1] + sum(kept[1, head] for head in range(3)))
    page.get_by_role("button", name="Clear").click()
    page.mouse.move(5, 5)
    strokes(page, 0)
    expect(page).to_have_url(re.compile("heads=none"))
    page.get_by_role("button", name="All heads").click()
    page.mouse.move(5, 5)
    strokes(page, sum(kept.values()))

    # One head: a token that is pointed at is alone, and a click keeps it.
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="Layer 2, head 3").click()
    page.mouse.move(5, 5)
    kept = kept_lines(trace.cross[1, 2], 0.6)
    strokes(page, kept.sum())
    until_idle(page)
    page.locator(".token.query").nth(2).hover()
    strokes(page, kept[2].sum())
    best = int(trace.cross[1, 2, 2].argmax())
    said = f"2.3 {best + 1} {plain(trace.src_tokens[best])} {trace.cross[1, 2, 2, best]:.2f}"
    expect(page.locator(".lines .readout")).to_contain_text(said)
    label = plain(query_labels(trace, "cross")[2])
    expect(page.locator(".token.query").nth(2)).to_have_attribute("title", label)
    expect(page.locator(".lines .readout")).to_contain_text(f"query 3 {label}: ")
    page.locator(".token.key").nth(1).click()
    strokes(page, kept[:, 1].sum())
    until_the_url_says(page, pin="k2", heads="2.3")
    page.mouse.move(5, 5)
    strokes(page, kept[:, 1].sum())
    page.locator(".token.key").nth(1).click()
    expect(page).to_have_url(re.compile("pin=none"))


def test_shift_marks_several_heads_by_mouse_and_keys(
    open_page: OpenPage, address: str, trace: Trace
) -> None:
    page = opened(open_page, address, kind="cross", layer="1", head="2")
    page.get_by_role("gridcell", name="Layer 3, head 1:").click(modifiers=["Shift"])
    expect(page.get_by_text("Mean of heads 1.2, 3.1", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("map=heads.*heads=1.2-3.1"))
    expect(page.locator("button.map[aria-selected=true]")).to_have_count(2)
    page.mouse.move(2, 2)  # the note tells about what the pointer is on
    expect(page.locator(".grid .readout")).to_have_text(re.compile("^2 heads are marked"))
    until_the_lens_shows(page, (trace.cross[0, 1] + trace.cross[2, 0]) / 2, "light", atol=3)
    until_idle(page)
    page.keyboard.press("End")  # the mean of layer 3 stands for all of its heads
    page.keyboard.press("Shift+Enter")
    expect(page.get_by_text("Mean of heads 1.2, 3.1, 3.2, 3.3", exact=True)).to_be_visible()
    page.keyboard.press("Shift+Space")
    expect(page.get_by_text("Head 1.2", exact=True)).to_be_visible()
    until_the_url_says(page, map="heads", heads="1.2")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Layer 3, mean over heads", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("map=cell"))
    expect(page.locator("button.map[aria-selected=true]")).to_have_count(1)


#: An element of the page or of a component, by a selector.
IN_SHADOW = """((selector) => [...document.querySelectorAll("[data-testid=stMain] *")]
    .map((each) => each.shadowRoot?.querySelector(selector)).find(Boolean))"""

#: Of the lens: the size of its cells, how many labels are hidden, how far it scrolls, and where a
#: label and the cells are.
LENS = """(lens) => {
    const cells = lens.querySelector("canvas.cells"), scroller = lens.querySelector(".scroller");
    const labels = [...lens.querySelectorAll(".row-label, .column-label")];
    return {
        size: [cells.clientWidth, cells.clientHeight],
        hidden: labels.filter((each) => each.hidden).length,
        beyond: scroller.scrollWidth - scroller.clientWidth,
        label: lens.querySelector(".row-label").getBoundingClientRect().left,
        cell: cells.getBoundingClientRect().left,
    };
}"""


def check_scrolling(lens: Locator) -> None:
    """Cells move and labels stay."""
    before, after = lens.evaluate(
        f"""(lens) => [0, 60].map((left) => {{
            lens.querySelector(".scroller").scrollLeft = left;
            return ({LENS})(lens);
        }})"""
    )
    assert before["hidden"] == 0
    assert after["label"] == before["label"]
    assert after["cell"] == before["cell"] - 60


def test_the_large_map_fills_a_large_screen_and_scrolls_on_a_phone(
    open_page: OpenPage, app: str
) -> None:
    page = open_page(
        f"{app}/attention?checkpoint=reverse-toy&sentence=abcdefghijklmnopqrstuvwxyz",
        size=(1920, 1080),
    )
    lens = page.locator(".lens")
    page.wait_for_selector(".lens canvas.cells")
    page.wait_for_function(f"() => Math.min(...({LENS})({IN_SHADOW}('.lens')).size) > 540")
    expect(page.get_by_text("Click one to enlarge it")).to_be_visible()

    screen = page.context.new_cdp_session(page)
    screen.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 5})
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_text("Tap one to enlarge it")).to_be_visible()
    expect(page.get_by_text("Click one to enlarge it")).not_to_be_visible()
    page.wait_for_function(f"() => ({LENS})({IN_SHADOW}('.lens')).beyond > 60")
    until_passes(page, lambda: check_scrolling(lens))
    lens.locator("canvas.cells").scroll_into_view_if_needed()
    screen.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
    screen.detach()
