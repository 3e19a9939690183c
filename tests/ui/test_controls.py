"""What the sidebar says of a model in a few words."""

from __future__ import annotations

from transformer.config import ModelConfig
from ui.controls import _heads


def test_heads_are_counted_for_both_sides_and_one_is_not_plural() -> None:
    said = {
        _heads(ModelConfig(vocab_size=9, d_model=20, n_heads=heads, n_decoder_heads=others))
        for heads, others in ((1, None), (5, 2), (5, 5), (4, None))
    }
    assert said == {"1 head", "5 and 2 heads", "5 heads", "4 heads"}
