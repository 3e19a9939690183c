"""Pieces that two tokenizers cut differently, and tables of positions that differ."""

from dataclasses import replace

import numpy as np

from tests.factories import make_trace
from tests.tiny_models import random_model
from transformer.config import ModelConfig
from transformer.positions import sinusoidal
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator
from ui.compare.differences import apart, why_not_subtracted
from ui.positions.exhibits import own_positions
from ui.tokens.views import pieces_shown, read_trace


def test_words_that_are_cut_differently_are_named() -> None:
    left, right, other = (
        read_trace(make_trace(S=len(words) + 1, T=3, src_tokens=words), "source")
        for words in (("▁The", "▁ani", "mal"), ("▁The", "▁a", "ni", "mal"), ("▁dog", "▁runs"))
    )
    assert "1 of 2 shared word is cut differently" in apart(left, right)
    assert "`animal` is `ani·mal` in A and `a·ni·mal` in B" in apart(left, right)
    assert "Both cut all 2 words" in apart(left, left)
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
    tiny_tokenizer: Tokenizer,
) -> None:
    shapes = {
        "plain": {}, "layout": {"position_layout": "concatenated"},
        "learned": {"positions": "learned", "max_positions": 12}, "wide": {"d_model": 32},
        "stored": {"positions": "stored"},
    }  # fmt: skip
    found = {}
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=16, n_heads=2, d_ff=20, n_encoder_layers=1,
        n_decoder_layers=1, max_positions=40,
    )  # fmt: skip
    for name, more in shapes.items():
        model = random_model(config.replace(**more))
        if name == "stored":
            model.tgt_positions.table.copy_(model.tgt_positions.table.half())
        found[name] = own_positions(Translator(model, tiny_tokenizer), "translation", 20)
    tables = {name: each.table for name, each in found.items()}
    np.testing.assert_array_equal(tables["plain"], sinusoidal(20, 16).numpy())
    assert not why_not_subtracted(tables["plain"], tables["layout"])
    assert "16 and 32 numbers" in why_not_subtracted(tables["plain"], tables["wide"])
    assert "B’s table ends after 12" in why_not_subtracted(tables["plain"], tables["learned"])
    assert "concatenated" in found["layout"].about and "learned" in found["learned"].about
    rounded = np.abs(tables["stored"] - tables["plain"]).max()
    assert 1e-5 < rounded < 1e-3 and f"{rounded:.1e}" in found["stored"].about
    assert "sinusoids rounded to 16 bits each, as float16" in found["stored"].about
