"""A sentence token by token: text stays text, numbers stay with their tokens."""

from __future__ import annotations

import math

import pytest

from ui.components.strip import strip_component

TOKENS = ("▁<script>", "\u202eab", "x" * 200)


def test_tokens_come_with_their_numbers_and_marks() -> None:
    shown = strip_component(TOKENS, (-0.5, -math.inf, 0.0), (1,), label="A", parts_at=1)
    tokens = shown.header["tokens"]
    assert tokens[0] == "▁<script>"
    assert "\u202e" not in tokens[1]  # direction marks are spelled out
    assert len(tokens[2]) < 40
    assert shown.header["log_probs"] == [-0.5, -1e6, 0.0]  # JSON has no infinity
    assert shown.header["differing"] == [False, True, False]
    assert shown.header["parting"] == 1


def test_a_text_that_nobody_predicted_has_no_numbers() -> None:
    header = strip_component(TOKENS, (), label="A").header
    assert (header["log_probs"], header["parting"]) == ([], -1)
    with pytest.raises(ValueError, match="2 log-probabilities for 3 tokens"):
        strip_component(TOKENS, (0.0, 0.0), label="A")
