"""Lines: exactly those that the filter keeps are sent, and colours never repeat."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_trace
from transformer.measures.heads import kept_lines
from ui.components.lines import Drawing, colour_slots, drawing

TRACE = make_trace(S=7, T=5, n_decoder_layers=2, n_heads=3)


def drawn(heads: list[tuple[int, int]], mass: float = 0.75, **more: Any) -> Drawing:
    return drawing(
        TRACE.cross, heads, TRACE.tgt_tokens, TRACE.src_tokens, mass=mass,
        query_title="translation", key_title="source", **more,
    )  # fmt: skip


def unpacked(lines: Drawing) -> np.ndarray:
    """Return the weights in the message, [heads, queries, keys]; 0 if there is no line."""
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
    maps = np.stack([TRACE.cross[head] for head in heads])
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


def test_dimmed_keys_have_no_lines_but_count_in_the_share() -> None:
    plain, dim = unpacked(drawn([(1, 2)])), unpacked(drawn([(1, 2)], dimmed_keys=(6,)))
    assert plain[..., 6].any() and not dim[..., 6].any()
    np.testing.assert_array_equal(plain[..., :6], dim[..., :6])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 15)), unique=True, max_size=40))
def test_colours_never_repeat_and_16_heads_take_the_first_16(
    heads: list[tuple[int, int]],
) -> None:
    slots = colour_slots(heads)
    assert len(set(slots)) == len(heads)
    assert max(slots, default=0) < max(16, len(heads))


def test_a_head_keeps_its_colour_while_others_of_its_layer_come_and_go() -> None:
    one = dict(zip([(1, 0), (1, 3)], colour_slots([(1, 0), (1, 3)]), strict=True))
    all_heads = [(1, head) for head in range(8)]
    many = dict(zip(all_heads, colour_slots(all_heads), strict=True))
    assert all(many[head] == slot for head, slot in one.items())


def test_no_heads_are_no_lines() -> None:
    none = drawn([])
    assert (none.lines, none.share, none.body.size) == (0, 0.0, 0)
    assert drawn([(0, 0)]).component().choice == {"heads": [[0, 0]], "pin": None}
