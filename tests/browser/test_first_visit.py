"""The very first visit to a server, while its libraries are still being loaded."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PATIENCE_MS
from ui.frame.pages import PAGES

OpenPage = Callable[..., Page]

#: Counts how long the page's main part shows nothing at all once the navigation is there.
WATCH = """
window.blank = 0;
let before = performance.now();
setInterval(() => {
  const now = performance.now(), lasted = now - before;
  before = now;
  const main = document.querySelector("[data-testid=stMain]");
  if (!main || !document.querySelector("[data-testid=stTopNavLink]")) return;
  const seen = main.innerText.trim() || main.querySelector("canvas, [data-testid=stSkeleton]");
  window.run = seen ? 0 : (window.run ?? 0) + lasted;
  window.blank = Math.max(window.blank, window.run);
}, 50);
"""


def test_a_word_is_on_screen_while_the_server_starts(browser: Browser, cold_app: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.add_init_script(WATCH)
    page.goto(cold_app)
    page.wait_for_selector("[data-testid=stMain] canvas", timeout=PATIENCE_MS)
    assert page.evaluate("window.blank") < 1_500
    expect(page.get_by_text("Starting: PyTorch")).not_to_be_visible()
    page.close()


def test_a_link_clicked_before_the_first_run_is_through_keeps_what_the_address_said(
    cold_app: str, open_page: OpenPage
) -> None:
    page = open_page(f"{cold_app}/attention?checkpoint=reverse-toy&sentence=abcde&beam=2")
    page.get_by_test_id("stTopNavLink").filter(has_text="Tokens").click()
    page.wait_for_function("location.pathname === '/tokens'")
    page.wait_for_function(
        """() => {
            const said = new URLSearchParams(location.search);
            return said.get("sentence") === "abcde" && said.get("checkpoint") === "reverse-toy"
                && said.get("beam") === "2";
        }""",
        timeout=PATIENCE_MS,
    )


def test_every_page_has_its_link_in_one_row(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/glossary")
    links = page.get_by_test_id("stTopNavLink")
    expect(links).to_have_count(len(PAGES))
    tops = set()
    for spec, link in zip(PAGES, links.all(), strict=True):
        expect(link).to_have_text(spec.title)
        box = link.bounding_box()
        assert box is not None
        tops.add(round(box["y"]))
        assert box["x"] + box["width"] <= 1280 - 60  # the menu's button stands there
    assert len(tops) == 1
