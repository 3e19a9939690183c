"""Every page in both themes: no error in the console, no request that fails, nothing too wide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import PATIENCE_MS
from ui.frame import PAGES

OpenPage = Callable[..., Page]
QUERY = "checkpoint=reverse-toy&sentence=abcde"


def settled(page: Page) -> None:
    """The page has been drawn, and what it draws later too."""
    idle = "[data-testid=stApp][data-test-script-state=notRunning]"
    page.wait_for_selector(f"{idle} [data-testid=stMainBlockContainer]", timeout=PATIENCE_MS)
    page.wait_for_timeout(700)
    page.wait_for_selector(idle, timeout=PATIENCE_MS)
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)


def test_no_page_says_anything_wrong(app: str, window: BrowserContext) -> None:
    """Half of the pages are opened in one theme and half in the other; all are seen in both."""
    wrong: list[str] = []
    page = window.new_page()
    themes: list[Literal["light", "dark"]] = ["light", "dark"]
    page.set_default_timeout(PATIENCE_MS)
    where = ""
    page.on("pageerror", lambda error: wrong.append(f"{where}: {error}"))
    page.on(
        "console",
        lambda said: (
            wrong.append(f"{where}: {said.text} {said.location.get('url', '')}")
            if said.type == "error"
            else None
        ),
    )
    page.on(
        "response",
        lambda got: wrong.append(f"{where}: {got.status} {got.url}") if got.status >= 400 else None,
    )
    # A page that is left takes its unfinished requests with it.
    page.on(
        "requestfailed",
        lambda asked: (
            wrong.append(f"{where}: {asked.failure} {asked.url}")
            if "ERR_ABORTED" not in (asked.failure or "")
            else None
        ),
    )
    try:
        for spec in PAGES:
            where = spec.url_path
            page.emulate_media(color_scheme=themes[0])
            page.goto(f"{app}/{spec.url_path}?{QUERY}")
            settled(page)
            expect(page.get_by_role("link", name=spec.title).first).to_be_visible()
            unnamed = page.evaluate(UNNAMED)
            assert not unnamed, f"{where}: pictures without a text: {unnamed}"
            for theme in themes:
                page.emulate_media(color_scheme=theme)
                settled(page)
                expect(page.get_by_test_id("stException")).to_have_count(0)
                width = page.evaluate("document.documentElement.scrollWidth")
                assert width <= 1280, where
            themes.reverse()
    finally:
        page.close()
    assert not wrong


#: Pictures on the page, in shadow roots too, that a screen reader would meet without a name.
UNNAMED = """() => {
    const found = [];
    const named = (element) => {
        for (let at = element; at; at = at.parentElement ?? at.getRootNode().host) {
            if (at.getAttribute?.("aria-hidden") === "true") return true;
            if (at.getAttribute?.("aria-label") || at.getAttribute?.("alt")) return true;
            // Streamlit's own table is drawn on a canvas that holds an accessible table.
            if (at.dataset?.testid === "stDataFrame") return true;
            if (at.dataset?.testid === "stMain") return false;
        }
        return false;
    };
    const walk = (root) => {
        for (const element of root.querySelectorAll("*")) {
            if (element.shadowRoot) walk(element.shadowRoot);
            if (!element.matches("canvas, img, svg[role=img], .js-plotly-plot")) continue;
            if (!element.getClientRects().length || named(element)) continue;
            found.push(element.outerHTML.slice(0, 120));
        }
    };
    walk(document.querySelector("[data-testid=stMain]"));
    return found;
}"""


def test_a_phone_can_read_every_page(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/?{QUERY}", size=(390, 844))
    for spec in PAGES:
        page.goto(f"{app}/{spec.url_path}?{QUERY}")
        settled(page)
        widths = page.evaluate(
            """() => {
                const main = document.querySelector("[data-testid=stMain]");
                return [document.documentElement.scrollWidth, main.scrollWidth - main.clientWidth];
            }"""
        )
        assert widths[0] <= 390, spec.title
        assert widths[1] <= 0, f"{spec.title} scrolls sideways by {widths[1]} px"
