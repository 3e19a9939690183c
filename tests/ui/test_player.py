from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.factories import make_trace
from ui.components import player
from ui.components.player import Place, encode, place_in


def decode(message: bytes) -> tuple[dict[str, Any], NDArray[np.unsignedinteger[Any]]]:
    """What the JavaScript reads: the header, and the weights as [L, H, T, S] integers."""
    length = int.from_bytes(message[:4], "little")
    header = json.loads(message[4 : 4 + length])
    kind = "<u2" if header["bits"] == 16 else "u1"
    return header, np.frombuffer(message[4 + length :], kind).reshape(header["shape"])


def test_the_weights_arrive_as_they_are() -> None:
    trace = make_trace(S=7, T=5, n_decoder_layers=2, n_heads=3)
    header, weights = decode(encode(trace, "id", Place(1)))
    assert header["shape"] == [2, 3, 5, 7]
    np.testing.assert_allclose(weights / 65535, trace.cross, atol=1e-5)


def test_many_weights_travel_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "WIDE_LIMIT", 10)
    trace = make_trace()
    header, weights = decode(encode(trace, "id", Place(1)))
    assert header["bits"] == 8
    np.testing.assert_allclose(weights / 255, trace.cross, atol=0.5 / 255 + 1e-6)


def test_the_header_says_what_each_step_did() -> None:
    trace = make_trace(S=6, T=4, K=4)
    header, _ = decode(encode(trace, "id", Place(2, 1, None), nonce=3))
    assert header["trace"] == "id"
    assert header["start"] == {"step": 1, "layer": 0, "head": None, "nonce": 3}
    assert header["predicted"] == list(trace.predicted_tokens)
    assert header["input"] == list(trace.tgt_tokens)
    for t, row in enumerate(header["top"]):
        assert [text for text, _ in row] == list(trace.top_tokens[t])
        np.testing.assert_allclose(
            [probability for _, probability in row], np.exp(trace.top_log_probs[t]), atol=1e-5
        )
        assert header["chosen"][t]["rank"] == 0
        assert header["entropy"][t] == pytest.approx(trace.entropy[t] / math.log(2), abs=1e-3)
    assert len(header["colours"]["light"]) == 256 * 6


def test_a_token_that_is_not_among_the_most_probable_is_said_to_be_taken() -> None:
    trace = make_trace(T=4)
    ids = trace.top_ids.copy()
    ids[2, 0] = 63
    header, _ = decode(encode(dataclasses.replace(trace, top_ids=ids), "id", Place(1)))
    assert [chosen["rank"] for chosen in header["chosen"]] == [0, 0, -1, 0]
    assert header["chosen"][2]["probability"] == pytest.approx(
        math.exp(trace.log_probs[2]), rel=1e-4
    )


def test_impossible_alternatives_are_sent_as_zero() -> None:
    trace = make_trace()
    low = trace.top_log_probs.copy()
    low[:, -1] = -np.inf
    header, _ = decode(encode(dataclasses.replace(trace, top_log_probs=low), "id", Place(1)))
    assert all(row[-1][1] == 0 for row in header["top"])


@given(st.lists(st.text(max_size=8), min_size=3, max_size=9))
def test_any_tokens_can_be_sent_and_none_is_invisible(tokens: list[str]) -> None:
    trace = make_trace(S=len(tokens) + 1, src_tokens=tuple(tokens))
    header, _ = decode(encode(trace, "id", Place(1)))
    assert len(header["source"]) == len(tokens) + 1
    assert all(header["source"])
    assert not any("\n" in token for token in header["source"])


def test_a_report_says_where_the_player_stands() -> None:
    view = {"trace": "id", "step": 3, "layer": None, "head": 2}
    assert place_in({"view": view}, "id") == Place(3, None, 2)
    assert place_in({"view": view}, "another") is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
views = st.fixed_dictionaries(
    {"trace": st.just("id"), "step": json_values, "layer": json_values, "head": json_values}
)
reports = json_values | st.fixed_dictionaries({"view": views})


@given(reports)
def test_a_report_that_is_not_one_is_ignored(held: Any) -> None:
    place = place_in(held, "id")
    if place is not None:
        for value in (place.step, place.layer, place.head):
            assert value is None or (type(value) is int and value >= 1)
        assert type(place.step) is int
