"""One cell, one name: the same decoder row carries the same label on every page."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from figures.labels import plain_token, query_labels
from tests.browser.test_translate import point_at_matrix
from tests.browser.waiting import (
    eventually,
    point,
    until_at,
    until_passes,
    until_settled,
    until_the_url_says,
)
from transformer.trace.records import Trace
from transformer.translator import Translator

OpenPage = Callable[..., Page]
SENTENCE = "the little dog sat on the mat"
#: The cell that every page is asked about: row and column, from 0.
STEP, SOURCE = 2, 3

#: Counts what is moved by the script of a component.
COUNT_MOVES = """() => {
    window.moves = 0;
    const animate = Element.prototype.animate;
    Element.prototype.animate = function (...how) {
        window.moves += 1;
        return animate.apply(this, how);
    };
}"""


#: Goes to an address of the app as the browser's buttons do, which costs half of opening it.
FOLLOW = """async (address) => {
    history.pushState(null, "", address);
    dispatchEvent(new PopStateEvent("popstate"));
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
}"""


@pytest.fixture(scope="module")
def trace(tiny_translator: Translator) -> Trace:
    made = tiny_translator.trace(SENTENCE)
    assert len(made.tgt_tokens) > STEP + 1
    return made


def lens_says(page: Page, label: str, trace: Trace) -> None:
    """The row of the first lens is named so, and so is the cell where one points at it."""
    lens = page.locator(".lens").first
    row = lens.locator(".row-label").nth(STEP)
    expect(row).to_have_attribute("title", label)
    n, m = len(trace.tgt_tokens), len(trace.src_tokens)

    def check() -> None:
        point(lens.locator("canvas.cells"), SOURCE, STEP, m, n)
        said = lens.locator(".readout").inner_text()
        assert f"query {STEP + 1} {label}, key {SOURCE + 1} " in said

    until_passes(page, check)


def player_says(page: Page, label: str) -> None:
    """The matrix names the row where one points at it, and what is read out names the step."""
    player = page.locator(".player").first
    expect(player.locator("[aria-live]")).to_contain_text(f"Step {STEP + 1}: {label},")

    def check() -> None:
        point_at_matrix(player.locator("canvas.matrix"), STEP, SOURCE)
        assert f"query {STEP + 1} {label}" in player.locator(".tip").inner_text()

    until_passes(page, check)


def test_every_page_calls_a_row_by_one_name(
    open_page: OpenPage, address: str, trace: Trace
) -> None:
    label = plain_token(query_labels(trace, "cross")[STEP])
    place = {"sentence": SENTENCE, "kind": "cross", "layer": "1", "head": "2"}

    def link(path: str, **more: str) -> str:
        return f"{address}/{path}?{urlencode({**place, **more})}"

    page = open_page(link("translate", step=str(STEP + 1), shifted="on"))
    until_settled(page)

    def visit(path: str, **more: str) -> None:
        page.evaluate(FOLLOW, link(path, **more))
        until_at(page, f"/{path}")
        until_settled(page)

    player_says(page, label)
    reads, predicts = label.split(" → ")
    now = page.locator(".position.now")
    expect(now).to_have_attribute("aria-label", f"{STEP + 1}: {label}")
    expect(now.locator(".output")).to_have_text(predicts.replace("_", "▁"))
    # What is read was written one step before: shifted right.
    expect(page.locator(".position .output").nth(STEP - 1)).to_have_text(reads.replace("_", "▁"))
    opener = page.get_by_role("button", name="shifted right")
    page.evaluate(COUNT_MOVES)
    opener.press("ArrowRight")
    eventually(page, lambda: page.evaluate("window.moves > 0"), True)  # it drops into its place
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("window.moves = 0")
    for key, step in (("ArrowLeft", STEP + 1), ("ArrowRight", STEP + 2)):
        opener.press(key)
        expect(now).to_have_attribute("aria-label", re.compile(f"^{step}: "))
    assert page.evaluate("window.moves") == 0
    page.emulate_media(reduced_motion="no-preference")
    expect(page.locator(".position.now .input")).to_have_text(predicts.replace("_", "▁"))
    opener.press("Enter")
    expect(page.locator(".shift")).to_be_hidden()

    visit("attention", display="grid")
    lens_says(page, label, trace)
    page.get_by_role("radio", name="Matrix", exact=True).click()
    until_the_url_says(page, display="matrix")
    lens_says(page, label, trace)
    page.get_by_role("radio", name="Heads", exact=True).click()
    query = page.locator(".token.query").nth(STEP)
    expect(query).to_have_attribute("title", label)
    query.hover()
    expect(page.locator(".lines .readout")).to_contain_text(f"query {STEP + 1} {label}: ")

    visit("head", query=str(STEP + 1))
    expect(page.get_by_role("combobox", name="Query")).to_have_value(f"{STEP + 1}  {label}")
    expect(page.get_by_text(f"The query {label} looks at the source.")).to_be_visible()

    visit("beam", panel="compare")
    lens_says(page, label, trace)

    visit("positions", part="model", split="decoder")
    parts = page.locator(".parts")
    for key in ["ArrowDown"] * STEP:
        parts.press(key)
    expect(parts.locator(".readout")).to_contain_text(f"query {STEP + 1} {label}, key 1 ")

    visit("compare", other="wide", beside="matrix")
    lens_says(page, label, trace)
    visit("compare", other="wide", topic="steps", step=str(STEP + 1))
    player_says(page, label)
    visit("compare", other="wide", topic="head", query=str(STEP + 1))
    expect(page.locator(".stages").first).to_have_attribute(
        "aria-label", f"Stages of attention for the query {label}. Left and right arrow keys "
        "choose the key.",
    )  # fmt: skip
