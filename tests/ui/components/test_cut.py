"""The pieces and cuts as sent to the browser."""

from __future__ import annotations

from ui.components.cut import Piece, pieces_component


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
