import re
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Locator, Page, expect

from figures.labels import ARROW, plain_token, query_labels, reads
from figures.palette import Theme
from tests.browser import waiting
from tests.browser.pixels import grid_map, until_the_grid_shows, until_the_lens_shows
from tests.browser.waiting import OpenPage, eventually, until_idle, until_passes, until_the_url_says
from transformer.measures.heads import information, kept_lines, widen
from transformer.trace.records import Trace


def link(address: str, **query: str) -> str:
    words = "&".join(f"{k}={quote(v)}" for k, v in {"sentence": waiting.SENTENCE, **query}.items())
    return f"{address}/attention?{words}"


def opened(open_page: OpenPage, address: str, theme: Theme = "light", **query: str) -> Page:
    page = open_page(link(address, **query), theme)
    expect(page.locator("canvas.cells")).to_be_visible()
    until_idle(page)
    return page


def lens_says(page: Page, query: int, key: int, weights: NDArray[np.float32], *more: str) -> None:
    """Return the weight at the pointer; the lens may be redrawn meanwhile."""
    n, m = weights.shape

    def check() -> None:
        waiting.point(page.locator("canvas.cells"), key, query, m, n)
        said = page.locator(".lens .readout").inner_text()
        for text in (f": {weights[query, key]:.2%}", *more):
            assert text in said

    until_passes(page, check)


def check_pixels(page: Page, trace: Trace, theme: Theme) -> None:
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
    """All maps share one canvas, so its drawing must follow the cells."""
    near = f"() => ({APART})() <= 0.51"
    page.wait_for_function(near)
    cell = page.locator("button.map").first
    before = waiting.at_rest(page, cell.bounding_box)
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
    assert waiting.at_rest(page, cell.bounding_box) != before
    screen.send("Emulation.clearDeviceMetricsOverride")
    screen.detach()


def test_pixels_follow_theme_and_size(open_page: OpenPage, address: str, trace: Trace) -> None:
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
        said = f"{reads(rows[query], trace.src_tokens[key])}: "
        lens_says(page, query, key, trace.cross[1, 2], said)
    expect(page.locator(".row-label").nth(1)).to_have_attribute("title", plain_token(rows[1]))
    labels = page.locator(".column-label")
    eventually(page, lambda: waiting.texts(labels), [*map(plain_token, trace.src_tokens)])
    assert page.locator(".lens b, .lens script").count() == 0
    hidden = trace.cross[1, 2][:, -1].mean()
    expect(page.get_by_text(f"hides {hidden:.2f} of the attention")).to_be_visible()
    until_passes(
        page,
        lambda: np.testing.assert_array_equal(
            np.unique(grid_map(page, 1, 2)[:, -1], axis=0), [[0xE4, 0xE1, 0xD8]]
        ),
    )

    # Labels of the matrix choose tokens to add up.
    page.get_by_role("radio", name="Matrix", exact=True).click()
    page.locator("button.column-label").nth(1).click()
    until_the_url_says(page, keys="2")
    page.locator("button.row-label").nth(3).click()
    until_the_url_says(page, queries="4")
    values = trace.cross[:, :, 3, 1]
    expect(page.get_by_text(f"attention weight: {values.max():.0%};")).to_be_visible()
    expect(page.locator("button[aria-pressed=true].column-label")).to_have_count(1)


def test_clicks_and_keys_choose_several(open_page: OpenPage, address: str, trace: Trace) -> None:
    page = opened(open_page, address, kind="cross", layer="1", head="1")

    def named(heading: str, chosen: int = 1) -> None:
        expect(page.get_by_text(heading, exact=True)).to_be_visible()
        expect(page.locator("button.map[aria-selected=true]")).to_have_count(chosen)

    page.get_by_role("gridcell", name="Layer 3, head 2:").click()
    named("Layer 3, head 2")
    until_the_url_says(page, layer="3", head="2")
    until_idle(page)
    for query, key in [(0, 1), (2, 0), (3, 4)]:
        lens_says(page, query, key, trace.cross[2, 1])
    page.get_by_role("gridcell", name="Layer 1, head 1:").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    named("Layer 1, head 2")

    page.get_by_role("gridcell", name="Layer 3, head 1:").click(modifiers=["Shift"])
    named("Mean of heads 1.2, 3.1", 2)
    until_the_url_says(page, map="heads", heads="1.2-3.1")
    page.mouse.move(2, 2)  # the note tells about what the pointer is on
    expect(page.locator(".grid .readout")).to_have_text(waiting.starting_with("2 heads are marked"))
    until_the_lens_shows(page, (trace.cross[0, 1] + trace.cross[2, 0]) / 2, "light", atol=3)
    until_idle(page)
    page.keyboard.press("End")  # the mean of layer 3 stands for all of its heads
    page.keyboard.press("Shift+Enter")
    named("Mean of heads 1.2, 3.1, 3.2, 3.3", 4)
    page.keyboard.press("Shift+Space")
    named("Head 1.2")
    until_the_url_says(page, map="heads", heads="1.2")
    page.keyboard.press("Enter")
    named("Layer 3, mean over heads")
    until_the_url_says(page, kind="cross", map="cell", layer="3", head="mean")


def test_lines_hold_the_share_of_heads(open_page: OpenPage, address: str, trace: Trace) -> None:
    chosen, mass = "1.1-1.2-1.3-2.3", "0.6"
    page = open_page(link(address, kind="cross", display="heads", heads=chosen, mass=mass))
    kept = {head: kept_lines(trace.cross[head], 0.6).sum() for head in np.ndindex(3, 3)}
    four = np.stack([*trace.cross[0], trace.cross[1, 2]])

    def strokes(count: int) -> None:
        expect(page.locator(".lines")).to_have_attribute("data-lines", str(count))

    strokes(kept_lines(four, 0.6)[:, information(four).mean(0).argmax()].sum())  # one query's
    layer, chips = [(1, head) for head in range(3)], page.locator(".chip[aria-pressed=true]")

    def colour(chip: Locator) -> str:
        return str(chip.evaluate("chip => getComputedStyle(chip).backgroundColor"))

    for button, heads, said in (
        ("Show the lines of all queries", [(0, 0), (0, 1), (0, 2), (1, 2)], None),
        ("Layer 1, head 2", [(0, 0), (0, 2), (1, 2)], "1.1-1.3-2.3"),
        ("Layer 1, head 1", [(0, 2), (1, 2)], "1.3-2.3"),
        ("Layer 2", [*layer, (0, 2)], None),
        ("Clear", [], "none"),
        ("All heads", list(kept), None),
        ("Clear", [], "none"),
        ("Layer 2, head 3", [(1, 2)], "2.3"),
    ):
        chosen = page.get_by_role("button", name=button, exact=button == "Layer 2")
        chosen.click()
        page.mouse.move(5, 5)  # a head that is pointed at is shown alone
        strokes(sum(kept[head] for head in heads))
        if said:
            until_the_url_says(page, heads=said)
        if len(heads) == 2 and heads[0] == (0, 2):  # each in a colour of its own
            expect(chosen).to_be_focused()
            eventually(page, lambda: len(set(map(colour, chips.all()))), 2)

    # One head: a token that is pointed at is alone, and a click keeps it.
    one = kept_lines(trace.cross[1, 2], 0.6)
    until_idle(page)
    page.locator(".token.query").nth(2).hover()
    strokes(one[2].sum())
    best = int(trace.cross[1, 2, 2].argmax())
    label = plain_token(query_labels(trace, "cross")[2])
    said = f"“{label.split(ARROW)[0]}” reads “{plain_token(trace.src_tokens[best])}” "
    expect(page.locator(".lines .readout")).to_contain_text(said)
    expect(page.locator(".token.query").nth(2)).to_have_attribute("title", label)
    page.locator(".token.key").nth(1).click()
    until_the_url_says(page, pin="k2", heads="2.3")
    page.mouse.move(5, 5)
    strokes(one[:, 1].sum())
    page.locator(".token.key").nth(1).click()
    until_the_url_says(page, pin="none")


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
    before, after = lens.evaluate(
        f"""(lens) => [0, 60].map((left) => {{
            lens.querySelector(".scroller").scrollLeft = left;
            return ({LENS})(lens);
        }})"""
    )
    assert before["hidden"] == 0 and before["beyond"] > 60
    assert after["label"] == before["label"]
    assert after["cell"] == before["cell"] - 60


def test_the_large_map_fills_its_screen_or_scrolls(open_page: OpenPage, address: str) -> None:
    link = f"{address}/attention?sentence={'a%20b%20c%20d%20' * 4}e"
    page = open_page(link, size=(1920, 1080), anew=True)
    lens = page.locator(".lens")
    eventually(page, lambda: min(lens.evaluate(LENS)["size"]) > 540, True)
    expect(page.get_by_text("Click one to enlarge it")).to_be_visible()

    screen = page.context.new_cdp_session(page)
    screen.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 5})
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_text("Tap one to enlarge it")).to_be_visible()
    until_passes(page, lambda: check_scrolling(lens))
    # A tap enlarges a map, also where a mouse has a switch, and reads a cell as a mouse does.
    for what in (page.locator(".grid .switch").nth(1), lens.locator("canvas.cells")):
        until_passes(page, what.scroll_into_view_if_needed)
        box = waiting.at_rest(page, what.bounding_box) or {}
        middle = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for at, points in (("touchStart", [middle]), ("touchEnd", [])):
            screen.send("Input.dispatchTouchEvent", {"type": at, "touchPoints": points})
        assert until_the_url_says(page, layer="1", head="2", edit=None)
    expect(lens.locator(".readout")).to_contain_text(re.compile("^“.+” reads “.+”"))
    screen.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
    screen.detach()
