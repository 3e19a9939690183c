"""Pieces, cuts, and sentences token by token, as sent to the browser."""

import math

import pytest

from ui.components.cut import Piece, pieces_component
from ui.components.strip import strip_component

TOKENS = ("▁<script>", "\u202eab", "x" * 200)


def test_tokens_travel_as_plain_visible_text() -> None:
    pieces = [
        Piece("<script>alert(1)</script>", 3, 0, "unknown"),
        Piece("x" * 200, 3, 1, "unknown"),
        Piece("\n", 9, 1),
        Piece("שלום", 8, 2, note="token 4"),
    ]
    shown = pieces_component(pieces, [("\u202e", ""), ("ﬁ", "fi")], chosen=3, label="x")
    sent = shown.header["pieces"]
    assert [each["id"] for each in sent] == [3, 3, 9, 8]
    assert sent[0]["piece"] == "<script>alert(1)</script>"
    assert len(sent[1]["piece"]) <= 28 and sent[1]["whole"] == "x" * 200
    assert [each["piece"] for each in sent[2:]] == ["↵", "\u2068שלום\u2069"]
    assert shown.header["changed"] == [["[U+202E]", ""], ["ﬁ", "fi"]]
    assert shown.choice == 3 and set(shown.header["tints"]) == {"light", "dark"}


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
