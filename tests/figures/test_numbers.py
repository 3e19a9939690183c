"""Numbers are written alike everywhere."""

from __future__ import annotations

from figures.numbers import (
    count,
    decimal,
    in_bytes,
    in_words,
    parameters,
    percent,
    probability,
    signed,
)


def test_numbers_below_zero_have_a_minus_sign() -> None:
    assert signed(-1.234) == "−1.23"
    assert signed(-0.001) == "0.00"
    assert signed(0.5, 1) == "0.5"


def test_shares() -> None:
    assert [probability(each) for each in (0.0, -2.4, -20.0)] == ["100%", "9.1%", "<0.1%"]
    assert [percent(each) for each in (1.0, 0.9337, 0.00099)] == ["100.0%", "93.4%", "<0.1%"]


def test_counts() -> None:
    assert [count(n, "token") for n in (0, 1, 2048)] == ["0 tokens", "1 token", "2,048 tokens"]
    assert [parameters(n) for n in (48_211, 100_000, 64_960_000)] == ["48k", "0.1M", "65.0M"]
    assert [in_words(n) for n in (28_202_280, 999)] == ["28.2 million", "999"]


def test_small_numbers() -> None:
    assert [decimal(each) for each in (2.3e-6, 0.25, 0.0)] == ["0.000002", "0.2", "0"]
    assert [decimal(each, 2) for each in (100.0, 36.4, 0.00515)] == ["100", "36", "0.0052"]


def test_bytes_for_people() -> None:
    assert [in_bytes(each) for each in (5, 1_500, 2_340_000, 312_000_000, 9 * 10**9)] == [
        "5 bytes", "1.5 kB", "2.3 MB", "312 MB", "9.0 GB",
    ]  # fmt: skip
