"""Word alignment from maps over pieces, and its error rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.measures.alignment import Gold, alignment_error, by_words, links, word_numbers


def test_pieces_belong_to_words() -> None:
    tokens = ("<s>", "▁the", "▁play", "house", "▁.", "</s>")
    assert word_numbers(tokens, {0, 5}) == [None, 0, 1, 1, 2, None]
    assert word_numbers(("pre", "fix")) == [0, 0]


def test_source_pieces_are_summed_and_target_pieces_averaged() -> None:
    weights = np.array([[0.2, 0.3, 0.5], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8]], np.float32)
    words = by_words(weights, [0, 0, 1], [0, 0, 1])
    np.testing.assert_allclose(words, [[0.65, 0.35], [0.2, 0.8]], atol=1e-6)
    assert links(words) == {(0, 0), (1, 1)}
    many = np.stack([weights, weights[::-1]])
    np.testing.assert_allclose(by_words(many, [0, 0, 1], [0, 0, 1])[0], words)
    dropped = by_words(weights, [None, 0, 1], [0, 1, None])
    np.testing.assert_allclose(dropped, [[0.4, 0.4], [0.1, 0.1]], atol=1e-6)


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
