"""Counts, exponents and crossings of table 1, on numbers with known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from transformer.measures.layer_costs import (
    LAYER_COSTS,
    LayerKind,
    Reals,
    Shape,
    counted,
    crossing,
    fit_exponent,
)

SIZES = np.array([64.0, 128.0, 256.0, 512.0, 1024.0])


def powers(exponent: float, factor: float = 1.0, noise: float = 0.05, rounds: int = 9) -> Reals:
    source = np.random.default_rng(int(100 * exponent + rounds))
    clean = factor * SIZES[:, None] ** exponent
    return clean * np.exp(noise * source.normal(size=(len(SIZES), rounds)))


def test_counts_grow_as_table_1_says() -> None:
    for kind, cost in LAYER_COSTS.items():
        # Far out, where one term is left: n much larger than d, or d than all else.
        n, d = 10**9, 8
        doubled = counted(kind, Shape(2 * n, d)) / counted(kind, Shape(n, d))
        assert math.log2(doubled) == pytest.approx(cost.in_n, abs=1e-3), kind
    products = [counted("products", Shape(48, d)) for d in (16, 32)]
    recurrent = [counted("recurrent", Shape(48, d)) for d in (16, 32)]
    assert products[1] == 2 * products[0] and recurrent[1] == 4 * recurrent[0]


@pytest.mark.parametrize("d", [24, 512])
def test_the_counts_of_table_1_cross_at_n_equal_d(d: int) -> None:
    def order(n: int) -> int:
        first, second = (counted(kind, Shape(n, d)) for kind in ("products", "recurrent"))
        return (first > second) - (first < second)

    assert [order(d - 1), order(d), order(d + 1)] == [-1, 0, 1]


def test_window_and_kernel_count_once_each() -> None:
    def more(kind: LayerKind, **change: int) -> int:
        before = {"kernel": 3, "window": 6}
        return counted(kind, Shape(50, 20, **{**before, **change})) - counted(
            kind, Shape(50, 20, **before)
        )

    assert more("convolution", kernel=5) == 2 * 50 * 20**2
    assert more("restricted", window=8) == 2 * (2 * 50 * 20)
    assert more("attention", kernel=5, window=8) == 0


def test_an_exponent_is_found_within_its_interval() -> None:
    for exponent in (0.0, 1.0, 1.7):
        found = fit_exponent(SIZES, powers(exponent))
        assert found.low <= found.value <= found.high
        assert found.value == pytest.approx(exponent, abs=0.05)
        assert 0 < found.high - found.low < 0.2
    exact = fit_exponent(SIZES, powers(2, noise=0))
    assert (exact.value, exact.low, exact.high) == pytest.approx((2, 2, 2))


def test_one_slow_round_does_not_change_an_exponent() -> None:
    times = powers(1, noise=0)
    times[-1, 3] *= 50
    assert fit_exponent(SIZES, times).value == pytest.approx(1)


def test_a_crossing_is_found_between_two_sizes() -> None:
    # n^2 and 300 n are equal at n = 300.
    found = crossing(SIZES, powers(2), powers(1, 300, rounds=9))
    assert found.value == pytest.approx(300, rel=0.1)
    assert found.low <= found.value <= found.high < 512
    exact = crossing(SIZES, powers(2, noise=0), powers(1, 300, noise=0))
    assert exact.value == pytest.approx(300)


def test_without_a_crossing_the_answer_is_an_end() -> None:
    fast, slow = powers(1, noise=0), powers(1, 2, noise=0)
    assert crossing(SIZES, fast, slow).value == math.inf
    assert crossing(SIZES, slow, fast).value == 0
    # The last change counts, not a bump in the middle.
    bump = fast.copy()
    bump[2] *= 4
    assert crossing(SIZES, bump, slow).value == math.inf
