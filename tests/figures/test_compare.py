"""The scale of a difference, and a difference in words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.compare import LIMITS, describe_difference, scale_limit

QUERIES, KEYS = ("▁a", "▁b"), ("▁x", "<b>", "</s>")


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=6))
def test_the_scale_holds_every_difference_and_no_smaller_one_would(values: list[float]) -> None:
    difference = np.array([values], dtype=np.float32)
    limit = scale_limit(difference)
    assert limit in LIMITS
    assert np.abs(difference).max() <= limit
    smaller = [each for each in LIMITS if each < limit]
    assert all(np.abs(difference).max() > each for each in smaller)
    assert scale_limit(-difference) == limit


def test_each_side_says_where_it_looks_more() -> None:
    difference = np.array([[0.5, -0.5, 0], [0, 0.125, -0.125]], dtype=np.float32)
    said = describe_difference(difference, QUERIES, KEYS)
    assert "A looks more by up to 0.50, from query 1 ▁a to key 1 ▁x" in said
    assert "B looks more by up to 0.50, from query 1 ▁a to key 2 <b>" in said


def test_nothing_that_differs_is_said_as_such() -> None:
    zero = np.zeros((2, 3), dtype=np.float32)
    assert describe_difference(zero, QUERIES, KEYS) == "Every weight is the same on both sides"
    assert scale_limit(zero) == LIMITS[0]
    with pytest.raises(ValueError, match="rows are queries"):
        describe_difference(zero.T, QUERIES, KEYS)
