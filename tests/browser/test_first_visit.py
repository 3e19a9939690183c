"""The very first visit to a server, while its libraries are still being loaded."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.waiting import OpenPage, until_at, until_the_url_says
from tests.servers import serving

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
    window: BrowserContext, tmp_path: Path, spare_port: int, open_page: OpenPage
) -> None:
    first = window.new_page()
    first.add_init_script(WATCH)
    with serving(tmp_path / "log.txt", fresh=True, port=spare_port) as (app, _):
        check_first_visit(app, first, open_page)
        first.close()


def check_first_visit(app: str, first: Page, open_page: OpenPage) -> None:
    first.goto(app, wait_until="commit")
    # Clicked before the first run is through.
    page = open_page(f"{app}/attention?checkpoint=reverse-toy&sentence=abcde&beam=2")
    page.get_by_test_id("stTopNavLink").filter(has_text="Tokens").click()
    until_at(page, "/tokens")
    until_the_url_says(page, sentence="abcde", checkpoint="reverse-toy", beam="2")
    expect(page.get_by_role("dialog")).to_have_count(0)  # Streamlit's, that there is no such page
    first.bring_to_front()
    first.wait_for_selector("[data-testid=stMain] canvas")
    expect(first.get_by_text("Starting: PyTorch")).not_to_be_visible()
    assert first.evaluate("window.said[0]").startswith("Starting: PyTorch")
