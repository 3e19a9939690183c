"""The Positions page in a real browser: every picture is drawn, and controls redraw them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.waiting import until_idle, until_passes
from transformer.trace.split import split_logits
from transformer.translator import Translator

OpenPage = Callable[..., Page]


def test_the_story_is_drawn_and_a_shift_turns_the_hands(open_page: OpenPage, address: str) -> None:
    page = open_page(f"{address}/positions?d=32", "dark")
    plots = page.locator(".js-plotly-plot")
    expect(plots).to_have_count(4)  # table, curves, products, beyond training
    expect(page.locator(".stVegaLiteChart canvas, .stVegaLiteChart svg")).to_have_count(2)
    first_row = page.locator("table tbody tr").first
    expect(first_row).to_contain_text("+0.9894, -0.1455")  # sin 8, cos 8
    until_idle(page)
    page.get_by_role("spinbutton", name="Offset k").fill("-5")
    page.keyboard.press("Enter")
    expect(first_row).to_contain_text("+0.0000, +1.0000")  # position 0
    expect(page).to_have_url(re.compile("k=-5"))


def test_the_split_writes_a_sum_out(
    open_page: OpenPage, address: str, tiny_translator: Translator
) -> None:
    query = "sentence=A%20dog%20runs.&part=model&head=2&split=decoder"
    page = open_page(f"{address}/positions?{query}", "dark")
    view = page.locator(".parts")
    expect(view.locator("canvas")).to_have_count(5)
    until_idle(page)
    view.focus()
    for key in ("ArrowDown",):
        page.keyboard.press(key)
    trace = tiny_translator.trace("A dog runs.")
    split = split_logits(tiny_translator.model, trace, "decoder_self", 1)
    readout = view.locator(".readout")
    expect(readout).to_contain_text("query 2")

    def check() -> None:
        said = str(readout.text_content()).replace("−", "-")
        *parts, total = (float(x) for x in re.findall(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?", said))
        assert len(parts) == 4
        assert sum(parts) == pytest.approx(total, abs=0.03)
        assert total == pytest.approx(float(split.logits[1, 0]), abs=0.01)

    until_passes(page, check)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(readout).to_contain_text("masked")
