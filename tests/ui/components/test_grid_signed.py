"""The grid on differences: its bytes, what shrinking keeps, which heads have cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from figures.compare import LIMITS
from tests.factories import make_trace
from tests.ui.components.test_grid import inflated
from transformer.measures.compare import divergence
from transformer.measures.heads import HOWS, How, widen
from ui.components.grid import shrink
from ui.components.grid.signed import difference_sheet, to_bytes

LEFT = make_trace(S=7, T=5, n_decoder_layers=2, n_heads=3)
RIGHT = make_trace(S=7, T=5, n_decoder_layers=2, n_heads=3, seed=1)
ENDS = ("B looks more", "A looks more")


@pytest.mark.parametrize("how", HOWS)
def test_every_cell_is_the_difference_of_that_cell(how: How) -> None:
    sheet = difference_sheet(
        LEFT.cross, RIGHT.cross, LEFT.tgt_tokens, LEFT.src_tokens, label="x", ends=ENDS, how=how
    )
    header, maps = inflated(sheet)
    limit = header["limit"]
    wanted = widen(LEFT.cross, how) - widen(RIGHT.cross, how)
    np.testing.assert_allclose((maps / 127.5 - 1) * limit, wanted, atol=limit / 127.5)
    assert limit in LIMITS and header["ends"] == list(ENDS)
    apart = divergence(widen(LEFT.cross, how), widen(RIGHT.cross, how)).mean(axis=-1)
    for at, bits in np.ndenumerate(apart):
        assert f"rows differ by {bits:.3f} bits" in header["summaries"][at[0]][at[1]]
        assert header["summaries"][at[0]][at[1]].startswith(header["names"][at[0]][at[1]])


def test_heads_of_one_side_only_have_no_cell_but_count_in_its_mean() -> None:
    other = make_trace(S=7, T=5, n_decoder_layers=4, n_heads=2, seed=2)
    sheet = difference_sheet(
        LEFT.cross, other.cross, LEFT.tgt_tokens, LEFT.src_tokens, label="x", ends=ENDS
    )
    assert (sheet.rows, sheet.columns) == (2 + 1, 2 + 1)
    header, maps = inflated(sheet)
    means = [each.cross.mean(axis=(0, 1), dtype="f8") for each in (LEFT, other)]
    found = (maps[-1, -1] / 127.5 - 1) * header["limit"]
    np.testing.assert_allclose(found, means[0] - means[1], atol=header["limit"] / 127.5)


def test_other_queries_or_keys_have_no_difference() -> None:
    other = make_trace(S=8, T=5, n_decoder_layers=2, n_heads=3)
    with pytest.raises(ValueError, match="no difference"):
        difference_sheet(
            LEFT.cross, other.cross, LEFT.tgt_tokens, LEFT.src_tokens, label="x", ends=ENDS
        )


@given(hnp.arrays(np.uint8, st.tuples(st.just(1), st.integers(1, 19), st.integers(1, 19))))
def test_shrinking_keeps_the_largest_difference_of_either_sign(maps: np.ndarray) -> None:
    side = 6
    small, dimmed = shrink(maps, [], side, middle=128)
    assert max(small.shape[-2:]) <= max(side, 0) or small.shape == maps.shape
    assert not dimmed
    far = np.abs(maps.astype(int) - 128)
    assert np.abs(small.astype(int) - 128).max() >= far.max() - 1  # 0 and 255 are not quite alike
    assert set(np.unique(small)) <= set(np.unique(maps))


def test_the_ends_of_the_scale_are_the_first_and_the_last_byte() -> None:
    values = np.array([-0.3, -0.25, 0, 0.25, 0.3], dtype=np.float32)
    assert to_bytes(values, 0.25).tolist() == [0, 0, 128, 255, 255]
