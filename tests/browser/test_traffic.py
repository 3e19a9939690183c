"""Costs of an interaction, counted: messages, bytes, requests, canvases and layers."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.browser.waiting import at_rest, eventually
from tests.browser.wire import Wire

SENTENCE, OTHER = "The cat sat on it.", "A dog runs."


@contextmanager
def settled(page: Page, traffic: Wire) -> Iterator[None]:
    """Count what happens within; it begins and ends while no script runs and nothing arrives."""
    at_rest(page, traffic.counts)
    traffic.clear()
    yield
    at_rest(page, traffic.counts)


def show(page: Page, traffic: Wire, address: str, **query: str) -> None:
    words = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    page.goto(f"{address}/attention?sentence={quote(SENTENCE)}&kind=cross&beam=1&{words}")
    expect(page.locator("canvas.cells")).to_be_visible()
    at_rest(page, traffic.counts)


def test_a_click_brings_a_map_and_a_sentence_a_grid(wired: tuple[Page, Wire], address: str) -> None:
    page, traffic = wired
    traffic.clear()
    show(page, traffic, address, layer="1", head="1")
    opening = traffic.bytes_arrived()
    assert traffic.carries(b"headlight.grid") == 1
    # The maps and the scale: a canvas for each cell would be a layer for each cell.
    expect(page.locator(".grid canvas")).to_have_count(2)

    with settled(page, traffic):
        page.get_by_role("gridcell", name="Layer 2, head 3:").click()
        expect(page.get_by_text("Layer 2, head 3", exact=True)).to_be_visible()
    assert len(traffic.sent) == 1 and not traffic.requests
    assert traffic.carries(b"headlight.grid") == 0 and traffic.carries(b"headlight.lens") == 1
    assert traffic.bytes_arrived() < opening / 2

    with settled(page, traffic):
        page.locator("textarea").first.fill(OTHER)
        page.get_by_role("button", name="Translate", exact=True).click()
        expect(page).to_have_url(re.compile("dog"))
    assert len(traffic.sent) == 1 and not traffic.requests
    assert traffic.carries(b"headlight.grid") == 1 and traffic.carries(b"headlight.lens") == 1
    assert traffic.bytes_arrived() < 1.2 * opening


#: Ways in which text that became markup would run as a script.
INJECT = """() => new Promise((tell) => {
    const [script, image] = [document.createElement("script"), document.createElement("img")];
    script.textContent = "window.injected = 'inline'";
    image.setAttribute("onerror", "window.injected = 'handler'");
    image.src = "data:image/png,";
    document.body.append(script, image);
    setTimeout(() => { // later, since the debugger itself may do anything
        try {
            (0, eval)("window.injected = 'eval'");
            tell("no error");
        } catch (error) {
            tell(error.name);
        }
    });
})"""


def test_what_is_injected_does_not_run(wired: tuple[Page, Wire], address: str) -> None:
    """Scripts in the page, handlers in attributes, text as code: the policy refuses each."""
    page, _ = wired
    page.goto(f"{address}/glossary")
    expect(page.get_by_test_id("stMain")).to_be_visible()
    refused: list[str] = []
    page.on("console", lambda said: refused.append(said.text))
    assert page.evaluate(INJECT) == "EvalError"
    eventually(page, lambda: sum("Content Security Policy" in each for each in refused) >= 2, True)
    assert page.evaluate("window.injected ?? 'nothing'") == "nothing"
