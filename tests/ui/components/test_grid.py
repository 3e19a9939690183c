"""The grid: messages, choices, and the map of each cell."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from benchmarks.views import make_tensors
from figures.palette import to_weight_bytes
from tests.factories import make_trace
from transformer.measures.entropy import entropy_bits
from transformer.measures.heads import HOWS, How, widen
from ui.components.grid import (
    Sheet,
    Tab,
    fold,
    grid_sheet,
    mount,
    name_of,
    notes,
    parse_choice,
    parse_marks,
    shrink,
    still_grid,
)
from ui.components.grid.mount import attention_grid
from ui.components.packing import inflate

MAPS = make_trace(S=7, T=5, n_decoder_layers=2, n_heads=3).cross


def inflated(sheet: Sheet) -> tuple[dict[str, Any], np.ndarray]:
    """Return the header, and the bytes that the browser draws, [rows, columns, queries, keys]."""
    header, body = inflate(sheet.body.tobytes())
    size = (header["queries"], header["keys"])
    flat = np.frombuffer(body, dtype=np.uint8).reshape(-1, *size)
    layers, heads = sheet.rows - 1, sheet.columns - 1
    maps = np.empty((sheet.rows, sheet.columns, *size), dtype=np.uint8)
    maps[:-1, :-1] = single = flat[: layers * heads].reshape(layers, heads, *size)
    places = [
        *((layer, heads) for layer in range(sheet.rows)),
        *((layers, h) for h in range(heads)),
    ]
    for (row, column), differs in zip(places, flat[layers * heads :], strict=True):
        chosen = single[slice(None) if row == layers else row]
        chosen = chosen[..., slice(None) if column == heads else column, :, :].reshape(-1, *size)
        if header["how"] == "max":
            combined = chosen.max(axis=0)
        else:
            combined = np.floor(chosen.mean(axis=0, dtype=np.float64) + 0.5).astype(np.uint8)
        maps[row, column] = combined + differs
    return header, maps


@pytest.mark.parametrize("how", HOWS)
def test_the_message_holds_every_map_and_the_combined_ones(how: How) -> None:
    trace = make_trace(S=7, T=5, n_decoder_layers=2, n_heads=3)
    sheet = grid_sheet(trace.cross, trace.tgt_tokens, trace.src_tokens, label="x", how=how)
    np.testing.assert_array_equal(inflated(sheet)[1], to_weight_bytes(widen(trace.cross, how)))
    assert (sheet.rows, sheet.columns) == (3, 4)


def test_a_long_text_stays_small() -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((2, 4, 512, 300)).astype(np.float32)
    maps = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    tokens = [f"t{i}" for i in range(512)]
    sheet = grid_sheet(maps, tokens, tokens[:300], label="x")
    header, shown = inflated(sheet)
    assert (header["queries"], header["keys"]) == (128, 128)
    wide = to_weight_bytes(widen(maps))
    for row, column in [(0, 0), (1, 4), (2, 1), (2, 4)]:
        np.testing.assert_array_equal(shown[row, column], shrink(wide[row, column], ())[0])
    assert len(still_grid(sheet, (0, None))) < maps.size / 10


def test_at_30_tokens_a_message_takes_two_thirds_of_a_byte_for_each_weight() -> None:
    maps = make_tensors(30, layers=6, heads=8)["Encoder"].astype(np.float32)
    tokens = [f"▁token{i}" for i in range(30)]
    sheet = grid_sheet(maps, tokens, tokens, label="x")
    assert len(still_grid(sheet, (None, None))) < 2 / 3 * maps.size


@settings(max_examples=60, deadline=None)
@given(
    single=hnp.arrays(
        np.float32, st.tuples(*[st.integers(1, 4)] * 4), elements=st.floats(0, 1, width=32)
    ),
    how=st.sampled_from(HOWS),
)
def test_what_travels_are_single_maps_and_small_differences(single: np.ndarray, how: How) -> None:
    wide = to_weight_bytes(widen(single, how))
    alone, differences = fold(wide, how)
    np.testing.assert_array_equal(alone, wide[:-1, :-1])
    assert differences.shape == (sum(wide.shape[:2]) - 1, *wide.shape[2:])
    assert np.isin(differences, [0] if how == "max" else [255, 0, 1]).all()


@pytest.mark.parametrize(
    ("reported", "cell"),
    [
        ([0, 0], (0, 0)),
        ([1, 2], (1, 2)),
        ([None, 1], (None, 1)),
        ([0, None], (0, None)),
        ([None, None], (None, None)),
        ([2, 0], None),
        ([0, 3], None),
        ([-1, 0], None),
        ([0], None),
        ([0, 1, 2], None),
        ([0.0, 1], None),
        ([True, 1], None),
        (["0", 1], None),
        ("01", None),
        ({"0": 1}, None),
        (None, None),
    ],
)
def test_what_the_browser_reports_is_checked(reported: Any, cell: Any) -> None:
    assert parse_choice(reported, n_layers=2, n_heads=3) == cell


def test_cells_have_names_for_people() -> None:
    assert name_of(0, 0, 3, 4) == "Layer 1, head 1"
    assert name_of(1, 3, 3, 4) == "Layer 2, mean over heads"
    assert name_of(2, 2, 3, 4) == "Head 3, mean over layers"
    assert name_of(2, 3, 3, 4) == "Mean over all layers and heads"
    assert name_of(2, 3, 3, 4, "max") == "Maximum over all layers and heads"


def test_small_maps_are_sent_as_they_are() -> None:
    maps = np.arange(2 * 5 * 7, dtype=np.uint8).reshape(2, 5, 7)
    same, dimmed = shrink(maps, [6, 2], side=7)
    np.testing.assert_array_equal(same, maps)
    assert dimmed == [2, 6]


@settings(max_examples=60, deadline=None)
@given(
    maps=hnp.arrays(np.uint8, st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40))),
    side=st.integers(1, 16),
)
def test_shrinking_keeps_every_peak_in_its_place(maps: np.ndarray, side: int) -> None:
    small, _ = shrink(maps, [], side=side)
    _, n, m = maps.shape
    assert small.shape == (len(maps), min(n, side), min(m, side))
    rows = np.arange(n) if n <= side else (np.arange(1, n + 1) * side - 1) // n
    columns = np.arange(m) if m <= side else (np.arange(1, m + 1) * side - 1) // m
    expected = np.zeros_like(small)
    for index, value in np.ndenumerate(maps):
        at = (index[0], rows[index[1]], columns[index[2]])
        expected[at] = max(expected[at], value)
    np.testing.assert_array_equal(small, expected)


def test_dimmed_columns_do_not_shine_through_a_shrunken_map() -> None:
    maps = np.zeros((1, 8, 8), dtype=np.uint8)
    maps[..., 0] = 200  # half of the first block
    maps[..., 6:] = 100  # the whole of the last one
    small, dimmed = shrink(maps, [0, 6, 7], side=4)
    assert small.max() == 0
    assert dimmed == [3]


def test_notes_say_what_stands_out_and_how_much_is_hidden() -> None:
    wide = widen(MAPS)
    lines = notes(wide, (6,), spread=True)
    assert (len(lines), len(lines[0])) == (3, 4)
    for row, column in np.ndindex(3, 4):
        query, key, weight, spread, hidden = lines[row][column]
        weights = wide[row, column]
        assert weights[int(query), int(key)] == weights.max()
        assert weight == pytest.approx(weights.max(), abs=0.005)
        assert spread == pytest.approx((2 ** entropy_bits(weights)).mean(), abs=0.05)
        assert hidden == pytest.approx(weights[:, 6].mean(), abs=0.0005)
    assert not np.array(notes(widen(MAPS, "max"), (), spread=False))[..., 3:].any()


def test_any_tokens_make_a_message() -> None:
    trace = make_trace(S=4, T=3, src_tokens=("<script>", "; a; b", "x" * 300))
    sheet = grid_sheet(trace.cross, trace.tgt_tokens, trace.src_tokens, label="x")
    header, _ = inflated(sheet)
    assert header["key_tokens"][0] == "<script>"
    assert len(header["key_tokens"][2]) == 24
    message = still_grid(sheet, (None, 1))
    held = json.loads(message[4 : 4 + int.from_bytes(message[:4], "little")])["held"]
    assert held == [None, 1, [], ""]


@pytest.mark.parametrize(
    ("reported", "heads"),
    [
        ([], ()),
        ([[1, 2], [0, 0]], ((1, 2), (0, 0))),
        ([[2, 0]], None),  # the combined maps are no heads
        ([[0, 3]], None),
        ([[0, 0], [0, 0]], None),
        ([[0, True]], None),
        ([[0]], None),
        ([0, 1], None),
        ("00", None),
        (None, None),
        ([[0, 0]] * 7, None),
    ],
)
def test_only_heads_of_this_grid_can_be_marked(
    reported: Any, heads: tuple[tuple[int, int], ...] | None
) -> None:
    assert parse_marks(reported, n_layers=2, n_heads=3) == heads


@pytest.fixture
def tabs() -> dict[str, Tab]:
    """Two kinds of unequal depth, and one that is sent when chosen."""
    trace = make_trace(S=7, T=5, n_encoder_layers=4, n_decoder_layers=2, n_heads=3)
    encoder = grid_sheet(trace.encoder_self, trace.src_tokens, trace.src_tokens, label="e")
    cross = grid_sheet(trace.cross, trace.tgt_tokens, trace.src_tokens, label="c")
    return {
        "encoder": Tab("Encoder maps", "Enc.", encoder),
        "decoder": Tab("Decoder maps", "Dec.", None),
        "cross": Tab("Cross maps", "Cross", cross),
    }


def unpacked(message: bytes) -> tuple[dict[str, Any], bytes]:
    end = 4 + int.from_bytes(message[:4], "little")
    return json.loads(message[4:end]), message[end:]


def test_several_kinds_travel_behind_each_other(tabs: dict[str, Tab]) -> None:
    header, body = unpacked(still_grid(tabs, (3, None), "cross"))
    assert header["held"] == [3, None, [], "cross"]
    assert [each[:3] for each in header["kinds"]] == [
        ["encoder", "Encoder maps", "Enc."],
        ["decoder", "Decoder maps", "Dec."],
        ["cross", "Cross maps", "Cross"],
    ]
    sizes = [size for *_, size in header["kinds"]]
    assert sizes[1] == 0 and sum(sizes) == len(body)
    assert [inflate(part)[0]["label"] for part in (body[: sizes[0]], body[sizes[0] :])] == [
        "e",
        "c",
    ]


class Browser:
    """The grid's messages, and the reports in answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session: dict[str, Any] = {}
        self.sent: list[dict[str, Any]] = []
        self.count = 0
        monkeypatch.setattr("streamlit.session_state", self.session)
        monkeypatch.setattr(mount, "_component", lambda **given: self.sent.append(given))

    def report(self, held: Any) -> None:
        self.count += 1
        self.session["g"] = {"held": {"count": self.count, "held": held}}
        self.sent[-1]["on_held_change"]()


def test_another_kind_is_heard_and_the_message_stays_as_it_was(
    tabs: dict[str, Tab], monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Browser(monkeypatch)
    now: dict[str, Any] = {"kind": "cross", "cell": (3, 1), "marks": ()}

    def show() -> bytes:
        attention_grid(
            tabs, chosen=now["cell"], on_choose=lambda cell: now.update(cell=cell, marks=()),
            marked=now["marks"], on_mark=lambda marks: now.update(marks=marks), key="g",
            kind=now["kind"], on_kind=lambda kind: now.update(kind=kind),
        )  # fmt: skip
        return browser.sent[-1]["data"]  # type: ignore[no-any-return]

    first = show()
    # The cross maps have no fourth layer: it waits for a kind that has one.
    marks = [[3, 0], [1, 2]]
    for held in (
        [3, 1, [], "encoder"],
        [3, 1, [], "cross"],
        [0, None, [], "encoder"],
        [0, None, marks, "encoder"],
        [0, None, marks, "cross"],
    ):
        browser.report(held)
        assert now["kind"] == held[3]
        assert [*now["cell"]] == held[:2]
        assert [list(head) for head in now["marks"]] == held[2]
        assert show() == first
    # Maps that were missing are new content.
    browser.report([0, None, [], "decoder"])
    assert now["kind"] == "decoder"
    tabs["decoder"] = Tab("Decoder maps", "Dec.", tabs["cross"].sheet)
    header, _ = unpacked(show())
    assert (header["held"], header["count"]) == ([0, None, [], "decoder"], browser.count)


@pytest.mark.parametrize(
    "held",
    [
        [0, 0, [], "sideways"],
        [0, 0, [], None],
        [0, 0, []],
        [0, 0],
        [4, 0, [], "cross"],
        [0, 3, [], "cross"],
        [0, 0, [[4, 0]], "cross"],
        [0, 0, [], "cross", 1],
        "cross",
        {"kind": "cross"},
    ],
)
def test_what_does_not_fit_the_tabs_is_not_heard(
    tabs: dict[str, Tab], monkeypatch: pytest.MonkeyPatch, held: Any
) -> None:
    browser = Browser(monkeypatch)
    heard: list[Any] = []
    attention_grid(
        tabs, chosen=(0, 0), on_choose=heard.append, on_mark=heard.append, key="g", kind="cross",
        on_kind=heard.append,
    )  # fmt: skip
    browser.report(held)
    assert heard == []
