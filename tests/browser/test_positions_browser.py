"""The Positions page in a real browser: logits are split into a sum."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.waiting import OpenPage, until_idle, until_passes
from transformer.trace.split import split_logits
from transformer.translator import Translator


def test_the_split_writes_a_sum_out(
    open_page: OpenPage, address: str, tiny_translator: Translator
) -> None:
    query = "sentence=A%20dog%20runs.&part=model&head=2&split=decoder"
    page = open_page(f"{address}/positions?{query}", "dark")
    view = page.locator(".parts")
    expect(view.locator("canvas")).to_have_count(5)
    until_idle(page)
    view.press("ArrowDown")
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
