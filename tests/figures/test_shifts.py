"""Figures of shifts hold the numbers they were given."""

import numpy as np
import pytest

from figures.positions import clocks, product_by_offset
from tests.figures.exhibits import rows_in

RNG = np.random.default_rng(5)


def test_products_by_offset_keep_every_value() -> None:
    values = RNG.uniform(-1, 1, (7, 3)).astype(np.float32)
    chart = product_by_offset(np.arange(7), values, (0, 10, 40), "dark")
    rows = rows_in(chart.to_dict())
    assert len(rows) == 21
    for row in rows:
        column = ["pos 0", "pos 10", "pos 40"].index(row["from pos"])
        assert row["product"] == pytest.approx(float(values[row["k"], column]))
    with pytest.raises(ValueError, match="7 x 2"):
        product_by_offset(np.arange(7), values, (0, 1), "light")


def test_clocks_keep_every_pair_and_sine_goes_up() -> None:
    before, after, expected = RNG.uniform(-1, 1, (3, 4, 2)).astype(np.float32)
    names = ["pair 0", "pair 5", "pair 9", "pair 12"]
    rows = rows_in(clocks(before, after, expected, names, "dark").to_dict(), "pair")
    for what, pairs in (("PE(pos)", before), ("turned by k", after), ("PE(pos + k)", expected)):
        for name, (sine, cosine) in zip(names, pairs, strict=True):
            row = next(r for r in rows if r["pair"] == name and r["what"] == what)
            assert (row["y"], row["x"]) == pytest.approx((float(sine), float(cosine)))
    with pytest.raises(ValueError, match=r"expected \(2, 2\)"):
        clocks(before, after, expected, names[:2], "light")
