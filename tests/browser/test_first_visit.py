"""The very first visit to a server, while its libraries are still being loaded."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.waiting import until_at, until_passes, until_the_url_says
from ui.frame.pages import PAGES

OpenPage = Callable[..., Page]

#: Notes what the page's main part says, each text once, from when the navigation is there.
WATCH = """
window.said = [];
new MutationObserver(() => {
  const main = document.querySelector("[data-testid=stMain]");
  if (!main || !document.querySelector("[data-testid=stTopNavLink]")) return;
  const text = main.innerText.trim();
  if (text && text !== window.said.at(-1)) window.said.push(text);
}).observe(document, { childList: true, subtree: true, characterData: true });
"""


def test_while_the_server_starts_a_word_is_on_screen_and_a_link_keeps_what_the_address_said(
    window: BrowserContext, cold_app: str, open_page: OpenPage
) -> None:
    first = window.new_page()
    first.add_init_script(WATCH)
    first.goto(cold_app, wait_until="commit")
    # Clicked before the first run is through.
    page = open_page(f"{cold_app}/attention?checkpoint=reverse-toy&sentence=abcde&beam=2")
    page.get_by_test_id("stTopNavLink").filter(has_text="Tokens").click()
    until_at(page, "/tokens")
    until_the_url_says(page, sentence="abcde", checkpoint="reverse-toy", beam="2")
    first.bring_to_front()
    first.wait_for_selector("[data-testid=stMain] canvas")
    expect(first.get_by_text("Starting: PyTorch")).not_to_be_visible()
    assert first.evaluate("window.said[0]").startswith("Starting: PyTorch")
    first.close()


def test_every_page_has_its_link_in_one_row(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/glossary")
    links = page.get_by_test_id("stTopNavLink")
    expect(links).to_have_count(len(PAGES))
    expect(links).to_have_text([spec.title for spec in PAGES])

    def check() -> None:
        boxes = [link.bounding_box() for link in links.all()]
        for box in boxes:
            assert box is not None and boxes[0] is not None
            assert round(box["y"]) == round(boxes[0]["y"])
            assert box["x"] + box["width"] <= 1280 - 60  # the menu's button stands there

    until_passes(page, check)
