"""Compare in a real browser: a pair of heads is chosen and subtracted as the models say."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import start_app, stop_app
from tests.conftest import random_model
from transformer.checkpoint import save_checkpoint
from transformer.config import ModelConfig
from transformer.tokenizer import Tokenizer
from transformer.translator import Translator

OpenPage = Callable[..., Page]
SENTENCE = "The <b>cat</b> sat."

#: Layers and heads of the encoder on either side.
LEFT, RIGHT = (2, 3), (1, 5)


@pytest.fixture(scope="module")
def root(
    tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path, tiny_tokenizer: Tokenizer
) -> Path:
    """Two models of unequal depth and head count that cut text alike."""
    found = tmp_path_factory.mktemp("checkpoints")
    shutil.copytree(tiny_checkpoint, found / "tiny")
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=20, n_heads=RIGHT[1], d_ff=24,
        n_encoder_layers=RIGHT[0], n_decoder_layers=2, max_positions=600,
    )  # fmt: skip
    save_checkpoint(found / "wide", random_model(config), tiny_tokenizer)
    return found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[str]:
    url, process = start_app(tmp_path_factory.mktemp("server") / "log.txt", root)
    try:
        yield url
    finally:
        stop_app(process)


def test_a_pair_of_heads_is_chosen_and_subtracted(
    open_page: OpenPage, address: str, root: Path
) -> None:
    query = f"checkpoint=tiny&beam=1&sentence={quote(SENTENCE)}&kind=encoder_self&topic=heads"
    page = open_page(f"{address}/compare?{query}", "dark")
    table = page.locator(".match")
    expect(table.locator(".readout")).to_contain_text("Shown:", timeout=180_000)
    assert page.locator(".strip b").count() == 0  # tokens are text

    # The last head of the left beside the last of the right, by mouse.
    canvas = table.locator("canvas.cells")
    box = canvas.bounding_box()
    assert box is not None
    canvas.click(position={"x": box["width"] - 4, "y": box["height"] - 4})
    expect(page).to_have_url(re.compile(r"[?&]layer=2&head=3&other_layer=1&other_head=5"))
    expect(table.locator(".readout")).to_contain_text("2.3 and B wide 1.5")
    expect(page.get_by_text("B · Layer 1, head 5")).to_be_visible()

    # By keyboard, one to the left on the right side's axis.
    table.locator(".plot").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"[?&]other_head=4"))

    # The difference of this very pair, cell by cell.
    page.get_by_test_id("stMain").get_by_text("Attention", exact=True).click()
    page.get_by_test_id("stMain").get_by_text("Difference", exact=True).click()
    expect(page.get_by_text("A − B: Layer 2, head 3 − Layer 1, head 4")).to_be_visible()
    left, right = (Translator.load(root / name, "cpu").trace(SENTENCE, beam_size=1)
                   for name in ("tiny", "wide"))  # fmt: skip
    wanted = left.encoder_self[1, 2] - right.encoder_self[0, 3]
    lens = page.locator(".lens")
    expect(lens).to_have_count(1)
    lens.locator(".plot").focus()
    page.keyboard.press("ArrowRight")
    value = f"{abs(wanted[0, 1]):.4f}"
    sign = "−" if wanted[0, 1] < 0 else "+"
    expect(lens.locator(".readout")).to_contain_text(f": {sign}{value}")
    expect(lens.locator(".scale")).to_contain_text("A looks more")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
