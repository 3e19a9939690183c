"""The opening in a real browser: played whole by keyboard, with reduced motion, and never twice."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.waiting import PATIENCE_MS, eventually, until_the_url_says
from transformer.measures.referent import find_referent
from transformer.translator import Translator
from ui.core.examples import examples_for
from ui.work.roots import checkpoints_root

NewVisitor = Callable[..., Page]
CHECKPOINT = "everyday-en-de"
EXAMPLE = examples_for(CHECKPOINT).items[0]

#: The number of tokens written, and whether the question is asked; null without an opening.
SEEN = """() => {
    const shown = ".opening:not([hidden]):has(.stage)";
    const root = [...document.querySelectorAll("*")]
        .map((each) => each.shadowRoot?.querySelector(shown)).find(Boolean);
    return root && {
        written: root.querySelectorAll(".token.on").length,
        asked: Boolean(root.querySelector(".below button")),
    };
}"""


@pytest.fixture
def new_visitor(browser: Browser) -> Iterator[NewVisitor]:
    """Open an address in a browser that has not been here before."""
    contexts = []

    def opened(address: str, **options: str) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 720}, **options)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: pytest.fail(f"error in the page: {error}"))
        page.clock.install()
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()


def page_is_seen(page: Page) -> None:
    expect(page.locator(".player .count")).to_be_visible()
    expect(page.locator(".opening")).to_have_count(0)


def test_only_a_first_visit_plays_it_by_keyboard(app: str, new_visitor: NewVisitor) -> None:
    page = new_visitor(app)
    expect(page.locator(".opening .skip")).to_be_visible()
    # The page stands behind it, and is not seen.
    expect(page.locator(".player .count")).to_be_attached()
    expect(page.locator(".player .count")).not_to_be_visible()
    page.clock.fast_forward(60_000)  # it is written
    question = page.get_by_role("heading", name="What is “it”?")
    expect(question).to_be_focused()

    translator = Translator.load(checkpoints_root() / CHECKPOINT, device="cpu")
    trace, then = translator.trace(EXAMPLE.sentence), translator.trace(EXAMPLE.beside)
    found, second = (find_referent(each, "it", ("animal", "street")) for each in (trace, then))
    assert found and second
    best = found.best(0)
    assert best
    eventually(page, lambda: page.evaluate(SEEN), {"written": found.step, "asked": True})
    written = "".join(trace.predicted_tokens[: found.step]).replace("▁", " ").strip()
    expect(page.locator(".opening [lang=de]")).to_have_text(re.compile(f"^{re.escape(written)}"))

    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="animal", exact=True)).to_be_focused()
    page.keyboard.press("ArrowRight")  # the player behind does not hear it
    page.keyboard.press("Enter")
    page.clock.fast_forward(10_000)
    shares = page.locator(".opening .share").filter(has_text=".")
    given = [f"{best.weights[at]:.2f}" for at in found.nouns]
    expect(shares).to_have_text(given)
    expect(page.locator(".verdict")).to_contain_text(
        f"layer {best.layer + 1}, head {best.head + 1} gives animal {given[0]}"
    )

    expect(page.get_by_role("button", name="Swap tired for wide")).to_be_focused()
    page.keyboard.press("Enter")
    page.clock.fast_forward(10_000)
    look = second.weights_of(best.kind, best.layer, best.head)
    expect(shares).to_have_text([f"{look.weights[at]:.2f}" for at in second.nouns])
    expect(page.locator(".opening [lang=en]")).to_contain_text("too wide.")
    expect(page.locator(".opening [lang=de]")).to_have_text(
        "".join(then.predicted_tokens[:-1]).replace("▁", " ").strip()
    )
    page.get_by_role("button", name="Explore this sentence").press("Enter")
    page_is_seen(page)
    expect(page.locator(".player")).to_be_focused()
    expect(page.locator(".player .count")).to_contain_text(f"step {found.step + 1} of")

    page.goto(app)  # never twice
    page_is_seen(page)
    page.get_by_role("button", name="Play the opening").click()
    page.locator(".opening .skip").click()
    page_is_seen(page)


def test_with_reduced_motion_every_stage_stands_at_once(app: str, new_visitor: NewVisitor) -> None:
    page = new_visitor(f"{app}/?opening=1", reduced_motion="reduce")
    first = page.wait_for_function(SEEN).json_value()
    assert first["asked"] and first["written"] > 3
    # As soon as it is clicked, before any frame.
    seen = page.get_by_role("button", name="street", exact=True).evaluate(
        """(button) => {
            const root = button.getRootNode(), count = (what) => root.querySelectorAll(what).length;
            button.click();
            const moves = root.querySelector(".opening").getAnimations({ subtree: true })
                .filter((each) => each.effect.getComputedTiming().duration > 1);
            return [count(".token.on"), count(".token"), moves.length,
                count(".share:not(:empty)")];
        }"""
    )
    assert seen[0] > first["written"] and seen == [seen[0], seen[0], 0, 2]
    expect(page.get_by_role("heading", name="No, the animal, not the street.")).to_be_visible()
    page.keyboard.press("Escape")
    page_is_seen(page)
    until_the_url_says(page, opening=None)
