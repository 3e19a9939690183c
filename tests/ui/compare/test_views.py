"""Numbers and words of the Compare page's views, without a page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.factories import make_trace
from tests.tiny_models import random_model
from tests.views import make_view
from transformer.catalogue import inspect_entry
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.positions import sinusoidal
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator
from ui.attention.maps import AttentionChoice, maps_of
from ui.compare.differences import apart, why_not_subtracted
from ui.compare.languages import target_language, warning
from ui.compare.pairing import joined_choices, without_partner
from ui.core.view import View
from ui.frame.twice import Setup
from ui.positions.own import own_positions
from ui.tokens.views import pieces_shown, read_trace

SHIPPED = Path(__file__).resolve().parents[3] / "checkpoints"


def view(name: str, path: Path | None = None, **more: object) -> View:
    return make_view(path or SHIPPED / name, **more)


def setup(left: View, right: View) -> Setup:
    return Setup("models", left, right, ())


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("everyday-en-de", "de"),
        ("multi30k-en-de", "de"),
        ("everyday-en-fr", "fr"),
        ("reverse-toy", None),
    ],
)
def test_the_recipe_says_what_a_checkpoint_writes(name: str, language: str | None) -> None:
    assert target_language(view(name)) == language


def bare(folder: Path, tokenizer: Tokenizer, metrics: object = None, card: str = "") -> View:
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, d_model=16, n_heads=2, d_ff=20, n_encoder_layers=1,
        n_decoder_layers=1, max_positions=40,
    )  # fmt: skip
    save_checkpoint(folder, random_model(config), tokenizer)
    if metrics is not None:
        (folder / "metrics.json").write_text(json.dumps(metrics))
    if card:
        (folder / "README.md").write_text(card)
    return view(folder.name, folder)


def test_without_a_recipe_the_card_or_the_imported_name_says_it(
    tmp_path: Path, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    card = "# x\n\nAn encoder-decoder Transformer, en to fr: 4+4 layers"
    assert target_language(bare(tmp_path / "card", tiny_tokenizer, card=card)) == "fr"
    imported = {"imported": {"format": "marian", "source": "models/opus-mt-en-fi"}}
    assert target_language(bare(tmp_path / "marian", tiny_tokenizer, imported)) == "fi"
    for number, metrics in enumerate((None, {"training": 3}, {"imported": {"source": ["x"]}})):
        assert target_language(bare(tmp_path / f"none{number}", tiny_tokenizer, metrics)) is None


def test_only_another_known_language_is_warned_of(
    tmp_path: Path, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    german, french = view("everyday-en-de"), view("everyday-en-fr")
    said = warning(setup(german, french))
    assert "A writes German and B was trained to write French" in said
    assert "its numbers say little" in said
    assert not warning(setup(german, view("multi30k-en-de")))
    assert not warning(setup(german, view("reverse-toy")))
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    assert not warning(setup(bare(tmp_path / "unknown", tiny_tokenizer), french))


def test_the_same_cell_is_shown_on_both_sides() -> None:
    left = maps_of(make_trace(S=6, T=5, n_decoder_layers=3, n_heads=4), "cross", "tokens")
    right = maps_of(make_trace(S=6, T=5, n_decoder_layers=2, n_heads=6), "cross", "tokens")
    choice = AttentionChoice(
        "cross", "grid", "tokens", "mean", False, (2, 3), False, (), 0.5, None, (), ()
    )  # fmt: skip
    one, other = joined_choices((left, right), (choice, replace(choice, cell=(0, 0))))
    assert one.cell == other.cell == (None, 3)
    assert "A 3 layers of 4 and B 2 layers of 6 heads" in without_partner(left, right)
    assert not without_partner(left, left)


def test_words_that_are_cut_differently_are_named() -> None:
    left = read_trace(make_trace(S=4, T=3, src_tokens=("▁The", "▁ani", "mal")), "source")
    right = read_trace(make_trace(S=5, T=3, src_tokens=("▁The", "▁a", "ni", "mal")), "source")
    assert "1 of 2 shared word is cut differently" in apart(left, right)
    assert "`animal` is `ani·mal` in A and `a·ni·mal` in B" in apart(left, right)
    assert "Both cut all 2 words" in apart(left, left)
    other = read_trace(make_trace(S=3, T=3, src_tokens=("▁dog", "▁runs")), "source")
    assert "no word in common" in apart(left, other)


def test_foreign_pieces_say_what_their_trace_says() -> None:
    trace = make_trace(S=4, T=3, src_tokens=("▁The", "▁ani", "mal"))
    shown = pieces_shown(read_trace(replace(trace, src_unknown=(1,)), "source"), None)
    assert [piece.piece for piece in shown] == list(trace.src_tokens)
    assert [piece.mark for piece in shown] == ["", "unknown", "", "special"]
    assert [piece.word for piece in shown] == [0, 1, 1, 2]
    without = pieces_shown(read_trace(replace(trace, src_ids=(-1,) * 4), "source"), None)
    assert "id" not in without[0].note
    no_source = replace(trace, src_tokens=(), src_ids=())
    assert read_trace(no_source, "source").pieces == trace.tgt_tokens
    assert not read_trace(no_source, "translation").pieces


def test_positions_are_those_of_the_model_and_differ_where_shapes_agree(
    tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    shapes = {
        "plain": {}, "layout": {"position_layout": "concatenated"},
        "learned": {"positions": "learned", "max_positions": 12}, "wide": {"d_model": 32},
        "stored": {"positions": "stored"},
    }  # fmt: skip
    found = {}
    for name, more in shapes.items():
        config = ModelConfig(
            **{
                "vocab_size": tiny_tokenizer.vocab_size, "d_model": 16, "n_heads": 2, "d_ff": 20,
                "n_encoder_layers": 1, "n_decoder_layers": 1, "max_positions": 40, **more,
            }
        )  # type: ignore[arg-type]  # fmt: skip
        model = random_model(config)
        if name == "stored":
            model.tgt_positions.table.copy_(model.tgt_positions.table.half())
        save_checkpoint(tmp_path / name, model, tiny_tokenizer)
        found[name] = own_positions(Translator.load(tmp_path / name, "cpu"), "translation", 20)
    np.testing.assert_array_equal(found["plain"].table, sinusoidal(20, 16).numpy())
    assert len(found["learned"].table) == 12
    assert not why_not_subtracted(found["plain"].table, found["layout"].table)
    assert "16 and 32 numbers" in why_not_subtracted(found["plain"].table, found["wide"].table)
    assert "B’s table ends after 12" in why_not_subtracted(
        found["plain"].table, found["learned"].table
    )
    assert "concatenated" in found["layout"].about and "learned" in found["learned"].about
    assert (
        "stored, a table of 40 × 16: sinusoids rounded to 16 bits each, as float16"
        in found["stored"].about
    )
    apart = np.abs(found["stored"].table - found["plain"].table).max()
    assert 1e-5 < apart < 1e-3 and f"{apart:.1e}" in found["stored"].about
    assert inspect_entry(tmp_path / "plain").config is not None
