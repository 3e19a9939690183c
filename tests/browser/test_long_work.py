"""Sentences of 500 tokens: progress within a second on every page that computes, and Stop.

Limits in seconds hold on a machine that answers a trivial page in `TRIVIAL_MS`; on a slower or
busier one they grow by as much as that page takes longer.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.pace import N_TRIES, TRIVIAL_MS, WATCH, Trivial, answer
from tests.browser.test_capacity import of_tokens
from tests.servers import serving
from tests.tiny_models import random_model
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer

pytestmark = pytest.mark.timeout(1200)
PATIENCE_MS = 300_000

#: Every page that asks a model, with what makes it compute.
PAGES = {
    "Translate": "",
    "a sampled translation": "?beam=1&sample=on",
    "Beam search": "beam",
    "Attention": "attention",
    "Inside a head": "head",
    "Tokens": "tokens",
    "Positions": "positions?part=model",
    "Compare": "compare",
}

#: Notes when the first of the frame and when a bar are on screen.
NOTICE = """(() => {
  const seen = (window.seen = {});
  const look = () => {
    if (document.querySelector(".st-key-work")) seen.frame ??= performance.now();
    if (document.querySelector("[data-testid=stProgress]")) seen.bar ??= performance.now();
    requestAnimationFrame(look);
  };
  look();
})()"""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Path:
    """A deep model that never ends a sentence: minutes of slow steps. And one of many heads."""
    root = tmp_path_factory.mktemp("checkpoints")
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=32, n_heads=1, d_ff=32, n_encoder_layers=2,
        n_decoder_layers=200, output_bias=True, max_positions=600,
    )  # fmt: skip
    model = random_model(config)
    assert model.generator.bias is not None
    model.generator.bias[config.eos_id] = -1e4
    save_checkpoint(root / "endless", model, tiny_tokenizer, metrics={})
    many = config.replace(d_model=128, n_heads=16, n_encoder_layers=8, n_decoder_layers=1)
    save_checkpoint(root / "many-heads", random_model(many), tiny_tokenizer, metrics={})
    return root


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory, checkpoints: Path) -> Iterator[str]:
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with serving(log, checkpoints=checkpoints) as (address, _):
        yield address


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    window = browser.new_context(viewport={"width": 1280, "height": 720})
    window.set_default_timeout(PATIENCE_MS)
    window.add_init_script(WATCH)
    window.add_init_script(NOTICE)
    yield window
    window.close()


def second(trivial: Trivial) -> float:
    """Milliseconds that stand for a second, now."""
    return 1000 * max(1.0, statistics.median(trivial.ask() for _ in range(3)) / TRIVIAL_MS)


def started(page: Page, address: str) -> float:
    """Open a page that has long work to do. Returns: ms from the first of its frame to the bar."""
    page.goto(address)
    page.wait_for_function("() => seen.bar !== undefined")
    return float(page.evaluate("() => seen.bar - seen.frame"))


def stop(page: Page) -> float:
    """Press Stop. Returns: milliseconds until the page says that it did."""
    button = page.locator(".st-key-stop_work button")
    return answer(page, button.click, "stopped")


def test_every_page_shows_progress_within_a_second_and_stops(
    context: BrowserContext, trivial: Trivial, app: str, tiny_tokenizer: Tokenizer
) -> None:
    page = context.new_page()
    page.goto(f"{app}/?checkpoint=endless&sentence=%20")  # loads the model
    expect(page.get_by_test_id("stAlert")).to_contain_text("Nothing to translate")
    for name, place in PAGES.items():
        slowest = 0.0
        for number in range(N_TRIES):  # a busy machine only ever adds to a time
            sentence = of_tokens(tiny_tokenizer, 500 - number, first=len(name))
            joined = "&" if "?" in place else "?"
            address = f"{app}/{place}{joined}checkpoint=endless&sentence={quote(sentence)}"
            until_bar, allowed = started(page, address), second(trivial)
            until_stopped = stop(page)
            assert page.get_by_test_id("stProgress").count() == 0
            slowest = max(until_bar, until_stopped / 2) / allowed
            if slowest < 1:
                break
        print(f"{name}: bar {until_bar:.0f}, stopped {until_stopped:.0f}, second {allowed:.0f}")
        assert slowest < 1
    page.get_by_role("button", name="Translate this sentence").click()
    expect(page.get_by_test_id("stProgress")).to_contain_text("Decoding: step")
    stop(page)
    page.close()


def test_stopped_work_makes_room_for_other_sessions(
    context: BrowserContext, trivial: Trivial, app: str, tiny_tokenizer: Tokenizer
) -> None:
    """Two sentences run at a time; a third waits, and goes on as soon as one is stopped."""
    pages = [context.new_page() for _ in range(3)]
    for number, page in enumerate(pages):
        sentence = of_tokens(tiny_tokenizer, 499, first=5 * number + 2)
        started(page, f"{app}/?checkpoint=endless&sentence={quote(sentence)}")
        bar = page.get_by_test_id("stProgress")
        expect(bar).to_contain_text("Decoding: step" if number < 2 else "Waiting for other work")
    stop(pages[0])
    expect(pages[2].get_by_test_id("stProgress")).to_contain_text(
        "Decoding: step", timeout=3 * second(trivial)
    )
    expect(pages[1].get_by_test_id("stProgress")).to_contain_text("Decoding: step")
    pages[1].close()  # who leaves makes room too
    stop(pages[2])
    pages[0].goto(f"{app}/tokens?checkpoint=many-heads&sentence={quote('a b c')}&target=b")
    expect(pages[0].get_by_test_id("stMain")).to_contain_text("Its position is added")
    for page in (pages[0], pages[2]):
        page.close()


def test_work_within_a_fragment_stops_and_the_page_goes_on(
    context: BrowserContext, trivial: Trivial, app: str, tiny_tokenizer: Tokenizer
) -> None:
    """The lines of 128 heads, about 14 million weights to put in order."""
    heads = "-".join(f"{i}.{j}" for i in range(1, 9) for j in range(1, 17))
    sentence, page = of_tokens(tiny_tokenizer, 500), context.new_page()
    page.goto(
        f"{app}/attention?checkpoint=many-heads&kind=encoder_self&target=b&heads={heads}"
        f"&sentence={quote(sentence)}"
    )
    page.get_by_role("gridcell").first.wait_for()
    page.reload()  # what it shows is known by now: this run has no work to show the progress of
    page.get_by_role("gridcell").first.wait_for()
    page.get_by_role("radio", name="Heads").click()
    expect(page.get_by_test_id("stProgress")).to_contain_text("Working: ")
    until_stopped, allowed = stop(page), second(trivial)
    print(f"lines: stopped {until_stopped:.0f}, second {allowed:.0f}")
    assert page.locator(".lines").count() == 0  # it was not stopped by being done
    page.get_by_role("radio", name="Grid").click()
    page.get_by_role("gridcell").first.wait_for()
    assert page.get_by_test_id("stProgress").count() == 0
    page.close()
