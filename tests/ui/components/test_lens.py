"""The lens: the message is the map, and what the browser selects is checked."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from figures.palette import THEMES, signed_table
from tests.factories import make_trace
from ui.components.lens import Map, parse_selection, still_lens

TRACE = make_trace(S=7, T=5)


def test_the_message_is_the_map_row_by_row() -> None:
    weights = TRACE.cross[1, 2]
    shown = Map(weights, TRACE.tgt_tokens, TRACE.src_tokens, "Layer 2", "translation", "source")
    message = still_lens(shown)
    length = int.from_bytes(message[:4], "little")
    header = json.loads(message[4 : 4 + length])
    sent = np.frombuffer(message[4 + length :], dtype="<f4").reshape(5, 7)
    np.testing.assert_array_equal(sent, weights)
    assert (len(header["query_tokens"]), len(header["key_tokens"])) == (5, 7)
    assert header["held"] == [[], []]


def test_a_turned_map_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(7, 5\)"):
        Map(TRACE.cross[0, 0].T, TRACE.tgt_tokens, TRACE.src_tokens, "x", "q", "k")


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ([[0, 4], [6]], ((0, 4), (6,))),
        ([[], []], ((), ())),
        ([[3, 1, 3], []], ((1, 3), ())),
        ([[5], []], None),
        ([[], [7]], None),
        ([[-1], []], None),
        ([[True], []], None),
        ([["0"], []], None),
        ([[0]], None),
        ("01", None),
        (None, None),
    ],
)
def test_what_the_browser_selects_is_checked(reported: Any, expected: Any) -> None:
    assert parse_selection(reported, queries=5, keys=7) == expected


def test_a_difference_has_a_scale_of_its_own_and_says_who_looks_more() -> None:
    weights = np.array([[0.2, -0.2, 0], [0, 0, 0]], dtype=np.float32)
    shown = Map(
        weights, ("a", "b"), ("x", "y", "z"), "A − B", "source", "source",
        signed=("B looks more", "A looks more"),
    )  # fmt: skip
    header = shown.header(400)
    assert header["limit"] == 0.25
    assert header["ends"] == ("B looks more", "A looks more")
    assert "A looks more by up to 0.20" in header["label"]
    for theme in THEMES:
        table = bytes.fromhex(header["colours"][theme])
        np.testing.assert_array_equal(
            np.frombuffer(table, dtype=np.uint8).reshape(256, 3), signed_table(theme)
        )
    plain = Map(np.abs(weights), ("a", "b"), ("x", "y", "z"), "A", "source", "source").header(400)
    assert plain["limit"] == 0
    assert plain["colours"] != header["colours"]
