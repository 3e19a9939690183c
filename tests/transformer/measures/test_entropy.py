"""Entropy in bits, how evenly heads look, and how sharp a softmax is."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from transformer.measures.entropy import divided, entropy_bits, evenness, nats_to_bits, spread
from transformer.types import Floats


def test_entropy_counts_bits() -> None:
    rows = np.array([[1, 0, 0, 0], [0.25] * 4, [0.5, 0.5, 0, 0]], dtype=np.float32)
    np.testing.assert_allclose(entropy_bits(rows), [0, 2, 1])
    assert nats_to_bits(np.array([math.log(8)])) == pytest.approx(3)
    even = spread(np.full(8, 0.125, dtype=np.float32))
    assert (even.entropy, even.largest, even.slope) == (3.0, 0.125, 0.875)
    one = spread(np.array([0, 1, 0], dtype=np.float32))
    assert (one.entropy, one.largest, one.slope) == (0.0, 1.0, 0.0)


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
    assert spread.shape == (layers, heads) and spread[0, 0] == pytest.approx(1, abs=1e-6)
    assert not spread.ravel()[1:].any()
    causal = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]  # masked keys do not count
    spread = evenness(np.broadcast_to(causal, (layers, heads, n, n)).astype("f4"))
    np.testing.assert_allclose(spread, 1, atol=1e-6)
    assert not evenness(np.ones((1, heads, 1, 1), dtype="f4")).any()


ROWS = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-30, 30))


def softmax(logits: np.ndarray) -> Floats:
    powers = np.exp(logits - logits.max())
    weights: Floats = (powers / powers.sum()).astype(np.float32)
    return weights


@given(ROWS)
@settings(max_examples=50)
def test_the_slope_is_the_trace_of_the_derivative(logits: np.ndarray) -> None:
    jacobian = torch.autograd.functional.jacobian(
        lambda e: e.softmax(0), torch.tensor(logits, dtype=torch.float64)
    )
    found = spread(softmax(logits))
    assert found.slope == pytest.approx(float(jacobian.trace()), abs=1e-5)
    assert 0 <= found.entropy <= math.log2(len(logits)) + 1e-5
    assert 1 / len(logits) - 1e-6 <= found.largest <= 1 and 0 <= found.slope <= 1


@given(ROWS, st.floats(1, 20))
def test_dividing_is_a_softmax_of_the_quotients_over_what_is_seen(
    dots: np.ndarray, divisor: float
) -> None:
    mask = np.arange(len(dots)) <= len(dots) // 2
    weights = divided(dots, mask, divisor)
    expected = torch.tensor(dots[mask] / divisor).softmax(0).numpy()
    np.testing.assert_allclose(weights[mask], expected, atol=1e-12)
    assert not weights[~mask].any()


@given(ROWS, st.floats(1, 20), st.floats(1, 20))
def test_a_larger_divisor_is_never_sharper(dots: np.ndarray, one: float, other: float) -> None:
    mask = np.ones(len(dots), dtype=bool)
    sharp, mild = (spread(divided(dots, mask, each)) for each in sorted((one, other)))
    assert sharp.entropy <= mild.entropy + 1e-6 and sharp.largest >= mild.largest - 1e-9
