from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from transformer.measures.softmax import divided, spread
from transformer.types import Floats

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


def test_known_rows() -> None:
    even = spread(np.full(8, 0.125, dtype=np.float32))
    assert (even.entropy, even.largest, even.slope) == (3.0, 0.125, 0.875)
    one = spread(np.array([0, 1, 0], dtype=np.float32))
    assert (one.entropy, one.largest, one.slope) == (0.0, 1.0, 0.0)


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
