"""The very first visit to a server, while its libraries are still being loaded."""

from pathlib import Path

from playwright.sync_api import BrowserContext, expect

from tests.browser.waiting import OpenPage, until_at, until_the_url_says
from tests.servers import serving
from tests.waiting import wait_until

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


def test_a_fresh_server_says_that_it_starts_and_takes_a_page_by_any_of_its_names(
    window: BrowserContext, tmp_path: Path, spare_port: int, open_page: OpenPage
) -> None:
    first = window.new_page()
    first.add_init_script(WATCH)
    query = "checkpoint=reverse-toy&sentence=abcde&beam=2"
    with serving(tmp_path / "log.txt", fresh=True, port=spare_port) as (app, _):
        # The name of the page's file: no visitor has told Streamlit of the app's own names.
        first.goto(f"{app}/translate_page?{query}", wait_until="commit")
        assert wait_until(lambda: bool(first.evaluate("window.said.length")))
        assert first.evaluate("window.said[0]").startswith("Starting: PyTorch")
        # Clicked before the first run is through.
        page = open_page(f"{app}/attention?{query}")
        page.get_by_test_id("stTopNavLink").filter(has_text="Experiments").click()
        until_at(page, "/removals")
        until_the_url_says(page, sentence="abcde", checkpoint="reverse-toy", beam="2")
        expect(page.get_by_role("dialog")).to_have_count(0)  # Streamlit's: there is no such page
        first.bring_to_front()
        first.wait_for_selector("[data-testid=stMain] canvas")
        expect(first.get_by_text("Starting: PyTorch")).not_to_be_visible()
        expect(first.locator(".st-key-headline")).to_have_text("edcba")
        first.close()
        # The server is not fresh any more: by its file's name, and by its title.
        for path, title in (("attention_page", "Attention"), ("beam-search", "Translate")):
            page.goto(f"{app}/{path}?{query}")
            expect(page.locator("textarea")).to_have_value("abcde")
            link = page.get_by_role("link", name=title)
            expect(link).to_have_attribute("aria-current", "page")
            expect(page.get_by_role("dialog")).to_have_count(0)
