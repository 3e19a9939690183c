import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from figures.labels import KIND_NAMES
from tests.browser import waiting
from tests.riddles import decisive
from tests.servers import serving
from tests.waiting import wait_until
from transformer.translator import Translator
from ui.core.examples import examples_for
from ui.tours.opening import stage
from ui.work.roots import checkpoints_root

NewVisitor = Callable[..., Page]
CHECKPOINT = "everyday-en-de"

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
    contexts = []

    def opened(address: str, **options: str) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 720}, **options)  # type: ignore[arg-type]
        context.set_default_timeout(waiting.PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: pytest.fail(f"error in the page: {error}"))
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
    expect(page.get_by_role("heading", name="What is “it”?")).to_be_focused()  # it is written

    translator = Translator.load(checkpoints_root() / CHECKPOINT, device="cpu")
    riddle = examples_for(CHECKPOINT).riddles["de"]
    staged = stage(riddle, [translator.trace(act.sentence) for act in riddle.acts])
    one, other, _ = staged
    assert one.look and (one.pronoun(), other.pronoun()) == ("sie", "er")
    step = one.referent.step
    waiting.eventually(page, lambda: page.evaluate(SEEN), {"written": step, "asked": True})
    written = "".join(one.trace.predicted_tokens[:step]).replace("▁", " ").strip()
    expect(page.locator(".opening [lang=de]")).to_have_text(re.compile(f"^{re.escape(written)}"))

    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="cat", exact=True)).to_be_focused()
    page.keyboard.press("ArrowRight")  # the player behind does not hear it
    page.keyboard.press("Enter")
    shares = page.locator(".opening .share").filter(has_text=".")
    given = [f"{one.light[at]:.2f}" for at in one.referent.nouns]
    expect(shares).to_have_text(given)
    expect(page.locator(".verdict")).to_contain_text(
        f"layer {one.look.layer + 1}, head {one.look.head + 1} gives cat {given[0]}"
    )

    # Taken out, that head changes nothing; another one, which the model is asked for, does.
    target = one.target(riddle)
    assert target
    head = decisive(translator, one.trace, target)
    assert head
    heading = page.locator(".below h2")
    expect(page.get_by_role("button", name="Take this head out")).to_be_focused()
    page.keyboard.press("Enter")
    expect(heading).to_have_text("Nothing changed: the translation stays.")
    page.keyboard.press("Enter")  # which head matters?
    expect(heading).to_contain_text("Take one out")
    page.locator(".heads").first.locator(".head").first.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(heading).not_to_contain_text("Take one out")
    name = f"{KIND_NAMES[head.kind]}, layer {head.layer + 1}, head {head.head + 1}"
    page.get_by_role("button", name=name).click()
    expect(heading).to_have_text(f"Without this head, “{target.word}” becomes “es”.")
    page.get_by_role("button", name="Lose “nicht” instead").click()
    expect(page.locator(".opening [lang=en]")).to_contain_text("The animal")
    expect(page.locator("textarea")).to_have_value(staged[2].act.sentence)
    page.locator(".head").first.click()
    page.get_by_role("button", name="Show me").click()
    expect(heading).to_have_text("Without this head, “nicht” is gone.")
    expect(page.locator(".opening del")).to_have_text("nicht")

    again = page.get_by_role("button", name=re.compile("Another sentence|Back to the first"))
    for noun, said in (("house", "No, the cat"), ("street", "Yes, the street."), ("cat", "Yes")):
        again.press("Enter")  # every sentence asks anew
        expect(heading).to_have_text("What is “it”?")
        expect(shares.filter(has_text=re.compile("."))).to_have_count(0)
        page.get_by_role("button", name=noun).press("Enter")
        expect(heading).to_contain_text(said)
        if noun != "street":
            page.get_by_role("button", name="Swap cat for bird").press("Enter")
    expect(shares).to_have_text([f"{other.light[at]:.2f}" for at in other.referent.nouns])
    expect(page.locator(".opening [lang=en]")).to_contain_text("The bird")
    expect(page.locator(".opening [lang=de]")).to_have_text(
        "".join(other.trace.predicted_tokens[:-1]).replace("▁", " ").strip()
    )
    # The sentence on screen, its head lit.
    page.get_by_role("button", name="Explore this sentence").press("Enter")
    expect(page.locator("textarea")).to_have_value(other.act.sentence)
    lit = {"kind": one.look.kind, "layer": one.look.layer + 1, "head": one.look.head + 1}
    waiting.until_the_url_says(page, **{name: str(value) for name, value in lit.items()})
    expect(page.locator(".lines")).to_be_visible()
    page.get_by_role("button", name="Which heads look from it to bird?").click()
    waiting.until_the_url_says(page, find="pair", queries="7", keys="2")

    page.goto(app)  # never twice
    page_is_seen(page)
    page.get_by_role("button", name="Play the opening").click()
    page.locator(".opening .skip").click()
    page_is_seen(page)


def test_with_reduced_motion_every_stage_stands_at_once(app: str, new_visitor: NewVisitor) -> None:
    page = new_visitor(f"{app}/?opening=1", reduced_motion="reduce")
    first = page.wait_for_function(SEEN).json_value()
    assert first["asked"] and first["written"] > 3
    # The page behind it comes with the light; until then a click waits.
    expect(page.locator(".player .count")).to_be_attached()
    waiting.until_idle(page)
    # As soon as it is clicked, before any frame.
    seen = page.get_by_role("button", name="house", exact=True).evaluate(
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
    expect(page.get_by_role("heading", name="No, the cat, not the house.")).to_be_visible()
    page.keyboard.press("Escape")
    page_is_seen(page)
    waiting.until_the_url_says(page, opening=None)


#: Notes what the page's main part says, each text once, from when the navigation is there.
WATCH = """
window.said = [];
new MutationObserver(() => {
  const main = document.querySelector("[data-testid=stMain]");
  if (!main || !document.querySelector("[data-testid=stTopNavLink]")) return;
  const text = main.innerText.trim();
  if (text && text !== window.said.at(-1)) window.said.push(text);
}).observe(document, { childList: true, subtree: true, characterData: true });
"""


def test_a_fresh_server_says_that_it_starts_and_takes_a_page_by_any_of_its_names(
    window: BrowserContext, tmp_path: Path, spare_port: int, open_page: waiting.OpenPage
) -> None:
    first = window.new_page()
    first.add_init_script(WATCH)
    query = "checkpoint=reverse-toy&sentence=abcde&beam=2"
    with serving(tmp_path / "log.txt", fresh=True, port=spare_port) as (app, _):
        # The name of the page's file: no visitor has told Streamlit of the app's own names.
        first.goto(f"{app}/translate_page?{query}", wait_until="commit")
        assert wait_until(lambda: bool(first.evaluate("window.said.length")))
        assert first.evaluate("window.said[0]").startswith("Starting: PyTorch")
        # Clicked before the first run is through.
        page = open_page(f"{app}/attention?{query}")
        page.get_by_test_id("stTopNavLink").filter(has_text="Experiments").click()
        waiting.until_at(page, "/removals")
        waiting.until_the_url_says(page, sentence="abcde", checkpoint="reverse-toy", beam="2")
        expect(page.get_by_role("dialog")).to_have_count(0)  # Streamlit's: there is no such page
        first.bring_to_front()
        first.wait_for_selector("[data-testid=stMain] canvas")
        expect(first.get_by_text("Starting: PyTorch")).not_to_be_visible()
        expect(first.locator(".st-key-headline")).to_have_text("edcba")
        first.close()
        # The server is not fresh any more: by its file's name, and by its title.
        for path, title in (("attention_page", "Attention"), ("beam-search", "Translate")):
            page.goto(f"{app}/{path}?{query}")
            expect(page.locator("textarea")).to_have_value("abcde")
            link = page.get_by_role("link", name=title)
            expect(link).to_have_attribute("aria-current", "page")
            expect(page.get_by_role("dialog")).to_have_count(0)
