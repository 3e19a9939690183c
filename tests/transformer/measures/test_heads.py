"""Several heads as one map, the fewest lines that hold a share, and weight on chosen tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.factories import make_trace
from transformer.measures.entropy import entropy_bits
from transformer.measures.heads import (
    HOWS,
    How,
    combine,
    combine_chosen,
    information,
    kept_lines,
    mass_by_head,
    mutual_information,
    widen,
)
from transformer.measures.words import merge, word_groups

MAPS = make_trace(S=7, T=5, n_decoder_layers=2, n_heads=3).cross
ALL = tuple(np.ndindex(*MAPS.shape[:2]))
rows = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 4), st.integers(1, 12)),
    elements=st.integers(0, 40).map(float),
).map(
    lambda a: (
        (a + (a.sum(-1, keepdims=True) == 0))
        / (a + (a.sum(-1, keepdims=True) == 0)).sum(-1, keepdims=True)
    )
)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("layer", [None, 0, 1])
@pytest.mark.parametrize("head", [None, 0, 2])
def test_every_cell_of_the_grid_is_the_map_that_combine_gives(
    how: How, layer: int | None, head: int | None
) -> None:
    wide = widen(MAPS, how)
    assert wide.shape == (3, 4, 5, 7)
    row, column = 2 if layer is None else layer, 3 if head is None else head
    np.testing.assert_allclose(combine(MAPS, how, layer, head), wide[row, column], atol=1e-6)
    layers = MAPS if layer is None else MAPS[[layer]]
    chosen = layers if head is None else layers[:, [head]]
    by_hand = chosen.mean(axis=(0, 1)) if how == "mean" else chosen.max(axis=(0, 1))
    np.testing.assert_allclose(wide[row, column], by_hand, atol=1e-6)


def test_one_head_all_heads_and_none() -> None:
    for how in HOWS:
        np.testing.assert_array_equal(combine(MAPS, how, 1, 2), MAPS[1, 2])
        np.testing.assert_array_equal(combine_chosen(MAPS, [(1, 2)], how), MAPS[1, 2])
    np.testing.assert_allclose(combine_chosen(MAPS, ALL), combine(MAPS), atol=1e-7)
    with pytest.raises(ValueError, match="no heads"):
        combine_chosen(MAPS, [])


@settings(max_examples=40)
@given(st.sets(st.sampled_from(ALL), min_size=1))
def test_chosen_heads_lie_between_their_least_and_their_largest(
    chosen: set[tuple[int, int]],
) -> None:
    heads = sorted(chosen)
    each = np.stack([MAPS[head] for head in heads])
    mean, largest = combine_chosen(MAPS, heads), combine_chosen(MAPS, heads, "max")
    np.testing.assert_allclose(mean.sum(axis=-1), 1, atol=1e-5)
    assert (mean <= largest + 1e-6).all() and (mean >= each.min(axis=0) - 1e-6).all()
    np.testing.assert_array_equal(largest, each.max(axis=0))
    np.testing.assert_allclose(combine_chosen(MAPS, heads[::-1]), mean, atol=1e-7)


@given(rows, st.floats(0, 1))
def test_kept_lines_hold_the_share_and_no_fewer_would(maps: np.ndarray, mass: float) -> None:
    kept = kept_lines(maps, mass)
    assert kept.shape == maps.shape
    for row, keep in zip(maps.astype(np.float64), kept, strict=True):
        held = row[keep].sum()
        assert held >= mass * row.sum() - 2e-6
        if keep.any():
            # The strongest are kept, and the weakest of them is needed to reach the share.
            assert row[keep].min() >= row[~keep].max(initial=0)
            assert held - row[keep].min() < mass * row.sum()
            assert row[keep].min() > 0


def test_the_ends_of_the_slider_and_equal_weights() -> None:
    assert not kept_lines(MAPS, 0).any()
    np.testing.assert_array_equal(kept_lines(MAPS, 1), MAPS > 0)
    with pytest.raises(ValueError, match=r"mass=1\.5"):
        kept_lines(MAPS, 1.5)
    even = np.full((1, 4), 0.25, dtype=np.float32)  # of equal weights the earlier is kept
    np.testing.assert_array_equal(kept_lines(even, 0.75), [[True, True, True, False]])
    np.testing.assert_array_equal(kept_lines(even, 0.76), [[True] * 4])


@given(st.sets(st.integers(0, 4)), st.sets(st.integers(0, 6)))
def test_weight_on_keys_and_on_all_others_make_one(queries: set[int], keys: set[int]) -> None:
    others = sorted(set(range(7)) - keys)
    on, off = (mass_by_head(MAPS, sorted(queries), k) for k in (sorted(keys), others))
    assert on.shape == (2, 3)
    np.testing.assert_allclose(on + off, 1, atol=1e-6)
    by_hand = MAPS[:, :, sorted(queries) or range(5)][..., sorted(keys)].sum(-1).mean(-1)
    np.testing.assert_allclose(on, by_hand, atol=1e-6)


def test_heads_that_look_alike_from_everywhere_tell_nothing() -> None:
    to_last = np.zeros((2, 3, 5, 7), dtype=np.float32)
    to_last[..., 6] = 1
    even = np.full((1, 3, 5, 7), 1 / 7, dtype=np.float32)
    for maps in (to_last, even):
        np.testing.assert_allclose(information(maps), 0, atol=1e-6)
    one_to_one = np.eye(5, 7, dtype=np.float32)[None, None]
    np.testing.assert_allclose(information(one_to_one), np.log2(5), atol=1e-9)
    bits = information(make_trace(T=6, n_decoder_layers=2, n_heads=3).decoder_self)  # with masks
    assert bits.shape == (2, 3, 6) and np.isfinite(bits).all() and (bits >= 0).all()


@given(rows)
def test_mutual_information_is_what_the_query_takes_from_the_entropy_of_the_key(
    maps: np.ndarray,
) -> None:
    bits = mutual_information(maps[None, None])[0, 0]
    by_hand = entropy_bits(maps.astype(np.float64).mean(axis=0)) - entropy_bits(maps).mean()
    assert bits == pytest.approx(by_hand, abs=1e-5)
    assert -1e-9 <= bits <= np.log2(min(maps.shape)) + 1e-5


def test_weight_on_a_word_is_the_weight_on_its_pieces() -> None:
    groups = word_groups(("▁a", "b", "▁c", "d", "e", ".", "</s>"), special=(6,))
    words = merge(MAPS, None, groups)
    np.testing.assert_allclose(
        mass_by_head(words, (1, 3), (1,)), mass_by_head(MAPS, (1, 3), (2, 3, 4, 5)), atol=1e-6
    )
