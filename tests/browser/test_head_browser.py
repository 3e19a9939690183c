"""Inside a head in a real browser: a click follows a key, the switch saturates the softmax."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from transformer.measures.softmax import spread
from transformer.trace.inspection import inspect_head
from transformer.trace.records import HeadStages
from transformer.translator import Translator

OpenPage = Callable[..., Page]
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
    expect(view.locator("section.stage")).to_have_count(8)
    expect(view.locator("canvas")).to_have_count(7)  # cross-attention has no mask to draw
    expect(view.locator("math").first).to_be_visible()
    assert view.locator("b").count() == 0  # tokens are text

    def readout(stage: str) -> str:
        return str(view.locator(f".{stage} .readout").text_content())

    assert readout("dots").endswith(f"q · k = {text_of(float(stages.dots[0]))}")
    expect(view.locator(".softmax .readout")).to_contain_text(
        f"weight {text_of(float(stages.scaled.weights[0]))}"
    )
    view.focus()
    page.keyboard.press("ArrowRight")
    assert readout("dots").endswith(f"q · k = {text_of(float(stages.dots[1]))}")
    assert f"= {text_of(float(stages.scaled.logits[1]))}" in readout("divide")
    expect(page).to_have_url(re.compile("[?&]key=2"))

    canvas = view.locator(".dots canvas")
    expect(canvas).to_be_visible()
    width = canvas.evaluate("canvas => canvas.getBoundingClientRect().width")
    left, columns = 4.6 * 14, len(stages.key_tokens)
    column = min(44.0, (width - left - 4.4 * 14) / columns)
    canvas.click(position={"x": left + 3.5 * column, "y": 40})
    expect(page).to_have_url(re.compile("[?&]key=4"))
    assert f"weight {text_of(float(stages.scaled.weights[3]))}" in readout("softmax")

    view.get_by_label("Divide by").uncheck()
    used = view.locator(".facts td.used")
    for row, value in enumerate(vars(spread(stages.unscaled.weights)).values()):
        expect(used.nth(row)).to_contain_text(text_of(value))
    assert f"weight {text_of(float(stages.unscaled.weights[3]))}" in readout("softmax")
    expect(page).to_have_url(re.compile("scaling=off"))
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 1280
