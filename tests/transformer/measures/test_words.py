"""Merging pieces into words: every position once, rows keep their sum, masks hold."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_trace
from transformer.measures.words import (
    Gold,
    Groups,
    alignment_error,
    group_labels,
    links,
    merge,
    predicted_words,
    word_groups,
)

PIECES = ("▁The", "▁di", "d", "n", "'", "t", "▁", "<unk>", "<0xF0>", ".", "▁x", "", "<b>", "▁שלום")
tokens_and_specials = st.lists(st.sampled_from(PIECES), max_size=20).flatmap(
    lambda tokens: st.tuples(
        st.just(tuple(tokens)),
        st.sets(st.integers(0, max(0, len(tokens) - 1)), max_size=3 if tokens else 0),
    )
)


@st.composite
def groups_of(draw: st.DrawFn, length: int) -> Groups:
    """A cut of 0, ..., length - 1 into contiguous groups."""
    begins = [True, *(draw(st.booleans()) for _ in range(length - 1))]
    starts = [position for position, begin in enumerate(begins) if begin]
    return tuple(
        tuple(range(start, end)) for start, end in zip(starts, [*starts[1:], length], strict=True)
    )


def test_a_word_starts_at_its_mark_and_takes_in_what_follows() -> None:
    tokens = ("▁The", "▁di", "d", "n", "'", "t", "▁", "<unk>", ".", "</s>")
    groups = word_groups(tokens, special=(9,))
    assert groups == ((0,), (1, 2, 3, 4, 5), (6, 7, 8), (9,))
    assert group_labels(tokens, groups) == ("The", "didn't", "<unk>.", "</s>")
    assert word_groups(("<s>", "x", "y", "</s>"), special=(0, 3)) == ((0,), (1, 2), (3,))
    # The same text typed by a user is not a special token.
    assert word_groups(("▁a", "<s>"), special=()) == ((0, 1),)
    # Spelled bytes are shown as their character.
    tokens = ("▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "!", "<0xFF>", "▁a")
    assert word_groups(tokens) == ((0, 1, 2, 3, 4, 5, 6), (7,))
    assert group_labels(tokens, word_groups(tokens)) == ("😀!�", "a")
    assert group_labels(("▁", "▁a"), ((0,), (1,))) == ("▁", "a")


def test_a_word_that_is_read_leads_to_a_whole_word() -> None:
    predicted = ("▁Ka", "tze", ",", "▁weil", "▁müde", ".", "</s>")
    rows = word_groups(("<s>", *predicted[:-1]), (0,))
    assert predicted_words(predicted, rows) == ("Katze,", "weil", "müde.", "</s>")
    assert predicted_words(predicted[:-1], (*rows[:-1], (5,)), end=False)[-1] == "müde."


@given(tokens_and_specials)
def test_groups_cover_every_position_once_in_order(case: tuple[tuple[str, ...], set[int]]) -> None:
    tokens, special = case
    groups = word_groups(tokens, special)
    assert [i for group in groups for i in group] == list(range(len(tokens)))
    starts = {group[0] for group in groups}
    assert {i for i, token in enumerate(tokens) if token.startswith("▁")} <= starts
    assert all((position,) in groups for position in special if position < len(tokens))
    assert len(group_labels(tokens, groups)) == len(groups)
    assert "".join(group_labels(tokens, groups)).count("▁") <= len(groups)


@given(st.data(), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**16))
def test_merged_rows_sum_to_one_as_by_hand(data: st.DataObject, T: int, S: int, seed: int) -> None:
    maps = make_trace(S=S + 1, T=T + 1, seed=seed).cross
    queries, keys = data.draw(groups_of(T + 1)), data.draw(groups_of(S + 1))
    merged = merge(maps, queries, keys)
    assert merged.shape == (*maps.shape[:2], len(queries), len(keys))
    assert merged.dtype == np.float32
    np.testing.assert_allclose(merged.sum(axis=-1), 1, atol=1e-5)
    i, j = data.draw(st.integers(0, len(queries) - 1)), data.draw(st.integers(0, len(keys) - 1))
    block = maps[..., list(queries[i]), :][..., list(keys[j])]
    np.testing.assert_allclose(merged[..., i, j], block.sum(-1).mean(-1), atol=1e-6)
    # Averaging heads and merging words can be done in either order.
    np.testing.assert_allclose(merged.mean(1), merge(maps.mean(1), queries, keys), atol=1e-6)
    own = merge(make_trace(T=T + 1, seed=seed).decoder_self, queries, queries)
    assert not np.triu(own, k=1).any()  # a word never sees a later word


def test_single_pieces_leave_the_map_as_it_is_and_gaps_are_refused() -> None:
    maps = make_trace(S=7, T=5).cross
    alone = [tuple((i,) for i in range(n)) for n in (5, 7)]
    assert merge(maps, None, None) is maps
    np.testing.assert_array_equal(merge(maps, *alone), maps)
    np.testing.assert_allclose(merge(maps, None, (tuple(range(7)),)), 1, atol=1e-5)
    bad: tuple[Groups, ...] = (
        ((0, 1),), ((0,), (2,), (1,), (3, 4)), ((0, 1, 2, 3, 4), ()), ((0, 0), (1, 2, 3, 4)),
    )  # fmt: skip
    for groups in bad:
        with pytest.raises(ValueError, match="query groups do not cover the positions 0 to 4"):
            merge(maps, groups, None)
        with pytest.raises(ValueError, match="key groups"):
            merge(maps, None, groups)


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1))
def test_links_and_their_error_rates(sure: set[tuple[int, int]]) -> None:
    words = np.array([[0.65, 0.35], [0.2, 0.8]], np.float32)  # linked to where it looks most
    assert links(words) == {(0, 0), (1, 1)} and links(words[:, :0]) == frozenset()
    known = frozenset(sure)
    assert alignment_error([known], [Gold(known, known)]) == 0
    gold = [Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))]
    # by hand; of {(0, 0), (4, 1)} one sure and possible link is right: 1 - (1 + 1) / (2 + 1)
    for found, error in (({(0, 0), (1, 1)}, 0), ({(5, 0)}, 1), ({(0, 0), (4, 1)}, 1 / 3)):
        assert alignment_error([frozenset(found)], gold) == pytest.approx(error)
    assert math.isnan(alignment_error([frozenset()], [Gold(frozenset(), frozenset())]))
