"""The pieces and cuts as sent to the browser."""

from __future__ import annotations

import pytest

from ui.components.cut import Cut, Piece, cuts_component, pieces_component


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


@pytest.mark.parametrize("reported", [0, 9, 10, -1, True, "3", None, 2.0])
def test_only_an_id_up_to_the_largest_or_the_number_of_a_cut_is_a_choice(reported: object) -> None:
    pieces = pieces_component([Piece("a", 9, 0), Piece("b", 2, 1)], [], chosen=2, label="x")
    cuts = cuts_component([Cut("0.1", 0.5, (("a", "b"),))] * 10, chosen=0, label="x")
    for shown in (pieces, cuts):
        assert shown.parse is not None
        assert shown.parse(reported) == (reported if reported in (0, 9) else None)
