"""The grid: what is sent, what comes back, and which map a cell is."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.factories import make_trace
from ui.components.grid import add_means, name_of, parse_choice, pick, shrink, summaries

MAPS = make_trace(S=7, T=5, n_decoder_layers=2, n_heads=3).cross


def test_means_are_the_last_row_and_column() -> None:
    wide = add_means(MAPS)
    assert wide.shape == (3, 4, 5, 7)
    np.testing.assert_array_equal(wide[:2, :3], MAPS)
    np.testing.assert_allclose(wide[1, 3], MAPS[1].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(wide[2, 1], MAPS[:, 1].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(wide[2, 3], MAPS.mean(axis=(0, 1)), atol=1e-6)
    np.testing.assert_allclose(wide.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("layer", [None, 0, 1])
@pytest.mark.parametrize("head", [None, 0, 2])
def test_a_cell_is_the_map_that_the_grid_shows(layer: int | None, head: int | None) -> None:
    row, column = 2 if layer is None else layer, 3 if head is None else head
    np.testing.assert_allclose(pick(MAPS, (layer, head)), add_means(MAPS)[row, column], atol=1e-6)


def test_a_single_map_is_exact() -> None:
    np.testing.assert_array_equal(pick(MAPS, (1, 2)), MAPS[1, 2])


@pytest.mark.parametrize(
    ("reported", "cell"),
    [
        ([0, 0], (0, 0)),
        ([1, 2], (1, 2)),
        ([2, 1], (None, 1)),
        ([0, 3], (0, None)),
        ([2, 3], (None, None)),
        ([3, 0], None),
        ([0, 4], None),
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


def test_summaries_say_what_stands_out_and_how_much_is_hidden() -> None:
    trace = make_trace(S=7, T=5)
    wide = add_means(trace.cross)
    lines = summaries(wide, trace.tgt_tokens, trace.src_tokens, (6,))
    assert (len(lines), len(lines[0])) == (3, 4)
    assert lines[1][2].startswith("Layer 2, head 3: the largest weight is ")
    hidden = trace.cross[1, 2][:, 6].mean()
    assert f"{hidden:.0%} of it dimmed" in lines[1][2]
    assert "dimmed" not in summaries(wide, trace.tgt_tokens, trace.src_tokens, ())[0][0]


def test_any_tokens_make_a_summary() -> None:
    trace = make_trace(S=4, T=3, src_tokens=("<script>", "; a; b", "x" * 300))
    for line in summaries(add_means(trace.cross), trace.tgt_tokens, trace.src_tokens, ()):
        for text in line:
            assert ": the largest weight is" in text
            assert len(text) < 200
            json.dumps(text)
