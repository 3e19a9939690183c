"""Numbers are written alike everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from figures import numbers


@pytest.mark.parametrize(("write", "given", "written"), [
    (numbers.signed, (-1.234, -0.001, 0.5), ("−1.23", "0.00", "0.50")),
    (numbers.probability, (0.0, -2.4, -20.0), ("100%", "9.1%", "<0.1%")),
    (numbers.percent, (1.0, 0.9337, 0.00099), ("100.0%", "93.4%", "<0.1%")),
    (lambda n: numbers.count(n, "token"), (0, 1, 2048), ("0 tokens", "1 token", "2,048 tokens")),
    (numbers.parameters, (48_211, 100_000, 64_960_000), ("48k", "0.1M", "65.0M")),
    (numbers.in_words, (28_202_280, 999), ("28.2 million", "999")),
    (numbers.decimal, (2.3e-6, 0.25, 0.0), ("0.000002", "0.2", "0")),
    (lambda x: numbers.decimal(x, 2), (100.0, 36.4, 0.00515), ("100", "36", "0.0052")),
    (numbers.in_bytes, (5, 1_500, 312_000_000, 9e9), ("5 bytes", "1.5 kB", "312 MB", "9.0 GB")),
])  # fmt: skip
def test_numbers(
    write: Callable[[Any], str], given: tuple[float, ...], written: tuple[str, ...]
) -> None:
    assert tuple(map(write, given)) == written
