"""The page of models in a browser: cards run nothing."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import BrowserContext, Request, expect

from tests.browser.waiting import OpenPage

CARD = """# It <b id="card-bold">bold</b>
<script>document.title = "taken"</script>
<img src="/_stcore/health?card" onerror="document.title = 'taken'">
![picture](/_stcore/health?picture) [link](javascript:document.title='taken')
:red[not red] $x$
"""


def test_a_card_is_text(
    window: BrowserContext, open_page: OpenPage, address: str, root: Path
) -> None:
    (root / "tiny" / "README.md").write_text(CARD)
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    window.on("request", note)
    page = open_page(f"{address}/models?card=tiny")
    card = page.locator(".st-key-model_card")
    expect(card).to_contain_text('<b id="card-bold">bold</b>')
    expect(card).to_contain_text("<script>")
    expect(card).to_contain_text(":red[not red] $x$")
    assert card.locator("script, img, a[href*=javascript], b, .katex").count() == 0
    assert "taken" not in page.title()
    assert not any(url.endswith(("?card", "?picture")) for url in asked)
    for width, height in ((1280, 720), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(
            """() => {
                const main = document.querySelector("[data-testid=stMain]");
                return main.clientWidth <= innerWidth && main.scrollWidth <= main.clientWidth;
            }"""
        )
    window.remove_listener("request", note)
