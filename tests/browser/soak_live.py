"""The full counts of test_live.py: 200 sentences for every model, and 5,000 texts."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.live import LIVE, compare, compare_segmentation, live_pages, odd_texts, typed


@pytest.fixture(scope="module")
def live(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Page]]:
    yield from live_pages(browser, tmp_path_factory.mktemp("live"))


@pytest.mark.parametrize("name", LIVE)
def test_200_typed_sentences(live: dict[str, Page], name: str) -> None:
    for sentence in typed(name, 200, seed=1):
        for beam in (1, 4):
            compare(live[name], name, sentence, beam)


@pytest.mark.parametrize("name", LIVE)
def test_5000_texts(live: dict[str, Page], name: str) -> None:
    texts = odd_texts(5_000, seed=1)
    for first in range(0, len(texts), 500):
        compare_segmentation(live[name], name, texts[first : first + 500])
