"""Shares of attention on patterns: planted ones are found, impossible ones reported."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_trace
from transformer.measures.patterns import (
    PATTERNS,
    Pattern,
    even_share,
    pattern_mask,
    pattern_share,
    ranked,
)

TRACE = make_trace(S=7, T=5, n_encoder_layers=2, n_decoder_layers=3, n_heads=3)
sizes = st.integers(1, 9)


def planted(mask: np.ndarray, *, causal: bool = False) -> np.ndarray:
    """Maps of two layers of three heads: head 2.3 looks at the pattern, all others evenly."""
    n, m = mask.shape
    seen = np.tri(n, m) if causal else np.ones((n, m))
    even = seen / seen.sum(axis=-1, keepdims=True)
    maps = np.tile(even, (2, 3, 1, 1))
    there = mask / np.maximum(1, mask.sum(axis=-1, keepdims=True))
    maps[1, 2] = np.where(mask.any(axis=-1, keepdims=True), there, even)
    return maps.astype(np.float32)


@given(st.sampled_from(PATTERNS), sizes, sizes, st.booleans(), st.booleans())
def test_a_head_that_looks_there_comes_first_and_the_others_are_even(
    pattern: Pattern, n: int, m: int, same: bool, causal: bool
) -> None:
    m = n if same or causal else m
    mask = pattern_mask(
        pattern, n, m, same=same, causal=causal, special=(0, m - 1), queries=(n - 1,), keys=(0,)
    )
    shares = pattern_share(planted(mask, causal=causal), mask, causal=causal)
    if shares is None:
        assert even_share(mask, causal=causal) == 0
        return
    even = even_share(mask, causal=causal)
    (head, most), *others = ranked(shares)
    assert most == pytest.approx(1, abs=1e-6) and 0 < even <= 1
    assert shares[1, 2] == pytest.approx(1, abs=1e-6) and (even == 1 or head == (1, 2))
    assert [share for _, share in others if share < 1 - 1e-6] == pytest.approx(
        [even] * 5 if even < 1 - 1e-6 else [], abs=1e-6
    )


@pytest.mark.parametrize("pattern", ["previous", "itself", "next"])
def test_neighbours_are_those_of_a_loop(pattern: Pattern) -> None:
    step = {"previous": -1, "itself": 0, "next": 1}[pattern]
    maps = TRACE.encoder_self
    rows = [i for i in range(7) if 0 <= i + step < 7]
    by_hand = np.mean([maps[:, :, i, i + step] for i in rows], axis=0)
    shares = pattern_share(maps, pattern_mask(pattern, 7, 7, same=True))
    np.testing.assert_allclose(shares, by_hand, atol=1e-6)  # type: ignore[arg-type]
    elsewhere = pattern_mask(pattern, 5, 7, same=False)  # another text has none
    assert pattern_share(TRACE.cross, elsewhere) is None


def test_rows_without_a_choice_do_not_count() -> None:
    """The decoder's first row sees a single key in every head, and no row its next token."""
    masked = pattern_mask("next", 5, 5, same=True, causal=True)
    assert pattern_share(TRACE.decoder_self, masked, causal=True) is None
    itself = pattern_mask("itself", 5, 5, same=True, causal=True)
    shares = pattern_share(TRACE.decoder_self, itself, causal=True)
    by_hand = np.mean([TRACE.decoder_self[:, :, i, i] for i in range(1, 5)], axis=0)
    np.testing.assert_allclose(shares, by_hand, atol=1e-6)  # type: ignore[arg-type]
    assert even_share(itself, causal=True) == pytest.approx(np.mean([1 / 2, 1 / 3, 1 / 4, 1 / 5]))


def test_patterns_of_unequal_sides() -> None:
    np.testing.assert_array_equal(
        pattern_mask("diagonal", 2, 5, same=False), [[1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]
    )
    assert pattern_mask("diagonal", 1, 1, same=False).all()
    assert pattern_mask("first", 2, 3, same=False).sum(axis=0).tolist() == [2, 0, 0]
    assert pattern_mask("end", 2, 3, same=False, special=(0, 2)).sum(axis=0).tolist() == [0, 0, 2]
    # Equal heads keep their order.
    assert ranked(np.array([[0.5, 0.9, 0.5]])) == [((0, 1), 0.9), ((0, 0), 0.5), ((0, 2), 0.5)]
    pair = pattern_mask("pair", 4, 3, same=False, queries=(1,), keys=(0, 2))
    assert np.argwhere(pair).tolist() == [[1, 0], [1, 2]]
