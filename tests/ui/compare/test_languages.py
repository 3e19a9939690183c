"""The language that a model writes, and the warning where B reads A's."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.views import make_view
from ui.compare.setup import target_language, warning
from ui.frame.twice import Setup

SHIPPED = Path(__file__).resolve().parents[3] / "checkpoints"
CARD = "# x\n\nAn encoder-decoder Transformer, en to fr: 4+4 layers"


@pytest.fixture
def bare(tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint without a recipe or a card."""
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "model")
    for name in ("metrics.json", "README.md"):
        (folder / name).unlink(missing_ok=True)
    return folder


@pytest.mark.parametrize(("metrics", "card", "language"), [
    (None, CARD, "fr"),
    ({"imported": {"format": "marian", "source": "models/opus-mt-en-fi"}}, "", "fi"),
    (None, "", None),
    ({"training": 3}, "", None),
    ({"imported": {"source": ["x"]}}, "", None),
    ({"training": {"recipe": {"data": {"src": "en", "tgt": "<b>"}}}}, "", None),
])  # fmt: skip
def test_without_a_recipe_the_card_or_the_imported_name_says_it(
    bare: Path, metrics: Any, card: str, language: str | None
) -> None:
    if metrics:
        (bare / "metrics.json").write_text(json.dumps(metrics))
    if card:
        (bare / "README.md").write_text(card)
    found = make_view(bare)
    assert target_language(found) == language
    french = make_view(SHIPPED / "everyday-en-fr")
    assert bool(warning(Setup("models", found, french))) == (language == "fi")


def test_the_recipe_says_what_a_checkpoint_writes_and_only_another_language_is_warned_of() -> None:
    german, captions, french, toy = (
        make_view(SHIPPED / name)
        for name in ("everyday-en-de", "multi30k-en-de", "everyday-en-fr", "reverse-toy")
    )
    languages = [target_language(view) for view in (german, captions, french, toy)]
    assert languages == ["de", "de", "fr", None]
    said = warning(Setup("models", german, french))
    assert "A writes German" in said and "write French" in said
    assert not any(warning(Setup("models", german, other)) for other in (captions, toy))
