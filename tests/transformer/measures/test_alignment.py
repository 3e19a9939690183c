"""Word alignment from maps over pieces, and its error rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.measures.alignment import Gold, alignment_error, links


def test_a_target_word_is_linked_to_the_word_it_looks_at_most() -> None:
    words = np.array([[0.65, 0.35], [0.2, 0.8]], np.float32)
    assert links(words) == {(0, 0), (1, 1)} and links(words[:, :0]) == frozenset()


def test_error_rate_by_hand() -> None:
    gold = [Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))]
    assert alignment_error([frozenset({(0, 0), (1, 1)})], gold) == 0
    assert alignment_error([frozenset({(5, 0)})], gold) == 1
    # one sure and possible link right of two found: 1 - (1 + 1) / (2 + 1)
    assert alignment_error([frozenset({(0, 0), (4, 1)})], gold) == pytest.approx(1 / 3)
    assert math.isnan(alignment_error([frozenset()], [Gold(frozenset(), frozenset())]))


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1))
def test_the_gold_links_themselves_have_no_error(sure: set[tuple[int, int]]) -> None:
    known = frozenset(sure)
    assert alignment_error([known], [Gold(known, known)]) == 0
