"""Entropy in bits, and how evenly heads look."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.measures.entropy import entropy_bits, evenness, nats_to_bits


def test_entropy_counts_bits() -> None:
    rows = np.array([[1, 0, 0, 0], [0.25] * 4, [0.5, 0.5, 0, 0]], dtype=np.float32)
    np.testing.assert_allclose(entropy_bits(rows), [0, 2, 1])
    assert nats_to_bits(np.array([math.log(8)])) == pytest.approx(3)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(2, 7), st.integers(2, 6))
def test_spreads_lie_between_one_key_and_all_keys_alike(
    layers: int, heads: int, n: int, m: int
) -> None:
    even = np.full((layers, heads, n, m), 1 / m, dtype=np.float32)
    np.testing.assert_allclose(evenness(even), 1, atol=1e-6)
    one = np.zeros_like(even)
    one[..., 0] = 1
    one[0, 0] = 1 / m  # so that every key is there to be seen
    spread = evenness(one)
    assert spread.shape == (layers, heads)
    assert spread[0, 0] == pytest.approx(1, abs=1e-6)
    assert (spread.ravel()[1:] == 0).all()


def test_masked_keys_are_not_counted_as_missed() -> None:
    n = 5
    causal = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    spread = evenness(np.broadcast_to(causal, (2, 3, n, n)).astype("f4"))
    np.testing.assert_allclose(spread, 1, atol=1e-6)
    alone = evenness(np.ones((1, 2, 1, 1), dtype="f4"))
    assert not alone.any()
