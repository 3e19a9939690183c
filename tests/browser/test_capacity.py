"""A sentence as long as a model takes, opened in the grid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from figures.palette import attention_table, to_weight_bytes
from tests.browser.pixels import as_drawn, grid_map
from tests.servers import serving
from tests.tiny_models import random_model
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.measures.heads import HOWS, widen
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator
from ui.components.grid import shrink

pytestmark = pytest.mark.timeout(1200)
TARGET = "b a"
LETTERS = "abcdeghiklmnoprstuw"


def of_tokens(tokenizer: Tokenizer, count: int, first: int = 0) -> str:
    """A sentence of so many tokens, `</s>` among them."""
    text, at = "", first
    while (have := len(tokenizer.encode_many([text])[0]) + 1) < count:
        longer = f"{text} {LETTERS[at % len(LETTERS)]}".strip()
        fits = len(tokenizer.encode_many([longer])[0]) < count
        text, at = (longer if fits else f"{text}{LETTERS[at % len(LETTERS)]}"), at + 7
    assert have == count
    return text


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Path:
    root = tmp_path_factory.mktemp("checkpoints")
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=40, n_heads=5, d_ff=40, n_encoder_layers=3,
        n_decoder_layers=2, max_positions=512,
    )  # fmt: skip
    save_checkpoint(root / "long", random_model(config), tiny_tokenizer, metrics={})
    return root


@pytest.fixture
def page(
    browser: Browser, checkpoints: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Page, str]]:
    context = browser.new_context(viewport={"width": 1280, "height": 720}, color_scheme="light")
    context.set_default_timeout(300_000)
    wrong: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with serving(log, checkpoints=checkpoints) as (address, _):
        yield page, address
    context.close()
    assert not wrong


def test_a_sentence_at_the_token_limit_is_drawn_weight_by_weight(
    page: tuple[Page, str], checkpoints: Path
) -> None:
    window, address = page
    model = Translator.load(checkpoints / "long", device="cpu")
    tokens = model.max_tokens
    assert tokens == 512
    sentence = of_tokens(model.tokenizer, tokens)
    maps = model.trace(sentence, target=TARGET).encoder_self
    assert maps.shape == (3, 5, tokens, tokens)
    table = attention_table("light")
    for how in HOWS:
        window.goto(
            f"{address}/attention?kind=encoder_self&combine={how}&sentence={quote(sentence)}"
            f"&target={quote(TARGET)}"
        )
        wide = widen(maps, how)
        expect(window.locator("button.map")).to_have_count(wide.shape[0] * wide.shape[1])
        for row, column in [(0, 0), (2, 4), (1, 5), (3, 2), (3, 5)]:
            sent, _ = shrink(to_weight_bytes(wide[row, column]), ())
            assert sent.shape == (128, 128)
            # Shrunk once more to the pixels there are, again by the largest of each block.
            drawn = grid_map(window, row, column)
            np.testing.assert_array_equal(drawn, table[as_drawn(sent, drawn.shape)])
