"""Inside a head in a real browser: a click follows a key, the divisor saturates the softmax."""

from __future__ import annotations

import math
import re
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.waiting import (
    OpenPage,
    at_rest,
    eventually,
    until_idle,
    until_it_fits,
    until_passes,
)
from transformer.measures.entropy import divided, spread
from transformer.trace.inspection import inspect_head
from transformer.trace.records import HeadStages
from transformer.translator import Translator

SENTENCE = "The cat <b>sat</b> on it."


@pytest.fixture(scope="module")
def stages(tiny_translator: Translator) -> HeadStages:
    trace = tiny_translator.trace(SENTENCE)
    return inspect_head(tiny_translator.model, trace, "cross", 1, 2, 1)


def text_of(value: float) -> str:
    """A number as the page writes it."""
    size = abs(value)
    if size != 0 and size < 0.0005:
        mantissa, power = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(power)}".replace("-", "−")
    return f"{value:.{1 if size >= 100 else 2 if size >= 10 else 3}f}".replace("-", "−")


def test_a_key_is_followed_through_all_stages(
    open_page: OpenPage, address: str, stages: HeadStages
) -> None:
    query = f"sentence={quote(SENTENCE)}&kind=cross&layer=2&head=3&query=2&key=1"
    page = open_page(f"{address}/head?{query}", "dark")
    view = page.locator(".stages")
    expect(view.locator("section.stage")).to_have_count(9)  # the softmax and its divisor come first
    expect(view.locator("canvas")).to_have_count(8)  # cross-attention has no mask to draw
    for part in ("input.divisor", ".bench canvas", ".bench .facts"):  # on the first screen
        expect(view.locator(part)).to_be_in_viewport(ratio=1)
    expect(view.locator("math").first).to_be_visible()
    assert view.locator("b").count() == 0  # tokens are text

    def reads(stage: str, text: str) -> None:
        expect(view.locator(f".{stage} .readout")).to_contain_text(text)

    def is_the_models() -> bool:
        return float(str(view.get_attribute("data-apart"))) < 1e-6

    reads("dots", f"q · k = {text_of(float(stages.dots[0]))}")
    reads("softmax", f"weight {text_of(float(stages.scaled.weights[0]))}")
    until_idle(page)
    view.focus()
    page.keyboard.press("ArrowRight")
    reads("dots", f"q · k = {text_of(float(stages.dots[1]))}")
    reads("divide", f"= {text_of(float(stages.scaled.logits[1]))}")
    expect(page).to_have_url(re.compile("[?&]key=2"))

    canvas = view.locator(".dots canvas")
    expect(canvas).to_be_visible()
    width = at_rest(page, lambda: canvas.evaluate("canvas => canvas.getBoundingClientRect().width"))
    left, columns = 4.6 * 14, len(stages.key_tokens)
    column = min(44.0, (width - left - 4.4 * 14) / columns)
    canvas.click(position={"x": left + 3.5 * column, "y": 40})
    expect(page).to_have_url(re.compile("[?&]key=4"))
    reads("softmax", f"weight {text_of(float(stages.scaled.weights[3]))}")

    # The divisor moves the softmax and nothing else.
    slider = view.get_by_role("slider", name="Divide q")
    eventually(page, is_the_models, True)
    tops = "all => all.map(each => each.getBoundingClientRect().top)"
    slider.scroll_into_view_if_needed()
    before = at_rest(page, lambda: view.locator("section.stage").evaluate_all(tops))
    slider.focus()
    page.keyboard.press("Home")
    expect(page).to_have_url(re.compile("scaling=1(&|$)"))
    expect(slider).to_be_focused()
    assert at_rest(page, lambda: view.locator("section.stage").evaluate_all(tops)) == before
    for place in (".bench", ".softmax"):
        used = view.locator(f"{place} .facts td.used")
        for row, value in enumerate(vars(spread(stages.unscaled.weights)).values()):
            expect(used.nth(row)).to_contain_text(text_of(value))
    reads("softmax", f"weight {text_of(float(stages.unscaled.weights[3]))}")
    length = text_of(float(np.linalg.norm(stages.unscaled.contribution)))
    reads("output", f"contribution {length}")

    root = math.sqrt(len(stages.q))
    box = at_rest(page, slider.bounding_box)
    assert box is not None
    y, width = box["y"] + box["height"] / 2, box["width"] - 16
    page.mouse.move(box["x"] + 8, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 8 + 0.75 * width, y, steps=4)

    def check_divisor() -> None:
        at = float(view.locator(".divide-by output").inner_text())
        assert root < at < 2 * root
        largest = text_of(float(divided(stages.dots, stages.mask, at).max()))
        assert view.locator(".bench .facts td.used").nth(1).inner_text().strip() == largest

    until_passes(page, check_divisor)
    # Near the model's own a drag stays on it, and the address says nothing of it.
    page.mouse.move(box["x"] + 8 + width * ((root - 1) / (2 * root - 1) + 0.02), y, steps=4)
    expect(view.locator(".divide-by output")).to_contain_text("as the model does")
    page.mouse.up()
    expect(page).not_to_have_url(re.compile("scaling"))
    eventually(page, is_the_models, True)
    until_it_fits(page)
