"""The player in a real browser: both attentions at each step, and steering it."""

from __future__ import annotations

import re
from urllib.parse import quote

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Page, expect

from tests.browser.test_translate import ENTRIES, REVERSE, player_is_ready
from tests.browser.waiting import OpenPage, eventually, texts, until_passes, until_the_url_says
from tests.shipped import TRANSLATORS
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.core.examples import examples_for

#: A model of words, whose sentences leave room for another choice.
WORDS = next(name for name in TRANSLATORS if name != REVERSE)
SENTENCE = examples_for(WORDS).items[2].sentence


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(ENTRIES[WORDS].path, device="cpu")


def address(app: str, **settings: str) -> str:
    said = "".join(f"&{name}={quote(value)}" for name, value in settings.items())
    return f"{app}/?checkpoint={WORDS}&sentence={quote(SENTENCE)}{said}"


def numbers(page: Page, lane: str) -> NDArray[np.float64]:
    """The weights written under a lane's tokens, 0 where none is."""
    weights = page.get_by_role("list", name=lane).locator(".weight").all_inner_texts()
    return np.array([float(text or 0) for text in weights])


def looks(trace: Trace, step: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expected texts of the lanes, mean over layers and heads; none below 0.05."""
    cross = trace.cross.mean(axis=(0, 1))[step - 1]
    own = np.append(trace.decoder_self.mean(axis=(0, 1))[step - 1], 0.0)
    return np.where(cross < 0.05, 0, cross), np.where(own < 0.05, 0, own)


def check_step(page: Page, trace: Trace, step: int) -> None:
    cross, own = looks(trace, step)
    np.testing.assert_allclose(numbers(page, "Source tokens"), cross, atol=0.0051)
    np.testing.assert_allclose(numbers(page, "Target tokens"), own, atol=0.0051)
    facts = page.locator(".player .facts").inner_text().replace("−", "-")
    said = re.search(r"entropy (\S+) bit\s+log P (\S+)", facts)
    assert said is not None, facts
    expected = [trace.entropy[step - 1] / np.log(2), trace.log_probs[:step].sum()]
    np.testing.assert_allclose([float(each) for each in said.groups()], expected, atol=0.0051)


def test_each_step_shows_both_attentions_and_another_candidate_can_be_taken(
    app: str, open_page: OpenPage, translator: Translator
) -> None:
    page = open_page(address(app, step="1"))
    player_is_ready(page)
    trace = free = translator.trace(SENTENCE)
    page.locator(".player").focus()
    for step in (1, 2, 3, 4):
        expect(page.locator(".player .count")).to_contain_text(f"step {step} of")
        until_passes(page, lambda step=step: check_step(page, trace, step))
        page.keyboard.press("ArrowRight")
    recorded = page.locator(".player .badge")
    expect(recorded.locator("span")).not_to_be_visible()
    recorded.get_by_text("How it was recorded").click()
    expect(recorded).to_contain_text("Recorded live; a second pass agrees to 0.0000")
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Play (space)")).to_be_visible()

    # Another candidate of step 2: decoding goes on from there.
    page.locator(".player").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    other = next(int(token) for token in free.top_ids[1] if token != free.predicted_ids[1])
    name = translator.tokenizer.id_to_piece(other)
    page.get_by_role("button", name=f"Take {name} instead").click()
    prefix = (free.predicted_ids[0], other)
    expected = translator.trace(SENTENCE, prefix=prefix)
    expect(page.locator(".st-key-headline")).to_have_text(expected.text)
    expect(page.locator(".player .chip.given")).to_have_count(2)
    chips = page.locator(".player button.chip")
    eventually(page, lambda: texts(chips), list(expected.predicted_tokens))
    expect(page.locator(".player .count")).to_contain_text("step 2 of")
    until_the_url_says(page, prefix=".".join(map(str, prefix)), step="2")
    page.locator(".player .undo").click()  # beside the candidates
    expect(page.locator(".st-key-headline")).to_have_text(free.text)
    expect(page.locator(".player .chip.given")).to_have_count(0)
    expect(page.locator(".player .undo")).not_to_be_visible()
