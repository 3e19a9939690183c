"""The language that a model writes, and the warning where B reads A's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_models import random_model
from tests.views import make_view
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer
from ui.compare.languages import target_language, warning
from ui.core.view import View
from ui.frame.twice import Setup

SHIPPED = Path(__file__).resolve().parents[3] / "checkpoints"
CARD = "# x\n\nAn encoder-decoder Transformer, en to fr: 4+4 layers"


def view(name: str) -> View:
    return make_view(SHIPPED / name)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Path:
    """A checkpoint without a recipe or a card."""
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=16, n_heads=2, d_ff=20, n_encoder_layers=1,
        n_decoder_layers=1, max_positions=40,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("bare") / "model"
    save_checkpoint(folder, random_model(config), tiny_tokenizer)
    return folder


@pytest.mark.parametrize(("name", "language"), [
    ("everyday-en-de", "de"), ("multi30k-en-de", "de"), ("everyday-en-fr", "fr"),
    ("reverse-toy", None),
])  # fmt: skip
def test_the_recipe_says_what_a_checkpoint_writes(name: str, language: str | None) -> None:
    assert target_language(view(name)) == language


@pytest.mark.parametrize(("metrics", "card", "language"), [
    (None, CARD, "fr"),
    ({"imported": {"format": "marian", "source": "models/opus-mt-en-fi"}}, "", "fi"),
    (None, "", None),
    ({"training": 3}, "", None),
    ({"imported": {"source": ["x"]}}, "", None),
    ({"training": {"recipe": {"data": {"src": "en", "tgt": "<b>"}}}}, "", None),
])  # fmt: skip
def test_without_a_recipe_the_card_or_the_imported_name_says_it(
    bare: Path, monkeypatch: pytest.MonkeyPatch, metrics: Any, card: str, language: str | None
) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(bare.parent))
    for name, content in (("metrics.json", metrics and json.dumps(metrics)), ("README.md", card)):
        (bare / name).write_text(content) if content else (bare / name).unlink(missing_ok=True)
    found = make_view(bare)
    assert target_language(found) == language
    french = make_view(SHIPPED / "everyday-en-fr")
    assert bool(warning(Setup("models", found, french))) == (language == "fi")


def test_only_another_known_language_is_warned_of() -> None:
    german = view("everyday-en-de")
    said = warning(Setup("models", german, view("everyday-en-fr")))
    assert "A writes German and B was trained to write French" in said
    for other in ("multi30k-en-de", "reverse-toy"):
        assert not warning(Setup("models", german, view(other)))
