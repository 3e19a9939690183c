import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from figures.labels import query_labels
from tests.factories import make_trace
from tests.messages import unpack
from transformer.trace.records import Trace
from ui.components import player
from ui.components.player import Move, PlayerPlace, player_component, prefix_of


def decode(
    trace: Trace, place: PlayerPlace | None = None, **options: Any
) -> tuple[dict[str, Any], NDArray[Any], NDArray[Any]]:
    """Decode like the JavaScript: header, cross-attention [L, H, T, S] and self-attention
    [L, H, T, T], both as integers."""
    header, sent = unpack(player_component(trace, place or PlayerPlace(1), **options).message())
    body = np.frombuffer(sent, "<u2" if header["bits"] == 16 else "u1")
    n_layers, n_heads, n_steps, n_source = header["shape"]
    n_cross = n_layers * n_heads * n_steps * n_source
    own = np.zeros((n_layers, n_heads, n_steps, n_steps), body.dtype)
    own[..., *np.tril_indices(n_steps)] = body[n_cross:].reshape(n_layers, n_heads, -1)
    return header, body[:n_cross].reshape(header["shape"]), own


@pytest.mark.parametrize(("limit", "full"), [(10**6, 65535), (10, 255)])
def test_the_weights_arrive_exactly(monkeypatch: pytest.MonkeyPatch, limit: int, full: int) -> None:
    monkeypatch.setattr(player, "WIDE_LIMIT", limit)
    trace = make_trace(S=7, T=5, n_decoder_layers=2, n_heads=3)
    header, cross, own = decode(trace)
    assert header["shape"] == [2, 3, 5, 7]
    np.testing.assert_allclose(cross / full, trace.cross, atol=0.5 / full + 1e-6)
    np.testing.assert_allclose(own / full, trace.decoder_self, atol=0.5 / full + 1e-6)


def test_the_header_says_what_each_step_did() -> None:
    trace = make_trace(S=6, T=4, K=4)
    header, *_ = decode(trace, PlayerPlace(2, 1, None))
    assert header["choice"] == {
        "step": 2, "layer": 1, "head": None, "shifted": False, "kind": "cross",
    }  # fmt: skip
    assert tuple(header["rows"]) == query_labels(trace, "cross")
    assert header["predicted"] == list(trace.predicted_tokens)
    assert header["input"] == list(trace.tgt_tokens)
    for t, row in enumerate(header["top"]):
        assert [text for text, *_ in row] == list(trace.top_tokens[t])
        probabilities = [each[1] for each in row]
        np.testing.assert_allclose(probabilities, np.exp(trace.top_log_probs[t]), atol=1e-5)
        assert [each[2] for each in row] == trace.top_ids[t].tolist()
        assert header["chosen"][t]["rank"] == 0
        assert header["entropy"][t] == pytest.approx(trace.entropy[t] / math.log(2), abs=1e-3)
    assert len(header["colours"]["light"]) == 256 * 6
    assert header["ids"] == list(trace.predicted_ids)
    np.testing.assert_allclose(header["running"], np.cumsum(trace.log_probs), atol=1e-3)
    assert header["nForced"] == 0 and header["gap"] is None and header["drawn"] is None


def test_a_place_is_no_part_of_what_is_sent() -> None:
    trace = make_trace(T=4)
    one, other = (player_component(trace, each) for each in (PlayerPlace(1), PlayerPlace(3, 1, 2)))
    assert (one.header, bytes(one.body)) == (other.header, bytes(other.body))
    assert one.choice != other.choice


def test_columns_are_tokens_or_whole_words() -> None:
    trace = make_trace(S=5, T=5, src_tokens=("▁un", "believ", "able", "▁cats"))
    pieces = ("<s>", "▁Kat", "zen", "▁un", "glaub")
    trace = dataclasses.replace(
        trace, tgt_tokens=pieces, predicted_tokens=(*pieces[1:], "lich"), complete=False
    )
    header, *_ = decode(trace)
    assert header["source"] == ["▁un", "believ", "able", "▁cats", "</s>"]
    assert header["keys"] == list(pieces)
    assert header["laneSpans"] == [[j, j + 1] for j in range(6)]
    assert header["special"] == [4]
    header, *_ = decode(trace, words=True)
    assert header["source"] == ["unbelievable", "cats", "</s>"]
    assert header["sourceSpans"] == [[0, 3], [3, 4], [4, 5]]
    # The last prediction belongs to the word in the lane, but nothing looks at it yet.
    assert header["keys"] == ["<s>", "Katzen", "unglaub"]
    assert header["keySpans"] == [[0, 1], [1, 3], [3, 5]]
    assert header["laneSpans"] == [[0, 1], [1, 3], [3, 6]]
    assert header["special"] == [2]


@given(st.lists(st.sampled_from(["▁a", "b", "<0xC3>", "▁"]), min_size=3, max_size=9))
def test_spans_cover_every_position_once(tokens: list[str]) -> None:
    trace = make_trace(S=len(tokens) + 1, T=6, src_tokens=tuple(tokens))
    for words in (False, True):
        header, *_ = decode(trace, words=words)
        for name, length in {"source": len(tokens) + 1, "key": 6, "lane": 7}.items():
            spans = header[f"{name}Spans"]
            assert [j for span in spans for j in range(*span)] == list(range(length))
        assert len(header["source"]) == len(header["sourceSpans"])
        assert len(header["keys"]) == len(header["keySpans"])


def test_what_was_taken_and_what_sampling_cut_off_is_marked() -> None:
    trace = make_trace(T=3, K=4)
    allowed = np.array([[True, True, False, False], [True] * 4, [True, False, False, False]])
    low, ids = trace.top_log_probs.copy(), trace.top_ids.copy()
    low[:, -1] = -np.inf
    ids[2, 0] = 63  # the token is not among the most probable
    trace = dataclasses.replace(
        trace, allowed=allowed, n_allowed=np.array([2, 9, 1]), top_ids=ids, top_log_probs=low,
        forcing_gap=5.3e-7,
    )  # fmt: skip
    header, *_ = decode(trace)
    assert [[each[3] for each in row] for row in header["top"]] == (~allowed).tolist()
    assert header["drawn"] == [2, 9, 1]
    assert all(row[-1][1] == 0 for row in header["top"])
    assert header["gap"] == "0.0000005"  # one digit of the difference to teacher forcing
    assert [chosen["rank"] for chosen in header["chosen"]] == [0, 0, -1]
    probability = math.exp(trace.log_probs[2])
    assert header["chosen"][2]["probability"] == pytest.approx(probability, rel=1e-4)


def test_a_token_taken_instead() -> None:
    trace = make_trace(T=4, K=4)
    move = Move(PlayerPlace(2, 1, None), 61)
    assert prefix_of(trace, move) == (trace.predicted_ids[0], 61)
    assert prefix_of(trace, move, never=(61,)) is None
    wrong: list[dict[str, Any]] = [
        {"place": PlayerPlace(5)}, {"take": 7}, {"take": None}, {"take": "undo"},
    ]  # fmt: skip
    assert not any(prefix_of(trace, dataclasses.replace(move, **each)) for each in wrong)
