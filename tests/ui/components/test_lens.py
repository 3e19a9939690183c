"""The lens: the message is the map."""

from __future__ import annotations

import numpy as np
import pytest

from tests.factories import make_trace
from tests.messages import unpack
from ui.components.lens import Map
from ui.components.packing import attention_colours, signed_colours

TRACE = make_trace(S=7, T=5)


def test_the_message_is_the_map_row_by_row() -> None:
    weights = TRACE.cross[1, 2]
    shown = Map(weights, TRACE.tgt_tokens, TRACE.src_tokens, "Layer 2", "translation", "source")
    header, body = unpack(shown.lens().message())
    np.testing.assert_array_equal(np.frombuffer(body, dtype="<f4").reshape(5, 7), weights)
    assert (len(header["query_tokens"]), len(header["key_tokens"])) == (5, 7)
    assert not header["selectable"]
    chosen = shown.lens(selected=((1,), (2, 3)))
    assert chosen.header["selectable"] and chosen.choice == [[1], [2, 3]]
    assert chosen.parse is not None and chosen.parse([[4], []]) == ((4,), ())


def test_a_turned_map_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(7, 5\)"):
        Map(TRACE.cross[0, 0].T, TRACE.tgt_tokens, TRACE.src_tokens, "x", "q", "k")


def test_a_difference_has_a_scale_of_its_own_and_says_who_looks_more() -> None:
    weights = np.array([[0.2, -0.2, 0], [0, 0, 0]], dtype=np.float32)
    axes = ("a", "b"), ("x", "y", "z")
    ends = ("B looks more", "A looks more")
    header = Map(weights, *axes, "A − B", "source", "source", signed=ends).lens().header
    assert (header["limit"], header["ends"]) == (0.25, ends)
    assert "A looks more by up to 0.20" in header["label"]
    assert header["colours"] == signed_colours()
    plain = Map(np.abs(weights), *axes, "A", "source", "source").lens().header
    assert plain["limit"] == 0 and plain["colours"] == attention_colours()
