"""A sentence token by token: text stays text, numbers stay with their tokens."""

from __future__ import annotations

import json
import math

import pytest

from ui.components.strip import strip_message

TOKENS = ("▁<script>", "\u202eab", "x" * 200)


def said(message: bytes) -> dict[str, object]:
    return json.loads(message[4 : 4 + int.from_bytes(message[:4], "little")])


def test_tokens_come_with_their_numbers_and_marks() -> None:
    header = said(strip_message(TOKENS, (-0.5, -math.inf, 0.0), (1,), label="A", parts_at=1))
    tokens = header["tokens"]
    assert isinstance(tokens, list) and len(tokens) == 3
    assert tokens[0] == "▁<script>"
    assert "\u202e" not in tokens[1]  # direction marks are spelled out
    assert len(tokens[2]) < 40
    assert header["log_probs"] == [-0.5, -1e6, 0.0]  # JSON has no infinity
    assert header["differing"] == [False, True, False]
    assert header["parting"] == 1


def test_a_text_that_nobody_predicted_has_no_numbers() -> None:
    header = said(strip_message(TOKENS, (), label="A"))
    assert header["log_probs"] == []
    assert header["parting"] == -1
    with pytest.raises(ValueError, match="2 log-probabilities for 3 tokens"):
        strip_message(TOKENS, (0.0, 0.0), label="A")
