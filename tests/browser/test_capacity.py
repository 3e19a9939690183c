"""A sentence as long as a model takes, opened in the grid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from figures.palette import to_weight_bytes
from tests.browser.pixels import until_the_grid_shows
from tests.servers import serving
from tests.tiny_models import random_model, sentence_of
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.measures.heads import HOWS, widen
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator
from ui.components.grid import shrink

TARGET = "b a"


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Path:
    root = tmp_path_factory.mktemp("checkpoints")
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=40, n_heads=5, d_ff=40, n_encoder_layers=3,
        n_decoder_layers=2, max_positions=512,
    )  # fmt: skip
    save_checkpoint(root / "long", random_model(config), tiny_tokenizer, metrics={})
    return root


def test_a_sentence_at_the_token_limit_is_drawn_weight_by_weight(
    open_page: Callable[..., Page], checkpoints: Path, tmp_path: Path, spare_port: int
) -> None:
    with serving(tmp_path / "log.txt", checkpoints=checkpoints, port=spare_port) as (address, _):
        check_every_way_to_combine(open_page, address, checkpoints)


def check_every_way_to_combine(
    open_page: Callable[..., Page], address: str, checkpoints: Path
) -> None:
    window = open_page(f"{address}/glossary")
    model = Translator.load(checkpoints / "long", device="cpu")
    tokens = model.max_tokens
    assert tokens == 512
    sentence = sentence_of(model.tokenizer, tokens)
    maps = model.trace(sentence, target=TARGET).encoder_self
    assert maps.shape == (3, 5, tokens, tokens)
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
            until_the_grid_shows(window, row, column, sent)
