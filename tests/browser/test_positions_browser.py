"""The Positions page in a real browser: every picture is drawn, and controls redraw them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import start_app, stop_app

OpenPage = Callable[..., Page]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The app without any checkpoint: the page needs none."""
    url, process = start_app(tmp_path / "log.txt", tmp_path)
    try:
        yield url
    finally:
        stop_app(process)


def test_the_story_is_drawn_and_a_shift_turns_the_hands(open_page: OpenPage, address: str) -> None:
    page = open_page(f"{address}/?d=32", "dark")
    page.get_by_text("No checkpoint to look into").wait_for(timeout=60_000)
    page.get_by_role("link", name="Positions").click()
    plots = page.locator(".js-plotly-plot")
    expect(plots).to_have_count(4, timeout=90_000)  # table, curves, products, beyond training
    expect(page.locator(".stVegaLiteChart canvas, .stVegaLiteChart svg")).to_have_count(
        2, timeout=90_000
    )
    first_row = page.locator("table tbody tr").first
    expect(first_row).to_contain_text("+0.9894, -0.1455")  # sin 8, cos 8
    page.get_by_role("spinbutton", name="Offset k").fill("-5")
    page.keyboard.press("Enter")
    expect(first_row).to_contain_text("+0.0000, +1.0000")  # position 0
    expect(page).to_have_url(re.compile("k=-5"))
