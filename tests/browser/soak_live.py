"""200 sentences for every model, 5,000 texts, and every page of the gallery."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from headlight.__main__ import main
from headlight.gallery import VIEWS
from tests.browser.live import LIVE, compare, compare_segmentation, odd_texts, typed
from tests.browser.test_gallery import reads_well
from tests.soaking import LONG

#: The suite types a sample of these.
all_of_them = pytest.mark.skipif(not LONG, reason="make soak LONG=1 types hundreds of sentences")


@all_of_them
@pytest.mark.parametrize("name", LIVE)
def test_200_typed_sentences(live: dict[str, Page], name: str) -> None:
    for sentence in typed(name, 200, seed=1):
        for beam in (1, 4):
            compare(live[name], name, sentence, beam)


@all_of_them
@pytest.mark.parametrize("name", LIVE)
def test_5000_texts(live: dict[str, Page], name: str) -> None:
    texts = odd_texts(5_000, seed=1)
    for first in range(0, len(texts), 500):
        compare_segmentation(live[name], name, texts[first : first + 500])


def test_every_page_of_the_gallery(browser: Browser, tmp_path: Path) -> None:
    """Sizes, no error, no network, and every page, with one view alone too, reads well."""
    assert main(["gallery", "--out", str(tmp_path)]) == 0
    pages = sorted(tmp_path.glob("*.html"))
    assert len(pages) > 40 and max(page.stat().st_size for page in pages) < 1_500_000
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.*")) < 60_000_000
    window, wrong = browser.new_context(offline=True), list[str]()
    tab = window.new_page()
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda line: wrong.append(line.text))
    tab.set_viewport_size({"width": 1280, "height": 720})
    for page in pages:
        for alone in ("", *VIEWS):
            shown = not alone or f'data-component="{alone}"' in page.read_text("utf-8")
            if shown and (LONG or not alone):
                reads_well(tab, page.as_uri() + f"?embed={alone}" * bool(alone))
                assert wrong == [], (page.stem, alone)
    window.close()
