"""Every page and view, as its declaration lists them, for readers of screens and users of keys."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page, expect

from figures.labels import plain_token, query_labels
from tests.browser.test_console import AXE
from tests.browser.waiting import SENTENCE, OpenPage, eventually, until_settled
from tests.soaking import LONG
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.compare.choice import sections
from ui.core.url_state import OneOf
from ui.frame.page import all_pages

QUERY = {"checkpoint": "everyday-en-de", "beam": "2", "opening": "0",
         "sentence": "She was reading a book when I came home."}  # fmt: skip
MODELS = {"parsing": "parsing-gum"}  # of pages that need another

FINDINGS = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.flatMap(({ id, nodes }) =>
        nodes.map(({ html }) => `${id}: ${html.slice(0, 160)}`));
}"""

#: Components with a canvas and no list, table or buttons that say what it shows, and charts
#: without a name.
SILENT = """() => {
    const main = all(document.querySelector("[data-testid=stMain]"));
    const words = ".spoken li, table td, [role=grid] [aria-label], [role=listitem], .word";
    const seen = main.filter((each) => each.checkVisibility());
    const silent = seen.filter((each) => each.matches(".component:has(canvas)")
        && !each.querySelector(words));
    const name = "[aria-label]:not([aria-label=''])";
    const chart = "[data-testid=stVegaLiteChart], .js-plotly-plot";
    const unnamed = seen.filter((each) => each.matches(chart)
        && !(each.closest(name) ?? each.querySelector(name)));
    return [...silent, ...unnamed].map((each) => each.outerHTML.slice(0, 160));
}"""


def views() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the address and settings of every page, menu entry, choice of words and comparison."""
    for page in all_pages():
        entries = [dict(entry.settings) for entry in page.entries]
        words = [
            {param.name: word}
            for param in page.params if isinstance(param.parse, OneOf)
            for word in param.parse if word != param.default
        ]  # fmt: skip
        kept: list[dict[str, str]] = []
        for settings in ({}, *entries, *words):
            if settings not in kept and "both" not in settings.values():  # "both" is the player's
                kept.append(settings)
                yield page.path, settings
    for name in sections():
        yield "compare", {"topic": name}


VIEWS = tuple(views())


def in_words(weights: Floats, keys: Sequence[str], number: int, row: str) -> str:
    """A row of a map as a screen reader meets it."""
    most = sorted(zip(weights, keys, strict=True), key=lambda each: -each[0])[:3]
    seen = ", ".join(f"{plain_token(key)} {100 * weight:.0f}%" for weight, key in most)
    return f"row {number} {row}: {seen}".replace("▁", "_")


@pytest.mark.parametrize(
    "at", ["?", "attention?display=matrix&", "attention?display=heads&mass=1&"]
)
def test_rows_of_a_map_are_said(open_page: OpenPage, address: str, trace: Trace, at: str) -> None:
    query = f"{at}kind=cross&layer=1&head=2&heads=1.2&sentence={quote(SENTENCE)}"
    page = open_page(f"{address}/{query}", anew=True)
    rows, keys = query_labels(trace, "cross"), trace.src_tokens
    wanted = [
        in_words(weights, keys, number, row)
        for number, (weights, row) in enumerate(zip(trace.cross[0, 1], rows, strict=True), 1)
    ]
    items = page.locator(".spoken").first.locator("li")
    eventually(page, lambda: items.all_text_contents(), wanted)


@pytest.mark.parametrize(
    ("at", "picture"), [("?", ".player"), ("beam?", ".tree .view"), ("attention?", ".grid .map")]
)
def test_the_picture_is_two_tabs_away(app: str, page: Page, at: str, picture: str) -> None:
    page.goto(f"{app}/{at}{urlencode(QUERY)}")
    until_settled(page)
    expect(page.locator(picture).first).to_be_visible()
    for _ in range(2):
        page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the picture")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator(f"{picture}:focus")).to_have_count(1)


@pytest.mark.timeout(900)  # a slow machine takes a minute for some views
@pytest.mark.parametrize("part", range(4))
def test_every_view_is_accessible(app: str, page: Page, part: int) -> None:
    """Without a finding of axe in any theme, presenting or not; every picture in words too.

    Pages are looked at in all three ways, other views in one, and in all where time is given.
    """
    wrong: list[str] = []
    page.emulate_media(reduced_motion="reduce")  # colours at rest, not on their way

    def look(where: str) -> None:
        until_settled(page)
        page.evaluate(AXE)
        # Streamlit's own place for files gives its label to an element without a role.
        found = (each for each in page.evaluate(FINDINGS) if "stFileUploaderDropzone" not in each)
        wrong.extend(f"{where}: {each}" for each in found)

    for at, (path, settings) in [*enumerate(VIEWS)][part::4]:
        model = MODELS.get(path, QUERY["checkpoint"])
        address = f"{app}/{path}?{urlencode({**QUERY, 'checkpoint': model, **settings})}"
        every, where = LONG or not settings, f"{path} {settings}"
        if every or at % 3:
            page.emulate_media(color_scheme="light" if every or at % 2 else "dark")
            page.goto(address)
            look(where)
            expect(page.get_by_test_id("stException")).to_have_count(0)
            eventually(page, lambda: page.evaluate(SILENT), [])
        if every:
            page.emulate_media(color_scheme="dark")
            look(f"{where}, dark")
        if every or at % 3 == 0:
            page.emulate_media(color_scheme="light")
            page.goto(f"{address}&present=on")
            look(f"{where}, presenting")
            eventually(page, lambda: page.evaluate(SILENT), [])
    assert not wrong, "\n".join(wrong)
