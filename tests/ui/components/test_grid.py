import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from figures.attention import LIMITS
from figures.labels import query_labels
from figures.palette import to_weight_bytes
from tests.factories import make_trace
from tests.messages import inflate, unpack
from transformer.measures.compare import divergence
from transformer.measures.heads import HOWS, How, entropy_bits, kept_lines, widen
from transformer.trace.records import Trace
from ui.components import grid, player
from ui.components.grid import difference_sheet
from ui.components.lines import Drawing, colour_slots, drawing
from ui.components.player import Move, PlayerPlace, player_component, prefix_of

TRACE = make_trace(
    S=7, T=5, n_decoder_layers=2, n_heads=3, src_tokens=("<script>", "x" * 300, *"abcd")
)
MAPS = TRACE.cross


def inflated(sheet: grid.Sheet) -> tuple[dict[str, Any], np.ndarray]:
    """Return the header and the drawn bytes, [rows, columns, queries, keys]."""
    header, body = inflate(sheet.body.tobytes())
    shape = (sheet.rows, sheet.columns, header["queries"], header["keys"])
    return header, np.frombuffer(body, dtype=np.uint8).reshape(shape)


@pytest.mark.parametrize("how", HOWS)
def test_the_message_holds_every_map_and_the_combined_ones(how: How) -> None:
    sheet = grid.grid_sheet(MAPS, TRACE.tgt_tokens, TRACE.src_tokens, label="x", how=how)
    header, maps = inflated(sheet)
    np.testing.assert_array_equal(maps, to_weight_bytes(widen(MAPS, how)))
    assert (sheet.rows, sheet.columns) == (3, 4)
    assert header["key_tokens"][:2] == ["<script>", f"{'x' * 12}…{'x' * 11}"]
    whole = {"mean": "Mean", "max": "Maximum"}[how]
    assert header["names"][0][0] == "Layer 1, head 1"
    assert header["names"][2][2:] == [
        f"Head 3, {whole.lower()} over layers", f"{whole} over all layers and heads"
    ]  # fmt: skip


def test_a_long_text_stays_small() -> None:
    logits = np.random.default_rng(0).standard_normal((2, 4, 512, 300)).astype(np.float32)
    maps = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    tokens = [f"t{i}" for i in range(512)]
    sheet = grid.grid_sheet(maps, tokens, tokens[:300], label="x")
    header, shown = inflated(sheet)
    assert (header["queries"], header["keys"]) == (128, 128)
    wide = to_weight_bytes(widen(maps))
    for row, column in [(0, 0), (1, 4), (2, 1), (2, 4)]:
        np.testing.assert_array_equal(shown[row, column], grid.shrink(wide[row, column], ())[0])
    assert len(grid.grid_component(sheet, (0, None)).message()) < maps.size / 10


@settings(max_examples=60, deadline=None)
@given(
    maps=hnp.arrays(np.uint8, st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40))),
    side=st.integers(1, 16),
)
def test_shrinking_keeps_every_peak_in_its_place(maps: np.ndarray, side: int) -> None:
    small, _ = grid.shrink(maps, [], side=side)
    _, n, m = maps.shape
    assert small.shape == (len(maps), min(n, side), min(m, side))
    rows = np.arange(n) if n <= side else (np.arange(1, n + 1) * side - 1) // n
    columns = np.arange(m) if m <= side else (np.arange(1, m + 1) * side - 1) // m
    expected = np.zeros_like(small)
    for index, value in np.ndenumerate(maps):
        at = (index[0], rows[index[1]], columns[index[2]])
        expected[at] = max(expected[at], value)
    np.testing.assert_array_equal(small, expected)


@pytest.mark.parametrize("middle", [0, 128])
def test_dimmed_columns_do_not_shine_through_a_shrunken_map(middle: int) -> None:
    maps = np.full((1, 8, 8), middle, dtype=np.uint8)
    maps[..., 0], maps[..., 6:] = 255, 1  # half of the first block, and the whole of the last one
    small, dimmed = grid.shrink(maps, [0, 6, 7], side=4, middle=middle)
    assert (small == middle).all() and dimmed == [3]
    same, dimmed = grid.shrink(maps, [6, 2], side=8, middle=middle)
    np.testing.assert_array_equal(same, maps)
    assert dimmed == [2, 6]


def test_notes_say_what_stands_out_and_how_much_is_hidden() -> None:
    wide = widen(MAPS)
    lines = grid.notes(wide, (6,), spread=True)
    assert (len(lines), len(lines[0])) == (3, 4)
    for row, column in np.ndindex(3, 4):
        query, key, weight, spread, hidden = lines[row][column]
        weights = wide[row, column]
        assert weights[int(query), int(key)] == weights.max()
        assert weight == pytest.approx(weights.max(), abs=0.005)
        assert spread == pytest.approx((2 ** entropy_bits(weights)).mean(), abs=0.05)
        assert hidden == pytest.approx(weights[:, 6].mean(), abs=0.0005)
    assert not np.array(grid.notes(widen(MAPS, "max"), (), spread=False))[..., 3:].any()


DEEP = make_trace(S=7, T=5, n_encoder_layers=4, n_decoder_layers=2, n_heads=3)
#: Two kinds of unequal depth, and one that is sent when chosen.
TABS = {
    "encoder": grid.Tab("Encoder maps", "Enc.", grid.grid_sheet(
        DEEP.encoder_self, DEEP.src_tokens, DEEP.src_tokens, label="e")),
    "decoder": grid.Tab("Decoder maps", "Dec.", None),
    "cross": grid.Tab("Cross maps", "Cross", grid.grid_sheet(
        DEEP.cross, DEEP.tgt_tokens, DEEP.src_tokens, label="c")),
}  # fmt: skip


def test_several_kinds_travel_behind_each_other() -> None:
    shown = grid.grid_component(TABS, (3, None), "cross")
    assert shown.choice == [3, None, [], "cross"]
    kinds = shown.header["kinds"]
    assert [tuple(each[:3]) for each in kinds] == [
        (name, tab.title, tab.short) for name, tab in TABS.items()
    ]
    sizes = [size for *_, size in kinds]
    assert sizes[1] == 0 and sum(sizes) == len(shown.body)
    parts = shown.body[: sizes[0]], shown.body[sizes[0] :]
    assert [inflate(part)[0]["label"] for part in parts] == ["e", "c"]


def test_a_choice_is_no_part_of_what_is_sent() -> None:
    first = grid.grid_component(TABS, (3, 1), "cross")
    # The cross maps have no fourth layer: it waits for a kind that has one.
    for cell, marks in (((3, 1), ()), ((0, None), ((3, 0), (1, 2)))):
        for kind in ("encoder", "cross"):
            shown = grid.grid_component(TABS, cell, kind, marked=marks)
            assert (shown.header, bytes(shown.body)) == (first.header, bytes(first.body))
            assert shown.choice == [*cell, [list(head) for head in marks], kind]


def test_switched_heads_are_taken_as_they_are_reported() -> None:
    off = {"cross": np.eye(3, 2, dtype=bool), "encoder": np.zeros((2, 4), bool)}
    sent = grid.grid_component(TABS, (0, 0), "cross", off=off).header["off"]
    assert sent == {"cross": [[0, 0], [1, 1]], "encoder": []}
    found = grid.switched({"kind": "encoder", "heads": [[1, 3], [0, 0]], "join": True}, off)
    assert found is not None and (found.tab, found.join) == ("encoder", True)
    assert np.argwhere(found.heads).tolist() == [[0, 0], [1, 3]]
    wrong = ("x", [], [[2, 2]], [[0, 0], [0, 0]])
    for bad in ({"kind": "decoder"}, {"join": 1}, *({"heads": each} for each in wrong)):
        assert grid.switched({"kind": "cross", "heads": [[2, 1]], "join": False} | bad, off) is None


def test_what_heads_do_is_sent_by_tab_with_its_place() -> None:
    does = {"cross": {(1, 0): ("noun", "determiner to noun: 61% of 9 pairs.")}, "encoder": {}}
    assert grid.grid_component(TABS, (0, 0), "cross", does=does).header["does"] == {
        "cross": [[1, 0, "noun", "determiner to noun: 61% of 9 pairs."]], "encoder": []
    }  # fmt: skip
    assert "does" not in grid.grid_component(TABS, (0, 0), "cross").header


ENDS = ("B looks more", "A looks more")


def signed_sheet(other: np.ndarray, how: How = "mean") -> grid.Sheet:
    tokens = TRACE.tgt_tokens, TRACE.src_tokens
    return difference_sheet(MAPS, other, *tokens, label="x", ends=ENDS, how=how)


@pytest.mark.parametrize("how", HOWS)
def test_every_cell_is_the_difference_of_that_cell(how: How) -> None:
    other = make_trace(S=7, T=5, n_decoder_layers=2, n_heads=3, seed=1).cross
    header, maps = inflated(signed_sheet(other, how))
    limit = header["limit"]
    wanted = widen(MAPS, how) - widen(other, how)
    np.testing.assert_allclose((maps / 127.5 - 1) * limit, wanted, atol=limit / 127.5)
    assert limit in LIMITS and header["ends"] == list(ENDS)
    apart = divergence(widen(MAPS, how), widen(other, how)).mean(axis=-1)
    for at, bits in np.ndenumerate(apart):
        assert f"rows differ by {bits:.3f} bits" in header["summaries"][at[0]][at[1]]
        assert header["summaries"][at[0]][at[1]].startswith(header["names"][at[0]][at[1]])


def test_heads_of_one_side_only_have_no_cell_but_count_in_its_mean() -> None:
    other = make_trace(S=7, T=5, n_decoder_layers=4, n_heads=2, seed=2)
    sheet = signed_sheet(other.cross)
    assert (sheet.rows, sheet.columns) == (2 + 1, 2 + 1)
    header, maps = inflated(sheet)
    means = [each.mean(axis=(0, 1), dtype="f8") for each in (MAPS, other.cross)]
    found = (maps[-1, -1] / 127.5 - 1) * header["limit"]
    np.testing.assert_allclose(found, means[0] - means[1], atol=header["limit"] / 127.5)
    with pytest.raises(ValueError, match="broadcast"):
        signed_sheet(make_trace(S=8, T=5, n_decoder_layers=2).cross)


@given(hnp.arrays(np.uint8, st.tuples(st.just(1), st.integers(1, 19), st.integers(1, 19))))
def test_shrinking_keeps_the_largest_difference_of_either_sign(maps: np.ndarray) -> None:
    small, _ = grid.shrink(maps, [], 6, middle=128)
    far = np.abs(maps.astype(int) - 128)
    assert np.abs(small.astype(int) - 128).max() >= far.max() - 1  # 0 and 255 are not quite alike
    assert set(np.unique(small)) <= set(np.unique(maps))


LINED = make_trace(S=7, T=5, n_decoder_layers=2, n_heads=3)


def drawn(heads: list[tuple[int, int]], mass: float = 0.75, **more: Any) -> Drawing:
    return drawing(
        LINED.cross, heads, LINED.tgt_tokens, LINED.src_tokens, mass=mass,
        query_title="translation", key_title="source", **more,
    )  # fmt: skip


def unpacked(lines: Drawing) -> np.ndarray:
    """Return weights in the message, [heads, queries, keys]; 0 without a line."""
    k, (_, _, n, m) = len(lines.heads), lines.shape
    words = lines.body.view("<u4")
    counts, packed = words[: k * n].reshape(k, n), words[k * n :]
    assert len(packed) == counts.sum() == lines.lines
    found = np.zeros((k, n, m))
    row = np.repeat(np.arange(k * n), counts.ravel())
    found.reshape(k * n, m)[row, packed >> 16] = (packed & 65535) / 65535
    return found


@given(st.lists(st.sampled_from(list(np.ndindex(2, 3))), unique=True, min_size=1), st.floats(0, 1))
def test_the_message_holds_the_kept_lines_only(heads: list[tuple[int, int]], mass: float) -> None:
    lines = drawn(heads, mass)
    maps = np.stack([LINED.cross[head] for head in heads])
    kept = kept_lines(maps, mass)
    np.testing.assert_allclose(unpacked(lines), np.where(kept, maps, 0), atol=1 / 65535)
    assert lines.lines == kept.sum()
    assert lines.share == pytest.approx(np.where(kept, maps, 0).sum() / len(heads) / 5, abs=1e-5)
    assert lines.share >= mass - 1e-5
    assert lines.header["drawn"] == [list(head) for head in heads]


def test_the_leading_query_differs_most_from_the_others() -> None:
    maps = np.full((1, 2, 5, 7), 1 / 7, dtype=np.float32)
    maps[0, 1, 3] = np.eye(7, dtype=np.float32)[2]
    tokens = [f"t{i}" for i in range(7)]
    for heads, lead in [([(0, 0), (0, 1)], 3), ([], 0)]:
        lines = drawing(maps, heads, tokens[:5], tokens, mass=0.7, query_title="", key_title="")
        assert lines.header["lead"] == lead


def test_dimmed_keys_and_no_heads_have_no_lines() -> None:
    plain, dim = unpacked(drawn([(1, 2)])), unpacked(drawn([(1, 2)], dimmed_keys=(6,)))
    assert plain[..., 6].any() and not dim[..., 6].any()
    np.testing.assert_array_equal(plain[..., :6], dim[..., :6])
    none = drawn([])
    assert (none.lines, none.share, none.body.size) == (0, 0.0, 0)
    assert drawn([(0, 0)]).component().choice == {"heads": [[0, 0]], "pin": None}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 15)), unique=True, max_size=40))
def test_colours_never_repeat_and_16_heads_take_the_first_16(heads: list[tuple[int, int]]) -> None:
    slots = colour_slots(heads)
    assert len(set(slots)) == len(heads)
    assert max(slots, default=0) < max(16, len(heads))
    # A head keeps its colour while others of its layer come and go.
    one = dict(zip([(1, 0), (1, 3)], colour_slots([(1, 0), (1, 3)]), strict=True))
    all_heads = [(1, head) for head in range(8)]
    many = dict(zip(all_heads, colour_slots(all_heads), strict=True))
    assert all(many[head] == slot for head, slot in one.items())


def decode(
    trace: Trace, place: PlayerPlace | None = None, **options: Any
) -> tuple[dict[str, Any], NDArray[Any], NDArray[Any]]:
    """Decode as the JavaScript does: header, and integer maps [L, H, T, S] and [L, H, T, T]."""
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
    assert header["running"][-1] / header["penalties"][-1] == pytest.approx(trace.score, rel=1e-4)
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
