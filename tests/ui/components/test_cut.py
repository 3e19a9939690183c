"""The pieces and cuts as sent to the browser."""

from __future__ import annotations

import json

import pytest

from ui.components.cut import Piece, parse_choice, still_pieces


def header_of(message: bytes) -> dict[str, object]:
    length = int.from_bytes(message[:4], "little")
    found: dict[str, object] = json.loads(message[4 : 4 + length])
    return found


def test_tokens_travel_as_plain_visible_text() -> None:
    pieces = [
        Piece("<script>alert(1)</script>", 3, 0, "unknown"),
        Piece("x" * 200, 3, 1, "unknown"),
        Piece("\n", 9, 1),
        Piece("שלום", 8, 2, note="token 4"),
    ]
    header = header_of(
        still_pieces(pieces, [("\u202e", ""), ("ﬁ", "fi")], chosen=3, label="The source")
    )
    shown = header["pieces"]
    assert isinstance(shown, list)
    assert [each["id"] for each in shown] == [3, 3, 9, 8]
    assert shown[0]["piece"] == "<script>alert(1)</script>"
    assert len(shown[1]["piece"]) <= 28
    assert shown[1]["whole"] == "x" * 200
    assert shown[2]["piece"] == "↵"
    assert shown[3]["piece"] == "\u2068שלום\u2069"
    assert header["changed"] == [["[U+202E]", ""], ["ﬁ", "fi"]]
    assert header["chosen"] == 3
    assert set(header["tints"]) == {"light", "dark"}  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("reported", "choice"),
    [(0, 0), (7, 7), (8, None), (-1, None), (True, None), ("3", None), (None, None), (2.0, None)],
)
def test_only_a_number_in_range_is_a_choice(reported: object, choice: int | None) -> None:
    assert parse_choice(reported, 7) == choice
